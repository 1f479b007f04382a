#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_core::report::current_form;
use stormlp_matrix::report::MatrixReport;
use stormlp_show::html::{self, Sheet};
use stormlp_show::{Shown, openmetrics};
use stormlp_training::report::TrainReport;

// The section of a search, in the report of each lane that has one: whatever is read can be shown.
fuzz_target!(|text: &str| {
    let Ok(section) = serde_json::from_str::<Value>(text) else {
        return;
    };
    show::<MatrixReport>(&MATRIX, "find_knee", &section);
    show::<CheckpointReport>(&CHECKPOINT, "find_knee", &section);
    show::<TrainReport>(&TRAINING, "find_max", &section);
});

static MATRIX: LazyLock<Value> =
    LazyLock::new(|| saved(include_str!("../../tests/fixtures/reports/v2/gds-find-knee/report.json")));
static CHECKPOINT: LazyLock<Value> = LazyLock::new(|| {
    saved(include_str!("../../tests/fixtures/reports/v2/checkpoint-find-knee/report.json"))
});
static TRAINING: LazyLock<Value> =
    LazyLock::new(|| saved(include_str!("../../tests/fixtures/reports/v2/train-find-max/report.json")));

/// A saved report without what only makes it long.
fn saved(text: &str) -> Value {
    let (_, mut report) = current_form(text).expect("it was saved by this program");
    for long in ["histograms", "series"] {
        report[long] = Value::Array(Vec::new());
    }
    report
}

fn show<R: Shown + serde::de::DeserializeOwned>(saved: &Value, key: &str, section: &Value) {
    let mut value = saved.clone();
    value[key] = section.clone();
    let Ok(report) = serde_json::from_value::<R>(value) else {
        return;
    };
    let page = html::page(vec![Sheet::new(&report, report.document())]);
    assert!(!page.contains("<script") && page.ends_with("</html>\n"));
    assert!(openmetrics::render(&[&report]).ends_with("# EOF\n"));
}
