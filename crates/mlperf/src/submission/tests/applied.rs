//! Rules as MLCommons applies them: warnings, and published results.

use serde_json::json;

use super::broken::{Case, remapping};
use super::failed;
use super::fixtures::{Builder, SYSTEM, checkpoint_leaf, checkpoints, package, run_name};
use crate::submission::tree::join;
use crate::submission::{CheckReport, FindingKind, Official, TreeVerdict};

fn warned(report: &CheckReport) -> Vec<(&str, Official)> {
    let warned = report.rules.iter().filter(|rule| rule.kind == FindingKind::Warned);
    warned.map(|rule| (rule.id, rule.official.unwrap())).collect()
}

/// Breaches that MLCommons warns of, or that only stormlp looks for.
const OF_TRAINING: &[(Official, Case)] = &[
    (
        Official::Warns,
        ("2.1.12", |b| {
            b.remove(&format!("{SYSTEM}/training/unet3d/datasize"));
        }),
    ),
    (
        Official::Warns,
        ("3.4.2", |b| {
            b.remove(&join(&run_name(1), "fs_separation.json"));
        }),
    ),
    (
        Official::Silent,
        ("2.1.19", |b| {
            b.remove(&join(&run_name(2), "5_per_epoch_stats.json"));
        }),
    ),
    // The checker asks for the file of any rank.
    (
        Official::Silent,
        ("2.1.19", |b| {
            b.remove(&join(&run_name(2), "0_output.json"));
        }),
    ),
    (
        Official::Silent,
        ("2.1.19", |b| {
            let text = b.files[&join(&run_name(2), "7_output.json")].clone();
            b.remove(&join(&run_name(2), "7_output.json"));
            b.put(&join(&run_name(2), "007_output.json"), text);
        }),
    ),
    // The checker measures from name to name.
    (
        Official::Silent,
        ("2.1.18", |b| {
            b.edit(&join(&run_name(5), "summary.json"), |s| {
                s["start"] = json!("2026-06-01T11:20:00");
                s["end"] = json!("2026-06-01T11:30:00");
            });
            for rank in 0..8 {
                let place = join(&run_name(5), &format!("{rank}_per_epoch_stats.json"));
                let text = b.files[&place].replace("T11:05", "T11:30").replace("T11:00", "T11:25");
                b.put(&place, text.replace("T10:55", "T11:20"));
            }
        }),
    ),
    // The warm-up is not scored.
    (
        Official::Silent,
        ("3.3.2", |b| {
            b.edit(&join(&run_name(0), "summary.json"), |s| {
                s["metric"]["train_au_meet_expectation"] = json!("fail");
            });
        }),
    ),
];

/// The same of checkpoints.
const OF_CHECKPOINTS: &[(Official, Case)] = &[
    // A minute lies between writes and reads.
    (
        Official::Warns,
        ("4.3.4", |b| {
            for number in 0..2 {
                b.edit(&join(&checkpoint_leaf(number), "checkpointing_x_metadata.json"), |m| {
                    m["args"]["accelerator_type"] = json!(null);
                });
            }
        }),
    ),
    (
        Official::Warns,
        ("4.4.2", |b| {
            b.remove(&join(&checkpoint_leaf(0), "fs_separation.json"));
        }),
    ),
    (
        Official::Warns,
        ("4.7.1", |b| {
            b.edit(&join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"), |m| {
                m["invocation_start_time"] = json!("2026-06-01T10:09:00Z");
            });
        }),
    ),
    (
        Official::Silent,
        ("2.1.25", |b| {
            b.remove(&join(&checkpoint_leaf(0), "7_per_epoch_stats.json"));
        }),
    ),
];

#[test]
fn what_mlcommons_only_warns_of_does_not_change_the_verdict() {
    let training = OF_TRAINING.iter().map(|case| (package as fn() -> Builder, case));
    let others = OF_CHECKPOINTS.iter().map(|case| (checkpoints as fn() -> Builder, case));
    for (whole, (official, (id, break_it))) in training.chain(others) {
        let mut builder = whole();
        break_it(&mut builder);
        let report = builder.check();
        assert_eq!(failed(&report), [], "{id}");
        assert_eq!(report.verdict, TreeVerdict::Closed, "{id}: {:?}", report.blocked_by);
        assert!(warned(&report).contains(&(id, *official)), "{id}: {:?}", warned(&report));
    }
}

#[test]
fn a_stamped_checkpoint_must_name_its_accelerator() {
    let mut builder = checkpoints();
    for number in 0..2 {
        let leaf = checkpoint_leaf(number);
        builder.edit(&join(&leaf, "checkpointing_x_metadata.json"), |metadata| {
            metadata["args"]["accelerator_type"] = json!(null);
        });
        let stamp = json!({"schema": "mlps-run-provenance/1", "rules_edition": "3.0"});
        builder.json(&join(&leaf, "provenance.json"), &stamp);
    }
    assert!(failed(&builder.check()).iter().any(|(id, _)| *id == "4.3.4"));
    let mut builder = checkpoints();
    builder.edit(&join(&checkpoint_leaf(0), "checkpointing_x_metadata.json"), |metadata| {
        metadata["args"]["accelerator_type"] = json!("h100");
    });
    assert!(failed(&builder.check()).iter().any(|(id, _)| *id == "4.3.4"));
}

#[test]
fn files_that_staff_pruned_are_there() {
    let mut builder = package();
    for number in 0..6 {
        for rank in 1..8 {
            let place = join(&run_name(number), &format!("{rank}_output.json"));
            builder.put(&place, "PRUNED BY STAFF\n");
        }
        for name in ["training_run.stdout.log", "dlio.log", "dlio_config/config.yaml"] {
            builder.put(&join(&run_name(number), name), "PRUNED BY STAFF\n");
        }
    }
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
}

#[test]
fn tables_and_marks_of_the_tools_may_lie_at_the_top() {
    let mut builder = Builder::default();
    for (path, text) in &package().files {
        // Published pools are folders of organisations.
        builder.put(&path.replace("code-images/", "acme/"), text.clone());
    }
    for name in ["mlperf-results.yaml", "results.json", "results.csv", "NOTES.md"] {
        builder.put(name, "[]");
    }
    for name in ["results.json", "results.csv"] {
        builder.put(&join("closed/acme/results", name), "[]");
    }
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
}

#[test]
fn a_run_that_writes_and_reads_passes_the_official_rule_of_remapping() {
    let mut builder = checkpoints();
    remapping(&mut builder, 60);
    builder.remove(&checkpoint_leaf(1));
    let report = builder.check();
    let rules = report.rules.iter().filter(|rule| rule.id == "4.7.3");
    let of_run: Vec<_> = rules.filter(|rule| rule.path.contains("llama3-8b")).collect();
    let found: Vec<_> = of_run.iter().map(|rule| (rule.kind, rule.official.unwrap())).collect();
    assert_eq!(found, [(FindingKind::Advice, Official::Silent)], "{of_run:#?}");
}

#[test]
fn a_single_host_is_no_matter_of_simultaneous_access() {
    for no in ["false", "no", "off", "0"] {
        let mut builder = checkpoints();
        builder.describe("multi_host: true", &format!("multi_host: {no}"));
        let report = builder.check();
        assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]), "{no}");
        assert_eq!(warned(&report), [], "{no}");
    }
}
