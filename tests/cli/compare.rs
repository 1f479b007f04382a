//! `stormlp compare`: output for reports that are alike, that differ, and that are not comparable.
//! They come from one real run; their numbers are set.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::deliver::TRAIN;
use crate::gds::{QUICK, folder, gds, read_json, saved};
use crate::{last_line, stderr, stdout, stormlp};

/// A report of a run in `folder`, as JSON.
pub(crate) fn measured(folder: &Path) -> Value {
    let words = format!("{QUICK} --path buffered --op read");
    gds(folder, &words).assert().success();
    read_json(&saved(folder))
}

/// Saves `report` as `name/report.json`, with its cell at `rate` bytes a second. `a1`, `b1`, `a2` …
/// started in turns, as `before/0`, `now/0`, `before/1` … did.
fn save(folder: &Path, name: &str, report: &Value, rate: f64) {
    let mut report = report.clone();
    let (side, number) = name.split_at(name.len() - 1);
    let minute = 2 * number.parse::<usize>().unwrap_or_default()
        + usize::from(["b", "now/"].contains(&side));
    report["started_at"] = json!(format!("2026-11-21T10:{minute:02}:00Z"));
    report["command"] = json!(format!("stormlp gds # {name}"));
    let cell = &mut report["cells"][0];
    cell["throughput_bytes_per_second"] = json!(rate);
    cell["latency_us"]["mean"] = json!(1e12 / rate.max(1.0));
    cell["interval_seconds"] = json!(0.1);
    let bytes = |n: u64| (rate * 0.1) as u64 + n * 7 % 5 * 1000;
    cell["interval_bytes"] = json!((0..40).map(bytes).collect::<Vec<u64>>());
    write(folder, name, &report.to_string());
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder.join(name)).unwrap();
    fs::write(folder.join(name).join("report.json"), text).unwrap();
}

fn compare(folder: &Path, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).arg("compare");
    command.args(words.split_whitespace()).assert()
}

/// Three runs `a1` to `a3`, and three `b1` to `b3` a tenth slower.
fn sets(folder: &Path) -> Value {
    let report = measured(folder);
    for (n, rate) in [1e9, 1.01e9, 0.99e9].into_iter().enumerate() {
        save(folder, &format!("a{}", n + 1), &report, rate);
        save(folder, &format!("b{}", n + 1), &report, 0.9 * rate);
    }
    report
}

#[test]
fn a_tenth_less_is_a_regression_and_fails_on_request() {
    let folder = folder();
    let folder = folder.path();
    sets(folder);
    let text = stdout(compare(folder, "a1 a2 a3 -- b1 b2 b3").success());
    assert!(
        last_line(&text, 0)
            .starts_with("candidate is slower than baseline: throughput is 10.0 % lower"),
        "{text}"
    );
    assert!(text.contains("-10.0 %") && text.contains("over 3 and 3 independent runs"), "{text}");
    let said = stderr(compare(folder, "--fail-on-regression 5 a1 a2 a3 -- b1 b2 b3").code(7));
    assert!(said.contains("got worse by 5 % or more"), "{said}");
    compare(folder, "--fail-on-regression 50% a1 a2 a3 -- b1 b2 b3").success();
    compare(folder, "--fail-on-regression 5 b1 b2 b3 -- a1 a2 a3").success();
    let said = stderr(compare(folder, "--fail-on-regression 5 a1 a2 -- b1").success());
    assert!(said.contains("has no effect on buffered, read of 1 MiB"), "{said}");
    assert!(said.contains("these runs are too few"), "{said}");
    // A single run does not show how runs vary, whatever its repetitions say.
    let text = stdout(compare(folder, "a1 b1/report.json").success());
    let open = "cannot tell candidate from baseline: throughput is 10.0 % lower";
    assert!(last_line(&text, 0).starts_with(open), "{text}");
    let json = stdout(compare(folder, "a1 b1 --format json").success());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["verdict"], "cannot_tell");
    assert_eq!(json["figures"][0]["verdict"], "cannot_tell");
    assert_eq!(json["figures"][0]["interval"], Value::Null);
    let json = stdout(compare(folder, "a1 a2 a3 --format json -- b1 b2 b3").success());
    let json: Value = serde_json::from_str(&json).unwrap();
    let interval = json["figures"][0]["interval"].as_array().unwrap();
    assert!(interval[0].as_f64() < Some(-10.0) && interval[1].as_f64() > Some(-10.0), "{json}");
    // A change that large does not matter with --min-change 20.
    let text = stdout(compare(folder, "a1 a2 a3 --min-change 20 -- b1 b2 b3").success());
    assert!(last_line(&text, 0).starts_with("same: "), "{text}");
    let csv = stdout(compare(folder, "a1 b1 --format csv --output c.md --output c.csv").success());
    assert!(csv.starts_with("name,subject,figure,unit,baseline,"), "{csv}");
    assert_eq!(fs::read_to_string(folder.join("c.csv")).unwrap(), csv);
    let page = fs::read_to_string(folder.join("c.md")).unwrap();
    assert!(page.starts_with("### cannot tell "), "{page}");
    let page = stdout(compare(folder, "--format html a1 a2 a3 -- b1 b2 b3").success());
    assert!(
        page.starts_with("<!") && page.contains("candidate is slower than baseline: "),
        "{page}"
    );
    assert!(page.contains("<p class=\"origin\">stormlp compare on "), "{page}");
}

#[test]
fn a_gate_fails_if_a_measured_subject_broke() {
    let folder = folder();
    let folder = folder.path();
    let report = sets(folder);
    let mut failed = report.clone();
    failed["cells"][0]["status"] = json!("failed");
    failed["cells"][0]["reason"] = json!("EIO");
    write(folder, "f", &failed.to_string());
    let words = "--fail-on-regression 5 a1 a2 a3 -- a2 f";
    compare(folder, words).failure();
    // Another combination is as fast as ever.
    let (mut two, mut of_two) = (report.clone(), report);
    for both in [&mut two, &mut of_two] {
        both["plan"]["cells"] = json!([both["plan"]["cells"][0], both["plan"]["cells"][0]]);
        let mut other = both["cells"][0].clone();
        (other["cell"], other["threads"]) = (json!(1), json!(7));
        both["cells"].as_array_mut().unwrap().push(other);
    }
    of_two["cells"][1]["status"] = json!("failed");
    of_two["cells"][1]["reason"] = json!("EIO");
    write(folder, "c1", &two.to_string());
    write(folder, "c2", &of_two.to_string());
    let text = stdout(compare(folder, "--force c1 c2").success());
    assert!(text.contains("failed now: ") && text.contains("EIO"), "{text}");
    let said = stderr(compare(folder, "--force --fail-on-regression 5 c1 c2").code(7));
    assert!(said.contains("failed now: "), "{said}");
}

#[test]
fn folders_are_sets_and_the_same_report_twice_is_identical() {
    let folder = folder();
    let folder = folder.path();
    let report = sets(folder);
    for (n, rate) in [1e9, 1.01e9, 0.99e9].into_iter().enumerate() {
        save(folder, &format!("before/{n}"), &report, rate);
        save(folder, &format!("now/{n}"), &report, rate + 1e6);
    }
    let text = stdout(compare(folder, "before now/").success());
    assert!(last_line(&text, 0).starts_with("same: "), "{text}");
    assert!(text.contains("3 reports on "), "{text}");
    for words in ["a1 a1/report.json", "before before", "a1 a2 -- a1 a2"] {
        let text = stdout(compare(folder, words).success());
        assert!(last_line(&text, 0).starts_with("identical: "), "{words}: {text}");
    }
    let text = stdout(compare(folder, "a1 a1 a2 -- a1 a3").success());
    assert!(text.contains("counts once") && text.contains("is on both sides"), "{text}");
}

#[test]
fn other_work_is_refused_with_the_setting_unless_forced() {
    let folder = folder();
    let folder = folder.path();
    let report = sets(folder);
    let mut other = report.clone();
    other["cells"][0]["io_size_bytes"] = json!(4 << 20);
    save(folder, "other", &other, 1e9);
    let said = stderr(compare(folder, "a1 other").code(3));
    assert!(said.contains("\n  - I/O sizes: 1 MiB (baseline), 4 MiB (candidate)\n"), "{said}");
    assert!(said.contains("--force"), "{said}");
    let text = stdout(compare(folder, "a1 other --force").success());
    assert!(text.contains("not the same work; compared anyway:\n  - I/O sizes: "), "{text}");
    // All of a plan counts, whether people have a name for it or not.
    let mut filled = report.clone();
    filled["plan"]["request"]["fill"] = json!("zero");
    filled["plan"]["cells"][0]["engine"] = json!("uring");
    filled["plan"]["cells"][0]["submit_batch"] = json!(7);
    save(folder, "filled", &filled, 1e9);
    let said = stderr(compare(folder, "a1 filled").code(3));
    for told in ["\n  - --fill: random (baseline), zero", "(baseline), 7 (candidate)"] {
        assert!(said.contains(told), "{told}: {said}");
    }
    compare(folder, "a1 filled --force").success();
    let mut train = stormlp();
    train.current_dir(folder).args(TRAIN.split_whitespace());
    train.args(["--results-dir", "t"]).assert().success();
    // The same command once more is the same work.
    let mut train = stormlp();
    train.current_dir(folder).args(TRAIN.split_whitespace());
    train.args(["--results-dir", "u"]).assert().success();
    let text = stdout(compare(folder, "t u").success());
    assert!(!text.contains("contradicts"), "{text}");
    let said = stderr(compare(folder, "a1 t --force").code(3));
    assert!(said.contains("stormlp gds") && said.contains("stormlp train"), "{said}");
}

#[test]
fn unreadable_or_unwritable_files_are_named_without_a_panic() {
    let folder = folder();
    let folder = folder.path();
    let report = sets(folder);
    let whole = report.to_string();
    write(folder, "cut", &whole[..whole.len() / 2]);
    write(folder, "newer", &whole.replacen("\"format_version\":1", "\"format_version\":99", 1));
    write(folder, "large", &whole.replacen("\"bytes\":", "\"bytes\":1e999,\"x\":", 1));
    fs::create_dir(folder.join("empty")).unwrap();
    fs::create_dir(folder.join("latin")).unwrap();
    fs::write(folder.join("latin/report.json"), b"{\n\"command\": \"Gr\xfc\xdfe\"}").unwrap();
    for (words, code, told) in [
        ("a1 cut", 3, "cut/report.json cannot be used"),
        ("a1 newer", 3, "format version 99"),
        ("a1 latin", 3, "latin/report.json: byte 16 in line 2 is not valid UTF-8"),
        ("a1 large", 3, "large/report.json cannot be used"),
        ("a1 empty", 4, "empty contains no reports"),
        ("a1 nowhere", 4, "nowhere"),
        ("a1", 2, "two sides"),
        ("a1 a2 a3", 2, "two sides"),
        ("a1 -- a2 --format json", 2, "--format comes after --"),
        ("a1 a2 --output nowhere/c.md", 4, "folder nowhere does not exist"),
        ("a1 a2 --output c.xlsx", 2, "not a format's"),
        ("a1 a2 --format gdsio", 2, "gdsio"),
        ("a1 a2 --fail-on-regression -1", 2, "fail-on-regression"),
        ("a1 a2 --fail-on-regression much", 2, "is not a percentage"),
    ] {
        let said = stderr(compare(folder, words).code(code));
        assert!(said.contains(told), "{words}: {said}");
        assert!(!said.contains("panicked"), "{words}: {said}");
    }
    // Empty numbers, and a host that would steer a terminal.
    let mut odd = report.clone();
    odd["host"]["hostname"] = json!("\u{1b}[31mred\u{7}");
    save(folder, "odd", &odd, 0.0);
    for format in ["text", "json", "csv", "markdown"] {
        let printed = stdout(compare(folder, &format!("odd a1 --format {format}")).success());
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!printed.contains(steers), "{format}: {printed:?}");
    }
}

#[test]
fn a_baseline_ends_a_run_with_the_same_comparison() {
    let folder = folder();
    let folder = folder.path();
    sets(folder);
    let words = format!("{QUICK} --path buffered --op read --baseline a1");
    let text = stdout(gds(folder, &words).assert().success());
    assert!(text.contains("Against the baseline: buffered, read of 1 MiB"), "{text}");
    assert!(text.contains("throughput") && text.contains("CPU time"), "{text}");
    assert!(!text.contains("not the same work"), "{text}");
    // The folder of one results folder means the report in it, as it does to compare.
    save(folder, "nightly/1", &read_json(&folder.join("a1/report.json")), 1e9);
    gds(folder, &words.replace("a1", "nightly")).assert().success();
    gds(folder, &words.replace("a1", ".")).assert().code(4);
    let text = stdout(gds(folder, &words.replace("50ms", "60ms")).assert().success());
    assert!(text.contains("--duration: 0.05 s (baseline), 0.06 s (candidate)"), "{text}");
    let text = stdout(gds(folder, &words.replace("--op read", "--op write")).assert().success());
    assert!(text.contains("no figures to compare: "), "{text}");
    // Programs get the report together with the comparison, and read it back as a report.
    let json = stdout(
        gds(folder, &format!("{words} --format json --output whole.json")).assert().success(),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let figure = &json["comparison"]["figures"][0];
    assert_eq!(figure["figure"], "throughput");
    assert_eq!(json["comparison"]["differences"], json!([]));
    assert!(json["cells"][0]["bytes"].is_u64(), "{json}");
    assert_eq!(read_json(&folder.join("whole.json"))["comparison"], json["comparison"]);
    compare(folder, "a1 whole.json").success();
}
