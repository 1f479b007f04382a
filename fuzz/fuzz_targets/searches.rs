#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde_json::Value;
use stormlp_kvcache::report::KvcacheReport;
use stormlp_matrix::report::MatrixReport;
use stormlp_show::html::{self, Sheet};
use stormlp_show::{Shown, openmetrics};
use stormlp_training::report::TrainReport;

#[allow(dead_code)]
#[path = "../../crates/kvcache/tests/fixtures/mod.rs"]
mod kvcache;
#[allow(dead_code)]
#[path = "../../crates/matrix/tests/fixtures/mod.rs"]
mod matrix;
#[allow(dead_code)]
#[path = "../../crates/training/tests/fixtures/mod.rs"]
mod training;

// The section of a search, in the report of each lane that has one: whatever is read can be shown.
fuzz_target!(|text: &str| {
    let Ok(section) = serde_json::from_str::<Value>(text) else {
        return;
    };
    show::<MatrixReport>(&MATRIX, "find_knee", &section);
    show::<TrainReport>(&TRAINING, "find_max", &section);
    show::<KvcacheReport>(&KVCACHE, "find_max", &section);
});

static MATRIX: LazyLock<Value> = LazyLock::new(|| saved(&matrix::run_of(20.0)));
static TRAINING: LazyLock<Value> = LazyLock::new(|| saved(&training::report()));
static KVCACHE: LazyLock<Value> = LazyLock::new(|| saved(&kvcache::report()));

/// A report without the parts that only make it long.
fn saved(report: &impl Serialize) -> Value {
    let mut report = serde_json::to_value(report).expect("a report is plain data");
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
