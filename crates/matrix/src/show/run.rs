//! The report of a matrix as a document.

use crate::plan::preset::is_of_study;
use crate::plan::{
    CellReport, CellSpan, CellStatus, JobReport, MatrixPlan, MatrixReport, Measurement,
};
use serde_json::Value;
use stormlp_core::distinct::distinct;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::DeviceId;
use stormlp_core::units::{ByteSize, GIB, counted, format_duration};

use super::compare;
use super::group::{CellGroup, Rated, cut_short, groups, key_of, not_measured};
use super::{knee, mismatch, mix, objects, reach, study, warnings};
use stormlp_show::document::{Cell, Document, Estimate, Quantity, Table, ended, number, word};
use stormlp_show::numbers::percent;
use stormlp_show::records::Records;
use stormlp_show::{hosts, storage, telemetry};

/// Source of each record column: in the cell if it starts with `/`, else in the report.
pub const RECORDS: [(&str, &str); 68] = [
    ("format_version", "format_version"),
    ("started_at", "started_at"),
    ("hostname", "host/hostname"),
    ("command", "command"),
    ("requested_path", "/requested_path"),
    ("effective_path", "/effective_path"),
    ("status", "/status"),
    ("reason", "/reason"),
    ("op", "/op"),
    ("io_size_bytes", "/io_size_bytes"),
    ("threads", "/threads"),
    ("queue_depth", "/queue_depth"),
    ("repeat", "/repeat"),
    ("memory", "/memory"),
    ("memory_emulated", "/memory_emulated"),
    ("throughput_bytes_per_second", "/throughput_bytes_per_second"),
    ("iops", "/iops"),
    ("latency_us_mean", "/latency_us/mean"),
    ("latency_us_min", "/latency_us/min"),
    ("latency_us_p50", "/latency_us/p50"),
    ("latency_us_p90", "/latency_us/p90"),
    ("latency_us_p99", "/latency_us/p99"),
    ("latency_us_p999", "/latency_us/p999"),
    ("latency_us_max", "/latency_us/max"),
    ("operations", "/operations"),
    ("bytes", "/bytes"),
    ("duration_seconds", "/duration_seconds"),
    ("first_done_seconds", "/first_done_seconds"),
    ("last_done_seconds", "/last_done_seconds"),
    ("cpu_user_seconds", "/cpu_user_seconds"),
    ("cpu_system_seconds", "/cpu_system_seconds"),
    ("cpu_seconds_per_gib", "/cpu_seconds_per_gib"),
    ("page_cache_share", "/page_cache_share"),
    ("page_cache_share_after", "/page_cache_share_after"),
    ("device_read_bytes", "/device_read_bytes"),
    ("device_written_bytes", "/device_written_bytes"),
    ("engine", "/engine"),
    ("evidence", "/evidence/summary"),
    ("interrupted", "/interrupted"),
    ("is_knee", "/is_knee"),
    ("hosts", "/hosts"),
    ("fsync_seconds", "/fsync_seconds"),
    ("read_throughput_bytes_per_second", "/mix/reads/throughput_bytes_per_second"),
    ("read_iops", "/mix/reads/iops"),
    ("read_latency_us_mean", "/mix/reads/latency_us/mean"),
    ("read_latency_us_p50", "/mix/reads/latency_us/p50"),
    ("read_latency_us_p99", "/mix/reads/latency_us/p99"),
    ("read_latency_us_p999", "/mix/reads/latency_us/p999"),
    ("write_throughput_bytes_per_second", "/mix/writes/throughput_bytes_per_second"),
    ("write_iops", "/mix/writes/iops"),
    ("write_latency_us_mean", "/mix/writes/latency_us/mean"),
    ("write_latency_us_p50", "/mix/writes/latency_us/p50"),
    ("write_latency_us_p99", "/mix/writes/latency_us/p99"),
    ("write_latency_us_p999", "/mix/writes/latency_us/p999"),
    ("read_percent", "/read_percent"),
    ("first_byte_us_mean", "/evidence/object_store/first_byte/summary_us/mean"),
    ("first_byte_us_p50", "/evidence/object_store/first_byte/summary_us/p50"),
    ("first_byte_us_p99", "/evidence/object_store/first_byte/summary_us/p99"),
    ("first_byte_us_max", "/evidence/object_store/first_byte/summary_us/max"),
    ("connections", "/evidence/object_store/connections"),
    ("requests", "/evidence/object_store/requests"),
    ("retries", "/evidence/object_store/retries"),
    ("retries_after_loss", "/evidence/object_store/retries_after_loss"),
    ("sent_bytes", "/evidence/object_store/sent_bytes"),
    ("received_bytes", "/evidence/object_store/received_bytes"),
    ("checked_bytes", "/evidence/object_store/checksums/checked_bytes"),
    ("replies_without_checksum", "/evidence/object_store/checksums/responses_unverified"),
    ("tags", "tags"),
];

/// The results of a matrix: the fastest path, the settings, one row for each combination.
pub fn document(report: &MatrixReport) -> Document {
    let groups = groups(report);
    let mut document =
        Document::new(knee::headline(report).unwrap_or_else(|| headline(report, &groups)));
    // Wrong data comes first: facts about rates do not matter then.
    let wrong = mismatch::headline(report).is_some();
    facts(report, &groups, &mut document);
    let find_knee = report.results.find_knee.as_ref();
    if let Some(find) = find_knee {
        knee::sections(report, find, &mut document);
    }
    let table = standard(report, &groups);
    match find_knee {
        Some(_) => document.details("All measured cells", Some(table)),
        None => document.table(table),
    }
    .lines
    .extend(one_in_flight(report, &groups));
    if report.plan.request.preset.as_deref().is_some_and(is_of_study) {
        document.details("The study's table", Some(study::by_kind(report)));
        document.details("The study's table by throughput", Some(study::by_throughput(report)));
    }
    if let Some(table) = jobs(report) {
        document.details("Jobs", Some(table));
    }
    if let Some(table) = objects::table(&groups) {
        document.details("Requests for objects, warm-up included", Some(table));
    }
    let group = report.results.group.as_ref();
    hosts::section(&report.results.hosts, group, "cells", &mut document);
    surroundings(report, &mut document);
    if !wrong {
        document.warn(&warnings::of_cells(report));
        document.warn(&report.warnings);
    }
    let mut alone = report.clone();
    alone.results.cells.clear();
    document.records = Records::new(&alone, cells(report), &RECORDS);
    document
}

/// A hint where no cell had more than one transfer in flight.
fn one_in_flight(report: &MatrixReport, groups: &[CellGroup<'_>]) -> Option<String> {
    let mut of_storage = groups.iter().filter(|group| group.key.path != PathKind::Null).peekable();
    let is_one = of_storage.peek().is_some() && of_storage.all(|group| group.key.load() == (1, 1));
    let remedy = match report.plan.request.uses_objects() {
        true => "raise --threads or --queue-depth",
        false => "`stormlp gds --find-knee` finds it",
    };
    let is_one = is_one && report.results.hosts.len() < 2;
    is_one.then(|| format!("one transfer in flight is not the storage's maximum; {remedy}"))
}

/// The cells for the records, with the number of hosts, and in a search whether a cell belongs to a
/// knee.
fn cells(report: &MatrixReport) -> impl Iterator<Item = Value> {
    let cell = |cell: &CellReport| {
        // A cell is plain data and always serialises to JSON.
        let mut value = serde_json::to_value(cell).unwrap_or_default();
        value["hosts"] = cell.hosts.len().max(1).into();
        value["read_percent"] = report.plan.request.read_percent.into();
        if let Some(find) = &report.results.find_knee {
            value["is_knee"] = knee::is_at(find, cell).into();
        }
        value
    };
    report.results.cells.iter().map(cell)
}

/// The throughput of the fastest combination in GiB/s, as the headline ranks them.
pub(crate) fn best(report: &MatrixReport) -> Option<Estimate> {
    compare::ranked(&report.plan, &groups(report)).first()?.throughput()
}

/// The answer: wrong data before all else, then rates that may be added up over the hosts.
fn headline(report: &MatrixReport, groups: &[CellGroup<'_>]) -> String {
    let count = report.results.hosts.len();
    let hosts = hosts::processes(report.results.group.as_ref(), count);
    let answer = mismatch::headline(report).unwrap_or_else(|| match least_at_once(report) {
        Some(share) if share < hosts::SUMMED_AT_ONCE => format!(
            "no sum of {hosts}: they measured at once for only {} of the time; each one's rate is \
             under --details",
            percent(share)
        ),
        share => {
            let times = if count > 1 { format!("{hosts} × ") } else { String::new() };
            let answer = compare::answer(&report.plan, groups, &times);
            let at_once = share.map_or(String::new(), |share| {
                format!("; {hosts} at once for {} of the time", percent(share))
            });
            format!("{}{at_once}", answer.as_deref().unwrap_or("no cell of storage was measured"))
        }
    });
    format!("{answer}{}", ended(&report.ending))
}

/// The smallest share of a cell's time in which all hosts measured it.
fn least_at_once(report: &MatrixReport) -> Option<f64> {
    report.results.cells.iter().filter_map(|cell| cell.overlap_share).reduce(f64::min)
}

fn facts(report: &MatrixReport, groups: &[CellGroup<'_>], document: &mut Document) {
    let (plan, head) = (&report.plan, &report.head);
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    facts.add(
        plan.request.name.clone(),
        format!("on {} (Linux {}), {}", head.host.hostname, head.host.kernel, head.started_at),
    );
    let of_each = hosts::for_each(report.results.group.as_ref(), report.results.hosts.len());
    brief.add("files", format!("{}{of_each}", files_words(plan)));
    storage::describe(&head.host, facts);
    let span = span_words(plan);
    let engine = plan.engines_in_words();
    brief.add(
        "how",
        match plan.request.uses_objects() {
            true => format!("{span}, one request in flight on each connection"),
            false => format!("page cache {}, {span}, engine {engine}", plan.request.cache.name()),
        },
    );
    if let Some(percent) = plan.request.read_percent {
        brief.add("mix", mix::words(percent));
    }
    facts.add("memory", memory_words(report));
    facts.add("buffers", buffers_words(report));
    if let Some(words) = plan.threads_in_words() {
        facts.add("threads", words);
    }
    if let Some(words) = reach::fsync_words(plan) {
        facts.add("fsync", words);
    }
    for (path, summary) in evidence(groups) {
        facts.add(path, summary);
    }
    let counting = report.results.cells.iter().filter(|cell| cell.result().is_some());
    let checked: u64 = counting
        .filter_map(|cell| cell.verification.as_ref())
        .map(|verification| verification.checked_bytes)
        .sum();
    if checked > 0 {
        brief.add("verified", format!("{} read and compared, no mismatch", ByteSize(checked)));
    }
    let evidence = report.results.cells.iter().filter_map(|cell| cell.evidence.as_ref());
    let stores = evidence.filter_map(|evidence| evidence.object_store.as_ref());
    if let Some(words) = stormlp_show::objects::verified(stores) {
        brief.add("verified", words);
    }
}

/// How long a cell runs.
pub(super) fn span_words(plan: &MatrixPlan) -> String {
    match plan.request.span() {
        CellSpan::Seconds(seconds) => format!("{} per cell", format_duration(seconds)),
        CellSpan::Steady(most) => {
            format!("until the rate is steady, at most {} per cell", format_duration(most))
        }
        CellSpan::Passes(1) => "one pass over the files per cell".to_string(),
        CellSpan::Passes(passes) => format!("{passes} passes over the files per cell"),
    }
}

/// Files of a plan: number, size, location.
pub(super) fn files_words(plan: &MatrixPlan) -> String {
    let files = &plan.files;
    let bytes = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.bytes));
    let places: Vec<String> = match plan.folders.is_empty() {
        true => files.iter().map(|file| file.path.display().to_string()).collect(),
        false => plan.folders.iter().map(ToString::to_string).collect(),
    };
    let count = counted(files.len() as u64, "file");
    format!("{count}, {} in total, in {}", ByteSize(bytes), places.join(", "))
}

/// The memory at the end of transfers, from the cells; from the plan before any has run.
pub(crate) fn memory_words(report: &MatrixReport) -> String {
    let cells = report.results.cells.iter().filter(|c| c.requested_path.ends_in_accelerator());
    let measured = cells.filter_map(|cell| cell.measurement.as_ref());
    match distinct(measured.map(|numbers| &*numbers.memory)).as_slice() {
        [] => planned_memory(&report.plan),
        names => names.join(", "),
    }
}

/// The page types of the buffers reported by the kernel, next to the requested one.
fn buffers_words(report: &MatrixReport) -> String {
    let measured = report.results.cells.iter().filter_map(|cell| cell.measurement.as_ref());
    let found = distinct(measured.map(|numbers| numbers.buffers_backing.words()));
    let asked = report.plan.pages().name();
    match found.is_empty() {
        true => format!("{asked} pages requested"),
        false => format!("on {} ({asked} pages requested)", found.join(", ")),
    }
}

/// The planned memory at the end of transfers; names the stand-in.
pub(super) fn planned_memory(plan: &MatrixPlan) -> String {
    if !(plan.cells.iter()).any(|cell| cell.transport.path.ends_in_accelerator()) {
        return "host memory; these paths do not use accelerator memory".to_string();
    }
    let host = plan.cells.iter().find_map(|cell| cell.transport.host_memory()?.host_words());
    let words = |device: &DeviceId| match (device, host) {
        (DeviceId::Host, _) => "host memory (emulated)".to_string(),
        (DeviceId::Gpu { .. }, Some(host)) => format!("{host} for {device}"),
        (DeviceId::Gpu { .. }, None) => device.to_string(),
    };
    plan.devices.iter().map(words).collect::<Vec<_>>().join(", ")
}

fn standard<'a>(report: &'a MatrixReport, groups: &'a [CellGroup<'a>]) -> Table {
    let plan = &report.plan;
    let results = || groups.iter().flat_map(CellGroup::results);
    let synced = results().any(|numbers| numbers.fsync_seconds.is_some());
    let mixed = results().any(|numbers| numbers.mix.is_some());
    // Latencies of both directions together answer no question: each direction's stand next to
    // them.
    let (both, cost) = if mixed { (6, 3) } else { (0, 1) };
    // The bytes that storage moved are shown wherever they differ from the row's.
    let device = match groups.iter().all(|group| reach::is_all_of_storage(plan, group)) {
        true => 2,
        false => 0,
    };
    // Small transfers are about operations and latencies: these stay where columns are left out.
    let is_small = groups.iter().all(|group| group.key.io_size.is_small());
    // Not at 0: with many settings the table would break numbers at 80 columns.
    let [iops, tail, cpu] = if is_small { [1, 3, 4] } else { [4, 8, cost] };
    let mut notes = Table::default();
    let rows: Vec<Rated<'_>> =
        groups.iter().map(|group| (group, rate(group, &mut notes))).collect();
    let us = |of: fn(&Measurement) -> Option<f64>| {
        move |(group, _): &Rated<'_>| group.known(of).map(|us| Quantity::lower(us, "µs"))
    };
    let has_results = |group: &CellGroup<'_>| group.throughput().is_some();
    let mut columns = vec![
        word("path", 0, |(group, _): &Rated<'_>| group.path_words()).setting(),
        word("memory", 0, |(group, _): &Rated<'_>| memory_column(group, plan)).setting(),
        word("op", 0, |(group, _): &Rated<'_>| group.key.operation()).setting(),
        word("I/O", 0, |(group, _): &Rated<'_>| group.key.io_size.words()).setting(),
        number("threads", 0, |(group, _): &Rated<'_>| group.key.threads).setting(),
        number("depth", 0, |(group, _): &Rated<'_>| group.key.queue_depth).setting(),
        number("GiB/s", 0, |(_, rate): &Rated<'_>| rate.clone()).leading(),
        word("slowest host", 1, |(group, _): &Rated<'_>| slowest_host(group))
            .when(report.results.hosts.len() > 1),
        number("IOPS", iops, |(group, _): &Rated<'_>| {
            group.known(|m| Some(m.iops)).map(|iops| Quantity::higher(iops, "IOPS"))
        }),
        number("mean µs", 2 + both, us(|m| Some(m.latency_us.mean))),
        number("p50 µs", 5 + both, us(|m| m.latency_us.p50)),
        number("p99 µs", 1 + both, us(|m| m.latency_us.p99)),
        number("p99.9 µs", tail + both, us(|m| m.latency_us.p999)),
        number("max µs", 9 + both, us(|m| Some(m.latency_us.max))),
        number("CPU s/GiB", cpu, |(group, _): &Rated<'_>| {
            let cost = group.known(|m| Some(m.cpu_seconds_per_gib));
            cost.map(|cost| Quantity::lower(cost, "s/GiB"))
        }),
        word("device", device, move |(group, _): &Rated<'_>| {
            has_results(group).then(|| reach::device_share(plan, group))
        }),
        word("cached", 3, |(group, _): &Rated<'_>| cached(group)),
        number("fsync s", 0, |(group, _): &Rated<'_>| {
            group.known(|m| m.fsync_seconds).map(|seconds| Quantity::lower(seconds, "s"))
        })
        .when(synced),
    ];
    columns.extend(mix::columns().map(|column| column.when(mixed)));
    let table = Table::of(rows, |(group, _)| group.key.name(), columns);
    Table { footnotes: notes.footnotes, ..table }
}

/// The throughput of a group with the marks of its footnotes, or the reason that it has none.
fn rate(group: &CellGroup<'_>, notes: &mut Table) -> Cell {
    let Some(throughput) = group.throughput() else {
        return missing(group, notes).into();
    };
    let mut marks: Vec<String> = Vec::new();
    if (group.cells.iter()).any(|cell| cell.status == CellStatus::Failed) {
        marks.push(missing(group, notes));
    }
    let cut_short = group.results().into_iter().filter_map(cut_short);
    marks.extend(cut_short.map(|text| notes.footnote(text)));
    let rate = Quantity::higher(throughput.value, "GiB/s").spread(throughput.spread);
    Cell::Number(rate, marks.join(" "))
}

/// The memory at the end of a path.
fn memory_column(group: &CellGroup<'_>, plan: &MatrixPlan) -> &'static str {
    let planned = group.cells.first().and_then(|cell| plan.cells.get(cell.cell));
    let host = planned.and_then(|cell| cell.transport.host_memory());
    match group.results().first() {
        _ if !group.key.path.ends_in_accelerator() => "host",
        Some(numbers) if numbers.memory_emulated => "emulated",
        Some(_) => host.map_or("device", MemoryKind::name),
        None => "",
    }
}

/// The slowest host of the slowest repetition, with its rate in GiB/s.
fn slowest_host(group: &CellGroup<'_>) -> String {
    let hosts = group.cells.iter().filter_map(|cell| warnings::slowest_host(cell));
    let slowest = hosts.min_by(|a, b| a.rate.total_cmp(&b.rate));
    slowest.map_or(String::new(), |host| format!("{}, {:.2}", host.name, host.rate))
}

/// Share of the files in the page cache before and after the cell.
fn cached(group: &CellGroup<'_>) -> String {
    let results = group.results();
    let Some(numbers) = results.first() else {
        return String::new();
    };
    match (numbers.page_cache_share, numbers.page_cache_share_after) {
        (Some(before), Some(after)) => format!("{} → {}", percent(before), percent(after)),
        _ => "-".to_string(),
    }
}

/// Placeholder for an unmeasured figure, with a footnote giving the reason.
fn missing(group: &CellGroup<'_>, table: &mut Table) -> String {
    let broken = |cell: &&&CellReport| cell.status != CellStatus::Ok;
    match group.cells.iter().find(broken) {
        Some(cell) => not_measured(cell, table),
        None => "n/a".to_string(),
    }
}

/// Evidence of the paths that ran, each item once.
fn evidence(groups: &[CellGroup<'_>]) -> Vec<(String, String)> {
    let proofs = groups.iter().flat_map(|group| {
        let ran = group.cells.iter().filter(|cell| cell.result().is_some());
        let evidence = ran.filter_map(|cell| cell.evidence.as_ref());
        evidence.map(|evidence| (group.path_words(), evidence.summary.clone()))
    });
    distinct(proofs)
}

/// Summary of system telemetry over all cells.
fn surroundings(report: &MatrixReport, document: &mut Document) {
    let measured =
        report.results.cells.iter().filter_map(|cell| Some(&cell.measurement.as_ref()?.series));
    telemetry::section(document, telemetry::TITLE, measured);
}

/// A cell and one of its jobs.
type OfJob<'a> = (&'a CellReport, &'a JobReport);

/// One row for each job of each cell; `None` if no cell has several jobs.
fn jobs(report: &MatrixReport) -> Option<Table> {
    let cells = report.results.cells.iter();
    let rows = cells.flat_map(|cell| {
        let jobs = cell.result().map_or(&[][..], |numbers| &numbers.jobs);
        jobs.iter().map(move |job| (cell, job))
    });
    let columns = vec![
        word("job", 0, |(_, job): &OfJob<'_>| job.name.clone()),
        word("path", 0, |(cell, _): &OfJob<'_>| cell.requested_path.name()),
        word("op", 0, |(cell, _): &OfJob<'_>| key_of(report, cell).operation()),
        word("I/O", 0, |(cell, _): &OfJob<'_>| cell.io_size.words()),
        number("threads", 0, |(_, job): &OfJob<'_>| job.threads),
        number("repeat", 4, |(cell, _): &OfJob<'_>| cell.repeat),
        number("GiB/s", 0, |(_, job): &OfJob<'_>| {
            Quantity::higher(job.transfers.throughput_bytes_per_second / GIB as f64, "GiB/s")
        }),
        number("mean µs", 1, |(_, job): &OfJob<'_>| {
            let latency = job.transfers.latency_us;
            latency.map_or("-".into(), |us| Cell::from(Quantity::lower(us.mean, "µs")))
        }),
        number("operations", 3, |(_, job): &OfJob<'_>| job.transfers.operations),
        number("seconds", 2, |(_, job): &OfJob<'_>| format!("{:.3}", job.duration_seconds)),
    ];
    let key = |(cell, job): &OfJob<'_>| {
        format!("{}, {}, {}", job.name, key_of(report, cell).name(), cell.repeat)
    };
    let table = Table::of(rows, key, columns);
    (!table.rows.is_empty()).then_some(table)
}
