//! Runs on object storage.

use serde_json::{Value, json};

use super::fixtures::{Builder, package, run_name};
use super::{failed, ids};
use crate::submission::TreeVerdict;
use crate::submission::tree::join;

const METADATA: &str = "training_x_metadata.json";
const DESCRIPTION: &str = "closed/acme/systems/fast.yaml";

/// The package as if its runs had read objects: described as such.
fn objects() -> Builder {
    let mut builder = package();
    let described =
        builder.files[DESCRIPTION].replace("benchmark_API: file", "benchmark_API: object");
    builder.put(DESCRIPTION, described);
    for number in 0..6 {
        let leaf = run_name(number);
        builder.remove(&join(&leaf, "fs_separation.json"));
        builder.edit(&join(&leaf, METADATA), |metadata| {
            metadata["parameters"]["storage"] = json!({
                "storage_type": "s3", "storage_options": {"storage_library": "s3dlio"},
            });
        });
    }
    builder
}

/// The rules that fail once `file` of a run is changed.
fn changed(file: &str, change: impl Fn(&mut Value)) -> Vec<String> {
    let mut builder = objects();
    builder.edit(&join(&run_name(2), file), |value| change(value));
    ids(&builder)
}

#[test]
fn runs_on_objects_need_no_second_file_system() {
    let report = objects().check();
    assert_eq!((failed(&report), report.verdict), (vec![], TreeVerdict::Closed));
    let separate = report.rules.iter().find(|rule| rule.id == "3.4.2").unwrap();
    assert_eq!(separate.fact, "storage_type is s3, not a file system");
    let no_folder = changed(METADATA, |m| m["args"]["results_dir"] = Value::Null);
    assert_eq!(no_folder, [""; 0]);
    // Only the description says so.
    let unset = changed(METADATA, |metadata| metadata["parameters"]["storage"] = Value::Null);
    assert_eq!(unset, [""; 0]);
    let mut builder = objects();
    let described =
        builder.files[DESCRIPTION].replace("benchmark_API: object", "benchmark_API: file");
    builder.put(DESCRIPTION, described);
    assert_eq!(ids(&builder), [""; 0]);
}

#[test]
fn any_number_of_objects_may_be_requested_ahead() {
    let window = |value: Value| {
        changed(METADATA, |metadata| {
            metadata["override_parameters"]["storage.storage_options.prefetch_window"] =
                value.clone();
        })
    };
    assert_eq!(window(json!("4096")), [""; 0]);
    assert_eq!(window(json!("many")), ["3.6.2"]);
    assert_eq!(window(json!(0)), ["3.6.2"]);
}
