//! `--find-knee` of `stormlp gds` on small files: answers, output and reports. No timing is asserted: on an
//! overloaded machine any setting may be the best.

use std::fs;

use serde_json::Value;

use crate::gds::{folder, gds, read_json, saved};
use crate::{stderr, stdout};

/// A grid of four threads and four depths, cells of a moment.
const SMALL: &str = "--find-knee --path cpu --io-size 64K --file-size 4M --duration 30ms \
    --threads 1,2,4,8 --queue-depth 1,2,4,8 --tune telemetry=off";

#[test]
fn the_knee_is_a_setting_of_the_grid_within_2_percent_of_the_best_or_a_tie() {
    let folder = folder();
    let run = gds(folder.path(), &format!("{SMALL} --format json")).assert().success();
    let said = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    assert!(said.contains("some ") && said.contains(" of 48 cells to measure"), "{said}");
    assert!(said.contains("/~"), "{said}");
    let report: Value = serde_json::from_str(&stdout(run)).unwrap();
    let knees = report["find_knee"]["knees"].as_array().unwrap();
    assert_eq!(knees.len(), 1);
    let knee = &knees[0];
    assert_eq!((&knee["requested_path"], &knee["op"]), (&"cpu".into(), &"read".into()));
    let share = knee["share_of_best_percent"].as_f64().unwrap();
    let is_tie = !knee["ties"].as_array().unwrap().is_empty();
    assert!(share >= if is_tie { 95.0 } else { 98.0 }, "{knee}");
    assert_eq!(knee["is_complete"], true);
    assert_eq!(knee["runs"], 3);
    assert!(knee["noise_percent"].as_f64().unwrap() >= 0.0);
    let in_flight =
        |point: &Value| point["threads"].as_u64().unwrap() * point["queue_depth"].as_u64().unwrap();
    assert!(in_flight(knee) <= in_flight(&knee["best"]), "{knee}");
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(knee["cells"].as_u64().unwrap() as usize, cells.len());
    assert!(cells.len() < 48, "the whole grid ran");
    for cell in cells.iter().filter(|cell| in_flight(cell) < in_flight(knee)) {
        assert!(cell["threads"].as_u64().unwrap() <= 8, "{cell}");
    }
}

#[test]
fn the_screen_has_the_knee_of_each_operation_and_the_files_that_were_made() {
    let folder = folder();
    let small = SMALL.replace("1,2,4,8 --queue-depth 1,2,4,8", "1,2,64 --queue-depth 1,2");
    let mut plan = crate::at_a_terminal();
    plan.args(format!("gds {small} --op read,write --dry-run").split_whitespace());
    let plan = stdout(plan.current_dir(folder.path()).assert().success());
    assert!(plan.lines().count() <= 24, "{plan}");
    assert!(plan.contains("64 files"), "{plan}");
    let mut run = crate::at_a_terminal();
    run.args(format!("gds {small} --op read,write").split_whitespace());
    let page = stdout(run.current_dir(folder.path()).assert().success());
    assert!(page.lines().count() <= 24, "{page}");
    let answer: Vec<&str> = page.split_whitespace().collect();
    let answer = answer.join(" ");
    for op in ["read", "write"] {
        assert!(answer.contains(&format!("cpu {op} of 64 KiB: peak ")), "{page}");
    }
    let made = fs::read_dir(folder.path().join("stormlp-data/gds")).unwrap();
    let names = made.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let made = names.filter(|name| name.starts_with("stormlp.")).count();
    assert!(page.contains(&format!("{made} files, ")), "{made}: {page}");
}

#[test]
fn every_format_has_the_knee() {
    let folder = folder();
    let page = stdout(gds(folder.path(), SMALL).assert().success());
    assert!(
        page.contains(
            "The smallest number in flight within 2 % of the best, or within noise of that"
        ),
        "{page}"
    );
    assert!(page.contains("All measured cells"), "{page}");
    let report = saved(folder.path());
    for (format, marks) in [
        ("markdown", "## The smallest number in flight"),
        ("csv", ",is_knee"),
        ("html", "The smallest number in flight"),
    ] {
        let mut command = crate::stormlp();
        let shown = command.args(["report", "show"]).arg(&report).args(["--format", format]);
        let shown = stdout(shown.assert().success());
        assert!(shown.contains(marks), "{format}: {shown}");
    }
}

#[test]
fn a_search_resumes_and_measures_nothing_twice() {
    let folder = folder();
    gds(folder.path(), SMALL).assert().success();
    let path = saved(folder.path());
    let whole = read_json(&path);
    let mut half = whole.clone();
    half["cells"].as_array_mut().unwrap().truncate(2);
    half.as_object_mut().unwrap().remove("find_knee");
    half["ending"] = serde_json::json!({"status": "unfinished"});
    fs::write(&path, half.to_string()).unwrap();
    let again = format!("{SMALL} --resume {}", path.display());
    gds(folder.path(), &again).assert().success();
    let resumed = read_json(&path);
    assert_eq!(resumed["find_knee"]["knees"][0]["is_complete"], true);
    for cell in half["cells"].as_array().unwrap() {
        let same = |other: &&Value| other["cell"] == cell["cell"];
        let kept = resumed["cells"].as_array().unwrap().iter().find(same).unwrap();
        assert_eq!(kept["operations"], cell["operations"]);
    }
    let done = gds(folder.path(), &again).assert().success();
    assert!(stderr(done).contains("no cell is left to measure"));
}

#[test]
fn an_unsearchable_plan_is_refused() {
    let folder = folder();
    for (words, expected) in [
        ("--find-knee --threads 4 --queue-depth 8", "needs several settings to search"),
        ("--find-knee --preset training", "cannot be used with"),
    ] {
        let said = stderr(gds(folder.path(), words).assert().code(2));
        assert!(said.contains(expected), "{words}: {said}");
    }
    assert!(!folder.path().join("stormlp-data").exists());
    let words = "--find-knee --path gds --io-size 64K --file-size 4M --duration 30ms";
    let said = stderr(gds(folder.path(), words).assert().code(4));
    assert!(said.contains("gds"), "{said}");
}

#[test]
fn a_dry_run_prints_the_grid_and_notes_that_a_search_runs_part_of_it() {
    let folder = folder();
    let words = format!("{SMALL} --dry-run");
    let page = stdout(gds(folder.path(), &words).assert().success());
    assert!(page.contains("plan of a search for knees"), "{page}");
    assert!(!folder.path().join("stormlp-data").exists());
}
