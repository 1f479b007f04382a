//! Trees that keep the rules, and trees that do not.

mod broken;
mod fixtures;

use serde_json::json;

use self::broken::{CHECKPOINTING, TRAINING};
use self::fixtures::{Builder, SYSTEM, checkpoint_leaf, checkpoints, package, run_name, summary};
use super::tree::join;
use super::*;

fn failed(report: &CheckReport) -> Vec<(&str, &str)> {
    let failed = report
        .rules
        .iter()
        .filter(|rule| rule.result == RuleResult::Failed);
    failed
        .map(|rule| (rule.id.as_str(), rule.path.as_str()))
        .collect()
}

#[test]
fn an_empty_tree_has_no_run() {
    let report = Builder::default().check();
    assert_eq!(report.verdict, Verdict::Invalid);
    assert_eq!(failed(&report), [("1.1", "")]);
}

#[test]
fn a_package_that_keeps_the_rules_breaks_none() {
    for builder in [package(), checkpoints()] {
        let report = builder.check();
        assert_eq!(failed(&report), [], "{:#?}", report.rules);
        assert_eq!(report.verdict, Verdict::Closed);
        assert_eq!(
            (report.edition, report.shape),
            (Edition::V3, Shape::Package)
        );
    }
}

#[test]
fn each_rule_that_is_broken_is_told() {
    let cases = TRAINING
        .iter()
        .map(|case| (package as fn() -> Builder, case));
    let more = CHECKPOINTING
        .iter()
        .map(|case| (checkpoints as fn() -> Builder, case));
    for (index, (whole, (id, break_it))) in cases.chain(more).enumerate() {
        let mut builder = whole();
        break_it(&mut builder);
        let report = builder.check();
        let failed = failed(&report);
        assert!(
            failed.iter().any(|(found, _)| found == id),
            "case {index}, {id}: {failed:?}"
        );
        assert_eq!(report.verdict, Verdict::Invalid);
        let told = report
            .rules
            .iter()
            .filter(|rule| rule.result == RuleResult::Failed);
        assert!(
            told.into_iter()
                .all(|rule| !rule.evidence.is_empty() && !rule.remedy.is_empty())
        );
    }
}

#[test]
fn clocks_that_differ_are_no_fault_of_the_runs() {
    let mut builder = checkpoints();
    builder.edit(
        &join(&checkpoint_leaf(1), "checkpointing_x_metadata.json"),
        |m| {
            m["invocation_start_time"] = json!("2026-06-01T10:09:00Z");
        },
    );
    let report = builder.check();
    assert_eq!(failed(&report), []);
    let order = report.rules.iter().find(|rule| rule.id == "4.7.1").unwrap();
    assert_eq!(order.result, RuleResult::NotCheckable);
    assert!(
        order.evidence.contains("clocks differ"),
        "{}",
        order.evidence
    );
}

#[test]
fn what_stormlp_made_is_a_rehearsal_and_never_passes_for_more() {
    let mut builder = package();
    let leaves: Vec<String> = builder
        .files
        .keys()
        .filter(|path| path.ends_with("metadata.json"))
        .cloned()
        .collect();
    for path in &leaves {
        builder.edit(path, |metadata| {
            metadata["generator"] = json!("stormlp");
            metadata["verification"] = json!("REHEARSAL");
        });
    }
    let report = builder.check();
    assert_eq!(report.verdict, Verdict::Rehearsal, "{:?}", failed(&report));
    assert!(report.rehearsal.is_some());
    // One that says that it is closed, or lies among real runs, breaks a rule.
    builder.edit(&leaves[3], |metadata| {
        metadata["verification"] = json!("CLOSED")
    });
    assert_eq!(failed(&builder.check())[0].0, "1.1");
    let mut builder = package();
    builder.edit(&leaves[3], |metadata| {
        metadata["generator"] = json!("stormlp")
    });
    assert_eq!(failed(&builder.check())[0].0, "1.1");
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
    assert_eq!((report.verdict, failed(&report)), (Verdict::Open, vec![]));
}

#[test]
fn a_folder_of_v2_and_one_of_dlio_alone_are_checked_without_a_package() {
    let mut builder = Builder::default();
    for (path, text) in &package().files {
        if let Some(rest) = path.strip_prefix(&format!("{SYSTEM}/")) {
            let text = text
                .replace("b200", "h100")
                .replace("override_parameters", "params_dict");
            let is_v3 = rest.ends_with("fs_separation.json") || rest.contains("datasize");
            if !is_v3 {
                builder.put(rest, text);
            }
        }
    }
    let report = builder.check();
    assert_eq!(
        (report.edition, report.shape),
        (Edition::V2, Shape::Results)
    );
    assert_eq!(failed(&report), []);
    let mut alone = Builder::default();
    alone.json("2026-06-01-10-00-00/summary.json", &summary(0));
    alone.put(
        "2026-06-01-10-00-00/.hydra/overrides.yaml",
        "- workload=unet3d_h100\n",
    );
    let report = alone.check();
    assert_eq!(report.results, ["training unet3d"]);
    assert!(
        failed(&report).contains(&("6.6", "")),
        "{:?}",
        failed(&report)
    );
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
        let _ = RankFigures::parse(&text);
        let _ = system_yaml::faults(&format!("{head}{text}"));
    }
}
