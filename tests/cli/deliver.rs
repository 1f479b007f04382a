//! Options for results mean the same for every command that measures.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::checkpoint::folder;
use crate::gds::QUICK;
use crate::{last_line, stderr, stdout, stormlp};

const GDS: &str = "gds --path buffered";
pub(crate) const TRAIN: &str = "train unet3d --path null --steps 4 --compute-time 2ms --epochs 2 \
    --params metric.au=0.001";
const CHECKPOINT: &str = "checkpoint tiny.yaml --ranks 8 --saves 1 --restores 1 --pause 0";

fn run(folder: &Path, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command.env("STORMLP_RESULTS_DIR", "results").assert()
}

/// The only report below `folder`.
fn saved(folder: &Path) -> String {
    let runs: Vec<_> = fs::read_dir(folder.join("results")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    let path = runs[0].as_ref().unwrap().path().join("report.json");
    path.to_str().unwrap().to_string()
}

#[test]
fn every_command_exports_compares_and_shows_in_every_format() {
    for command in [&format!("{GDS} {QUICK}"), TRAIN, CHECKPOINT] {
        let folder = folder();
        let folder = folder.path();
        let words =
            format!("{command} --format csv --output a.csv --output a.md --output a.series.csv");
        let printed = stdout(run(folder, &words).success());
        assert!(printed.starts_with("format_version,started_at,"), "{printed}");
        let exported = fs::read_to_string(folder.join("a.csv")).unwrap();
        assert_eq!(exported, printed, "{command}");
        let page = fs::read_to_string(folder.join("a.md")).unwrap();
        assert!(page.starts_with("### ") && page.contains("| ---"), "{page}");
        let over_time = fs::read_to_string(folder.join("a.series.csv")).unwrap();
        assert!(over_time.starts_with("part,quantity,of,start_seconds,"));
        assert!(over_time.contains(",interval_bytes,,"), "{over_time}");
        let report = saved(folder);
        for format in ["text", "table", "json", "csv", "markdown", "html", "openmetrics", "svg"] {
            run(folder, &format!("report show {report} --format {format}")).success();
        }
        let compared = stdout(run(folder, &format!("report show {report} --baseline {report}")));
        assert!(compared.contains("Against the baseline"), "{compared}");
        assert!(compared.contains("identical: "), "{compared}");
        let narrow = stormlp()
            .current_dir(folder)
            .args(["report", "show", &report])
            .env("COLUMNS", "80")
            .assert();
        let narrow = stdout(narrow.success());
        let widths = narrow.lines().map(|line| line.chars().count());
        let widest = widths.max().unwrap();
        assert!(widest <= 80, "{widest}: {narrow}");
    }
}

/// `train` with the null storage, as `workload`.
fn train_as(folder: &Path, workload: &str) -> String {
    let words = TRAIN.replace("unet3d", workload);
    let words = format!("{words} --format json --results-dir {workload}");
    let printed = stdout(run(folder, &words).success());
    assert!(printed.starts_with('{'), "{printed}");
    let runs = fs::read_dir(folder.join(workload)).unwrap();
    let run = runs.last().unwrap().unwrap().path();
    run.strip_prefix(folder).unwrap().to_str().unwrap().to_string()
}

#[test]
fn a_baseline_of_other_work_is_reported_and_one_with_nothing_in_common_refused() {
    let folder = folder();
    let folder = folder.path();
    let (now, then) = (train_as(folder, "unet3d"), train_as(folder, "resnet50"));
    let shown = stdout(run(folder, &format!("report show {now} --baseline {then}")).success());
    let message = "workload: resnet50 (baseline), unet3d (candidate)";
    let first = format!("not the same work as the baseline:\n  - {message}");
    assert!(shown.contains(&first), "{shown}");
    let words = format!("report show {now} --baseline {then} --format markdown");
    assert!(stdout(run(folder, &words).success()).contains(message));
    let alike = stdout(run(folder, &format!("report show {now} --baseline {now}/report.json")));
    assert!(!alike.contains("not the same"), "{alike}");

    let saves = format!("{CHECKPOINT} --results-dir saves").replace("--restores 1", "--restores 0");
    run(folder, &saves).success();
    let again = saves;
    let restores = format!("{CHECKPOINT} --results-dir restores --baseline saves")
        .replace("--saves 1", "--saves 0");
    let only = |place: &str| {
        let mut runs = fs::read_dir(folder.join(place)).unwrap();
        runs.next().unwrap().unwrap().path().display().to_string()
    };
    let saves = only("saves");
    let shown = stdout(run(folder, &restores).success());
    assert!(shown.contains("no figures to compare"), "{shown}");
    let words = format!("report show {} --baseline {saves}", only("restores"));
    let said = stderr(run(folder, &words).code(3));
    assert!(said.contains("no figures to compare"), "{said}");

    run(folder, &again).success();
    let words = format!("report show {} --baseline saves", only("restores"));
    let said = stderr(run(folder, &words).code(4));
    assert!(said.contains("one is needed"), "{said}");
}

#[test]
fn reports_are_listed_where_they_were_saved_and_scaled_ones_are_marked() {
    let folder = folder();
    let folder = folder.path();
    let scaled = CHECKPOINT.replace("--ranks 8", "--scale 0.5");
    run(folder, &scaled).success();
    let listed = stdout(run(folder, "report").success());
    assert!(last_line(&listed, 0).starts_with("1 report in results"), "{listed}");
    assert!(listed.contains("SCALED to "), "{listed}");
    fs::create_dir_all(folder.join("damaged/one")).unwrap();
    let damaged = "{\"format_version\":1,\"kind\":\"gds\"}";
    fs::write(folder.join("damaged/one/report.json"), damaged).unwrap();
    let listed = stdout(run(folder, "report damaged --format csv").success());
    assert_eq!(listed.matches("missing field").count(), 1, "{listed}");
    let mut unset = stormlp();
    unset.current_dir(folder).env("STORMLP_RESULTS_DIR", "");
    let said = stderr(unset.arg("report").assert().code(4));
    assert!(said.contains("stormlp-results"), "{said}");
}

#[test]
fn unread_messages_do_not_block() {
    let folder = folder();
    let program = env!("CARGO_BIN_EXE_stormlp");
    let mut child = std::process::Command::new(program)
        .current_dir(folder.path())
        .args(TRAIN.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn options_without_effect_and_reports_of_another_command_are_refused() {
    let folder = folder();
    run(folder.path(), TRAIN).success();
    let report = saved(folder.path());
    let refused = |words: &str, code: i32, said: &str| {
        let text = stderr(run(folder.path(), words).code(code));
        assert!(text.contains(said), "{words}: {text}");
    };
    for command in [GDS, TRAIN, CHECKPOINT] {
        for option in ["--output a.csv", "--baseline b.json"] {
            refused(&format!("{command} --dry-run {option}"), 2, "cannot be used with");
        }
        refused(&format!("{command} --dry-run --format csv"), 2, "a plan has the formats");
        refused(&format!("{command} --output a.xlsx"), 2, "not a format's");
    }
    for command in [TRAIN, CHECKPOINT] {
        refused(&format!("{command} --format gdsio"), 2, "stormlp gds");
    }
    for command in [GDS, CHECKPOINT] {
        refused(&format!("{command} --baseline {report}"), 3, "stormlp train");
    }
    refused(&format!("report show {report} --format csv --baseline {report}"), 2, "--baseline");
    refused(&format!("report results --baseline {report}"), 2, "report show");
    let twice = format!("report show {report} {report} --baseline {report}");
    refused(&twice, 2, "a single report");
    refused("report results --format series-csv", 2, "only for reports");
    refused(&format!("report show {report} {report} --format series-csv"), 2, "name one of them");
    let plan = "plan unet3d --storage read=1GB/s";
    refused(&format!("{plan} --format series-csv"), 2, "only for reports");
    refused(&format!("{plan} --output a.series.csv"), 2, "only for reports");
    let beside = [
        ("gds", "--resume r --results-dir d", "--results-dir"),
        ("gds", "--resume r --throttle read=1M", "--resume"),
        (GDS, "--tune register=no", "--tune register"),
        ("gds --path null", "--engine psync", "--engine"),
        (TRAIN, "--dry-run --mlperf-output d", "--mlperf-output"),
        (TRAIN, "--engine psync", "--engine"),
        ("train unet3d", "--device cuda:0", "--device"),
        (CHECKPOINT, "--device host", "--device"),
        ("checkpoint tiny.yaml", "--restores 0 --verify", "--verify"),
        ("checkpoint tiny.yaml", "--saves 0 --keep 1", "--keep"),
        ("checkpoint tiny.yaml", "--saves 0 --keep-last 2", "--keep-last"),
        ("checkpoint tiny.yaml", "--saves 1 --run run1", "--run"),
    ];
    for (command, words, said) in beside {
        refused(&format!("{command} {words}"), 2, said);
    }
}
