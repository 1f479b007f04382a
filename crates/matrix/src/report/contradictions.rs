//! Consistency checks of a matrix report: plan index, path and results of its cells.

use crate::plan::{
    CellReport, Knee, KneePoint, MatrixReport, Measurement, MixedParts, PartOfMix, WorkerPlan,
    find_knees,
};
use stormlp_core::path::PathKind;
use stormlp_core::report::Ending;
use stormlp_core::units::GIB;
use stormlp_show::sums::{Covers, Found};

/// Contradictory figures in the report, described in words; empty for an unmodified report.
pub fn contradictions(report: &MatrixReport) -> Vec<String> {
    let mut found = Found::of(&report.head);
    check_report(&mut found, report);
    found.into_words()
}

fn check_report(found: &mut Found, report: &MatrixReport) {
    for (index, cell) in report.results.cells.iter().enumerate() {
        let place = format!("cells.{index}");
        let before = report.results.cells.iter().take(index);
        check_identity(found, report, &place, cell, before);
        if let Some(numbers) = cell.result() {
            check_path(found, &place, cell);
            check_cell(found, report, &place, cell, numbers);
        }
    }
    check_knees(found, report);
    check_shares(found, report);
}

/// Checks that each host's share is what it moved in the cells. An unfinished report has cells
/// newer than its shares.
fn check_shares(found: &mut Found, report: &MatrixReport) {
    let cells = &report.results.cells;
    let hosts = report.results.hosts.iter().enumerate();
    for (index, host) in hosts.filter(|_| report.ending != Ending::Unfinished) {
        let rows = cells.iter().flat_map(|cell| &cell.hosts);
        let own = rows.filter(|row| row.name == host.name);
        let sum = own.map(|row| row.bytes).fold(0, u64::saturating_add);
        let place = format!("hosts.{index}");
        found.hold_count(&place, "bytes", host.bytes, sum, "those of the cells");
    }
}

/// Checks that the knees match the cells.
fn check_knees(found: &mut Found, report: &MatrixReport) {
    let Some(saved) = &report.results.find_knee else {
        return;
    };
    let setting = |point: &KneePoint| (point.threads, point.queue_depth);
    let is_of = |saved: &Knee, cells: &Knee| {
        let kind = |knee: &Knee| (knee.requested_path, knee.op, knee.io_size_bytes);
        // Older versions took the larger of settings that are alike.
        let mut answers = std::iter::once(&cells.knee).chain(&cells.alike);
        kind(saved) == kind(cells) && answers.any(|answer| setting(answer) == setting(&saved.knee))
    };
    let of_cells = find_knees(report).map(|find| find.knees).unwrap_or_default();
    let pairs = saved.knees.iter().zip(&of_cells);
    if saved.knees.len() != of_cells.len() || !pairs.into_iter().all(|(a, b)| is_of(a, b)) {
        found.push("find_knee.knees do not match the cells".to_string());
    }
}

/// Checks that each cell is in the plan and unique.
fn check_identity<'a>(
    found: &mut Found,
    report: &MatrixReport,
    place: &str,
    cell: &CellReport,
    mut before: impl Iterator<Item = &'a CellReport>,
) {
    let number = cell.cell;
    if let Some(first) = before.position(|one| one.cell == number) {
        found.push(format!(
            "{place}.cell is {number}, the same as that of cells.{first}: a planned cell \
             appears twice, and counts once"
        ));
    }
    let Some(planned) = report.plan.cells.get(number) else {
        let planned = report.plan.cells.len();
        found.push(format!("{place}.cell is {number}, but {planned} were planned"));
        return;
    };
    let (repeat, of) = (u64::from(cell.repeat), u64::from(planned.repeat));
    found.hold_count(place, "repeat", repeat, of, "the plan's");
    let (asked, planned) = (cell.requested_path, planned.transport.path);
    if asked != planned {
        found.push(format!("{place}.requested_path is {asked}, but the plan has {planned}"));
    }
}

/// Checks that the reported path matches the evidence.
fn check_path(found: &mut Found, place: &str, cell: &CellReport) {
    let name = |path: Option<PathKind>| path.map_or("no path".to_string(), |path| path.to_string());
    let shown = cell.evidence.as_ref().and_then(|evidence| evidence.effective_path);
    if cell.effective_path != shown {
        let (told, shown) = (name(cell.effective_path), name(shown));
        found.push(format!("{place}.effective_path is {told}, but its evidence shows {shown}"));
    }
    if let Some(evidence) = &cell.evidence {
        found.path(&format!("{place}.requested_path"), cell.requested_path, evidence);
    }
}

fn check_cell(
    found: &mut Found,
    report: &MatrixReport,
    place: &str,
    cell: &CellReport,
    numbers: &Measurement,
) {
    let seconds = numbers.duration_seconds;
    let rate = numbers.throughput_bytes_per_second;
    let (bytes, operations) = (numbers.bytes, numbers.operations);
    if seconds > 0.0 {
        let of = "bytes and duration_seconds";
        let comes_to = bytes as f64 / seconds;
        found.hold(place, "throughput_bytes_per_second", rate, comes_to, of);
        let of = "operations and duration_seconds";
        found.hold(place, "iops", numbers.iops, operations as f64 / seconds, of);
    }
    if has_one_size(report, cell) {
        let comes_to = operations.saturating_mul(cell.io_size_bytes);
        let of = "operations of io_size_bytes";
        found.hold_count(place, "bytes", bytes, comes_to, of);
    }
    let hosts = || cell.hosts.iter();
    found.hosts(place, "bytes", bytes, hosts().map(|host| host.bytes));
    found.hosts(place, "operations", operations, hosts().map(|host| host.operations));
    check_costs(found, place, numbers);
    let untimed = report.plan.request.warmup_seconds > 0.0;
    check_ends(found, place, numbers, untimed);
    let saved = &numbers.latency_histogram;
    found.latencies(place, operations, &numbers.latency_us, saved);
    if let Some(mix) = &numbers.mix {
        check_mix(found, place, numbers, mix);
    }
    found.shape(place, &numbers.series);
    // With a warm-up, the first sample may come late.
    let covers =
        if report.plan.request.warmup_seconds > 0.0 { Covers::AtMost } else { Covers::All };
    found.intervals(place, &numbers.series, bytes, covers);
}

/// Checks that reads and writes add up to the cell.
fn check_mix(found: &mut Found, place: &str, numbers: &Measurement, mix: &MixedParts) {
    let both = [("reads", &mix.reads), ("writes", &mix.writes)];
    let sum = |of: fn(&PartOfMix) -> u64| {
        both.iter().fold(0u64, |sum, (_, part)| sum.saturating_add(of(part)))
    };
    let of = "its reads and writes";
    found.hold_count(place, "operations", numbers.operations, sum(|part| part.operations), of);
    found.hold_count(place, "bytes", numbers.bytes, sum(|part| part.bytes), of);
    for (name, part) in both {
        if let Some(latency) = &part.latency_us {
            let place = format!("{place}.mix.{name}");
            found.latencies(&place, part.operations, latency, &part.latency_histogram);
        }
    }
}

/// Checks that the threads ended with the cell; with a warm-up, not before.
fn check_ends(found: &mut Found, place: &str, numbers: &Measurement, warmed_up: bool) {
    let (seconds, last) = (numbers.duration_seconds, numbers.last_done_seconds);
    let first = numbers.first_done_seconds;
    found.hold_part(place, "first_done_seconds", first, last, "last_done_seconds");
    if warmed_up {
        found.hold_part(place, "duration_seconds", seconds, last, "last_done_seconds")
    } else {
        found.hold(place, "duration_seconds", seconds, last, "last_done_seconds")
    }
}

fn check_costs(found: &mut Found, place: &str, numbers: &Measurement) {
    if numbers.operations == 0 || numbers.bytes == 0 {
        let what = "operations and bytes";
        found.push(format!("{place} has latencies and a rate, but no {what}"));
        return;
    }
    let cpu = numbers.cpu_user_seconds + numbers.cpu_system_seconds;
    let comes_to = cpu * GIB as f64 / numbers.bytes as f64;
    let (told, of) = (numbers.cpu_seconds_per_gib, "its CPU seconds and bytes");
    found.hold(place, "cpu_seconds_per_gib", told, comes_to, of);
}

/// Whether all transfers of a cell have the same size: the last one of a part that is not a
/// multiple is shorter.
fn has_one_size(report: &MatrixReport, cell: &CellReport) -> bool {
    let planned = report.plan.cells.get(cell.cell);
    let crew = planned.and_then(|planned| report.plan.crews.get(planned.crew));
    let of_one_size = |worker: &WorkerPlan| {
        worker.io_size.is_none() && worker.length_bytes.is_multiple_of(cell.io_size_bytes)
    };
    cell.io_size_mix.is_none() && crew.is_some_and(|crew| crew.workers.iter().all(of_one_size))
}
