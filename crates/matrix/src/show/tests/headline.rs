//! The headline of a matrix and its system telemetry.

use crate::plan::IoSize;
use crate::report::{CellVerification, FileMismatch};
use stormlp_core::report::HostShare;
use stormlp_core::telemetry::{Measure, Track};
use stormlp_core::warning::{Warning, WarningKind};

use super::*;

#[test]
fn a_headline_compares_the_fastest_paths_and_marks_what_came_from_memory() {
    let mut request = plain();
    request.paths = PathChoice::each(&[
        PathKind::Cpu,
        PathKind::Buffered,
        PathKind::CpuGpu,
        PathKind::PageCache,
    ]);
    let mut report = report(&request, |path, _| {
        Some(match path {
            PathKind::CpuGpu => 50.0,
            PathKind::Cpu => 40.0,
            PathKind::Buffered => 30.0,
            _ => 20.0,
        })
    });
    insta::assert_snapshot!(headline(&report), @"cpu-gpu 12.5 GiB/s, cpu 10.0 GiB/s, buffered 7.50 GiB/s (read of 1 MiB, 8 threads)");
    for cell in &mut report.results.cells {
        if cell.requested_path == PathKind::Buffered {
            let numbers = cell.measurement.as_mut().unwrap();
            numbers.throughput_bytes_per_second *= 100.0;
            numbers.device_read_bytes = Some(0);
        }
    }
    // A figure from memory neither wins nor is the measure of the rest.
    insta::assert_snapshot!(headline(&report), @"cpu-gpu 12.5 GiB/s, cpu 10.0 GiB/s, page-cache 5.00 GiB/s (read of 1 MiB, 8 threads)");
}

/// Two paths with three repetitions each that differ clearly.
fn repeated() -> MatrixReport {
    let mut request = plain();
    request.runs = Some(3);
    report(&request, |path, repeat| Some(both(path, 1)? + f64::from(repeat)))
}

#[test]
fn a_ratio_needs_repetitions_and_a_quiet_machine() {
    let mut report = repeated();
    assert!(headline(&report).contains("× the throughput of"), "{}", headline(&report));
    let busy = Warning::new(WarningKind::OthersLoad, "other programs used 2.0 CPUs", "");
    report.results.cells[1].warnings.push(busy);
    assert!(!headline(&report).contains('×'), "{}", headline(&report));
    let once = super::fixtures::report(&plain(), both);
    assert!(!headline(&once).contains('×'), "{}", headline(&once));
}

#[test]
fn a_sweep_has_the_best_of_each_kind_with_its_setting() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.io_sizes = vec![IoSize::fixed(4096), IoSize::fixed(1 << 20)];
    let mut report = report(&request, |_, _| Some(4.0));
    let small = report.results.cells[0].measurement.as_mut().unwrap();
    (small.iops, small.latency_us.mean) = (90_000.0, 80.0);
    small.throughput_bytes_per_second /= 4.0;
    insta::assert_snapshot!(headline(&report), @"best 1.00 GiB/s (cpu read of 1 MiB, 8 threads); maximum 90,000 IOPS (cpu read of 4 KiB, 8 threads); lowest mean latency 80.0 µs at depth 1 (cpu read of 4 KiB, 8 threads)");
}

#[test]
fn hosts_that_hardly_measured_at_once_have_no_sum() {
    let mut report = repeated();
    let share =
        |name: &str| HostShare { name: name.to_string(), bytes: 1, cpu_seconds: 0.0, slowest: 0 };
    report.results.hosts = vec![share("a"), share("b"), share("c")];
    for cell in &mut report.results.cells {
        cell.overlap_share = Some(0.97);
    }
    let summed = headline(&report);
    assert!(summed.contains("3 processes × 8 threads"), "{summed}");
    assert!(summed.ends_with("; 3 processes at once for 97 % of the time"), "{summed}");
    report.results.cells[2].overlap_share = Some(0.62);
    let apart = headline(&report);
    assert!(
        apart.starts_with("no sum of 3 processes: they measured at once for only 62 %"),
        "{apart}"
    );
}

#[test]
fn wrong_data_are_the_answer_and_nothing_beside_them_matters() {
    let mut report = repeated();
    report.results.cells[1].verification = Some(CellVerification {
        checked_bytes: 4096,
        mismatches: vec![
            FileMismatch {
                file: "data/stormlp.1".into(),
                offset_bytes: 8192,
                expected: "ab".to_string(),
                found: "00".to_string(),
            },
            FileMismatch {
                file: "data/stormlp.1".into(),
                offset_bytes: 65536,
                expected: "cd".to_string(),
                found: "00".to_string(),
            },
        ],
    });
    let document = document(&report);
    assert_eq!(
        document.headline,
        "DATA MISMATCH data/stormlp.1 at offset 8192: read 0x00, expected 0xab; 2 bad blocks until \
         the threads stopped; also at offset 65536"
    );
    assert!(document.warnings.is_empty());
}

#[test]
fn telemetry_is_reported_and_drawn_for_the_fastest_cell_of_each_path() {
    let mut report = report(&plain(), both);
    for cell in &mut report.results.cells[1..] {
        let series = &mut cell.measurement.as_mut().unwrap().series;
        series.last_interval_seconds = Some(1.0);
        series.interval_in_flight = vec![8; 4];
        series.tracks = vec![Track {
            measure: Measure::DeviceBusyShare,
            of: "nvme0n1".to_string(),
            values: vec![0.5, 1.0, 1.0, 0.5],
        }];
    }
    let text = table(&report);
    for part in ["Around the run", "nvme0n1 busy", "in flight, sampled"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let groups = charts::charts(&report);
    let around: Vec<_> = groups.iter().filter(|group| group.is_folded).collect();
    let titles: Vec<&str> = around.iter().map(|group| group.title.as_str()).collect();
    let expected = [
        "Telemetry of cpu-gpu, read of 1 MiB, 8 threads, depth 1",
        "Telemetry of page-cache, read of 1 MiB, 8 threads, depth 1",
    ];
    assert_eq!(titles, expected);
    assert!(around.iter().all(|group| group.charts.len() == 2));
}
