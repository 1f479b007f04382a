//! Trees that keep the rules, and trees that break them.

mod applied;
mod broken;
mod damaged;
mod fixtures;
mod newest;
mod objects;
mod published;
mod tampered;

use serde_json::json;

use self::broken::{CHECKPOINTING, TRAINING};
use self::fixtures::{Builder, SYSTEM, checkpoint_leaf, checkpoints, package, run_name, summary};
use super::tree::join;
use super::*;

fn failed(report: &CheckReport) -> Vec<(&str, &str)> {
    let failed = report.rules.iter().filter(|rule| rule.kind == FindingKind::Failed);
    failed.map(|rule| (rule.id, rule.path.as_str())).collect()
}

/// The rules that a tree breaks, each once.
fn ids(builder: &Builder) -> Vec<String> {
    let report = builder.check();
    let mut ids: Vec<String> = failed(&report).iter().map(|(id, _)| (*id).to_string()).collect();
    ids.dedup();
    ids
}

#[test]
fn an_empty_tree_has_no_run() {
    let report = Builder::default().check();
    assert_eq!(report.verdict, TreeVerdict::Invalid);
    assert_eq!(failed(&report), [("1.1", "")]);
}

#[test]
fn a_valid_package_breaks_no_rule() {
    for builder in [package(), checkpoints()] {
        let report = builder.check();
        assert_eq!(failed(&report), [], "{:#?}", report.rules);
        assert_eq!(report.verdict, TreeVerdict::Closed);
        assert_eq!((report.edition.as_str(), report.shape), ("3.0", TreeShape::Package));
    }
}

#[test]
fn every_broken_rule_is_reported() {
    let cases =
        TRAINING.iter().chain(damaged::TRAINING).map(|case| (package as fn() -> Builder, case));
    let more = CHECKPOINTING
        .iter()
        .chain(damaged::CHECKPOINTING)
        .map(|case| (checkpoints as fn() -> Builder, case));
    for (index, (whole, (id, break_it))) in cases.chain(more).enumerate() {
        let mut builder = whole();
        break_it(&mut builder);
        let report = builder.check();
        let failed = failed(&report);
        assert!(failed.iter().any(|(found, _)| found == id), "case {index}, {id}: {failed:?}");
        assert_eq!(report.verdict, TreeVerdict::Invalid);
        let broken = report.rules.iter().filter(|rule| rule.kind == FindingKind::Failed);
        assert!(broken.into_iter().all(|rule| !rule.fact.is_empty() && !rule.remedy.is_empty()));
    }
}

#[test]
fn impossible_figures_are_short_and_name_no_option() {
    for (key, value) in [
        ("num_accelerators", json!(1e308)),
        ("num_accelerators", json!(18_446_744_073_709_551_615u64)),
        ("num_files_train", json!(1e300)),
        ("host_memory_GB", json!([1e300])),
    ] {
        let mut builder = package();
        for number in 0..6 {
            let place = join(&run_name(number), "summary.json");
            builder.edit(&place, |summary| {
                summary[key] = value.clone();
                summary["metric"]["train_io_mean_MB_per_second"] = json!(1e300);
            });
        }
        let report = builder.check();
        assert_ne!(report.verdict, TreeVerdict::Closed);
        for rule in report.rules {
            if rule.kind == FindingKind::Passed {
                continue;
            }
            let is_long = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() > 19;
            let fact = &rule.fact;
            assert!(!fact.split(' ').any(is_long), "{key}: {fact}");
            assert!(!fact.contains("--") && !rule.remedy.is_empty(), "{fact}");
        }
    }
}

#[test]
fn the_edition_follows_from_files_and_an_accelerator_of_another_is_a_fault() {
    let accelerator = |builder: &mut Builder| {
        let paths: Vec<String> = builder.files.keys().cloned().collect();
        for path in &paths {
            if path.ends_with("metadata.json") {
                builder.edit(path, |file| file["args"]["accelerator_type"] = json!("h100"));
            } else if path.ends_with("overrides.yaml") {
                let text = builder.files[path].replace("b200", "h100");
                builder.put(path, text);
            }
        }
    };
    let mut builder = package();
    accelerator(&mut builder);
    let report = builder.check();
    assert_eq!(report.edition, "3.0");
    let faults: Vec<_> = report.rules.iter().filter(|rule| rule.id == "stormlp.edition").collect();
    assert_eq!(faults.len(), 8);
    assert!(faults[0].fact.contains("accelerator h100"), "{:?}", faults[0]);
    // One of stormlp's in another layout, with the profile in its mark.
    let mut builder = of_v2("");
    for number in 0..6 {
        let place = format!("training/unet3d/run/{}/summary.json", fixtures::began(number).0);
        builder.edit(&place, |summary| summary["stormlp"] = json!({"profile": "v3"}));
    }
    let report = builder.check();
    assert_eq!(report.edition, "3.0");
    assert!(report.edition_from.contains("stormlp's profile v3"), "{}", report.edition_from);
}

#[test]
fn an_unknown_verification_leaves_the_verdict_open() {
    for verdict in [json!(null), json!(5), json!("MAYBE")] {
        let mut builder = package();
        let place = join(&run_name(2), "training_x_metadata.json");
        builder.edit(&place, |metadata| metadata["verification"] = verdict);
        let report = builder.check();
        assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Incomplete, vec![]));
        assert_eq!(report.blocked_by, ["stormlp.verification"]);
    }
}

#[test]
fn a_rehearsal_never_passes_for_a_submission() {
    let mut builder = package();
    let leaves: Vec<String> =
        builder.files.keys().filter(|path| path.ends_with("metadata.json")).cloned().collect();
    for path in &leaves {
        builder.edit(path, |metadata| {
            metadata["generator"] = json!("stormlp");
            metadata["verification"] = json!("REHEARSAL");
        });
    }
    let report = builder.check();
    assert_eq!(report.verdict, TreeVerdict::Rehearsal, "{:?}", failed(&report));
    assert!(report.rehearsal.is_some());
    // One that claims to be closed, or is among real runs, breaks a rule.
    builder.edit(&leaves[3], |metadata| metadata["verification"] = json!("CLOSED"));
    assert_eq!(failed(&builder.check())[0].0, "1.1");
    let mut builder = package();
    builder.edit(&leaves[3], |metadata| metadata["generator"] = json!("stormlp"));
    assert_eq!(failed(&builder.check())[0].0, "1.1");
}

#[test]
fn systems_may_have_names_of_other_folders() {
    for name in ["code-fast", "training", "checkpointing", "run"] {
        for whole in [package(), checkpoints()] {
            let mut builder = Builder::default();
            for (path, text) in &whole.files {
                let path = path.replace("/results/fast/", &format!("/results/{name}/"));
                builder.put(&path.replace("/fast.", &format!("/{name}.")), text.clone());
            }
            builder.describe("submission_name: fast", &format!("submission_name: {name}"));
            let report = builder.check();
            assert_eq!(failed(&report), [], "{name}: {:#?}", report.rules);
            assert_eq!(report.verdict, TreeVerdict::Closed);
            assert_eq!(report.results.len(), 1);
        }
    }
}

#[test]
fn a_df_table_shows_separate_file_systems() {
    let mut builder = package();
    for number in 0..6 {
        builder.remove(&join(&run_name(number), "fs_separation.json"));
        let df = "$ df\nFilesystem 1K-blocks Used Available Use% Mounted on\n\
                  /dev/a 9 1 8 10% /\n/dev/b 9 1 8 10% /data\n\n";
        builder.put(&join(&run_name(number), "training_run.stdout.log"), df);
    }
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Closed, vec![]));
}

#[test]
fn memory_may_differ_by_what_the_kernel_keeps() {
    let mut builder = package();
    builder.edit(&join(&run_name(3), "summary.json"), |summary| {
        summary["host_memory_GB"] = json!([63.49]);
    });
    assert_eq!(failed(&builder.check()), []);
}

#[test]
fn an_open_result_may_have_any_multiple_of_a_models_ranks() {
    let open = |ranks: usize| {
        let mut builder = Builder::default();
        for (path, text) in &checkpoints().files {
            builder.put(&path.replacen("closed/", "open/", 1), text.clone());
        }
        for number in 0..2 {
            let leaf = checkpoint_leaf(number).replacen("closed/", "open/", 1);
            for name in ["summary.json", "checkpointing_x_metadata.json"] {
                builder.edit(&join(&leaf, name), |file| {
                    file["verification"] = json!("OPEN");
                    match name {
                        "summary.json" => file["num_accelerators"] = json!(ranks),
                        _ => file["args"]["num_processes"] = json!(ranks),
                    }
                });
            }
            for rank in ranks..8 {
                builder.remove(&join(&leaf, &format!("{rank}_output.json")));
                builder.remove(&join(&leaf, &format!("{rank}_per_epoch_stats.json")));
            }
        }
        builder
    };
    let report = open(6).check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Open, vec![]));
    // One copy of llama3-70b has eight ranks.
    let mut larger = Builder::default();
    for (path, text) in &open(6).files {
        larger.put(&path.replace("8b", "70b"), text.replace("8b", "70b"));
    }
    let report = larger.check();
    assert!(failed(&report).iter().any(|(id, _)| *id == "4.6.4"), "{:?}", failed(&report));
}

#[test]
fn open_parameters_make_an_open_result() {
    let mut builder = Builder::default();
    for (path, text) in &package().files {
        builder.put(&path.replacen("closed/", "open/", 1), text.clone());
    }
    let leaf = run_name(1).replacen("closed/", "open/", 1);
    let lines = "- workload=unet3d_b200\n- ++workload.framework=tensorflow\n";
    builder.put(&join(&leaf, "dlio_config/overrides.yaml"), lines);
    let report = builder.check();
    assert_eq!((report.verdict, failed(&report)), (TreeVerdict::Open, vec![]));
}

/// The runs of the package as v2.0's tool writes them, below `folder`.
fn of_v2(folder: &str) -> Builder {
    let mut builder = Builder::default();
    for (path, text) in &package().files {
        if let Some(rest) = path.strip_prefix(&format!("{SYSTEM}/")) {
            let text = text.replace("b200", "h100").replace("override_parameters", "params_dict");
            let only_v3 = ["fs_separation.json", ".mlps-code-image"];
            let is_v3 =
                only_v3.iter().any(|name| rest.ends_with(name)) || rest.contains("datasize");
            if !is_v3 {
                builder.put(&join(folder, rest), text);
            }
        }
    }
    builder
}

#[test]
fn a_run_of_dlio_alone_needs_no_package() {
    let mut alone = Builder::default();
    alone.json("2026-06-01-10-00-00/summary.json", &summary(0));
    alone.put("2026-06-01-10-00-00/.hydra/overrides.yaml", "- workload=unet3d_b200\n");
    let report = alone.check();
    assert_eq!(report.results, ["training unet3d"]);
    assert!(failed(&report).contains(&("2.1.17", "")), "{:?}", failed(&report));
}

proptest::proptest! {
    #[test]
    fn no_file_makes_a_check_panic(
        which in 0usize..64, text in "[\\[\\]{}:,\"a-z0-9 .-]{0,60}", cut in 0usize..4000,
    ) {
        let mut builder = if which % 2 == 0 { package() } else { checkpoints() };
        let paths: Vec<String> =
            builder.files.keys().filter(|path| !path.ends_with("_output.json")).cloned().collect();
        let path = &paths[which * 7 % paths.len()];
        let whole = builder.files[path].clone();
        let head: String = whole.chars().take(cut).collect();
        builder.put(path, format!("{head}{text}"));
        let _ = builder.check();
        let _ = figures::epoch_figures(&text);
        let _ = figures::epoch_times(&text);
        let _ = system_yaml::faults(&format!("{head}{text}"));
    }
}
