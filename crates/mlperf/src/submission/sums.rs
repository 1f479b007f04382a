//! Rules of arithmetic: figures agree with the epochs, ranks, sizes and times they come from.

use super::checkpointing::counts;
use super::figures::{CheckpointTime, EpochFigures, EpochTimes, number, rounded, shown};
use super::leaf::{Leaf, LeafKind};
use super::rule::{Finding, ONE_RUN, failed, or_passed, unknown};
use super::scored::PERCENT;
use super::survey::{RunGroup, Submission};
use super::training::{record_bytes, samples_per_file};
use super::tree::last;
use stormlp_core::profile::Profile;
use stormlp_core::stats::mean;
use stormlp_core::units::counted;
use stormlp_training::plan::metrics::mib_of_samples;

/// Tools round to two decimal places at most.
const ROUNDING: f64 = 0.01;
/// And otherwise compute with 64 bits.
const PRECISION: f64 = 1e-6;
/// Times are in files to a microsecond, or to 10 ms.
const AU_OF_STEPS: f64 = 0.05;
/// Times in files are taken one after the other.
const CLOCK_SECONDS: f64 = 2.0;
/// A mean of rates differs from the rate of the mean time, the more the times vary.
const MEAN_OF_RATES: f64 = 0.1;
/// Formulas leave out the first steps and their time, so a rate exceeds that of the whole epoch.
const MOST_LEFT_OUT: f64 = 1.5;

pub(super) fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING + PRECISION * a.abs().max(b.abs())
}

/// A summary's figures agree with its ranks' and with each other.
pub(super) fn sums(_: &Submission, group: &RunGroup) -> Vec<Finding> {
    let mut faults = Vec::new();
    for leaf in &group.runs {
        means(leaf, &mut faults);
        of_ranks(leaf, &mut faults);
        of_steps(leaf, &mut faults);
        throughput(group, leaf, &mut faults);
        rates(leaf, &mut faults);
        checkpoints_of_ranks(leaf, &mut faults);
        epochs_of_ranks(leaf, &mut faults);
        if !leaf.summary.is_found() {
            let remedy = "copy it from the results folder that the tool wrote";
            faults.push(unknown(leaf, "there is no summary.json to compare", remedy));
        }
    }
    or_passed(faults, group, "means and sums agree with their parts")
}

/// The fault where a figure is not `follows`, which `from` gives.
fn disagree(leaf: &Leaf, what: &str, stands: f64, follows: f64, from: &str) -> Finding {
    let (stands, follows) = (rounded(stands), rounded(follows));
    failed(leaf, format!("{what} is {stands}; by {from} it is {follows}"), ONE_RUN)
}

/// Means against their lists.
fn means(leaf: &Leaf, faults: &mut Vec<Finding>) {
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

/// AU and throughput against the ranks' files.
fn of_ranks(leaf: &Leaf, faults: &mut Vec<Finding>) {
    let metric = &leaf.summary.value()["metric"];
    let listed = metric["train_au_percentage"].as_array().map_or(0, Vec::len);
    // Another rule reports a missing list.
    if leaf.kind != LeafKind::Run || listed == 0 {
        return;
    }
    let before = faults.len();
    for (path, epochs) in &leaf.ranks {
        let fact = fault_of_rank(leaf, epochs, listed);
        faults.extend(fact.map(|fact| failed(path, fact, ONE_RUN)));
    }
    // Another rule reports missing files.
    let all_there = leaf.figure("num_accelerators") == Some(leaf.ranks.len() as f64);
    if faults.len() > before || !all_there {
        return;
    }
    for epoch in 0..listed {
        let of_epoch = || leaf.ranks.iter().filter_map(|(_, epochs)| epochs.get(epoch));
        let au: Vec<f64> = of_epoch().filter_map(|figures| figures.au_percent).collect();
        let samples = of_epoch().filter_map(|figures| figures.samples_per_second).sum();
        for (key, follows) in
            [("train_au_percentage", mean(&au)), ("train_throughput_samples_per_second", samples)]
        {
            if let Some(stands) = number(&metric[key][epoch])
                && !same(stands, follows)
            {
                let what = format!("{key} of epoch {}", epoch + 1);
                faults.push(disagree(leaf, &what, stands, follows, "the ranks' files"));
            }
        }
    }
}

/// AU of the ranks against the times of their steps.
fn of_steps(leaf: &Leaf, faults: &mut Vec<Finding>) {
    // Profile v1 counts the compute that was asked for.
    let is_v1 = leaf.profile() == Some(Profile::V1);
    if leaf.kind != LeafKind::Run || leaf.is_short_rehearsal() || is_v1 || leaves_out_more(leaf) {
        return;
    }
    for (path, epochs) in &leaf.ranks {
        let stats = path.replace("_output.json", "_per_epoch_stats.json");
        let Some((_, times)) = leaf.stats.iter().find(|(path, _)| *path == stats) else { continue };
        let wrong = (1..).zip(epochs.iter().zip(times)).find_map(|(number, (epoch, times))| {
            let (stands, follows) = (epoch.au_percent?, epoch.au_of_steps(times)?);
            let differs = (stands - follows).abs() > AU_OF_STEPS;
            differs.then(|| (format!("AU of epoch {number}"), stands, follows))
        });
        if let Some((what, stands, follows)) = wrong {
            let (stands, follows) = (rounded(stands), rounded(follows));
            let fact = format!("{what} is {stands}; by the times of its steps it is {follows}");
            faults.push(failed(path, fact, ONE_RUN));
        }
    }
}

/// Whether AU leaves out more than the first step of a block, which its parameters then say.
fn leaves_out_more(leaf: &Leaf) -> bool {
    let excluded = |key: &str, usual: f64| {
        number(leaf.parameter("metric", key)).is_some_and(|steps| steps != usual)
    };
    excluded("exclude_start_steps", 1.0) || excluded("exclude_end_steps", 0.0)
}

/// What is wrong with one rank's figures: missing epochs, or an impossible AU.
fn fault_of_rank(leaf: &Leaf, epochs: &[EpochFigures], listed: usize) -> Option<String> {
    let found = epochs.len();
    if listed > found || listed < found && !leaf.is_of_stormlp() {
        return Some(format!("{}; the summary has {listed}", counted(found as u64, "epoch")));
    }
    (1..).zip(epochs).find_map(|(number, epoch)| {
        let (Some(au), Some(_)) = (epoch.au_percent, epoch.samples_per_second) else {
            return Some(format!("epoch {number} has no AU and throughput"));
        };
        let is_wrong = !PERCENT.contains(&au) && !leaf.is_short_rehearsal();
        is_wrong.then(|| format!("AU of epoch {number} is {}, not from 0 to 100", shown(au)))
    })
}

/// MiB/s against samples/s, and samples/s against the dataset and the time.
fn throughput(group: &RunGroup, leaf: &Leaf, faults: &mut Vec<Finding>) {
    if leaf.kind != LeafKind::Run {
        return;
    }
    let samples = leaf.metric("train_throughput_mean_samples_per_second");
    let what = "train_io_mean_MB_per_second";
    if let (Some(record), Some(samples), Some(stands)) =
        (record_bytes(group, leaf), samples, leaf.metric(what))
        && !same(stands, mib_of_samples(samples, record))
    {
        let follows = mib_of_samples(samples, record);
        faults.push(disagree(leaf, what, stands, follows, "samples/s times the record length"));
    }
    // The editions' formulas leave out steps, which are most of a very short run.
    if !leaf.is_of_stormlp() {
        faults.extend(beyond_dataset(group, leaf));
    }
}

/// An epoch that read more samples, by rate and time, than the dataset has.
fn beyond_dataset(group: &RunGroup, leaf: &Leaf) -> Option<Finding> {
    let files = leaf.figure("num_files_train")?;
    let samples = files * samples_per_file(group, leaf)?;
    let key = "train_throughput_samples_per_second";
    let list = leaf.summary.value()["metric"][key].as_array()?;
    list.iter().enumerate().find_map(|(index, value)| {
        let stands = number(value)?;
        let epochs = leaf.stats.iter().filter_map(|(_, epochs)| epochs.get(index));
        // Checkpoints and evaluations between the blocks of an epoch read no samples.
        let seconds = epochs.filter_map(|epoch| epoch.block_seconds.or(epoch.seconds));
        let seconds = seconds.reduce(f64::min).filter(|seconds| *seconds > 0.0)?;
        let follows = samples / seconds;
        let what = format!("{key} of epoch {}", index + 1);
        let from = format!("{} samples in {} s", shown(samples), rounded(seconds));
        (stands > follows * MOST_LEFT_OUT).then(|| disagree(leaf, &what, stands, follows, &from))
    })
}

/// GiB/s of checkpoints against their size and duration.
fn rates(leaf: &Leaf, faults: &mut Vec<Finding>) {
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
        if !(1.0 - MEAN_OF_RATES..=most).contains(&(stands / follows)) {
            let what = format!("{phase}_checkpoint_io_mean_GB_per_second");
            let from = "checkpoint_size_GB and the mean duration";
            faults.push(disagree(leaf, &what, stands, follows, from));
        }
    }
}

/// The ranks' checkpoints: the number that the run was to make, and durations that fit the summary.
fn checkpoints_of_ranks(leaf: &Leaf, faults: &mut Vec<Finding>) {
    if leaf.kind != LeafKind::Checkpoint || leaf.stats.is_empty() {
        return;
    }
    let (writes, reads) = counts(leaf).unzip();
    for (phase, wanted) in [("save", writes), ("load", reads)] {
        let of_rank = |epochs: &[EpochTimes]| -> Vec<CheckpointTime> {
            let own = epochs.iter();
            let own = own.flat_map(|e| if phase == "save" { &e.saves } else { &e.loads });
            own.copied().collect()
        };
        let ranks = leaf.stats.iter();
        let ranks: Vec<(&str, Vec<CheckpointTime>)> =
            ranks.map(|(path, epochs)| (path.as_str(), of_rank(epochs))).collect();
        let wanted = wanted.map(|count| count.max(0) as usize);
        let wrong = ranks.iter().find(|(_, list)| Some(list.len()) != wanted);
        if let (Some((path, list)), Some(wanted)) = (wrong, wanted) {
            let fact = format!("it has {} {phase}_ckpt…, the run was to make {wanted}", list.len());
            faults.push(failed(path, fact, ONE_RUN));
            continue;
        }
        if !leaf.is_of_stormlp() {
            faults.extend(ranks.iter().find_map(|(path, list)| {
                let why = fault_of_times(leaf, path, list)?;
                Some(failed(path, format!("{phase}_ckpt…: {why}"), ONE_RUN))
            }));
        }
        let seconds: Measure = |checkpoint| Some(checkpoint.seconds);
        let rate: Measure = |checkpoint| checkpoint.gib_per_second;
        for (what, measure) in [("duration_mean_seconds", seconds), ("io_mean_GB_per_second", rate)]
        {
            let (what, range) = (format!("{phase}_checkpoint_{what}"), range(&ranks, measure));
            let Some(stands) = leaf.metric(&what) else {
                continue;
            };
            let Some((least, most)) = range else {
                if wanted.is_some_and(|count| count > 0) {
                    let fact = format!("there is a {what}, but no rank has its parts");
                    faults.push(failed(leaf, fact, ONE_RUN));
                }
                continue;
            };
            // DLIO's figures are the means of rank 0.
            let first = ranks.iter().find(|(path, _)| last(path).starts_with("0_"));
            let first = first.filter(|_| !leaf.is_of_stormlp());
            if let Some(follows) = first.and_then(|(_, list)| mean_of(list, measure))
                && !same(stands, follows)
            {
                faults.push(disagree(leaf, &what, stands, follows, "the file of rank 0"));
                continue;
            }
            let within = (least..=most).contains(&stands);
            if !within && !same(stands, least) && !same(stands, most) {
                let follows = if stands < least { least } else { most };
                faults.push(disagree(leaf, &what, stands, follows, "the ranks' times"));
            }
        }
    }
}

/// What is wrong with the times of one rank's checkpoints, which follow each other.
fn fault_of_times(leaf: &Leaf, path: &str, list: &[CheckpointTime]) -> Option<String> {
    for (number, one) in (1..).zip(list) {
        let seconds = one.seconds;
        let rate = one.gib_per_second.unwrap_or(f64::MIN_POSITIVE);
        if seconds <= 0.0 || rate <= 0.0 {
            let (seconds, rate) = (shown(seconds), shown(rate));
            return Some(format!("number {number} took {seconds} s at {rate} GiB/s"));
        }
        if let Some((start, end)) = one.span
            && is_longer(seconds, end - start)
        {
            return Some(format!("number {number} {}", lasted(end - start, seconds)));
        }
    }
    let (start, end) = leaf.span()?;
    let together: f64 = list.iter().map(|one| one.seconds).sum();
    if is_longer(together, end - start) {
        let (together, run) = (shown(together), shown(end - start));
        return Some(format!("together they took {together} s, the whole run {run} s"));
    }
    is_outside(leaf, path, list.iter().filter_map(|one| one.span))
        .then(|| "they are outside start and end of summary.json".to_string())
}

fn lasted(span: f64, duration: f64) -> String {
    let (span, duration) = (rounded(span), rounded(duration));
    format!("lasted {span} s by start and end, {duration} s by its duration")
}

/// Whether spans in a rank's file lie outside the run. Only rank 0 is on the host that wrote the
/// summary: clocks of others may differ.
fn is_outside(leaf: &Leaf, path: &str, mut spans: impl Iterator<Item = (f64, f64)>) -> bool {
    let Some((start, end)) = leaf.span().filter(|_| last(path).starts_with("0_")) else {
        return false;
    };
    spans.any(|(from, to)| from < start - CLOCK_SECONDS || to > end + CLOCK_SECONDS)
}

/// Whether something took longer than from its start to its end, by different clocks. It may be
/// shorter: v3.0's DLIO notes the end later, once its loader has stopped.
fn is_longer(duration: f64, span: f64) -> bool {
    duration > span + 0.01 * duration.abs() + CLOCK_SECONDS
}

/// A figure of a checkpoint.
type Measure = fn(&CheckpointTime) -> Option<f64>;

/// The mean over checkpoints that all have the figure.
fn mean_of(list: &[CheckpointTime], measure: Measure) -> Option<f64> {
    let all: Option<Vec<f64>> = list.iter().map(measure).collect();
    all.filter(|all| !all.is_empty()).map(|all| mean(&all))
}

/// The least and the most of any rank: editions differ in which rank's time they take, and over how
/// many checkpoints.
fn range(ranks: &[(&str, Vec<CheckpointTime>)], measure: Measure) -> Option<(f64, f64)> {
    let measured = || ranks.iter().flat_map(|(_, list)| list).filter_map(measure);
    Some((measured().reduce(f64::min)?, measured().reduce(f64::max)?))
}

/// The ranks' epochs: as many as the summary has, with durations that fit, within the run.
fn epochs_of_ranks(leaf: &Leaf, faults: &mut Vec<Finding>) {
    let listed = &leaf.summary.value()["metric"]["train_au_percentage"];
    let listed = listed.as_array().map(Vec::len);
    let is_run = leaf.kind == LeafKind::Run;
    for (path, epochs) in &leaf.stats {
        let mut fault = |fact: String| faults.push(failed(path, fact, ONE_RUN));
        let found = epochs.len();
        if let Some(listed) = listed.filter(|_| is_run)
            && (listed > found || listed < found && !leaf.is_of_stormlp())
        {
            fault(format!("{}; the summary has {listed}", counted(found as u64, "epoch")));
        }
        let untimed = epochs.iter().position(|epoch| {
            let seconds = epoch.seconds.filter(|seconds| *seconds > 0.0 || leaf.is_of_stormlp());
            epoch.span.is_none() || seconds.is_none()
        });
        if let Some(index) = untimed.filter(|_| is_run) {
            fault(format!("epoch {} has no start, end and positive duration", index + 1));
        }
        let uneven = (1..).zip(epochs).find_map(|(number, epoch)| {
            let ((start, end), seconds) = (epoch.span?, epoch.seconds?);
            is_longer(seconds, end - start)
                .then(|| format!("epoch {number} {}", lasted(end - start, seconds)))
        });
        if let Some(fact) = uneven {
            fault(fact);
        }
        if is_outside(leaf, path, epochs.iter().filter_map(|epoch| epoch.span)) {
            fault("its epochs are outside start and end of summary.json".to_string());
        }
    }
}
