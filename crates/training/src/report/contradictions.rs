//! Consistency checks of a training report: epochs, their blocks, means, and the verdict.

use crate::plan::metrics;
use crate::plan::metrics::Rule;
use crate::plan::train_plan::TrainPlan;
use crate::report::{EpochReport, Measures, TrainReport, meets_threshold, scored};
use stormlp_core::report::Ending;
use stormlp_core::units::MIB;
use stormlp_show::sums::{Covers, Found, TOLERANCE_OF_MEANS, inner};

/// Lists contradictions between the report's figures; empty for an unmodified report.
pub fn contradictions(report: &TrainReport) -> Vec<String> {
    let mut found = Found::of(&report.head);
    check_report(&mut found, report);
    found.into_words()
}

fn check_report(found: &mut Found, report: &TrainReport) {
    let (plan, results) = (&report.plan, &report.results);
    for named in &report.evidence {
        found.path("plan.transport.path", plan.transport.path, &named.evidence);
    }
    let single = results.runs.is_empty();
    let runs = results.runs.iter().enumerate();
    for (index, run) in runs {
        let place = format!("runs.{index}");
        check_epochs(found, plan, &place, &run.epochs);
        check_means(found, &place, &run.mean, &scored(plan, &run.epochs));
        check_bytes_of_epochs(found, &place, run.cost.bytes_read, &run.epochs);
    }
    if single {
        check_epochs(found, plan, "", &results.epochs);
        check_bytes_of_epochs(found, "", results.cost.bytes_read, &results.epochs);
    }
    let epochs = results.scored_epochs();
    // If the other hosts were lost in an epoch, only this host's share is known.
    if report.ending == Ending::Complete {
        if results.find_max.is_none() {
            check_accelerators(found, plan, &epochs);
        }
        let bytes = epochs.iter().map(|epoch| epoch.cost.bytes_read).fold(0, u64::saturating_add);
        let hosts = results.hosts.iter().map(|host| host.bytes_read);
        found.hosts("epochs", "bytes_read", bytes, hosts);
    }
    let of_scored = scored(plan, epochs);
    check_means(found, "", &results.mean, &of_scored);
    check_threshold(found, report);
    found.histograms(&report.histograms);
    check_series_of_runs(found, report);
}

/// Every epoch has what each accelerator did in it.
fn check_accelerators(found: &mut Found, plan: &TrainPlan, epochs: &[&EpochReport]) {
    let planned = plan.accelerators as usize;
    let other = epochs.iter().map(|epoch| epoch.accelerators.len()).find(|count| *count != planned);
    if let Some(count) = other {
        found.push(format!("plan.accelerators is {planned}, but the epochs are those of {count}"));
    }
}

/// Checks the threshold verdict against the mean AU.
fn check_threshold(found: &mut Found, report: &TrainReport) {
    let results = &report.results;
    let threshold_percent = report.plan.metric.threshold_percent;
    let au = results.mean.au_percent.profile;
    let complete = report.ending == Ending::Complete && !results.scored_epochs().is_empty();
    // The best run of a search that was killed was complete, and older versions said so.
    let of_search = results.find_max.is_some() && report.ending == Ending::Unfinished;
    if results.meets_threshold != meets_threshold(report) && !of_search {
        found.push(format!(
            "meets_threshold is {}, but AU is {au:.2} % of {threshold_percent:.2} %, and the run \
             {} complete",
            results.meets_threshold,
            if complete { "was" } else { "was not" },
        ));
    }
}

fn check_series_of_runs(found: &mut Found, report: &TrainReport) {
    let results = &report.results;
    let single = results.runs.is_empty();
    for (index, named) in report.series.iter().enumerate() {
        let place = format!("series.{index}");
        found.shape(&place, &named.series);
        let epochs = if single {
            (index == 0).then_some(&results.epochs)
        } else {
            results.runs.get(index).map(|run| &run.epochs)
        };
        // A run that is still going has bytes that no interval has yet.
        if let Some(epochs) = epochs.filter(|_| report.ending != Ending::Unfinished) {
            // The series is that of the host that saved the report, the epochs are everyone's.
            let of_hosts = results.hosts.iter().map(|host| host.bytes_read);
            let bytes = match results.hosts.len() {
                0 | 1 => bytes_of(epochs),
                _ if single => of_hosts.min().unwrap_or(0),
                _ => continue,
            };
            // Evaluations and loader starts also read.
            found.intervals(&place, &named.series, bytes, Covers::AtLeast);
        }
    }
}

/// Checks the means over `epochs`; skipped if no epoch counts.
fn check_means(found: &mut Found, place: &str, told: &Measures, epochs: &[Measures]) {
    if !epochs.is_empty() {
        let comes_to = metrics::mean(epochs);
        check_measures(found, place, told, &comes_to, "those of the epochs");
    }
}

fn check_measures(
    found: &mut Found,
    place: &str,
    told: &Measures,
    comes_to: &Measures,
    from: &str,
) {
    let of = |m: &Measures| {
        [
            ("au_percent.profile", m.au_percent.profile),
            ("au_percent.nominal", m.au_percent.nominal),
            ("au_percent.measured", m.au_percent.measured),
            ("au_percent.including_startup", m.au_percent.including_startup),
            ("samples_per_second", m.samples_per_second),
            ("mib_per_second", m.mib_per_second),
            ("window_samples_per_second", m.window_samples_per_second),
        ]
    };
    for ((what, told), (_, comes_to)) in of(told).into_iter().zip(of(comes_to)) {
        let pair = [told, comes_to];
        found.hold_within(TOLERANCE_OF_MEANS, (place, what), pair, from);
    }
}

fn check_epochs(found: &mut Found, plan: &TrainPlan, place: &str, epochs: &[EpochReport]) {
    for (index, epoch) in epochs.iter().enumerate() {
        let place = inner(place, &format!("epochs.{index}"));
        let blocks: Vec<_> = epoch.accelerators.iter().map(|one| one.blocks.as_slice()).collect();
        let comes_to = metrics::epoch_measures(&Rule::of(plan), &blocks);
        let from = "the blocks of its accelerators";
        check_measures(found, &place, &epoch.measures, &comes_to, from);
        if epoch.duration_seconds > 0.0 {
            let mib = epoch.cost.bytes_read as f64 / MIB as f64;
            let (rate, comes_to) =
                (epoch.measures.read_mib_per_second, mib / epoch.duration_seconds);
            let of = "bytes_read and duration_seconds";
            found.hold(&place, "read_mib_per_second", rate, comes_to, of);
        }
    }
}

fn check_bytes_of_epochs(found: &mut Found, place: &str, bytes: u64, epochs: &[EpochReport]) {
    let comes_to = bytes_of(epochs);
    found.hold_count(place, "bytes_read", bytes, comes_to, "those of its epochs");
}

fn bytes_of(epochs: &[EpochReport]) -> u64 {
    let each = epochs.iter().map(|epoch| epoch.cost.bytes_read);
    each.fold(0, u64::saturating_add)
}
