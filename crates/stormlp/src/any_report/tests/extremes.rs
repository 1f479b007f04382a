//! Saved reports with numbers that no run writes: each is shown or refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use stormlp_show::html::Sheet;
use stormlp_show::{Shown, csv, html, markdown, openmetrics, series_csv, text};

use super::fixtures;
use crate::any_report::AnyReport;

/// The places of numbers and of lists in a report, of long lists only in the first elements.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(at.to_string()),
        Value::Array(all) => {
            found.push(at.to_string());
            let first = all.iter().enumerate().take(2);
            first.for_each(|(nth, one)| places(one, &format!("{at}/{nth}"), found));
        }
        Value::Object(all) => {
            all.iter().for_each(|(key, one)| {
                places(one, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            });
        }
        _ => {}
    }
}

fn show(report: &AnyReport) {
    let document = report.document();
    let _ = (text::render(&document, Some(80)), text::screen(&document, 80));
    let _ = (markdown::render(&document), csv::render(&document, true));
    let shown: &dyn Shown = &**report;
    let _ = (openmetrics::render(&[shown]), series_csv::render(shown));
    let _ = html::page(vec![Sheet::new(shown, document)]);
}

/// Every `step`th place with every extreme value.
fn each(step: usize) {
    let reports: [AnyReport; 4] = [
        fixtures::matrix::run_of(20.0).into(),
        fixtures::training::report().into(),
        fixtures::checkpoint::report(1.0).into(),
        fixtures::kvcache::report().into(),
    ];
    let extremes =
        [json!(0), json!(-1), json!(1u64 << 32), json!(u64::MAX), json!(1e300), json!([])];
    let mut wrong = Vec::new();
    for report in reports {
        let value = serde_json::to_value(report).unwrap();
        let mut found = Vec::new();
        places(&value, "", &mut found);
        for (place, extreme) in found
            .iter()
            .step_by(step)
            .flat_map(|place| extremes.iter().map(move |extreme| (place, extreme)))
        {
            let mut other = value.clone();
            *other.pointer_mut(place).unwrap() = extreme.clone();
            let Ok(report) = AnyReport::from_json(&other.to_string()) else { continue };
            if catch_unwind(AssertUnwindSafe(|| show(&report))).is_err() {
                wrong.push(format!("{} {place} = {extreme}", value["kind"]));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_sample_of_numbers_that_no_run_writes_is_shown_or_refused() {
    each(23);
}

#[test]
#[ignore = "every number of four reports takes minutes"]
fn every_number_that_no_run_writes_is_shown_or_refused() {
    each(1);
}
