//! Facts that a table must show so that no figure is misleading.

use crate::plan::{Fsync, IoSize};

use super::*;
use crate::show::warnings::of_cells;

/// A report of writes through the page cache at 20 GiB and bypassing it at 10 GiB, synced as given.
fn writes(fsync: Fsync) -> MatrixReport {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Buffered, PathKind::Cpu]);
    request.ops = vec![Operation::Write];
    request.fsync = fsync;
    let mut report =
        report(&request, |path, _| Some(if path == PathKind::Buffered { 20.0 } else { 10.0 }));
    for (cell, plan) in report.results.cells.iter_mut().zip(&report.plan.cells) {
        let numbers = cell.measurement.as_mut().unwrap();
        numbers.fsync_seconds = plan.fsync.then_some(1.0);
        numbers.device_written_bytes = Some(numbers.bytes);
    }
    report
}

fn of_cell(report: &mut MatrixReport, index: usize) -> &mut Measurement {
    report.results.cells[index].measurement.as_mut().unwrap()
}

#[test]
fn a_write_that_was_not_synced_wins_against_no_direct_one() {
    let synced = writes(Fsync::Auto);
    assert!(table(&synced).contains("writes through the page cache end with one"));
    let best = headline(&synced);
    assert!(best.starts_with("buffered 5.00 GiB/s, cpu 2.50 GiB/s ("), "{best}");
    let unsynced = headline(&writes(Fsync::None));
    let ranked = "cpu 2.50 GiB/s, buffered (not synced) 5.00 GiB/s (";
    assert!(unsynced.starts_with(ranked), "{unsynced}");
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Buffered, PathKind::PageCache]);
    request.ops = vec![Operation::Write];
    request.fsync = Fsync::None;
    let both = headline(&report(&request, both));
    assert!(both.contains("buffered") && both.contains("page-cache"), "neither is synced: {both}");
}

#[test]
fn a_write_that_stayed_in_the_page_cache_is_marked_in_its_row() {
    let mut report = writes(Fsync::None);
    of_cell(&mut report, 0).device_written_bytes = Some(GIB);
    let text = table(&report);
    let row = text.lines().find(|line| line.contains("buffered   host")).unwrap();
    assert!(row.contains(" 5.00 ") && row.contains(" 5 % "), "{text}");
    assert!(text.contains("buffered (mostly written to memory) 5.00 GiB/s"), "{text}");
    let narrow = text::screen(&document(&report), 60);
    assert!(narrow.contains("device"), "{narrow}");
    of_cell(&mut report, 0).device_written_bytes = None;
    assert!(table(&report).contains("buffered (not synced) 5.00 GiB/s"));
}

#[test]
fn reads_that_came_again_have_the_share_of_the_device_in_their_row() {
    let mut report = report(&plain(), |_, _| Some(4.0));
    let numbers = of_cell(&mut report, 1);
    (numbers.bytes, numbers.device_read_bytes) = (16 * GIB, Some(4 * GIB));
    let again = table(&report);
    assert!(again.contains("cpu-gpu (mostly read from memory)"), "{again}");
    assert!(again.contains(" 25 % "), "{again}");
}

#[test]
fn a_percentile_that_rests_on_too_few_transfers_is_blank() {
    let mut report = report(&plain(), both);
    let numbers = of_cell(&mut report, 1);
    (numbers.latency_us.p99, numbers.latency_us.p999) = (None, None);
    let (text, csv) = (table(&report), rows(&report));
    let row = text.lines().find(|line| line.contains("cpu-gpu      emulated")).unwrap();
    assert!(!row.contains("1,235") && !row.contains("2,000"), "{text}");
    assert!(csv.contains(",600.5,800,,,3456.7,"), "{csv}");
}

/// A matrix of two sizes on one path, each run twice, with warnings in the cells of these indices.
fn warned(facts: &[(usize, &str)]) -> Vec<String> {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.io_sizes = vec![IoSize::fixed(4096), IoSize::fixed(1 << 20)];
    request.runs = Some(2);
    let mut report = report(&request, both);
    for (index, fact) in facts {
        let warning = Warning::new(WarningKind::TooShort, *fact, "wait longer");
        report.results.cells[*index].warnings.push(warning);
    }
    of_cells(&report).iter().map(|warning| warning.to_string()).collect()
}

#[test]
fn a_duplicate_cell_is_not_a_repetition() {
    let mut report = super::run_of(20.0);
    let once = table(&report);
    let twice = report.results.cells[0].clone();
    report.results.cells.push(twice);
    let rates = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with("cpu "));
        rows.map(str::to_string).collect::<Vec<String>>()
    };
    assert_eq!(rates(&table(&report)), rates(&once));
    assert!(!rates(&once).is_empty(), "{once}");
}

#[test]
fn a_warning_names_its_cell_and_like_ones_are_one() {
    assert_eq!(
        warned(&[(3, "it took 0.5 s")]),
        ["cpu read of 1 MiB, 8 threads, repetition 2: it took 0.5 s; wait longer"]
    );
    assert_eq!(
        warned(&[(0, "it took 0.5 s"), (2, "it took 12 s")]),
        ["cpu read of 4 KiB, 8 threads, repetition 1: it took 0.5 s (like it: cpu read of 1 MiB, \
          8 threads, repetition 1); wait longer"]
    );
    let all: Vec<(usize, &str)> = (0..4).map(|index| (index, "1 of 2 GiB")).collect();
    assert_eq!(
        warned(&all),
        ["cpu read of 4 KiB, 8 threads, repetition 1: 1 of 2 GiB (and 3 more like it); \
          wait longer"]
    );
}
