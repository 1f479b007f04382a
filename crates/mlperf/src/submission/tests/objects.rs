//! Runs on object storage, and manifests of datasets.

use serde_json::{Value, json};

use super::fixtures::{Builder, SYSTEM, package, run_name};
use super::{failed, ids};
use crate::submission::tree::join;
use crate::submission::{FindingKind, Official, TreeVerdict};

const METADATA: &str = "training_x_metadata.json";
const DESCRIPTION: &str = "closed/acme/systems/fast.yaml";

/// The package as if its runs had read objects: described, stamped, with manifests.
fn objects() -> Builder {
    let mut builder = package();
    let described =
        builder.files[DESCRIPTION].replace("benchmark_API: file", "benchmark_API: object");
    builder.put(DESCRIPTION, described);
    for number in 0..6 {
        let leaf = run_name(number);
        builder.remove(&join(&leaf, "fs_separation.json"));
        builder.edit(&join(&leaf, METADATA), |metadata| {
            metadata["datagen_manifest_file"] = json!("datagen-manifest.json");
            metadata["parameters"]["storage"] = json!({
                "storage_type": "s3", "storage_options": {"storage_library": "s3dlio"},
            });
        });
        let stamp = json!({"schema": "mlps-run-provenance/1", "rules_edition": "3.0",
            "core_config": {"algorithm": "core-config-v1", "hash": "0d3ad0dec188becd"},
            "storage_library": {"name": "s3dlio", "version": "0.9.112"}});
        builder.json(&join(&leaf, "provenance.json"), &stamp);
        let manifest = json!({"overridden": [], "manifest": {
            "schema_version": 1, "model": "unet3d", "num_files_train": 28000,
            "num_samples_per_file": 1, "record_length_bytes": 146_600_628,
            "source_datagen_result_dir": "/results/unet3d/datagen/20260601_090000/"}});
        builder.json(&join(&leaf, "datagen-manifest.json"), &manifest);
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
    assert_eq!(separate.finding.fact, "storage_type is s3, not a file system");
    let no_folder = changed(METADATA, |m| m["args"]["results_dir"] = Value::Null);
    assert_eq!(no_folder, [""; 0]);
    // Nothing but the description says so.
    let unset = changed(METADATA, |metadata| metadata["parameters"]["storage"] = Value::Null);
    assert_eq!(unset, [""; 0]);
    let mut builder = objects();
    let described =
        builder.files[DESCRIPTION].replace("benchmark_API: object", "benchmark_API: file");
    builder.put(DESCRIPTION, described);
    assert_eq!(ids(&builder), ["stormlp.agreement"]);
}

#[test]
fn the_stamp_names_the_client_of_objects() {
    let library = |library: Value| {
        changed("provenance.json", |stamp| stamp["storage_library"] = library.clone())
    };
    assert_eq!(library(json!({"name": "s3dlio", "version": "unknown"})), [""; 0]);
    for wrong in [
        json!(null),
        json!({"name": "none"}),
        json!({"name": "s3dlio"}),
        json!({"name": "minio", "version": "7.2"}),
    ] {
        assert_eq!(library(wrong), ["PROV-01"]);
    }
    // A run on files has none.
    let of_files = changed(METADATA, |metadata| {
        metadata["parameters"]["storage"]["storage_type"] = json!("local_fs");
    });
    assert!(of_files.contains(&"PROV-01".to_string()), "{of_files:?}");
}

#[test]
fn variables_of_the_client_are_declared_or_the_run_is_open() {
    let found = |report: &crate::submission::CheckReport| {
        let kinds = report.rules.iter().filter(|rule| rule.id == "1.2");
        kinds.map(|rule| rule.finding.kind).collect::<Vec<_>>()
    };
    assert_eq!(found(&objects().check()), [FindingKind::Advice; 6]);
    // Runs on files have no such variables.
    assert!(found(&package().check()).is_empty());
    let command = |metadata: &mut Value| {
        metadata["executed_command"] = json!("mpirun -x S3DLIO_RANGE_CONCURRENCY=8 dlio_benchmark");
    };
    assert_eq!(changed(METADATA, command), ["1.2"]);
    let mut builder = objects();
    builder.edit(&join(&run_name(2), METADATA), command);
    let config = "workload: {env: {S3DLIO_RANGE_CONCURRENCY: 8}}\n";
    builder.put(&join(&run_name(2), "dlio_config/config.yaml"), config);
    let report = builder.check();
    assert_eq!(failed(&report), []);
    assert_eq!(found(&report)[2], FindingKind::Passed);
    let other = changed(METADATA, |metadata| {
        metadata["executed_command"] = json!("mpirun -x S3DLIO_RANGE_CONCURRENCY_OF_MINE=8");
    });
    assert_eq!(other, [""; 0]);
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

#[test]
fn the_manifest_is_of_the_dataset_that_was_made() {
    let manifest = |key: &'static str, value: Value| {
        changed("datagen-manifest.json", |file| file["manifest"][key] = value.clone())
    };
    assert_eq!(manifest("num_files_train", json!(27_999)), ["3.3.1"]);
    assert_eq!(manifest("num_files_train", json!(28_001)), ["3.3.1"]);
    assert_eq!(manifest("num_files_train", Value::Null), ["3.3.1"]);
    assert_eq!(manifest("record_length_bytes", json!(1)), ["3.3.1"]);
    assert_eq!(manifest("model", json!("retinanet")), ["3.3.1"]);
    let other = json!("/results/unet3d/datagen/20260101_000000");
    assert_eq!(manifest("source_datagen_result_dir", other), ["3.3.1"]);
    let waived =
        changed("datagen-manifest.json", |file| file["overridden"] = json!(["MANIFEST-003"]));
    assert_eq!(waived, ["3.3.1"]);
    let mut builder = objects();
    builder.remove(&join(&run_name(2), "datagen-manifest.json"));
    assert_eq!(ids(&builder), ["3.3.1"]);
    // A stamped run that found none is only warned of.
    builder.edit(&join(&run_name(2), METADATA), |metadata| {
        metadata["datagen_manifest_file"] = Value::Null;
    });
    let report = builder.check();
    assert_eq!((failed(&report), report.verdict), (vec![], TreeVerdict::Closed));
    let warned = report.rules.iter().find(|rule| rule.id == "3.3.1").unwrap();
    assert_eq!((warned.finding.kind, warned.official), (FindingKind::Warned, Official::Warns));
    assert!(warned.finding.path.starts_with(SYSTEM));
}
