//! A checkpoint run: ranks, saves and restores, and the means over them.

use crate::plan::{FindStreams, StreamKnee};
use crate::report::{
    CheckpointReport, CheckpointResult, CheckpointResults, DurationAndRate, PhaseSummary,
    durations, gib_per_second, rates, summarise,
};
use stormlp_core::report::NamedSeries;
use stormlp_show::sums::{Covers, Found};

/// Contradictions between figures of the report, in words; empty for any report a run wrote.
pub fn contradictions(report: &CheckpointReport) -> Vec<String> {
    let mut found = Found::of(&report.head);
    check_report(&mut found, report);
    found.into_words()
}

fn check_report(found: &mut Found, report: &CheckpointReport) {
    let results = &report.results;
    let planned =
        [("save", "saves", &report.plan.save), ("restore", "restores", &report.plan.restore)];
    for (part, name, transport) in planned {
        if let Some(evidence) = report.evidence_of(name) {
            found.path(&format!("plan.{part}.path"), transport.path, evidence);
        }
    }
    let phases = [
        ("save", "saves", &results.saves, results.summary.save),
        ("restore", "restores", &results.restores, results.summary.restore),
    ];
    for (part, key, phase, summary) in phases {
        for (index, result) in phase.iter().enumerate() {
            let place = format!("{key}.{index}");
            check_ranks(found, &place, result);
            let name = format!("{part} {}", result.step);
            let mut series = report.series.iter().filter(|named| named.name == name);
            if let (Some(named), None) = (series.next(), series.next()) {
                found.intervals(&place, &named.series, result.bytes, Covers::All);
            }
        }
        check_summary(found, &format!("summary.{part}"), summary, summarise(phase));
    }
    check_whole_run(found, results);
    if let Some(find) = &results.find_knee {
        check_streams(found, find);
    }
    found.histograms(&report.histograms);
    for (index, NamedSeries { series, .. }) in report.series.iter().enumerate() {
        found.shape(&format!("series.{index}"), series);
    }
}

/// Checks the knees against the runs of the search.
fn check_streams(found: &mut Found, find: &FindStreams) {
    let [save, restore] = find.of_tried();
    for (phase, told, comes_to) in [("save", &find.save, save), ("restore", &find.restore, restore)]
    {
        let place = format!("find_knee.{phase}");
        let (told, comes_to) = match (told, comes_to) {
            (Some(told), Some(comes_to)) => (told, comes_to),
            (None, None) => continue,
            _ => {
                found.push(format!("{place} does not match the runs that were tried"));
                continue;
            }
        };
        // Older versions took the larger of counts that are alike.
        if comes_to.alike.contains(&told.streams) {
            continue;
        }
        let from = "the runs that were tried";
        for (what, told, comes_to) in [
            ("streams", told.streams, comes_to.streams),
            ("best_streams", told.best_streams, comes_to.best_streams),
        ] {
            found.hold_count(&place, what, told.into(), comes_to.into(), from);
        }
        let rates = |knee: &StreamKnee| (knee.gib_per_second, knee.best_gib_per_second);
        let ((rate, best), (rate_of, best_of)) = (rates(told), rates(&comes_to));
        found.hold(&place, "gib_per_second", rate, rate_of, from);
        found.hold(&place, "best_gib_per_second", best, best_of, from);
    }
}

fn check_ranks(found: &mut Found, place: &str, result: &CheckpointResult) {
    let sum = result.ranks.iter().map(|rank| rank.bytes).fold(0, u64::saturating_add);
    found.hold_count(place, "bytes", result.bytes, sum, "those of its ranks");
    let hosts = result.hosts.iter();
    let longest = hosts.clone().map(|host| host.duration_seconds);
    found.hosts(place, "bytes", result.bytes, hosts.map(|host| host.bytes));
    if let Some(longest) = longest.reduce(f64::max) {
        let (told, from) = (result.duration_seconds.max, "its hosts' shares");
        found.hold(place, "duration_seconds.max", told, longest, from);
    }
    for (index, rank) in result.ranks.iter().enumerate() {
        let place = format!("{place}.ranks.{index}");
        let comes_to = gib_per_second(rank.bytes, rank.duration_seconds);
        let of = "bytes and duration_seconds";
        found.hold(&place, "gib_per_second", rank.gib_per_second, comes_to, of);
    }
    check_means_of_ranks(found, place, result);
    let parts = [("mean_parts", result.mean_parts), ("slowest_parts", result.slowest_parts)];
    for (what, parts) in parts {
        let (told, longest) = (parts.total_seconds(), result.duration_seconds.max);
        found.hold_part(place, what, told, longest, "duration_seconds.max");
    }
    for (index, rank) in result.ranks.iter().enumerate() {
        let (told, longest) = (rank.parts.total_seconds(), rank.duration_seconds);
        let what = format!("ranks.{index}.parts");
        found.hold_part(place, &what, told, longest, "its duration");
    }
}

/// Checks durations and rates over the ranks.
fn check_means_of_ranks(found: &mut Found, place: &str, result: &CheckpointResult) {
    let seconds = durations(&result.ranks);
    let rate = rates(&result.ranks, seconds);
    let (told, told_rate) = (result.duration_seconds, result.gib_per_second);
    for (what, told, comes_to) in [
        ("duration_seconds.max", told.max, seconds.max),
        ("duration_seconds.mean", told.mean, seconds.mean),
        ("duration_seconds.min", told.min, seconds.min),
        ("duration_seconds.rank0", told.rank0, seconds.rank0),
        ("gib_per_second.min_rank", told_rate.min_rank, rate.min_rank),
        ("gib_per_second.mean_rank", told_rate.mean_rank, rate.mean_rank),
        ("gib_per_second.max_rank", told_rate.max_rank, rate.max_rank),
        ("gib_per_second.total", told_rate.total, rate.total),
        ("gib_per_second.rank0", told_rate.rank0, rate.rank0),
    ] {
        found.hold(place, what, told, comes_to, "those of its ranks");
    }
}

/// Checks what saves and restores have in common with their run.
fn check_whole_run(found: &mut Found, results: &CheckpointResults) {
    let all = || results.saves.iter().chain(&results.restores);
    let ends = all().map(|one| one.started_at_seconds + one.duration_seconds.max);
    let last = ends.fold(0.0, f64::max);
    let (what, elapsed) = ("the end of the last save or restore", results.elapsed_seconds);
    found.hold_part("", what, last, elapsed, "elapsed_seconds");
    let user = all().map(|one| one.cpu_user_seconds).sum();
    let system = all().map(|one| one.cpu_system_seconds).sum();
    let from = "those of saves and restores";
    found.hold("", "cpu_user_seconds", results.cpu_user_seconds, user, from);
    let told = results.cpu_system_seconds;
    found.hold("", "cpu_system_seconds", told, system, from);
    let bytes = all().map(|one| one.bytes).fold(0, u64::saturating_add);
    let hosts = results.hosts.iter().map(|host| host.bytes);
    found.hosts("saves and restores", "bytes", bytes, hosts);
}

fn check_summary(
    found: &mut Found,
    place: &str,
    told: Option<PhaseSummary>,
    comes_to: Option<PhaseSummary>,
) {
    let (told, comes_to) = match (told, comes_to) {
        (Some(told), Some(comes_to)) => (told, comes_to),
        (None, None) => return,
        (Some(_), None) => {
            let what = format!("{place} is of checkpoints, but there are none");
            return found.push(what);
        }
        (None, Some(_)) => {
            let what = format!("{place} is missing, but there are checkpoints");
            return found.push(what);
        }
    };
    let from = "those of the checkpoints";
    let counts = (u64::from(told.checkpoints), u64::from(comes_to.checkpoints));
    found.hold_count(place, "checkpoints", counts.0, counts.1, from);
    for ((what, told), (_, comes_to)) in summed(&told).into_iter().zip(summed(&comes_to)) {
        for (key, told, comes_to) in [
            ("gib_per_second", told.gib_per_second, comes_to.gib_per_second),
            ("duration_seconds", told.duration_seconds, comes_to.duration_seconds),
        ] {
            for (of, pair) in [
                ("mean", [told.mean, comes_to.mean]),
                ("deviation", [told.deviation, comes_to.deviation]),
            ] {
                // Tiny deviations are rounding errors.
                if of == "mean" || pair[0].max(pair[1]) > 1e-6 * told.mean {
                    let what = format!("{what}.{key}.{of}");
                    found.hold(place, &what, pair[0], pair[1], from);
                }
            }
        }
    }
    for (what, told, comes_to) in [
        (
            "total_over_total_gib_per_second",
            told.total_over_total_gib_per_second,
            comes_to.total_over_total_gib_per_second,
        ),
        ("cpu_seconds_per_gib", told.cpu_seconds_per_gib, comes_to.cpu_seconds_per_gib),
    ] {
        found.hold(place, what, told, comes_to, from);
    }
}

/// Means over checkpoints by each arithmetic.
fn summed(phase: &PhaseSummary) -> [(&'static str, DurationAndRate); 3] {
    [("mlperf_rules", phase.mlperf_rules), ("dlio", phase.dlio), ("all_ranks", phase.all_ranks)]
}
