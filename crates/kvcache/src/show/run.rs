//! A run as a document.

use stormlp_core::evidence::Evidence;
use stormlp_core::report::MODELLED;
use stormlp_core::units::GIB;
use stormlp_show::document::{
    Cell, Column, Document, Facts, Place, Quantity, Section, Table, ended, mismatch,
};
use stormlp_show::hosts::{describe, processes};
use stormlp_show::series::{Series, TimeSummary};
use stormlp_show::{around, objects, storage};

use super::plan::{name_of, setup};
use super::records::records;
use super::{find_max, serving, size_of};
use crate::plan::{KvcachePlan, Pass, Profile, TraceFormat};
use crate::report::{
    KvcacheReport, MeanOfTrials, ObjectsMoved, PassSummary, TimesMs, TrialResult, nothing,
};

/// The unit of throughput.
const GIB_S: (&str, u64) = ("GiB/s", GIB);
/// Columns that mean nothing for some loads.
const FSYNC: &str = "P95 fsync ms";
const TOKENS: &str = "tokens/s";
const AS_V3: &str = "read GiB/s as in v3.0";
const OTHER_TURNS: &str = "other turns there";
const OTHER_TURNS_ABSENT: &str = "not there";
/// Columns of what has a pace.
const BEHIND: [&str; 2] = ["behind ms P50", "behind ms P95"];
/// A percentile of too few samples.
pub(super) const UNKNOWN: &str = "?";
const TOO_FEW: &str = "?: fewer than 20 samples for a P95, or than 100 for a P99";
/// The least rate in GiB/s that is shown as such: the digits of a smaller one are mostly zeros.
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
    if report.plan.profile == Profile::MlperfV3 {
        document.facts.add("figure", MODELLED);
    }
    storage::describe(&report.head.host, &mut document.facts);
    ran(report.evidence_of("objects"), &mut document.facts);
    if !report.results.trials.is_empty() {
        if nothing(report).is_none() {
            figures(&mut document, report);
        }
        served(&mut document, report);
        document.details("Times in ms, those after the window included", Some(times(report)));
        document.details("After the window", Some(of_load(report, late(report))));
        hosts(&mut document, report);
        let found = match report.plan.serving {
            Some(_) => document.details("What it cost", None),
            None => document.details("Where objects were", Some(of_load(report, places(report)))),
        };
        found.facts = cost(report);
    }
    let series = report.series.iter().map(|one| &one.series);
    document.sections.iter_mut().for_each(explain_unknown);
    around::section(&mut document, around::TITLE, series);
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
        ..=AT_A_GLANCE => (Place::Screen, Place::Details),
        _ => (Place::Details, Place::Screen),
    };
    let is_serving = report.plan.serving.is_some();
    let what = if is_serving { "chunks" } else { "objects" };
    let title = format!("Trials (P95 of whole {what})");
    let section = document.section(&title, Some(of_load(report, rates(report))));
    // The answer about prompts has a table of its own.
    let has_loads = !serving::slowest_loads(report).is_empty();
    section.place = if has_loads { Place::Details } else { place };
    over_time(section, report);
    if has_loads {
        document.section("Time to load a prefix", Some(serving::table(report)));
    }
    if trials > report.plan.passes.len() || report.results.group.is_some() {
        let title = "Means over trials; the largest P95 of any";
        document.section(title, Some(of_load(report, means(report)))).place = of_means;
    }
}

/// A row for each trial of each host, of several; they began each trial at the same moment.
fn hosts(document: &mut Document, report: &KvcacheReport) {
    let Some(group) = &report.results.group else { return };
    let own = [Column::words("host", 0), Column::numbers("seed", 2)];
    let columns = name_columns().into_iter().chain(own).chain(columns_of_rates());
    let mut table = Table::new(columns);
    for trial in &report.results.trials {
        for host in &trial.hosts {
            let result = &host.result;
            let own = [
                host.name.clone().into(),
                host.seed.to_string().into(),
                Quantity::higher(result.read_gib_per_second, "GiB/s").into(),
                Quantity::higher(result.write_gib_per_second, "GiB/s").into(),
                ms(result.times_ms.read, |one| one.p95),
                ms(result.times_ms.fsync, |one| one.p95),
            ];
            let cells = name_cells(report, trial).into_iter().chain(own).collect();
            table.row(format!("{} {}", key_of(report, trial), host.name), cells);
        }
    }
    let section = document.section("Hosts", Some(of_load(report, table)));
    describe(group, &mut section.facts);
}

/// How much was served of what users sent, or of a trace.
fn served(document: &mut Document, report: &KvcacheReport) {
    if report.plan.serving.is_some() {
        document.section("Prompts", Some(serving::prompts(report)));
        return;
    }
    if report.plan.trace.is_some() {
        document.section("Of the trace", Some(replayed(report)));
        return;
    }
    let section = document.section("Served of what users sent", Some(classes(report)));
    section.place = if report.plan.passes.len() > 1 { Place::Details } else { Place::Screen };
}

pub(super) fn pass_of<'p>(plan: &'p KvcachePlan, trial: &TrialResult) -> Option<&'p Pass> {
    plan.passes.get(trial.pass as usize)
}

/// What the passes read and wrote, and how the run ended if it failed.
fn headline(report: &KvcacheReport) -> String {
    if let Some(mismatch) = mismatch(&report.ending) {
        return mismatch;
    }
    let several = report.plan.passes.len() > 1;
    let of_pass = |summary: &PassSummary| {
        let pass = report.plan.passes.get(summary.pass as usize)?;
        let name = if several { format!("{} ", name_of(pass)) } else { String::new() };
        let is_of_chunks = report.plan.serving.is_some();
        let p95 = summary.read_p95_ms_max.filter(|_| !several && !is_of_chunks);
        // The largest, as MLPerf takes it, where a table has several.
        let (largest, of) = match (&report.results.group, summary.trials) {
            (None, 1) => ("", ""),
            (None, _) => ("largest ", " in a trial"),
            (Some(_), _) => ("largest ", " of a host in a trial"),
        };
        let p95 =
            p95.map(|ms| format!(", {largest}P95 of reading an object{of} {}", seconds_of(ms)));
        let p95 = p95.unwrap_or_default();
        let rates = rates_of(summary)
            .map(|(verb, rate)| format!("{verb} at {} {}", rate.text(), rate.unit));
        let rates: Vec<String> = rates.collect();
        Some(match rates.is_empty() {
            true => format!("{name}moved nothing before the time was over"),
            false => format!("{name}{}{p95}", rates.join(" and ")),
        })
    };
    let passes: Vec<String> = report.results.passes.iter().filter_map(of_pass).collect();
    let loads = serving::answer(report);
    let answer = match nothing(report) {
        Some((why, _)) => format!("nothing was measured{why}"),
        None => loads.into_iter().chain([passes.join("; ")]).collect::<Vec<_>>().join("; "),
    };
    let mut name = if several { String::new() } else { format!(" {}", report.plan.name()) };
    if let Some(group) = &report.results.group {
        name.push_str(&format!(" on {}", processes(Some(group), group.size as usize)));
    }
    let ended = ended(&report.ending);
    format!("kvcache{name}: {answer}, by profile {}{ended}", report.plan.profile)
}

/// What a pass did within the window, in the past tense, and at which rate.
pub(super) fn rates_of(summary: &PassSummary) -> impl Iterator<Item = (&'static str, Quantity)> {
    let [read, wrote] = [summary.read_gib_per_second, summary.write_gib_per_second];
    let moved = [("read", read.mean), ("wrote", wrote.mean)].into_iter();
    moved.filter(|(_, rate)| *rate > 0.0).map(|(verb, rate)| match rate < LEAST_RATE {
        true => (verb, Quantity::higher(rate * 1024.0, "MiB/s")),
        false => (verb, Quantity::higher(rate, "GiB/s")),
    })
}

/// Milliseconds in words.
pub(super) fn seconds_of(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.2} s", ms / 1e3) }
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

/// The name of a trial's row.
pub(super) fn key_of(report: &KvcacheReport, trial: &TrialResult) -> String {
    let pass = pass_of(&report.plan, trial).map_or(String::new(), name_of);
    format!("{pass} trial {}", trial.trial)
}

/// The first two cells of each row: pass and trial.
pub(super) fn name_cells(report: &KvcacheReport, trial: &TrialResult) -> Vec<Cell> {
    let pass = pass_of(&report.plan, trial).map_or(String::new(), name_of);
    vec![pass.into(), trial.trial.to_string().into()]
}

/// The columns of rates and times, of a host or of the means.
fn columns_of_rates() -> [Column; 4] {
    [
        Column::numbers("read GiB/s", 0),
        Column::numbers("write GiB/s", 0),
        Column::numbers("P95 read ms", 0),
        Column::numbers(FSYNC, 1),
    ]
}

/// Whether tokens are generated: not by prompts, nor by the reads and writes of a trace.
pub(super) fn generates(plan: &KvcachePlan) -> bool {
    let is_of_operations =
        plan.trace.as_ref().is_some_and(|trace| trace.format == TraceFormat::MlperfIo);
    plan.serving.is_none() && !is_of_operations
}

/// A table without the columns that mean nothing for the load of a report: chunks are not synced,
/// prompts and the reads and writes of a trace generate nothing.
fn of_load(report: &KvcacheReport, mut table: Table) -> Table {
    let idle = match report.plan.serving {
        Some(_) => &[FSYNC, TOKENS, AS_V3][..],
        None if !generates(&report.plan) => &[TOKENS, OTHER_TURNS, OTHER_TURNS_ABSENT, AS_V3],
        None if report.plan.trace.is_some() => &[OTHER_TURNS, OTHER_TURNS_ABSENT, AS_V3],
        None => &[],
    };
    idle.iter().for_each(|column| table.remove(column));
    table
}

pub(super) fn name_columns() -> [Column; 2] {
    [Column::setting("option"), Column::numbers("trial", 0)]
}

pub(super) fn ms(times: Option<TimesMs>, of: fn(&TimesMs) -> Option<f64>) -> Cell {
    match times.as_ref().and_then(of) {
        Some(ms) => Quantity::lower(ms, "ms").into(),
        None => UNKNOWN.into(),
    }
}

/// A table with a row for each trial.
pub(super) fn per_trial(
    report: &KvcacheReport,
    columns: impl IntoIterator<Item = Column>,
    cells: impl Fn(&TrialResult) -> Vec<Cell>,
) -> Table {
    let mut table = Table::new(name_columns().into_iter().chain(columns));
    for trial in &report.results.trials {
        let all = name_cells(report, trial).into_iter().chain(cells(trial)).collect();
        table.row(key_of(report, trial), all);
    }
    table
}

fn rates(report: &KvcacheReport) -> Table {
    let device_share = |trial: &TrialResult| match trial.device {
        Some(device) => share(device.read_bytes, trial.read.all_bytes()),
        None => "-".into(),
    };
    let rates = |trial: &TrialResult| {
        [
            Quantity::higher(trial.read_gib_per_second, "GiB/s").into(),
            Quantity::higher(trial.write_gib_per_second, "GiB/s").into(),
            ms(trial.times_ms.read, |one| one.p95),
        ]
    };
    let of_all = [
        Column::numbers("read GiB/s", 0).leading(),
        Column::numbers("write GiB/s", 0),
        Column::numbers("read ms", 0),
    ];
    // Chunks are neither synced nor generated from.
    if report.plan.serving.is_some() {
        let own = [Column::numbers("write ms", 0), Column::numbers("device read %", 0)];
        return per_trial(report, of_all.into_iter().chain(own), |trial| {
            let own = [ms(trial.times_ms.write, |one| one.p95), device_share(trial)];
            rates(trial).into_iter().chain(own).collect()
        });
    }
    let own = [
        Column::numbers("fsync ms", 1),
        Column::numbers("persist ms", 0),
        Column::numbers(TOKENS, 2),
        Column::numbers("device read %", 3),
    ];
    per_trial(report, of_all.into_iter().chain(own), |trial| {
        let own = [
            ms(trial.times_ms.fsync, |one| one.p95),
            ms(trial.times_ms.persist, |one| one.p95),
            Quantity::higher(trial.tokens_per_second, "tokens/s").into(),
            device_share(trial),
        ];
        rates(trial).into_iter().chain(own).collect()
    })
}

/// A part of a whole in percent.
fn share(part: u64, whole: u64) -> Cell {
    match whole {
        0 => "-".into(),
        _ => Quantity::neutral(part as f64 / whole as f64 * 100.0, "%").into(),
    }
}

fn means(report: &KvcacheReport) -> Table {
    let own = [Column::words("option", 0), Column::numbers("trials", 0)];
    let tokens = Column::numbers(TOKENS, 2);
    let mut table = Table::new(own.into_iter().chain(columns_of_rates()).chain([tokens]));
    for summary in &report.results.passes {
        let pass = report.plan.passes.get(summary.pass as usize);
        let name = pass.map_or(String::new(), name_of);
        let mean = |of: MeanOfTrials, unit| {
            let spread = (summary.trials > 1).then_some(of.deviation);
            Cell::from(Quantity::higher(of.mean, unit).spread(spread))
        };
        let largest = |ms: Option<f64>| match ms {
            Some(ms) => Quantity::lower(ms, "ms").into(),
            None => UNKNOWN.into(),
        };
        let cells = vec![
            name.clone().into(),
            summary.trials.to_string().into(),
            mean(summary.read_gib_per_second, "GiB/s"),
            mean(summary.write_gib_per_second, "GiB/s"),
            largest(summary.read_p95_ms_max),
            largest(summary.fsync_p95_ms_max),
            mean(summary.tokens_per_second, "tokens/s"),
        ];
        table.row(name, cells);
    }
    table
}

/// How much of a trace was replayed, and how far behind it.
fn replayed(report: &KvcacheReport) -> Table {
    let columns = [
        Column::numbers("entries", 0),
        Column::numbers("done %", 0),
        Column::numbers("s", 0),
        Column::numbers(BEHIND[0], 1),
        Column::numbers(BEHIND[1], 0),
        Column::numbers("not there", 0),
    ];
    let trace = report.plan.trace.as_ref();
    let entries = trace.map_or(0, |trace| trace.entries);
    let mut table = per_trial(report, columns, |trial| {
        let (_, done, late) = trial.requests();
        let behind = trial.times_ms.queue_wait;
        vec![
            (done + late).to_string().into(),
            // Each host replays the whole trace.
            share(done + late, entries * trial.ranks().count() as u64),
            Quantity::neutral(trial.total_seconds, "s").into(),
            ms(behind, |one| one.p50),
            ms(behind, |one| one.p95),
            trial.lookups.own_misses.to_string().into(),
        ]
    });
    if trace.is_none_or(|trace| trace.paced_seconds().is_none()) {
        BEHIND.iter().for_each(|column| table.remove(column));
    }
    table
}

/// Requests offered and served, of the last trial of each pass by class.
fn classes(report: &KvcacheReport) -> Table {
    let mut table = Table::new([
        Column::setting("option"),
        Column::words("class", 0),
        Column::numbers("sent", 0),
        Column::numbers("served", 0),
        Column::numbers("after the window", 1),
        Column::numbers("served %", 0),
    ]);
    for (index, pass) in report.plan.passes.iter().enumerate() {
        let own = || report.results.trials.iter().filter(|trial| trial.pass as usize == index);
        let Some(last) = own().next_back() else { continue };
        for (place, class) in last.classes.iter().enumerate() {
            let of_class = || own().filter_map(|trial| trial.classes.get(place));
            let sent: u64 = of_class().map(|one| one.offered).sum();
            let served: u64 = of_class().map(|one| one.served).sum();
            let late: u64 = of_class().map(|one| one.served_late).sum();
            let cells = vec![
                name_of(pass).into(),
                class.class.name().into(),
                sent.to_string().into(),
                served.to_string().into(),
                late.to_string().into(),
                share(served, sent),
            ];
            table.row(format!("{} {}", name_of(pass), class.class), cells);
        }
    }
    table
}

fn times(report: &KvcacheReport) -> Table {
    let columns = [
        Column::words("of", 0),
        Column::numbers("count", 1),
        Column::numbers("mean", 0),
        Column::numbers("P50", 0),
        Column::numbers("P95", 0),
        Column::numbers("P99", 0),
        Column::numbers("max", 0),
    ];
    let mut table = Table::new(name_columns().into_iter().chain(columns));
    for trial in &report.results.trials {
        let times = &trial.times_ms;
        for (name, times) in [
            ("read an object", times.read),
            ("write it", times.write),
            ("fsync", times.fsync),
            ("persist: both", times.persist),
            ("wait to write", times.slot_wait),
            ("wait in queue", times.queue_wait),
            ("storage of a request", times.storage),
            ("request", times.request),
        ] {
            let Some(known) = times else { continue };
            let mut cells = name_cells(report, trial);
            cells.extend([name.into(), known.count.to_string().into()]);
            cells.push(ms(times, |one| Some(one.mean)));
            let percentiles: [fn(&TimesMs) -> Option<f64>; 3] =
                [|one| one.p50, |one| one.p95, |one| one.p99];
            cells.extend(percentiles.map(|of| ms(times, of)));
            cells.push(ms(times, |one| Some(one.max)));
            table.row(format!("{} {name}", key_of(report, trial)), cells);
        }
    }
    table
}

fn late(report: &KvcacheReport) -> Table {
    let columns = [
        Column::numbers("s", 0),
        Column::numbers("read GiB", 0),
        Column::numbers("written GiB", 0),
        Column::numbers("requests", 0),
        Column::numbers(AS_V3, 0),
    ];
    let gib = |bytes: u64| Cell::from(Quantity::neutral(bytes as f64 / GIB as f64, "GiB"));
    per_trial(report, columns, |trial| {
        let all = crate::report::gib_per_second(trial.read.all_bytes(), trial.window_seconds);
        vec![
            Quantity::neutral(trial.total_seconds - trial.window_seconds, "s").into(),
            gib(trial.read.late_bytes),
            gib(trial.written.late_bytes),
            trial.requests().2.to_string().into(),
            Quantity::higher(all, "GiB/s").into(),
        ]
    })
}

fn places(report: &KvcacheReport) -> Table {
    let columns = [
        Column::numbers("objects written", 0),
        Column::numbers("read", 0),
        Column::numbers(OTHER_TURNS, 0),
        Column::numbers(OTHER_TURNS_ABSENT, 0),
        Column::numbers("own deleted", 2),
        Column::numbers("read in memory", 3),
        Column::numbers("demoted", 3),
        Column::numbers("deleted", 2),
    ];
    let objects = |moved: &ObjectsMoved| (moved.objects + moved.late_objects).to_string().into();
    per_trial(report, columns, |trial| {
        let (lookups, evictions) = (&trial.lookups, &trial.evictions);
        vec![
            objects(&trial.written),
            objects(&trial.read),
            lookups.other_turn_hits.to_string().into(),
            lookups.other_turn_misses.to_string().into(),
            lookups.own_misses.to_string().into(),
            lookups.memory_hits.to_string().into(),
            evictions.demoted.to_string().into(),
            evictions.deleted.to_string().into(),
        ]
    })
}

/// What the run cost the host, and where bytes were.
fn cost(report: &KvcacheReport) -> Facts {
    let mut facts = Facts::default();
    for trial in &report.results.trials {
        let name = key_of(report, trial);
        if let Some(seconds) = trial.cpu_seconds_per_gib() {
            facts.add(format!("CPU, {name}"), format!("{seconds:.3} s for each GiB moved"));
        }
        if let Some(device) = trial.device {
            let moved = |of_device: u64, moved: u64| {
                format!("{} of {}", size_of(of_device), size_of(moved))
            };
            facts.add(
                format!("devices, {name}"),
                format!(
                    "read {}, wrote {}",
                    moved(device.read_bytes, trial.read.all_bytes()),
                    moved(device.written_bytes, trial.written.all_bytes())
                ),
            );
        }
        if let Some(sample) = trial.residency {
            facts.add(
                format!("page cache, {name}"),
                format!(
                    "{:.1} % of {} sampled objects before they were dropped, {:.1} % after",
                    sample.before_drop * 100.0,
                    sample.objects,
                    sample.after_drop * 100.0
                ),
            );
        }
    }
    facts.add("peak memory", size_of(report.results.peak_rss_bytes));
    facts.add(
        "CPU before the first trial",
        format!("{:.2} s to make the noise of all objects", report.results.noise_cpu_seconds),
    );
    facts
}

/// Each trial over time, and the distributions of all.
fn over_time(section: &mut Section, report: &KvcacheReport) {
    let series = report.series.iter();
    section.series = series.flat_map(|one| Series::rates(&one.name, &one.series, GIB_S)).collect();
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
        assert!(told.contains(", largest P95 of reading an object in a trial "), "{told}");
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
            trial.times_ms.persist = None;
        }
        assert_eq!(explained(&report), 1);
    }
}
