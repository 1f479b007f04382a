//! The newest rules: editions and classes, tables, vector databases, and trees that are too old.

use serde_json::{Value, json};

use super::fixtures::{Builder, SYSTEM, began, package, run_name, summary};
use super::{failed, ids};
use crate::submission::tree::join;
use crate::submission::{FindingKind, TreeVerdict};

/// The package with stamps in its runs, changed by `change`.
fn stamped(change: impl Fn(&mut Value)) -> Builder {
    let mut builder = package();
    for number in 0..6 {
        let mut stamp = json!({"schema": "mlps-run-provenance/1", "rules_edition": "3.0",
            "core_config": {"algorithm": "core-config-v1", "hash": "0d3ad0dec188becd"},
            "dlio": {"commit": "edaf4bb3d6343ef2fb6b9f6dbafa6102032ae8bf"}});
        change(&mut stamp);
        builder.json(&join(&run_name(number), "provenance.json"), &stamp);
    }
    builder
}

#[test]
fn stamps_declare_a_known_edition_and_a_class() {
    let report = stamped(|_| {}).check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
    let class = report.rules.iter().find(|rule| rule.id == "EDN-02").unwrap();
    // The parameters in the fixture are not all of the workload's.
    assert_eq!(class.finding.kind, FindingKind::Warned);
    let class =
        |hash: &'static str| move |stamp: &mut Value| stamp["core_config"]["hash"] = json!(hash);
    assert_eq!(ids(&stamped(class("0123456789abcdef"))), ["EDN-02"]);
    // A class of another edition.
    assert_eq!(ids(&stamped(class("f4d46006aa421634"))), ["EDN-02"]);
    // Families without a list have no hash.
    assert_eq!(ids(&stamped(class("unknown"))), [""; 0]);
    let edition =
        |name: &'static str| move |stamp: &mut Value| stamp["rules_edition"] = json!(name);
    assert_eq!(ids(&stamped(edition("9.9"))), ["EDN-01"]);
    let found = ids(&stamped(edition("1.0")));
    assert!(found.contains(&"EDN-04".to_string()), "{found:?}");
    let report = stamped(|stamp| stamp["dlio"]["commit"] = json!("0123456789")).check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
    let dlio = report.rules.iter().find(|rule| rule.id == "EDN-03").unwrap();
    assert_eq!(dlio.finding.kind, FindingKind::Warned);
}

#[test]
fn an_organisations_table_has_the_rows_of_its_workloads() {
    let row = |id: &str| {
        json!([{"Public ID": id, "Benchmark Type": "training", "Model": "Unet3D",
        "Training - Accelerator Type": "b200", "Training - # Simulated Accelerators": 8,
        "Training - Read B/W (GiB/s)": super::fixtures::MIB_PER_SECOND / 1024.0}])
    };
    let mut builder = package();
    builder.json(&format!("{SYSTEM}/training/unet3d/run/results.json"), &row("v3.0-0001"));
    builder.json("closed/acme/results/results.json", &row("v3.0-0001"));
    assert_eq!(ids(&builder), [""; 0]);
    builder.json("closed/acme/results/results.json", &row("v3.0-0002"));
    assert_eq!(ids(&builder), ["RPT-01"]);
}

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
    assert!(report.rules[0].finding.fact.contains("edition not supported"));
    assert_eq!(report.held_up_by, ["stormlp.edition"]);
}

const VECTORS: &str = "closed/acme/results/fast/vector_database/milvus/DISKANN";

/// A vector database's result: datagen and five runs.
fn vectors() -> Builder {
    let mut builder = package();
    builder.remove(&format!("{SYSTEM}/training"));
    let metadata = json!({"args": {"storage_root": "/data", "results_dir": "/results"}});
    let load = join(VECTORS, "datagen/20260601_090000");
    builder.json(&join(&load, "vector_database_20260601_090000_metadata.json"), &metadata);
    let loaded = json!({"num_vectors": 1000, "inserted_vectors": 1000, "dimension": 1536,
        "index_type": "DISKANN"});
    builder.json(&join(&load, "summary.json"), &loaded);
    for number in 0..5 {
        let name = began(number).0;
        let leaf = join(VECTORS, &format!("run/{name}"));
        builder.json(&join(&leaf, &format!("vector_database_{name}_metadata.json")), &metadata);
        let summary = json!({"num_vectors": 1000, "dimension": 1536, "index_type": "DISKANN",
            "recall": {"mean_recall": 0.97}, "throughput_qps": 1000.0, "mean_latency_ms": 1.0,
            "p95_latency_ms": 2.0, "p99_latency_ms": 3.0, "p999_latency_ms": 4.0});
        builder.json(&join(&leaf, "summary.json"), &summary);
        let truth = json!({"flat_setup": {"ok": true, "coverage": 1.0}});
        builder.json(&join(&leaf, "result_verdict.json"), &truth);
    }
    builder.point();
    builder
}

#[test]
fn vector_databases_are_checked() {
    let report = vectors().check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
    assert_eq!(report.results, ["vector_database milvus"]);
    let leaf = join(VECTORS, &format!("run/{}", began(2).0));
    let edited = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut builder = vectors();
        builder.edit(&join(&leaf, name), |file| change(file));
        ids(&builder)
    };
    assert_eq!(edited("summary.json", &|s| s["p99_latency_ms"] = json!(null)), ["5.3.4"]);
    assert_eq!(edited("summary.json", &|s| s["dimension"] = json!(768)), ["5.1.2"]);
    assert_eq!(edited("summary.json", &|s| s["recall"] = json!({"max_recall": 0.0})), ["5.3.2"]);
    let partial = |v: &mut Value| v["flat_setup"]["coverage"] = json!(0.9);
    assert_eq!(edited("result_verdict.json", &partial), ["5.3.2"]);
    let flat = edited("summary.json", &|s| s["index_type"] = json!("FLAT"));
    assert!(flat.contains(&"5.6.2".to_string()), "{flat:?}");
    let mut builder = vectors();
    builder.remove(&leaf);
    assert_eq!(ids(&builder), ["5.3.1"]);
    let mut builder = vectors();
    builder.edit(&join(VECTORS, "datagen/20260601_090000/summary.json"), |load| {
        load["inserted_vectors"] = json!(900);
    });
    assert_eq!(ids(&builder), ["5.2.1"]);
    // Published results have neither these files nor a stamp.
    let mut builder = vectors();
    builder.remove(&join(&leaf, "result_verdict.json"));
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
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
