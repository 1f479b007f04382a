//! The headline of a matrix and its system telemetry.

use stormlp_core::telemetry::{Measure, Track};

use super::*;

#[test]
fn a_headline_compares_ways_and_not_every_path() {
    let mut request = plain();
    request.paths = PathChoice::each(&[
        PathKind::Cpu,
        PathKind::Buffered,
        PathKind::CpuGpu,
        PathKind::CpuAsyncGpu,
        PathKind::PageCache,
    ]);
    let mut report = report(&request, |path, _| {
        Some(match path {
            PathKind::CpuAsyncGpu => 60.0,
            PathKind::CpuGpu => 50.0,
            PathKind::Cpu => 40.0,
            PathKind::Buffered => 30.0,
            _ => 20.0,
        })
    });
    let headline = |report: &MatrixReport| document(report, Columns::Standard).headline;
    insta::assert_snapshot!(headline(&report), @"cpu-async-gpu ran 2.00 times faster than buffered and 1.50 times faster than cpu (read of 1 MiB, 8 threads)");
    for cell in &mut report.results.cells {
        if cell.requested_path == PathKind::Buffered {
            let numbers = cell.measurement.as_mut().unwrap();
            numbers.throughput_bytes_per_second *= 100.0;
            numbers.device_read_bytes = Some(0);
        }
    }
    insta::assert_snapshot!(headline(&report), @"cpu-async-gpu ran 1.50 times faster than cpu; buffered (mostly read from memory) ran 50.0 times faster than cpu-async-gpu (read of 1 MiB, 8 threads)");
    assert_eq!(headline(&report).matches("times faster").count(), 2);
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
    for part in ["Around the run (2 cells)", "nvme0n1 busy", "in flight, sampled"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let groups = charts::charts(&report);
    let around: Vec<_> = groups.iter().filter(|group| group.folded).collect();
    let titles: Vec<&str> = around.iter().map(|group| group.title.as_str()).collect();
    let expected = [
        "Telemetry of cpu-gpu, read of 1 MiB, 8 threads, depth 1",
        "Telemetry of page-cache, read of 1 MiB, 8 threads, depth 1",
    ];
    assert_eq!(titles, expected);
    assert!(around.iter().all(|group| group.charts.len() == 2));
    // The study's table stands alone.
    let study = document(&report, Columns::StudyA);
    assert!(study.sections.iter().all(|section| !section.title.starts_with("Around")));
}
