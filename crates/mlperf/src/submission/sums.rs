//! Whether figures are what they are made of: means of epochs, files of ranks, sizes and times.

use super::checkpointing::counts;
use super::figures::{CheckpointTimes, EpochTimes, RankFigures, number, rounded, shown};
use super::leaf::{Leaf, LeafKind};
use super::rule::{Outcome, or_passed};
use super::scored::PERCENT;
use super::survey::{Group, Submission};
use super::training::{record_bytes, samples_per_file};
use super::tree::last;
use stormlp_core::stats::mean;
use stormlp_core::units::counted;
use stormlp_training::plan::metrics::mib_of_samples;

/// How far figures may be apart that are the same: they were rounded when they were written.
const ROUNDING: f64 = 0.005;
/// Moments of files are taken one after the other.
const CLOCK_SECONDS: f64 = 2.0;
/// A mean of rates is near the rate of the mean time, the nearer the more even the times are.
const MEAN_OF_RATES: f64 = 0.1;

/// Formulas leave out the first steps and their time: a rate is above that of the whole epoch by it.
const MOST_LEFT_OUT: f64 = 1.5;

const ONE_RUN: &str = "take all files of the run as they were written, from one run";

pub(super) fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()) + 0.005
}

/// Figures of a summary against those of its ranks and of themselves.
pub(super) fn sums(_: &Submission, group: &Group) -> Vec<Outcome> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        means(leaf, &mut faults);
        of_ranks(leaf, &mut faults);
        throughput(group, leaf, &mut faults);
        rates(leaf, &mut faults);
        checkpoints_of_ranks(leaf, &mut faults);
        epochs_of_ranks(leaf, &mut faults);
        if !leaf.summary.is_found() {
            let why = "there is no summary.json to compare";
            let remedy = "copy it from the results folder that the tool wrote";
            faults.push(Outcome::unknown(&leaf.path, why, remedy));
        }
    }
    or_passed(faults, &group.path, || "means and sums agree with what they are of".to_string())
}

fn disagree(leaf: &Leaf, what: &str, stands: f64, follows: f64, from: &str) -> Outcome {
    Outcome::failed(
        &leaf.path,
        format!("{what} is {}; {from} come to {}", rounded(stands), rounded(follows)),
        ONE_RUN,
    )
}

/// Means against their lists.
fn means(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let metric = &leaf.summary.value()["metric"];
    for (list, of) in [
        ("train_au_percentage", "train_au_mean_percentage"),
        ("train_throughput_samples_per_second", "train_throughput_mean_samples_per_second"),
    ] {
        let values: Vec<f64> =
            metric[list].as_array().into_iter().flatten().filter_map(number).collect();
        if let Some(stands) = number(&metric[of])
            && !values.is_empty()
            && !same(stands, mean(&values))
        {
            faults.push(disagree(leaf, of, stands, mean(&values), list));
        }
    }
}

/// AU and throughput against the files of the ranks.
fn of_ranks(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let metric = &leaf.summary.value()["metric"];
    let listed = metric["train_au_percentage"].as_array().map_or(0, Vec::len);
    // A list that is missing is told where figures are asked for.
    if leaf.kind != LeafKind::Run || listed == 0 {
        return;
    }
    let before = faults.len();
    for (path, rank) in &leaf.ranks {
        faults.extend(fault_of_rank(leaf, path, rank, listed));
    }
    // The files of the others are asked for where files are looked for.
    let all_there = leaf.figure("num_accelerators") == Some(leaf.ranks.len() as f64);
    if faults.len() > before || !all_there {
        return;
    }
    for epoch in 0..listed {
        let of_epoch = || leaf.ranks.iter().filter_map(|(_, rank)| rank.epochs.get(epoch));
        let au = of_epoch().filter_map(|figures| figures.au_percent);
        let au = mean(&au.collect::<Vec<f64>>());
        let samples = of_epoch().filter_map(|figures| figures.samples_per_second).sum();
        for (key, follows) in
            [("train_au_percentage", au), ("train_throughput_samples_per_second", samples)]
        {
            if let Some(stands) = number(&metric[key][epoch])
                && !same(stands, follows)
            {
                let what = format!("{key} of epoch {}", epoch + 1);
                let from = "the files of the ranks";
                faults.push(disagree(leaf, &what, stands, follows, from));
            }
        }
    }
}

/// What is wrong with the figures of one rank: epochs that are not there, and AU that none has.
fn fault_of_rank(leaf: &Leaf, path: &str, rank: &RankFigures, listed: usize) -> Option<Outcome> {
    let found = rank.epochs.len();
    let differ = |evidence: String| Some(Outcome::failed(path, evidence, ONE_RUN));
    if listed > found || listed < found && !leaf.is_of_stormlp() {
        let found = counted(found as u64, "epoch");
        return differ(format!("{found}; the summary has {listed}"));
    }
    for (number, epoch) in (1..).zip(&rank.epochs) {
        let (Some(au), Some(_)) = (epoch.au_percent, epoch.samples_per_second) else {
            return differ(format!("epoch {number} has no AU and throughput"));
        };
        // Formulas of editions make figures of very short runs that mean nothing.
        if !PERCENT.contains(&au) && !leaf.is_of_stormlp() {
            let au = shown(au);
            return differ(format!("AU of epoch {number} is {au}, and must be from 0 to 100"));
        }
    }
    None
}

/// MiB/s against samples a second, and these against the samples there are and the time they took.
fn throughput(group: &Group, leaf: &Leaf, faults: &mut Vec<Outcome>) {
    if leaf.kind != LeafKind::Run {
        return;
    }
    let samples = leaf.metric("train_throughput_mean_samples_per_second");
    let stands = leaf.metric("train_io_mean_MB_per_second");
    if let (Some(record), Some(samples), Some(stands)) =
        (record_bytes(group, leaf), samples, stands)
        && !same(stands, mib_of_samples(samples, record))
    {
        let follows = mib_of_samples(samples, record);
        let from = "samples a second times the record length";
        let what = "train_io_mean_MB_per_second";
        faults.push(disagree(leaf, what, stands, follows, from));
    }
    // Formulas of editions leave out steps, which are most of a very short run.
    if !leaf.is_of_stormlp() {
        faults.extend(beyond_dataset(group, leaf));
    }
}

/// An epoch that read more samples by its rate and its time than the dataset has.
fn beyond_dataset(group: &Group, leaf: &Leaf) -> Option<Outcome> {
    let files = leaf.figure("num_files_train")?;
    let samples = files * samples_per_file(group, leaf)?;
    let key = "train_throughput_samples_per_second";
    let list = leaf.summary.value()["metric"][key].as_array()?;
    list.iter().enumerate().find_map(|(index, value)| {
        let stands = number(value)?;
        let epochs = leaf.stats.iter().filter_map(|(_, stats)| stats.epochs.get(index));
        // Checkpoints and evaluations lie between the blocks of an epoch, and count for no sample.
        let seconds = epochs.filter_map(|epoch| epoch.block_seconds.or(epoch.seconds));
        let seconds = seconds.reduce(f64::min).filter(|seconds| *seconds > 0.0)?;
        let follows = samples / seconds;
        let what = format!("{key} of epoch {}", index + 1);
        let from = format!("{} samples in {} s", shown(samples), rounded(seconds));
        (stands > follows * MOST_LEFT_OUT).then(|| disagree(leaf, &what, stands, follows, &from))
    })
}

/// GiB/s of checkpoints against their size and duration.
fn rates(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    if leaf.kind != LeafKind::Checkpoint {
        return;
    }
    for phase in ["save", "load"] {
        let metric = |what: &str| leaf.metric(&format!("{phase}_checkpoint_{what}"));
        let (Some(size), Some(stands), Some(seconds)) = (
            leaf.metric("checkpoint_size_GB"),
            metric("io_mean_GB_per_second"),
            metric("duration_mean_seconds").filter(|seconds| *seconds > 0.0),
        ) else {
            continue;
        };
        let spread = metric("duration_stdev_seconds").unwrap_or(0.0) / seconds;
        let follows = size / seconds;
        let most = 1.0 + MEAN_OF_RATES + 4.0 * spread.min(1.0).powi(2);
        let near = (1.0 - MEAN_OF_RATES..=most).contains(&(stands / follows));
        if !near {
            let what = format!("{phase}_checkpoint_io_mean_GB_per_second");
            let from = "checkpoint_size_GB and its mean duration";
            faults.push(disagree(leaf, &what, stands, follows, from));
        }
    }
}

/// The checkpoints that the ranks timed: as many as the run was told to make, and as long as the
/// summary says.
fn checkpoints_of_ranks(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    if leaf.kind != LeafKind::Checkpoint || leaf.stats.is_empty() {
        return;
    }
    let (writes, reads) = counts(leaf).unzip();
    let phases: [(&str, Option<i64>, Phase); 2] =
        [("save", writes, |epoch| &epoch.saves), ("load", reads, |epoch| &epoch.loads)];
    for (phase, told, list) in phases {
        let of_rank = |epochs: &[EpochTimes]| -> Vec<CheckpointTimes> {
            epochs.iter().flat_map(list).copied().collect()
        };
        let ranks = leaf.stats.iter();
        let ranks: Vec<(&str, Vec<CheckpointTimes>)> =
            ranks.map(|(path, stats)| (path.as_str(), of_rank(&stats.epochs))).collect();
        let told = told.map(|count| count.max(0) as usize);
        let wrong = ranks.iter().find(|(_, list)| Some(list.len()) != told);
        if let (Some((path, list)), Some(told)) = (wrong, told) {
            let evidence =
                format!("{} of the {told} {phase}_ckpt… that the run was told to make", list.len());
            faults.push(Outcome::failed(path, evidence, ONE_RUN));
            continue;
        }
        if !leaf.is_of_stormlp() {
            faults.extend(ranks.iter().find_map(|(path, list)| {
                let why = fault_of_times(leaf, path, list)?;
                Some(Outcome::failed(path, format!("{phase}_ckpt…: {why}"), ONE_RUN))
            }));
        }
        let seconds = between(&ranks, |checkpoint| Some(checkpoint.seconds));
        let rate = between(&ranks, |checkpoint| checkpoint.gib_per_second);
        for (what, bounds) in [("duration_mean_seconds", seconds), ("io_mean_GB_per_second", rate)]
        {
            let what = format!("{phase}_checkpoint_{what}");
            let Some(stands) = leaf.metric(&what) else {
                continue;
            };
            let Some((least, most)) = bounds else {
                if told.is_some_and(|count| count > 0) {
                    let why = format!("{what} is there, and no rank timed what it is of");
                    faults.push(Outcome::failed(&leaf.path, why, ONE_RUN));
                }
                continue;
            };
            let within = (least..=most).contains(&stands);
            if !within && !same(stands, least) && !same(stands, most) {
                let from = "the times of the ranks";
                let follows = if stands < least { least } else { most };
                faults.push(disagree(leaf, &what, stands, follows, from));
            }
        }
    }
}

/// The checkpoints of one kind in an epoch.
type Phase = fn(&EpochTimes) -> &Vec<CheckpointTimes>;

/// What is wrong with the times of one rank's checkpoints, one after the other.
fn fault_of_times(leaf: &Leaf, path: &str, list: &[CheckpointTimes]) -> Option<String> {
    for (number, one) in (1..).zip(list) {
        let seconds = one.seconds;
        let rate = one.gib_per_second.unwrap_or(f64::MIN_POSITIVE);
        if seconds <= 0.0 || rate <= 0.0 {
            let (seconds, rate) = (shown(seconds), shown(rate));
            return Some(format!("number {number} took {seconds} s at {rate} GiB/s"));
        }
        if let Some((start, end)) = one.span
            && !near(end - start, seconds)
        {
            let (lasted, seconds) = (rounded(end - start), rounded(seconds));
            return Some(format!(
                "number {number} lasted {lasted} s by start and end, {seconds} s by its duration"
            ));
        }
    }
    let (start, end) = leaf.span()?;
    let together: f64 = list.iter().map(|one| one.seconds).sum();
    if together > end - start && !near(together, end - start) {
        let (together, run) = (shown(together), shown(end - start));
        return Some(format!("together they took {together} s, and the run {run} s"));
    }
    // Only rank 0 is on the host that wrote the summary: clocks of others may differ.
    let mut spans = list.iter().filter_map(|one| one.span);
    let is_outside =
        |(from, to): (f64, f64)| from < start - CLOCK_SECONDS || to > end + CLOCK_SECONDS;
    (last(path).starts_with("0_") && spans.any(is_outside))
        .then(|| "they were not between start and end of summary.json".to_string())
}

/// Whether two lengths of the same time are alike, of which clocks took one.
fn near(lasted: f64, told: f64) -> bool {
    (lasted - told).abs() <= 0.01 * told.abs() + CLOCK_SECONDS
}

/// The least and the most that any rank measured: editions differ in whose time they take, and of how
/// many checkpoints.
fn between(
    ranks: &[(&str, Vec<CheckpointTimes>)],
    measure: impl Fn(&CheckpointTimes) -> Option<f64>,
) -> Option<(f64, f64)> {
    let measured = || ranks.iter().flat_map(|(_, list)| list).filter_map(&measure);
    let least = measured().reduce(f64::min)?;
    Some((least, measured().reduce(f64::max)?))
}

/// Epochs of the ranks: as many as the summary has, as long as they say, and within the run.
fn epochs_of_ranks(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let listed = &leaf.summary.value()["metric"]["train_au_percentage"];
    let listed = listed.as_array().map(Vec::len);
    for (path, stats) in &leaf.stats {
        let mut differ = |evidence: String| faults.push(Outcome::failed(path, evidence, ONE_RUN));
        let found = stats.epochs.len();
        if let Some(listed) = listed.filter(|_| leaf.kind == LeafKind::Run)
            && (listed > found || listed < found && !leaf.is_of_stormlp())
        {
            differ(format!("{}; the summary has {listed}", counted(found as u64, "epoch")));
        }
        let untimed = stats.epochs.iter().position(|epoch| {
            let seconds = epoch.seconds.filter(|seconds| *seconds > 0.0 || leaf.is_of_stormlp());
            epoch.span.is_none() || seconds.is_none()
        });
        if let Some(index) = untimed.filter(|_| leaf.kind == LeafKind::Run) {
            let epoch = index + 1;
            differ(format!("epoch {epoch} has no start, end and duration of a time"));
        }
        let uneven = stats.epochs.iter().enumerate().find_map(|(index, epoch)| {
            let ((start, end), told) = (epoch.span?, epoch.seconds?);
            let lasted = end - start;
            (!near(lasted, told)).then_some((index + 1, lasted, told))
        });
        if let Some((epoch, lasted, told)) = uneven {
            differ(format!(
                "epoch {epoch} lasted {} s by start and end, {} s by its duration",
                rounded(lasted),
                rounded(told)
            ));
        }
        // Only rank 0 is on the host that wrote the summary: clocks of others may differ.
        let is_first = last(path).starts_with("0_");
        if let Some((start, end)) = leaf.span().filter(|_| is_first) {
            let spans = || stats.epochs.iter().filter_map(|epoch| epoch.span);
            let outside =
                spans().any(|(from, to)| from < start - CLOCK_SECONDS || to > end + CLOCK_SECONDS);
            if outside {
                differ("its epochs were not between start and end of summary.json".to_string());
            }
        }
    }
}
