//! HTML pages of small reports: snapshots, well-formedness, and escaping of untrusted text.

use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::report::{NamedSeries, Series};
use stormlp_matrix::plan::MatrixReport;

use stormlp_show::html::{Sheet, lead, page};

use super::fixtures;
use crate::any_report::AnyReport;

const NASTY: &str =
    "</style></title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}&amp;";

/// A matrix in which every cell has `different` distinct latencies.
fn with_latencies(mut matrix: MatrixReport, different: u64) -> AnyReport {
    let measured = matrix.results.cells.iter_mut();
    for numbers in measured.filter_map(|cell| cell.measurement.as_mut()) {
        let histogram = latencies(numbers.operations, different);
        numbers.latency_us = histogram.summary().unwrap();
        numbers.latency_histogram = histogram.to_base64();
    }
    matrix.into()
}

/// The same matrix with cells `times` as long.
fn longer(mut matrix: MatrixReport, times: u64) -> MatrixReport {
    let measured = matrix.results.cells.iter_mut();
    for numbers in measured.filter_map(|cell| cell.measurement.as_mut()) {
        numbers.operations *= times;
        numbers.bytes *= times;
        for seconds in [
            &mut numbers.duration_seconds,
            &mut numbers.first_done_seconds,
            &mut numbers.last_done_seconds,
            &mut numbers.cpu_user_seconds,
            &mut numbers.cpu_system_seconds,
            &mut numbers.series.interval_seconds,
        ] {
            *seconds *= times as f64;
        }
        let device = numbers.series.interval_device_bytes.iter_mut().flatten();
        let bytes = numbers.series.interval_bytes.iter_mut().chain(device);
        bytes.for_each(|bytes| *bytes *= times);
    }
    matrix
}

/// A histogram of `operations` latencies that cycle through `different` values.
fn latencies(operations: u64, different: u64) -> LatencyHistogram {
    let round = |values: u64| {
        let mut histogram = LatencyHistogram::new();
        (1..=values).for_each(|value| histogram.record_ns(value * 700));
        histogram
    };
    let mut all = round(operations % different);
    let (mut rounds, mut doubled) = (operations / different, round(different));
    while rounds > 0 {
        if rounds % 2 == 1 {
            all.merge(&doubled);
        }
        doubled.merge(&doubled.clone());
        rounds /= 2;
    }
    all
}

fn reports() -> [(&'static str, AnyReport); 3] {
    let matrix = fixtures::matrix::sample_report();
    [
        ("gds", with_latencies(matrix, 2000)),
        ("train", fixtures::training::sample_report().into()),
        ("checkpoint", fixtures::checkpoint::sample_report().into()),
    ]
}

fn sheet(report: &AnyReport) -> Sheet {
    Sheet::new(&**report, report.document())
}

/// Checks that tags are balanced, as a browser parses them.
fn is_balanced(page: &str) {
    const EMPTY: [&str; 3] = ["!DOCTYPE", "meta", "br"];
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("an end of the tag");
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if EMPTY.contains(&name) || tag.ends_with('/') => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_kind_of_report_makes_the_same_page() {
    for (name, report) in reports() {
        let page = page(vec![sheet(&report)]);
        is_balanced(&page);
        assert!(page.contains("<svg role=\"img\""), "{name}");
        // The style sheet is a separate file.
        let page = page.replace(include_str!("../../../../show/src/html/style.css"), "");
        insta::assert_snapshot!(format!("{name}_page"), page);
    }
}

#[test]
fn reports_are_side_by_side_with_titles_below_that_of_the_page() {
    let sheets = reports().iter().map(|(_, report)| sheet(report)).collect();
    let page = page(sheets);
    is_balanced(&page);
    assert_eq!(page.matches("<h1").count(), 1);
    assert_eq!(page.matches("<article>").count(), 3);
    assert!(page.contains("<h3>Machine</h3>"));
}

#[test]
fn text_from_reports_is_escaped() {
    for (name, report) in reports() {
        let mut json = serde_json::to_value(&report).unwrap();
        json["command"] = NASTY.into();
        json["host"]["hostname"] = NASTY.into();
        json["host"]["cpu_model"] = NASTY.into();
        json["tags"] = serde_json::json!({"a": NASTY});
        json["series"] = serde_json::json!([{
            "name": format!("save {NASTY}"),
            "started_seconds": 0.0,
            "interval_seconds": 0.5,
            "interval_bytes": [1, 2, 3, 4],
            "interval_in_flight": [],
            "interval_cpu_seconds": [],
        }]);
        let report = AnyReport::from_json(&json.to_string()).unwrap();
        let page = page(vec![sheet(&report)]);
        is_balanced(&page);
        for tag in ["<script", "<img", "\u{202e}"] {
            assert!(!page.contains(tag), "{name}: {tag}");
        }
        assert!(page.contains("&lt;script&gt;"), "{name}");
    }
}

#[test]
fn a_report_without_series_names_the_missing_charts() {
    let mut report = fixtures::training::sample_report();
    report.series.clear();
    report.histograms.clear();
    report.results.epochs.clear();
    let page = page(vec![sheet(&report.into())]);
    for (what, why) in [
        ("Accelerator utilisation by epoch", NO_EPOCH),
        ("Transfers in flight over time", "the report has no values of them"),
        ("Waits and reads over all", "no readable distribution"),
    ] {
        let absent = page.lines().filter(|line| line.starts_with("<li>"));
        assert!(absent.clone().any(|line| line.contains(what) && line.contains(why)), "{what}");
    }
    assert!(!page.contains("<svg"));
}

const NO_EPOCH: &str = "the report contains fewer than two epochs";

#[test]
fn large_reports_are_pages_that_a_mail_takes() {
    let full = fixtures::matrix::full_report();
    assert_eq!(full.results.cells.len(), 432);
    let page_of = |report: AnyReport| page(vec![sheet(&report)]);
    let full = with_latencies(longer(full, 10_000), 200_000);
    let full = page_of(full);
    // Every size of each operation has its percentile curves, each with all points.
    assert_eq!(full.matches(">p99.999</th>").count(), 36);
    // Each operation is drawn over sizes and under load.
    for (what, count) in [
        ("<figcaption>IOPS over I/O size<", 4),
        ("<figcaption>p99 latency against throughput, 4 KiB<", 4),
    ] {
        assert_eq!(full.matches(what).count(), count, "{what}");
    }
    assert!(full.len() < 3 << 20, "{} bytes", full.len());

    let mut hour = fixtures::training::sample_report();
    let series = Series {
        interval_seconds: 3600.0 / 1024.0,
        interval_bytes: (0..1024u64).map(|n| (n * 7919 % 1000) << 20).collect(),
        interval_device_bytes: Some((0..1024u64).map(|n| (n * 6101 % 1000) << 20).collect()),
        interval_in_flight: (0..1024).map(|n| n * 31 % 97).collect(),
        ..Series::default()
    };
    let name = "run 1".to_string();
    hour.series = vec![NamedSeries { name, series }];
    let hour = page_of(hour.into());
    assert!(hour.contains("Transfers in flight over time") && hour.contains("block devices"));
    assert!(hour.len() < 5 << 20, "{} bytes", hour.len());
}

#[test]
fn the_first_chart_stands_alone() {
    for (name, report) in reports() {
        let svg = lead(&*report).unwrap();
        assert!(svg.starts_with("<svg width=") && svg.contains("<style>"), "{name}");
        assert!(svg.contains("prefers-color-scheme:dark"));
        insta::assert_snapshot!(format!("{name}_lead"), svg);
    }
}
