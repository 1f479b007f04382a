//! Every document in every output format, at common terminal widths.

use serde_json::{Value, json};
use stormlp_core::histogram::LatencyHistogram;

use stormlp_checkpoint::show as checkpoint;
use stormlp_kvcache::show as kvcache;
use stormlp_matrix::show as matrix;
use stormlp_show::document::{Document, Place};
use stormlp_show::{csv, markdown, text};
use stormlp_training::show as training;

use super::comparison;
use stormlp_core::report::ReportKind;

use crate::any_report::{AnyReport, record_columns};

const WIDTHS: [usize; 3] = [80, 100, 200];

fn documents() -> Vec<(&'static str, Document)> {
    let mut documents = matrix::fixtures::samples();
    documents.extend(training::fixtures::samples());
    documents.extend(checkpoint::fixtures::samples());
    documents.extend(kvcache::fixtures::samples());
    documents.extend(comparison::samples());
    documents
}

#[test]
fn every_document_is_drawn_as_it_was() {
    for (name, document) in documents() {
        for width in WIDTHS {
            let text = text::render(&document, Some(width));
            insta::assert_snapshot!(format!("{name}_{width}"), text);
        }
        insta::assert_snapshot!(format!("{name}_screen"), text::screen(&document, 80));
        insta::assert_snapshot!(format!("{name}_markdown"), markdown::render(&document));
        if !document.records.columns.is_empty() {
            let rows = csv::render(&document, true).unwrap();
            insta::assert_snapshot!(format!("{name}_csv"), rows);
        }
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_every_column_shows() {
    for (name, document) in documents() {
        for width in WIDTHS {
            let text = text::render(&document, Some(width));
            let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(longest.chars().count() <= width, "{name} at {width}: {longest}");
            let columns = document.sections.iter().flat_map(|section| &section.table);
            for column in columns.flat_map(|table| &table.columns) {
                let words = column.name.split(' ').all(|word| text.contains(word));
                assert!(words, "{name} at {width}: {} in\n{text}", column.name);
            }
        }
    }
}

#[test]
fn the_screen_of_up_to_eight_rows_leaves_room_for_the_report_and_the_prompt() {
    let mut seen = 0;
    for (name, document) in documents() {
        let on_screen = document.sections.iter().filter(|one| one.place == Place::Screen);
        let rows: usize = on_screen.flat_map(|one| &one.table).map(|one| one.rows.len()).sum();
        if rows > 8 {
            continue;
        }
        seen += 1;
        let screen = text::screen(&document, 80);
        assert!(screen.lines().count() <= 21, "{name}:\n{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{name}:\n{screen}");
        let answer: String = document.headline.split_whitespace().collect();
        let screen = screen.replace(document.mark.as_deref().unwrap_or("\n"), " ");
        let text: String = screen.split_whitespace().collect();
        assert!(text.contains(&answer), "{name}:\n{screen}");
    }
    assert!(seen >= 3);
}

#[test]
fn every_report_wide_column_has_a_value() {
    let documents = documents().into_iter();
    let places = [
        ("gds", &matrix::RECORDS[..]),
        ("train", &training::RECORDS[..]),
        ("checkpoint", &checkpoint::RECORDS[..]),
        ("kvcache", &kvcache::RECORDS[..]),
    ];
    for (name, document) in documents {
        let Some((_, places)) = places.iter().find(|(lane, _)| *lane == name) else {
            continue;
        };
        let row = &document.records.rows[0];
        for ((column, place), value) in places.iter().zip(row) {
            let known = place.starts_with('/') || !value.is_null();
            assert!(known, "{name}: {column} at {place}");
        }
    }
}

/// Report index, path in it, inconsistent value, and expected finding.
fn contradictions() -> Vec<(usize, &'static str, Value, &'static str)> {
    vec![
        (0, "/cells/0/iops", json!(1.0), "cells.0.iops is 1.0000"),
        (0, "/cells/0/operations", json!(3), "operations of io_size_bytes add up to"),
        (
            0,
            "/cells/0/interval_bytes",
            json!(vec![1_u64 << 30; 99]),
            "cells.0.interval_bytes add up to 106300440576 bytes",
        ),
        (
            0,
            "/cells/0/interval_device_bytes",
            json!([1, 2]),
            "cells.0.interval_device_bytes has 2 values",
        ),
        (1, "/bytes_read", json!(7), "bytes_read is 7, but those of its epochs"),
        (1, "/epochs/1/read_mib_per_second", json!(9e9), "epochs.1.read_mib_per_second"),
        (1, "/au_percent/profile", json!(99.5), "au_percent.profile is 99.5"),
        (2, "/saves/0/bytes", json!(7), "saves.0.bytes is 7"),
        (
            2,
            "/saves/1/ranks/1/gib_per_second",
            json!(70.0),
            "saves.1.ranks.1.gib_per_second is 70.0",
        ),
        (
            2,
            "/summary/save/dlio/gib_per_second/mean",
            json!(70.0),
            "summary.save.dlio.gib_per_second.mean is 70.0",
        ),
    ]
}

/// The same for cells: identity, effective path and latencies.
fn contradictions_of_cells() -> Vec<(usize, &'static str, Value, &'static str)> {
    vec![
        (
            0,
            "/cells/0/effective_path",
            json!("gds"),
            "cells.0.effective_path is gds, but its evidence shows cpu",
        ),
        (0, "/cells/0/cell", json!(99), "cells.0.cell is 99, but 1 were planned"),
        (0, "/cells/0/repeat", json!(0), "cells.0.repeat is 0"),
        (
            0,
            "/cells/0/last_done_seconds",
            json!(8.0),
            "cells.0.duration_seconds is 4.0000, but last_done_seconds add up to 8.0000",
        ),
        (
            0,
            "/cells/0/latency_us/p99",
            json!(1.0),
            "cells.0.latency p90 is 800.0000, but p99 is only 1.0000",
        ),
        (0, "/cells/0/latency_us/max", json!(1.0), "cells.0.latency mean"),
        (0, "/cells/0/cpu_seconds_per_gib", json!(0.1), "cells.0.cpu_seconds_per_gib is 0.1000"),
        (0, "/cells/0/latency_histogram", json!("AAAA"), "cells.0 has an invalid histogram"),
        (
            0,
            "/cells/0/latency_histogram",
            json!(LatencyHistogram::new().to_base64()),
            "cells.0.latencies is 20480, but the values of its histogram add up to 0",
        ),
        (0, "/ended_at", json!("2026-11-21T07:00:00Z"), "before started_at"),
    ]
}

/// The same for training and checkpoint runs: totals of parts.
fn contradictions_of_runs() -> Vec<(usize, &'static str, Value, &'static str)> {
    vec![
        (1, "/mib_per_second", json!(1.0), "mib_per_second is 1.0000"),
        (1, "/meets_threshold", json!(false), "meets_threshold is"),
        (1, "/plan/accelerators", json!(3), "plan.accelerators is 3, but the epochs are those of"),
        (
            1,
            "/epochs/0/au_percent/profile",
            json!(150.0),
            "epochs.0.au_percent.profile is 150.0000, but the blocks of its accelerators",
        ),
        (2, "/saves", json!([]), "summary.save is of checkpoints, but there are none"),
        (2, "/summary/save/checkpoints", json!(10), "summary.save.checkpoints is 10"),
        (
            2,
            "/summary/save/total_over_total_gib_per_second",
            json!(99.0),
            "total_over_total_gib_per_second is 99.0",
        ),
        (
            2,
            "/saves/0/slowest_parts/fsync_seconds",
            json!(1000.0),
            "saves.0.slowest_parts is 1001.0000",
        ),
        (2, "/elapsed_seconds", json!(0.001), "elapsed_seconds is only 0.0010"),
    ]
}

#[test]
fn host_shares_that_do_not_add_up_are_reported() {
    let findings = |report: &Value| -> String {
        let report = AnyReport::from_json(&report.to_string()).unwrap();
        report.contradictions().join("\n")
    };
    let share =
        |bytes: u64| json!({"name": "h1", "bytes": bytes, "cpu_seconds": 0.0, "slowest": 0});
    let mut gds = serde_json::to_value(AnyReport::from(matrix::fixtures::run_of(20.0))).unwrap();
    let cell = gds["cells"][0].clone();
    let bytes = cell["bytes"].as_u64().unwrap();
    let mut row = json!({"name": "h1"});
    for key in
        ["bytes", "operations", "duration_seconds", "throughput_bytes_per_second", "latency_us"]
    {
        row[key] = cell[key].clone();
    }
    row["cpu_seconds"] = json!(0.0);
    gds["cells"][0]["hosts"] = json!([row]);
    gds["hosts"] = json!([share(bytes)]);
    assert_eq!(findings(&gds), "");
    gds["hosts"] = json!([share(1)]);
    assert!(
        findings(&gds).contains("hosts.0.bytes is 1, but those of the cells"),
        "{}",
        findings(&gds)
    );
    gds["cells"][0]["hosts"][0]["bytes"] = json!(5);
    assert!(findings(&gds).contains("but its hosts' shares add up to 5"), "{}", findings(&gds));
    let checkpoint = AnyReport::from(checkpoint::fixtures::report(1.0));
    let mut checkpoint = serde_json::to_value(checkpoint).unwrap();
    checkpoint["hosts"] = json!([share(1)]);
    let findings_of = findings(&checkpoint);
    assert!(findings_of.contains("its hosts' shares add up to 1"), "{findings_of}");
    let mut train = serde_json::to_value(AnyReport::from(training::fixtures::report())).unwrap();
    train["hosts"] = json!([{"name": "h1", "accelerators": 1, "au_percent": 0.0, "bytes_read": 1,
        "slowest_steps": 0}]);
    assert!(findings(&train).contains("its hosts' shares add up to 1"), "{}", findings(&train));
}

#[test]
fn contradictory_figures_are_reported_by_place() {
    let reports = [
        matrix::fixtures::run_of(20.0).into(),
        training::fixtures::report().into(),
        checkpoint::fixtures::report(1.0).into(),
    ]
    .map(|report: AnyReport| serde_json::to_value(report).unwrap());
    let read = |report: &Value| AnyReport::from_json(&report.to_string()).unwrap();
    let all = [contradictions(), contradictions_of_cells(), contradictions_of_runs()];
    for (index, place, value, findings) in all.into_iter().flatten() {
        let report = &reports[index];
        assert_eq!(read(report).contradictions(), Vec::<String>::new());
        let mut changed = report.clone();
        *changed.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value;
        let found = read(&changed).contradictions().join("; ");
        assert!(found.contains(findings), "{place}: {found}");
        let shown = read(&changed).document().warnings.join("; ");
        assert!(shown.contains("the report contradicts itself"), "{shown}");
    }
}

#[test]
fn duplicate_cells_and_cells_without_transfers_are_found() {
    let mut report = matrix::fixtures::run_of(20.0);
    let cell = report.results.cells[0].clone();
    report.results.cells.push(cell);
    let findings = AnyReport::from(report).contradictions().join("; ");
    assert!(findings.contains("cells.1.cell is 0, the same as that of cells.0"), "{findings}");
    let mut report = matrix::fixtures::run_of(20.0);
    let numbers = report.results.cells[0].measurement.as_mut().unwrap();
    (numbers.operations, numbers.bytes) = (0, 0);
    (numbers.throughput_bytes_per_second, numbers.iops) = (0.0, 0.0);
    let findings = AnyReport::from(report).contradictions().join("; ");
    assert!(findings.contains("cells.0 has latencies and a rate, but no"), "{findings}");
}

#[test]
fn every_metric_has_a_column() {
    for kind in ReportKind::ALL {
        let records = record_columns(kind);
        for column in stormlp_show::openmetrics::columns(kind) {
            assert!(records.contains(&column), "{column} of {}", kind.name());
        }
    }
}
