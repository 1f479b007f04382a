//! A run as a document.

use std::collections::BTreeMap;

use stormlp_core::evidence::Evidence;
use stormlp_core::report::MODELLED;
use stormlp_core::stats::MeanAndDeviation;
use stormlp_show::document::{
    Cell, DetailLevel, Document, Facts, Quantity, Section, Table, ended, mismatch, number, word,
};
use stormlp_show::hosts::{describe, processes};
use stormlp_show::numbers::thousands;
use stormlp_show::series::TimeSummary;
use stormlp_show::{objects, storage, telemetry};

use super::plan::setup;
use super::records::records;
use super::trials::{
    Trial, UNKNOWN, generates, gib_s, key_of, known_ms, ms, name_of, pass_name, per_trial,
    seconds_of,
};
use super::{find_max, serving, size_of};
use crate::plan::{Class, WorkloadName};
use crate::report::{
    HostTrial, KvcacheReport, PassSummary, RequestCounts, Timed, TrialResult, gib_per_second,
    nothing,
};

/// From this share on, storage served the requests of users.
const ALL_SERVED: f64 = 0.95;
const TOO_FEW: &str = "?: fewer than 20 samples for a P95, or than 100 for a P99";
/// The smallest rate in GiB/s that is shown as such: the digits of a smaller one are mostly zeros.
const LEAST_RATE: f64 = 1e-3;
/// Maximum number of trials that a screen shows one by one.
const AT_A_GLANCE: usize = 8;

/// The document of a run, or of a search of several.
pub fn document(report: &KvcacheReport) -> Document {
    match &report.results.find_max {
        Some(find) => find_max::document(report, find, of_run(report)),
        None => of_run(report),
    }
}

/// The document of a run.
fn of_run(report: &KvcacheReport) -> Document {
    let mut document = Document::new(headline(report));
    setup(&report.plan, &mut document);
    if report.plan.workload == WorkloadName::Mlperf {
        document.facts.add("figure", MODELLED);
    }
    storage::describe(&report.head.host, &mut document.facts);
    ran(report.evidence_of("objects"), &mut document.facts);
    if !report.results.trials.is_empty() {
        if nothing(report).is_none() {
            figures(&mut document, report);
        }
        served(&mut document, report);
        hosts(&mut document, report);
        document.facts.add("peak memory", size_of(report.results.peak_rss_bytes));
    }
    let series = report.series.iter().map(|one| &one.series);
    document.sections.iter_mut().for_each(explain_unknown);
    telemetry::section(&mut document, telemetry::TITLE, series);
    document.warn(&report.warnings);
    document.records = records(report);
    document
}

/// Says why a cell of a section has no percentile, if one has none.
fn explain_unknown(section: &mut Section) {
    let rows = section.table.iter().flat_map(|table| &table.rows);
    if rows.flat_map(|row| &row.cells).any(|cell| *cell == Cell::from(UNKNOWN)) {
        section.lines.push(TOO_FEW.to_string());
    }
}

/// Rates and times of each trial, and of all of them.
fn figures(document: &mut Document, report: &KvcacheReport) {
    let trials = report.results.trials.len();
    // Of many, a screen shows the means.
    let (place, of_means) = match trials {
        ..=AT_A_GLANCE => (DetailLevel::Screen, DetailLevel::Details),
        _ => (DetailLevel::Details, DetailLevel::Screen),
    };
    let is_serving = report.plan.serving.is_some();
    let what = if is_serving { "chunks" } else { "objects" };
    let title = format!("Runs (P95 of whole {what})");
    let section = document.section(&title, Some(rates(report)));
    // The answer about prompts has a separate table.
    let has_loads = !serving::slowest_loads(report).is_empty();
    section.place = if has_loads { DetailLevel::Details } else { place };
    distributions(section, report);
    if has_loads {
        serving::add_loads(document, report);
    }
    if trials > report.plan.passes.len() || report.results.group.is_some() {
        let title = "Means over runs; the largest P95 of any";
        document.section(title, Some(means(report))).place = of_means;
    }
}

fn hosts(document: &mut Document, report: &KvcacheReport) {
    let Some(group) = &report.results.group else { return };
    let trials = report.results.trials.iter();
    let rows = trials.flat_map(|trial| trial.hosts.iter().map(move |host| (trial, host)));
    let serves = report.plan.serving.is_some();
    let table = Table::of(
        rows,
        |(trial, host)| format!("{} {}", key_of(report, trial), host.name),
        vec![
            word("option", 0, |(trial, _): &OfHost<'_>| pass_name(report, trial.pass)).setting(),
            number("run", 0, |(trial, _): &OfHost<'_>| trial.trial),
            word("host", 0, |(_, host): &OfHost<'_>| host.name.clone()),
            number("seed", 2, |(_, host): &OfHost<'_>| host.seed),
            number("read GiB/s", 0, |(_, host): &OfHost<'_>| {
                gib_s(host.result.read_gib_per_second)
            }),
            number("write GiB/s", 0, |(_, host): &OfHost<'_>| {
                gib_s(host.result.write_gib_per_second)
            }),
            number("P95 read ms", 0, |(_, host): &OfHost<'_>| {
                ms(&host.result, Timed::Read, |one| one.p95)
            }),
            number("P95 fsync ms", 1, |(_, host): &OfHost<'_>| {
                ms(&host.result, Timed::Fsync, |one| one.p95)
            })
            .when(!serves),
        ],
    );
    describe(group, &mut document.section("Hosts", Some(table)).facts);
}

/// A trial, and the share of one of its hosts.
type OfHost<'a> = (&'a TrialResult, &'a HostTrial);
/// The name of a pass, a class of its users, and their requests.
type OfClass = (String, Class, RequestCounts);

/// The share of users' requests, or of a trace, that was served.
fn served(document: &mut Document, report: &KvcacheReport) {
    if report.plan.serving.is_some() {
        document.details("Prompts", Some(serving::prompts(report)));
        return;
    }
    if report.plan.trace.is_some() {
        document.section("Of the trace", Some(replayed(report)));
        return;
    }
    document.details("Requests served, by class of users", Some(classes(report)));
    let requests = report.results.trials.iter().map(|trial| trial.requests);
    let mut all = RequestCounts::default();
    requests.for_each(|one| all += one);
    let RequestCounts { begun, served, .. } = all;
    let meaning = match (served as f64) < ALL_SERVED * begun as f64 {
        true => format!(
            "{} of {} requests were served in time: MLPerf offers more load than storage serves, so compare \
             the bandwidth and the P95",
            thousands(served),
            thousands(begun)
        ),
        false => "storage served all requests: use more --users to find its bandwidth".to_string(),
    };
    document.section("", None).lines.push(meaning);
}

/// Rates of the passes, and how the run ended if it failed.
fn headline(report: &KvcacheReport) -> String {
    if let Some(mismatch) = mismatch(&report.ending) {
        return mismatch;
    }
    let several = report.plan.passes.len() > 1;
    let of_pass = |summary: &PassSummary| {
        let pass = report.plan.passes.get(summary.pass as usize)?;
        let name = if several { format!("option {}: ", name_of(pass)) } else { String::new() };
        let is_of_chunks = report.plan.serving.is_some();
        let p95 = summary.read_p95_ms_max.filter(|_| !several && !is_of_chunks);
        // The largest of several, as in MLPerf.
        let (largest, of) = match (&report.results.group, summary.trials) {
            (None, 1) => ("", ""),
            (None, _) => ("largest ", " in a run"),
            (Some(_), _) => ("largest ", " of a host in a run"),
        };
        let p95 =
            p95.map(|ms| format!(", {largest}P95 of reading an object{of} {}", seconds_of(ms)));
        let p95 = p95.unwrap_or_default();
        let rates =
            rates_of(summary).map(|(verb, rate)| format!("{verb} {} {}", rate.text(), rate.unit));
        let rates: Vec<String> = rates.collect();
        Some(match rates.is_empty() {
            true => format!("{name}no bytes moved before the end of the run"),
            false => format!("{name}{}{p95}", rates.join(", ")),
        })
    };
    let passes: Vec<String> = report.results.passes.iter().filter_map(of_pass).collect();
    let loads = serving::answer(report);
    let answer = match nothing(report) {
        Some((why, _)) => format!("no result{why}"),
        None => loads.unwrap_or_else(|| passes.join("; ")),
    };
    let mut name = if several { String::new() } else { format!(" {}", report.plan.name()) };
    if let Some(group) = &report.results.group {
        name.push_str(&format!(" on {}", processes(Some(group), group.size as usize)));
    }
    let ended = ended(&report.ending);
    format!("kvcache {}{name}: {answer}{ended}", report.plan.workload)
}

/// The rates of a pass within the window.
pub(super) fn rates_of(summary: &PassSummary) -> impl Iterator<Item = (&'static str, Quantity)> {
    let [read, wrote] = [summary.read_gib_per_second, summary.write_gib_per_second];
    let moved = [("read", read.mean), ("write", wrote.mean)].into_iter();
    moved.filter(|(_, rate)| *rate > 0.0).map(|(verb, rate)| match rate < LEAST_RATE {
        true => (verb, Quantity::higher(rate * 1024.0, "MiB/s")),
        false => (verb, Quantity::higher(rate, "GiB/s")),
    })
}

/// The path that moved the bytes, with evidence.
fn ran(evidence: Option<&Evidence>, facts: &mut Facts) {
    if let Some(evidence) = evidence {
        let path = evidence.effective_path.map_or("unknown", |path| path.name());
        let engine = evidence.engine.as_ref();
        let engine = engine.map_or(String::new(), |facts| format!(", engine {}", facts.engine));
        facts.add("objects moved", format!("path {path}{engine}: {}", evidence.summary));
        if let Some(store) = &evidence.object_store {
            facts.add("requests", objects::requests(store));
        }
    }
}

fn rates(report: &KvcacheReport) -> Table {
    // Chunks are neither synced nor generated from.
    let serves = report.plan.serving.is_some();
    per_trial(
        report,
        vec![
            number("read GiB/s", 0, |one: &Trial| gib_s(one.read_gib_per_second)).leading(),
            number("write GiB/s", 0, |one: &Trial| gib_s(one.write_gib_per_second)),
            number("read ms", 0, |one: &Trial| ms(one, Timed::Read, |one| one.p95)),
            number("write ms", 0, |one: &Trial| ms(one, Timed::Write, |one| one.p95)).when(serves),
            number("fsync ms", 1, |one: &Trial| ms(one, Timed::Fsync, |one| one.p95)).when(!serves),
            number("write+fsync ms", 0, |one: &Trial| ms(one, Timed::Persist, |one| one.p95))
                .when(!serves),
            number("tokens/s", 2, |one: &Trial| {
                Quantity::higher(one.tokens_per_second, "tokens/s")
            })
            .when(generates(&report.plan)),
            number("device read %", 3 * u8::from(!serves), |one: &Trial| match one.device {
                Some(device) => share(device.read_bytes, one.read.all_bytes()),
                None => "-".into(),
            }),
            number("cached %", 3, |one: &Trial| match one.residency {
                Some(sample) => Quantity::lower(sample.after_drop * 100.0, "%").into(),
                None => Cell::from("-"),
            }),
            number("CPU s/GiB", 3, |one: &Trial| match one.cpu_seconds_per_gib() {
                Some(seconds) => Quantity::lower(seconds, "s/GiB").into(),
                None => Cell::from("-"),
            }),
            number("evicted", 3, |one: &Trial| one.evictions.deleted).when(!serves),
            number("read GiB/s as in v3.0", 3, |one: &Trial| {
                gib_s(gib_per_second(one.read.all_bytes(), one.window_seconds))
            })
            // Only where users asked for the objects, as in v3.0.
            .when(!serves && report.plan.trace.is_none()),
        ],
    )
}

/// A part of a whole in percent.
fn share(part: u64, whole: u64) -> Cell {
    match whole {
        0 => "-".into(),
        _ => Quantity::neutral(part as f64 / whole as f64 * 100.0, "%").into(),
    }
}

fn means(report: &KvcacheReport) -> Table {
    let name = |summary: &PassSummary| pass_name(report, summary.pass);
    let mean = |summary: &PassSummary, of: MeanAndDeviation, unit| {
        Quantity::higher(of.mean, unit).spread((summary.trials > 1).then_some(of.deviation))
    };
    let serves = report.plan.serving.is_some();
    Table::of(
        report.results.passes.iter().copied(),
        name,
        vec![
            word("option", 0, name),
            number("runs", 0, |one: &PassSummary| one.trials),
            number("read GiB/s", 0, |one| mean(one, one.read_gib_per_second, "GiB/s")),
            number("write GiB/s", 0, |one| mean(one, one.write_gib_per_second, "GiB/s")),
            number("P95 read ms", 0, |one: &PassSummary| known_ms(one.read_p95_ms_max)),
            number("P95 fsync ms", 1, |one: &PassSummary| known_ms(one.fsync_p95_ms_max))
                .when(!serves),
            number("tokens/s", 2, |one| mean(one, one.tokens_per_second, "tokens/s"))
                .when(generates(&report.plan)),
        ],
    )
}

fn replayed(report: &KvcacheReport) -> Table {
    let trace = report.plan.trace.as_ref();
    let entries = trace.map_or(0, |trace| trace.entries);
    let is_paced = trace.is_some_and(|trace| trace.paced_seconds().is_some());
    let done = |one: &Trial| one.requests.done();
    per_trial(
        report,
        vec![
            number("entries", 0, move |one: &Trial| done(one)),
            // Each host replays the whole trace.
            number("done %", 0, |one| share(done(one), entries * one.ranks().count() as u64)),
            number("s", 0, |one: &Trial| Quantity::neutral(one.total_seconds, "s")),
            number("behind ms P50", 1, |one: &Trial| ms(one, Timed::QueueWait, |one| one.p50))
                .when(is_paced),
            number("behind ms P95", 0, |one: &Trial| ms(one, Timed::QueueWait, |one| one.p95))
                .when(is_paced),
            number("not there", 0, |one: &Trial| one.lookups.own_misses),
        ],
    )
}

fn classes(report: &KvcacheReport) -> Table {
    // Of all trials of a pass together.
    let of_pass = report.plan.passes.iter().zip(0u32..).flat_map(|(pass, index)| {
        let mut all = BTreeMap::<Class, RequestCounts>::new();
        for trial in report.results.trials.iter().filter(|trial| trial.pass == index) {
            for (class, counts) in &trial.classes {
                *all.entry(*class).or_default() += *counts;
            }
        }
        // The most urgent first.
        all.into_iter().rev().map(|(class, counts)| (name_of(pass), class, counts))
    });
    Table::of(
        of_pass,
        |(pass, class, _)| format!("{pass} {class}"),
        vec![
            word("option", 0, |(pass, ..): &OfClass| pass.clone()).setting(),
            word("class", 0, |(_, class, _): &OfClass| class.name()),
            number("sent", 0, |(.., counts): &OfClass| counts.begun),
            number("served", 0, |(.., counts): &OfClass| counts.served),
            number("after the window", 1, |(.., counts): &OfClass| counts.served_late),
            number("served %", 0, |(.., counts): &OfClass| share(counts.served, counts.begun)),
        ],
    )
}

/// The distributions of all trials.
fn distributions(section: &mut Section, report: &KvcacheReport) {
    let timed = report.histograms.iter();
    section.distributions =
        timed.map(|one| TimeSummary::of(one.name.replace('_', " "), &one.summary_us)).collect();
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_largest_p95_of_several_trials_is_called_that() {
        let mut report = fixtures::report();
        let told = headline(&report);
        assert!(told.contains(", largest P95 of reading an object in a run "), "{told}");
        report.results.trials.truncate(1);
        report.results.passes = crate::report::summarise(&report.results.trials, 1);
        assert!(headline(&report).contains(", P95 of reading an object "), "{}", headline(&report));
    }

    #[test]
    fn a_percentile_of_too_few_is_explained_where_it_is_missing() {
        let mut report = fixtures::report();
        let explained = |report: &KvcacheReport| {
            let sections = document(report).sections;
            sections.iter().filter(|one| one.lines.iter().any(|line| line == TOO_FEW)).count()
        };
        assert_eq!(explained(&report), 0);
        for trial in &mut report.results.trials {
            trial.times_ms.remove(&Timed::Persist);
        }
        assert_eq!(explained(&report), 1);
    }
}
