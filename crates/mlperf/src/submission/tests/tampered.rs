//! Figures that someone changed.

use serde_json::{Value, json};

use super::failed;
use super::fixtures::{Builder, package, run_name};
use crate::submission::TreeVerdict;
use crate::submission::tree::join;

/// AU of an epoch with a block of 300 s.
const TRUE_AU: f64 = 89.6;
const FIRST_STEP: f64 = 2.0;
const STEPS: usize = 500;

/// Sets AU of both epochs in every summary, with its flag.
fn set_summaries(builder: &mut Builder, au: f64, flag: &str) {
    let change = |metric: &mut Value| {
        metric["train_au_percentage"] = json!([au, au]);
        metric["train_au_mean_percentage"] = json!(au);
        metric["train_au_meet_expectation"] = json!(flag);
    };
    for number in 0..6 {
        let place = join(&run_name(number), "summary.json");
        builder.edit(&place, |summary| change(&mut summary["metric"]));
    }
}

/// Sets AU of both epochs in the ranks' files.
fn set_ranks(builder: &mut Builder, au: f64) {
    for number in 0..6 {
        for rank in 0..8 {
            let place = join(&run_name(number), &format!("{rank}_output.json"));
            builder.edit(&place, |output| {
                output["1"]["au"]["block1"] = json!(au);
                output["2"]["au"]["block1"] = json!(au);
            });
        }
    }
}

/// The package with AU of 89.6 %, and the times of its steps.
fn slow() -> Builder {
    let mut builder = package();
    let compute = TRUE_AU / 100.0 * (300.0 - FIRST_STEP) / (STEPS - 1) as f64;
    for number in 0..6 {
        for rank in 0..8 {
            let place = join(&run_name(number), &format!("{rank}_output.json"));
            builder.edit(&place, |output| {
                for epoch in ["1", "2"] {
                    let mut proc = vec![0.2; STEPS];
                    proc[0] = FIRST_STEP;
                    output[epoch]["compute"] = json!({"block1": vec![compute; STEPS]});
                    output[epoch]["proc"] = json!({ "block1": proc });
                }
            });
            let place = join(&run_name(number), &format!("{rank}_per_epoch_stats.json"));
            builder.edit(&place, |stats| {
                for epoch in ["1", "2"] {
                    let (start, end) = (stats[epoch]["start"].clone(), stats[epoch]["end"].clone());
                    stats[epoch]["block1"] =
                        json!({"start": start, "end": end, "duration": "300.00"});
                }
            });
        }
    }
    set_ranks(&mut builder, TRUE_AU);
    set_summaries(&mut builder, TRUE_AU, "fail");
    builder
}

#[test]
fn a_true_au_below_the_threshold_fails_whatever_is_edited() {
    let ids = |builder: &Builder| -> Vec<String> {
        let report = builder.check();
        assert_eq!(report.verdict, TreeVerdict::Invalid);
        failed(&report).iter().map(|(id, _)| (*id).to_string()).collect()
    };
    let mut builder = slow();
    assert!(ids(&builder).iter().all(|id| id == "3.3.2"), "{:?}", ids(&builder));
    // The mean alone.
    for number in 0..6 {
        builder.edit(&join(&run_name(number), "summary.json"), |summary| {
            summary["metric"]["train_au_mean_percentage"] = json!(90.05);
            summary["metric"]["train_au_meet_expectation"] = json!("success");
        });
    }
    assert!(ids(&builder).contains(&"stormlp.sums".to_string()));
    // The mean and its list, then the ranks' files too: only the times of the steps are left.
    set_summaries(&mut builder, 90.05, "success");
    assert!(ids(&builder).contains(&"stormlp.sums".to_string()));
    set_ranks(&mut builder, 90.05);
    assert!(ids(&builder).iter().all(|id| id == "stormlp.sums"), "{:?}", ids(&builder));
}

#[test]
fn true_figures_agree_with_the_times_of_their_steps() {
    let mut builder = slow();
    // Two decimal places, as in reports.
    set_ranks(&mut builder, 89.604);
    let report = builder.check();
    assert!(failed(&report).iter().all(|(id, _)| *id == "3.3.2"), "{:?}", failed(&report));
}

/// Marks all runs as stormlp's.
fn rehearse(builder: &mut Builder) {
    let paths: Vec<String> =
        builder.files.keys().filter(|path| path.ends_with("metadata.json")).cloned().collect();
    for path in paths {
        builder.edit(&path, |metadata| {
            metadata["generator"] = json!("stormlp");
            metadata["verification"] = json!("REHEARSAL");
        });
    }
}

#[test]
fn a_rehearsed_au_follows_from_the_times_of_its_steps() {
    let mut builder = slow();
    rehearse(&mut builder);
    assert!(failed(&builder.check()).iter().all(|(id, _)| *id == "3.3.2"));
    set_summaries(&mut builder, 95.0, "success");
    set_ranks(&mut builder, 95.0);
    let report = builder.check();
    assert_eq!(report.verdict, TreeVerdict::Invalid);
    assert!(failed(&report).iter().all(|(id, _)| *id == "stormlp.sums"), "{:?}", failed(&report));
    // One that no run can have.
    set_summaries(&mut builder, 120.0, "success");
    let report = builder.check();
    assert!(failed(&report).iter().any(|(id, _)| *id == "stormlp.scored"), "{:?}", failed(&report));
}
