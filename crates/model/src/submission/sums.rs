//! Whether figures are what they are made of: means of epochs, files of ranks, sizes and times.

use super::checkpointing::counts;
use super::figures::{CheckpointTimes, EpochTimes, number};
use super::leaf::{Leaf, LeafKind};
use super::rule::{Outcome, or_passed};
use super::survey::{Group, Submission};
use super::tree::last;
use crate::stats::mean;
use crate::training::metrics::mib_of_samples;
use crate::units::counted;

/// How far figures may be apart that are the same: they were rounded when they were written.
const ROUNDING: f64 = 0.005;
/// Moments of files are taken one after the other.
const CLOCK_SECONDS: f64 = 2.0;
/// A mean of rates is near the rate of the mean time, the nearer the more even the times are.
const MEAN_OF_RATES: f64 = 0.1;

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
        throughput(leaf, &mut faults);
        rates(leaf, &mut faults);
        checkpoints_of_ranks(leaf, &mut faults);
        epochs_of_ranks(leaf, &mut faults);
        if !leaf.summary.is_found() {
            let why = "there is no summary.json to compare";
            faults.push(Outcome::unknown(&leaf.path, why, ""));
        }
    }
    or_passed(faults, &group.path, || {
        "means and sums agree with what they are of".to_string()
    })
}

fn disagree(leaf: &Leaf, what: &str, stands: f64, follows: f64, from: &str) -> Outcome {
    Outcome::failed(
        &leaf.path,
        format!("{what} is {stands:.4}; {from} come to {follows:.4}"),
        ONE_RUN,
    )
}

/// Means against their lists.
fn means(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let metric = &leaf.summary.value()["metric"];
    for (list, of) in [
        ("train_au_percentage", "train_au_mean_percentage"),
        (
            "train_throughput_samples_per_second",
            "train_throughput_mean_samples_per_second",
        ),
    ] {
        let values: Vec<f64> = metric[list]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(number)
            .collect();
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
    if leaf.ranks.is_empty() || leaf.kind != LeafKind::Run {
        return;
    }
    // The files of the others are asked for where files are looked for.
    if leaf.figure("num_accelerators") != Some(leaf.ranks.len() as f64) {
        return;
    }
    let metric = &leaf.summary.value()["metric"];
    let epochs = leaf
        .ranks
        .iter()
        .map(|(_, rank)| rank.epochs.len())
        .min()
        .unwrap_or(0);
    for epoch in 0..epochs {
        let of_epoch = || leaf.ranks.iter().map(|(_, rank)| rank.epochs[epoch]);
        let au = mean(
            &of_epoch()
                .map(|figures| figures.au_percent)
                .collect::<Vec<f64>>(),
        );
        let samples: f64 = of_epoch().map(|figures| figures.samples_per_second).sum();
        for (key, follows) in [
            ("train_au_percentage", au),
            ("train_throughput_samples_per_second", samples),
        ] {
            if let Some(stands) = number(&metric[key][epoch])
                && !same(stands, follows)
            {
                let what = format!("{key} of epoch {}", epoch + 1);
                faults.push(disagree(
                    leaf,
                    &what,
                    stands,
                    follows,
                    "the files of the ranks",
                ));
            }
        }
    }
}

/// MiB/s against samples a second.
fn throughput(leaf: &Leaf, faults: &mut Vec<Outcome>) {
    let record =
        number(leaf.parameter("dataset", "record_length_bytes")).filter(|bytes| *bytes > 0.0);
    let samples = leaf.metric("train_throughput_mean_samples_per_second");
    let stands = leaf.metric("train_io_mean_MB_per_second");
    if let (Some(record), Some(samples), Some(stands)) = (record, samples, stands)
        && !same(stands, mib_of_samples(samples, record))
    {
        let follows = mib_of_samples(samples, record);
        let from = "samples a second times the record length";
        faults.push(disagree(
            leaf,
            "train_io_mean_MB_per_second",
            stands,
            follows,
            from,
        ));
    }
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
    let phases: [(&str, Option<i64>, Phase); 2] = [
        ("save", writes, |epoch| &epoch.saves),
        ("load", reads, |epoch| &epoch.loads),
    ];
    for (phase, told, list) in phases {
        let of_rank = |epochs: &[EpochTimes]| -> Vec<CheckpointTimes> {
            epochs.iter().flat_map(list).copied().collect()
        };
        let ranks = leaf.stats.iter();
        let ranks: Vec<(&str, Vec<CheckpointTimes>)> = ranks
            .map(|(path, stats)| (path.as_str(), of_rank(&stats.epochs)))
            .collect();
        let told = told.map(|count| count.max(0) as usize);
        let wrong = ranks.iter().find(|(_, list)| Some(list.len()) != told);
        if let (Some((path, list)), Some(told)) = (wrong, told) {
            faults.push(Outcome::failed(
                path,
                format!(
                    "{} {phase}_ckpt…; the run was told to make {told}",
                    counted(list.len() as u64, "entry")
                ),
                ONE_RUN,
            ));
            continue;
        }
        let seconds = between(&ranks, |checkpoint| Some(checkpoint.seconds));
        let rate = between(&ranks, |checkpoint| checkpoint.gib_per_second);
        for (what, bounds) in [
            ("duration_mean_seconds", seconds),
            ("io_mean_GB_per_second", rate),
        ] {
            let what = format!("{phase}_checkpoint_{what}");
            let (Some(stands), Some((least, most))) = (leaf.metric(&what), bounds) else {
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
            differ(format!(
                "{}; the summary has {listed}",
                counted(found as u64, "epoch")
            ));
        }
        let uneven = stats.epochs.iter().enumerate().find_map(|(index, epoch)| {
            let ((start, end), told) = (epoch.span?, epoch.seconds?);
            let lasted = end - start;
            let near = (lasted - told).abs() <= 0.01 * told.abs() + CLOCK_SECONDS;
            (!near).then(|| (index + 1, lasted, told))
        });
        if let Some((epoch, lasted, told)) = uneven {
            differ(format!(
                "epoch {epoch} lasted {lasted:.2} s by start and end, {told:.2} s by its duration"
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
