//! Every document in every output format, at common terminal widths.

use serde_json::Value;
use stormlp_checkpoint::show as checkpoint;
use stormlp_kvcache::show as kvcache;
use stormlp_matrix::show as matrix;
use stormlp_show::Shown;
use stormlp_show::document::{DetailLevel, Document};
use stormlp_show::{csv, markdown, text};
use stormlp_training::show as training;

use super::comparison;
use stormlp_core::report::ReportKind;

use super::fixtures;
use crate::any_report::{AnyReport, record_columns};

const WIDTHS: [usize; 3] = [80, 100, 200];

fn documents() -> Vec<(&'static str, Document)> {
    let mut documents = fixtures::matrix::samples();
    documents.extend(fixtures::training::samples());
    documents.extend(fixtures::checkpoint::samples());
    documents.extend(fixtures::kvcache::samples());
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
        let on_screen = document.sections.iter().filter(|one| one.place == DetailLevel::Screen);
        let rows: usize = on_screen.flat_map(|one| &one.table).map(|one| one.rows.len()).sum();
        if rows > 8 {
            continue;
        }
        seen += 1;
        let screen = text::screen(&document, 80);
        assert!(screen.lines().count() <= 21, "{name}:\n{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{name}:\n{screen}");
        let answer: String = document.headline.split_whitespace().collect();
        let text: String = screen.split_whitespace().collect();
        assert!(text.contains(&answer), "{name}:\n{screen}");
    }
    assert!(seen >= 3);
}

#[test]
fn a_screen_shows_a_remedy_whole_or_not_at_all() {
    let flat = |text: &str| text.split_whitespace().collect::<String>();
    for (name, document) in documents() {
        let screen = flat(&text::screen(&document, 80));
        let tables = document.sections.iter().flat_map(|section| &section.table);
        let footnotes = tables.flat_map(|table| &table.footnotes);
        let footnotes = footnotes.filter_map(|note| note.split_once("; "));
        let warnings = document.warnings.iter().map(|one| (&*one.fact, &*one.remedy));
        for (fact, remedy) in warnings.chain(footnotes) {
            let begins: String = flat(fact).chars().take(24).collect();
            let is_whole = screen.contains(&flat(remedy));
            assert!(is_whole || !screen.contains(&begins), "{name}: {fact}; {remedy}\n{screen}");
        }
    }
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
            // A run without tags has none.
            let known = place.starts_with('/') || *place == "tags" || !value.is_null();
            assert!(known, "{name}: {column} at {place}");
        }
    }
}

#[test]
fn a_changed_report_says_so_everywhere() {
    let report = AnyReport::from(fixtures::matrix::run_of(20.0));
    let sealed = report.sealed().unwrap();
    let read = |value: &Value| AnyReport::from_json(&value.to_string()).unwrap();
    let warned =
        |report: &AnyReport| text::render(&report.document(), None).contains("this report");
    assert!(!warned(&read(&sealed)));
    assert_eq!(sealed.as_object().unwrap().keys().next_back().unwrap(), "digest");

    let mut changed = sealed.clone();
    changed["command"] = "stormlp gds --threads 9".into();
    let changed = read(&changed);
    assert_eq!(changed.head().integrity.doubt(), Some("was changed after it was written"));
    assert!(warned(&changed));
    // Neither is it when it was written again.
    assert_eq!(read(&changed.sealed().unwrap()).head().integrity, changed.head().integrity);

    let mut bare = sealed;
    bare.as_object_mut().unwrap().remove("digest");
    let bare = read(&bare);
    assert_eq!(bare.head().integrity.doubt(), Some("has no digest"));
    assert!(warned(&bare));
    assert_eq!(bare.sealed().unwrap().get("digest"), None);
}

#[test]
fn every_metric_has_a_column() {
    for kind in ReportKind::ALL {
        let records = record_columns(kind);
        for column in stormlp_show::openmetrics::labels(kind) {
            assert!(records.contains(column), "{column} of {}", kind.name());
        }
    }
    let reports: [AnyReport; 4] = [
        fixtures::matrix::run_of(20.0).into(),
        fixtures::training::report().into(),
        fixtures::checkpoint::report(1.0).into(),
        fixtures::kvcache::report().into(),
    ];
    let shown: Vec<&dyn Shown> = reports.iter().map(|report| &**report).collect();
    let text = stormlp_show::openmetrics::render(&shown);
    let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let gauges = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), gauges, "{text}");
}
