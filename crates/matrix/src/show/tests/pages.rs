//! Charts and columns of cells that differ: by memory, by too few transfers, by a mix.

use crate::plan::{MixedParts, Transfers};
use stormlp_show::chart::{Chart, Group, Plot};

use super::*;

fn chart<'a>(groups: &'a [Group], title: &str) -> &'a Chart {
    let mut charts = groups.iter().flat_map(|group| &group.charts);
    charts.find(|chart| chart.title == title).unwrap()
}

/// The names of a chart's lines, and how many points they have.
fn lines<'a>(groups: &'a [Group], title: &str) -> Vec<(&'a str, usize)> {
    let Plot::Lines(lines) = &chart(groups, title).plot else { panic!("{title} has no lines") };
    lines.lines.iter().map(|line| (&*line.name, line.points().count())).collect()
}

fn absent(groups: &[Group]) -> String {
    groups.iter().flat_map(|group| &group.absent).cloned().collect::<Vec<_>>().join("\n")
}

/// The measurements of these cells.
fn of_cells<'a>(
    report: &'a mut MatrixReport,
    is: impl Fn(&CellReport) -> bool + 'a,
) -> impl Iterator<Item = &'a mut Measurement> {
    let cells = report.results.cells.iter_mut().filter(move |cell| is(cell));
    cells.filter_map(|cell| cell.measurement.as_mut())
}

#[test]
fn charts_mark_the_cells_that_memory_served_and_no_others() {
    let mut report = sample_report();
    let is = |cell: &CellReport| {
        cell.requested_path == PathKind::PageCache && cell.io_size.max_bytes == 1 << 20
    };
    of_cells(&mut report, is).for_each(|numbers| numbers.device_read_bytes = Some(0));
    let groups = charts(&report);
    let memory = "page-cache (mostly read from memory)";
    assert_eq!(
        lines(&groups, "Throughput over I/O size"),
        [("cpu-gpu", 2), ("page-cache", 1), (memory, 1)]
    );
    assert_eq!(
        lines(&groups, "p99 latency against throughput, 1 MiB"),
        [("cpu-gpu", 2), (memory, 2)]
    );
}

#[test]
fn cells_without_a_p99_do_not_turn_it_into_a_mean() {
    let mut report = sample_report();
    let is = |cell: &CellReport| {
        cell.requested_path == PathKind::PageCache && cell.io_size.max_bytes < 1 << 20
    };
    of_cells(&mut report, is).for_each(|numbers| numbers.latency_us.p99 = None);
    let groups = charts(&report);
    assert_eq!(lines(&groups, "p99 latency over I/O size"), [("cpu-gpu", 2), ("page-cache", 1)]);
    assert!(absent(&groups).contains("No p99 of 2 of 8 cells"), "{}", absent(&groups));
    of_cells(&mut report, |_| true).for_each(|numbers| numbers.latency_us.p99 = None);
    let groups = charts(&report);
    assert_eq!(lines(&groups, "Mean latency over I/O size").len(), 2);
    assert!(absent(&groups).contains("Mean latency, since every cell"), "{}", absent(&groups));
}

#[test]
fn a_mix_shows_both_directions_and_what_storage_did_on_a_narrow_screen() {
    let mut request = plain();
    request.read_percent = Some(70);
    let mut report = report(&request, both);
    for numbers in of_cells(&mut report, |_| true) {
        let part = Transfers {
            operations: numbers.operations / 2,
            bytes: numbers.bytes / 2,
            throughput_bytes_per_second: numbers.throughput_bytes_per_second / 2.0,
            iops: numbers.iops / 2.0,
            latency_us: Some(numbers.latency_us),
            latency_histogram: String::new(),
        };
        numbers.mix = Some(MixedParts { reads: part.clone(), writes: part });
        numbers.fsync_seconds = Some(0.25);
        numbers.device_written_bytes = Some(3 * numbers.bytes);
    }
    let screen = text::screen(&document(&report), 80);
    let head = screen.lines().find(|line| line.contains("GiB/s")).unwrap();
    for column in ["read GiB/s", "write GiB/s", "device", "fsync s"] {
        assert!(head.contains(column), "{column}:\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}
