//! Reports of format version 1, as stormlp 0.1.0 saved them.

use crate::any_report::AnyReport;
use stormlp_core::report::{Ending, FORMAT_VERSION, ReportError};

const GDS: &str = include_str!("../../../../../tests/fixtures/reports/v1/gds.json");
const TRAIN: &str = include_str!("../../../../../tests/fixtures/reports/v1/train.json");
const CHECKPOINT: &str = include_str!("../../../../../tests/fixtures/reports/v1/checkpoint.json");

#[test]
fn a_matrix_still_loads() {
    let AnyReport::Gds(report) = AnyReport::from_json(GDS).unwrap() else {
        panic!("not a matrix");
    };
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!(report.head.format_version, FORMAT_VERSION);
    assert_eq!(report.results.cells.len(), 2);
    let numbers = report.results.cells[0].result().unwrap();
    assert!(!numbers.series.interval_bytes.is_empty());
    assert!(numbers.series.interval_in_flight.is_empty());
}

#[test]
fn a_stopped_or_killed_matrix_is_marked() {
    let stopped = GDS.replace("\"stopped\":false", "\"stopped\":true");
    let AnyReport::Gds(report) = AnyReport::from_json(&stopped).unwrap() else {
        panic!("not a matrix");
    };
    assert_eq!(report.ending, Ending::Stopped);
    let mut value: serde_json::Value = serde_json::from_str(GDS).unwrap();
    value["cells"].as_array_mut().unwrap().pop();
    let AnyReport::Gds(report) = AnyReport::from_json(&value.to_string()).unwrap() else {
        panic!("not a matrix");
    };
    assert_eq!(report.ending, Ending::Unfinished);
}

#[test]
fn a_training_run_still_loads() {
    let AnyReport::Train(report) = AnyReport::from_json(TRAIN).unwrap() else {
        panic!("not a training run");
    };
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!(report.results.runs.len(), 2);
    assert_eq!(report.results.checkpoints.len(), 1);
    assert!(report.evidence_of("reads").is_some());
    assert!(report.histograms.is_empty() && report.series.is_empty());
}

#[test]
fn a_checkpoint_run_still_loads() {
    let AnyReport::Checkpoint(report) = AnyReport::from_json(CHECKPOINT).unwrap() else {
        panic!("not a checkpoint run");
    };
    assert_eq!(report.ending, Ending::Complete);
    assert_eq!(report.plan.ranks.len(), 8);
    assert_eq!(report.results.saves.len(), 1);
    assert!(report.evidence_of("saves").is_some());
    assert!(report.evidence_of("restores").is_some());
    let failed = CHECKPOINT.replace(
        r#""outcome":"done""#,
        r#""outcome":"failed","fault":"storage","error":"full","remedy":"free some space""#,
    );
    let AnyReport::Checkpoint(report) = AnyReport::from_json(&failed).unwrap() else {
        panic!("not a checkpoint run");
    };
    assert!(matches!(report.ending, Ending::Failed(note) if note.fact == "full"));
}

#[test]
fn what_was_upgraded_reads_back_as_it_is() {
    for text in [GDS, TRAIN, CHECKPOINT] {
        let report = AnyReport::from_json(text).unwrap();
        let again = serde_json::to_string(&report).unwrap();
        assert_eq!(AnyReport::from_json(&again).unwrap().to_json(), report.to_json());
    }
}

#[test]
fn newer_and_damaged_reports_are_refused() {
    let newer = GDS.replacen("\"format_version\":1", "\"format_version\":5", 1);
    let refused = AnyReport::from_json(&newer).unwrap_err();
    assert!(matches!(refused, ReportError::Newer { found: 5 }));
    let damaged = TRAIN.replacen("\"epochs\":", "\"epoch\":", 2);
    let refused = AnyReport::from_json(&damaged).unwrap_err();
    assert!(matches!(refused, ReportError::Damaged { .. }), "{refused}");
    for (text, said) in [
        ("{}", "`format_version` is missing"),
        (r#"{"format_version": 0}"#, "is not a version"),
        (r#"{"format_version": "2"}"#, "is not a version"),
        (r#"{"format_version": 1}"#, "the command that wrote it"),
        ("hello", "not valid JSON"),
    ] {
        let refused = AnyReport::from_json(text).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}
