//! Editions and results that are not checked, and datasets that were rounded down.

use serde_json::json;

use super::fixtures::{Builder, SYSTEM, began, package, run_name, summary};
use super::{failed, ids, of_v2};
use crate::submission::TreeVerdict;
use crate::submission::tree::join;

#[test]
fn a_tree_of_v1_is_refused_once() {
    let mut builder = Builder::default();
    for run in 1..=5 {
        let leaf = format!("Closed/acme/results/fast/unet3d-h100/run{run}/n1");
        builder.json(&join(&leaf, "summary.json"), &summary(run));
        builder.put(&join(&leaf, "configs/overrides.yaml"), "- workload=unet3d_h100\n");
    }
    let report = builder.check();
    assert_eq!(report.verdict, TreeVerdict::Incomplete);
    assert_eq!(report.rules.len(), 1, "{:#?}", report.rules);
    assert!(report.rules[0].fact.contains("not checked"));
    assert_eq!(report.blocked_by, ["stormlp.edition"]);
}

#[test]
fn results_of_vector_databases_are_not_checked() {
    let mut builder = package();
    let leaf = format!("{SYSTEM}/vector_database/milvus/DISKANN/run/{}", began(0).0);
    builder.json(&join(&leaf, "summary.json"), &json!({"throughput_qps": 1000.0}));
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Incomplete, vec![]));
    assert_eq!(report.blocked_by, ["5"]);
    assert_eq!(report.results, ["training unet3d", "vector_database milvus"]);
}

#[test]
fn trees_of_v2_are_not_checked() {
    let report = of_v2("").check();
    assert_eq!((report.verdict, report.edition.as_str()), (TreeVerdict::Incomplete, "2.0"));
    assert_eq!((report.rules.len(), report.blocked_by), (1, vec!["stormlp.edition".to_string()]));
    assert!(report.rules[0].fact.contains("not checked"), "{:?}", report.rules[0]);
    // One of stormlp's, too.
    let mut builder = of_v2("");
    for number in 0..6 {
        let place = format!("training/unet3d/run/{}/summary.json", began(number).0);
        builder.edit(&place, |summary| summary["stormlp"] = json!({"profile": "v2"}));
    }
    assert_eq!(builder.check().verdict, TreeVerdict::Incomplete);
    // One that shows no edition gets no verdict.
    let mut builder = of_v2("");
    let paths: Vec<String> = builder.files.keys().cloned().collect();
    for path in paths {
        let text = builder.files[&path].replace("h100", "other");
        builder.put(&path, text);
    }
    let report = builder.check();
    assert_eq!(report.edition, "unknown");
    assert!(report.blocked_by.contains(&"stormlp.edition".to_string()));
}

#[test]
fn rules_that_are_not_checked_are_named() {
    let report = package().check();
    let omitted = report.rules.iter().filter(|rule| rule.fact.contains("does not check"));
    let ids: Vec<&str> = omitted.map(|rule| rule.id).collect();
    assert_eq!(
        ids,
        [
            "1.2", "2.1.6", "2.1.24", "3.3.1", "3.3.3", "3.3.7", "4.3.1", "CHECK", "PROV", "EDN",
            "RPT-01"
        ]
    );
}

#[test]
fn a_dataset_whose_size_was_rounded_down_is_large_enough() {
    let of_memory = |gib: f64| {
        let mut builder = package();
        builder.describe("memory_capacity: 64", "memory_capacity: 768");
        for number in 0..6 {
            builder.edit(&join(&run_name(number), "summary.json"), |summary| {
                summary["host_memory_GB"] = json!([gib]);
            });
        }
        ids(&builder)
    };
    // Five times as much are 28,000.5 files of 146,600,628 bytes, and 28,000 were used.
    assert_eq!(of_memory(764.5947), [""; 0]);
    assert_eq!(of_memory(764.65), ["3.1.2"]);
}
