//! `stormlp report` and `report show`: lists, one report or several, every format, and errors.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stormlp_fixtures::skipped;

use crate::checkpoint::folder;
use crate::gds::QUICK;
use crate::{stderr, stdout, stormlp};

const TRAIN: &str = "train unet3d --path null --steps 4 --compute-time 2ms --epochs 2 \
    --params metric.au=0.001";
const CHECKPOINT: &str = "checkpoint tiny.yaml --ranks 8 --saves 1 --restores 1 --pause 0";

fn run(folder: &Path, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command.env("STORMLP_RESULTS_DIR", "results").assert()
}

fn shown(folder: &Path, words: &str) -> String {
    stdout(run(folder, words).success())
}

fn refused(folder: &Path, words: &str, code: i32) -> String {
    stderr(run(folder, words).code(code))
}

/// A folder with a report of each command in `results`: `gds`, `train` and `checkpoint`.
fn measured() -> tempfile::TempDir {
    let folder = folder();
    let place = folder.path();
    run(place, &format!("gds --path buffered,cpu {QUICK} --tag ssd=new --tag site=lab-2"))
        .success();
    run(place, &format!("{TRAIN} --tag ssd=old")).success();
    run(place, CHECKPOINT).success();
    for entry in fs::read_dir(place.join("results")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let kind = name.split('-').next().unwrap();
        fs::rename(&path, place.join("results").join(kind)).unwrap();
    }
    folder
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_folder_is_a_list_with_a_row_for_each_report_the_newest_last() {
    let folder = measured();
    let place = folder.path();
    // Reports of the same second stand in the order of their names.
    let dated = |name: &str, day: u32| {
        let path = place.join("results").join(name).join("report.json");
        let mut report = json(&fs::read_to_string(&path).unwrap());
        report["started_at"] = format!("2026-01-{day:02}T00:00:00Z").into();
        fs::write(path, report.to_string()).unwrap();
    };
    for (name, day) in [("train", 1), ("gds", 2), ("checkpoint", 3)] {
        dated(name, day);
    }
    let text = shown(place, "report");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("2026-01-")).collect();
    let kinds = ["train", "gds", "checkpoint"];
    for (row, kind) in rows.iter().zip(kinds) {
        assert!(row.contains(&format!(" {kind} ")) && row.contains(&format!(" {kind}  ")));
    }
    assert!(rows[0].contains("AU ") && rows[0].contains("ssd=old"), "{text}");
    assert!(rows[1].contains("GiB/s") && rows[1].contains("site=lab-2 ssd=new"), "{text}");

    let rows = json(&shown(place, "report results --format json"));
    let found: Vec<&str> =
        rows.as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(found, kinds);
    assert_eq!(rows[1]["tags"]["ssd"], "new");
    assert!(rows[1]["figure"].as_f64().unwrap() > 0.0);
    assert_eq!(rows[1]["unit"], "GiB/s");
    for format in ["csv", "markdown", "html"] {
        let text = shown(place, &format!("report --format {format}"));
        assert!(text.contains("site=lab-2 ssd=new"), "{format}: {text}");
    }
    for (filter, kind) in [("--kind checkpoint", "checkpoint"), ("--tag ssd=old", "train")] {
        let rows = json(&shown(place, &format!("report --format json {filter}")));
        assert_eq!(rows.as_array().unwrap().len(), 1, "{filter}");
        assert_eq!(rows[0]["kind"], kind);
    }
    let said = refused(place, "report --kind gds --tag ssd=old", 4);
    assert!(said.contains("3 reports, none of which has --kind gds --tag ssd=old"), "{said}");
}

#[test]
fn a_list_always_names_the_report_and_its_verdict() {
    let folder = measured();
    let mut command = stormlp();
    command.current_dir(folder.path()).args(["report", "results"]).env("COLUMNS", "100");
    let text = stdout(command.assert().success());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for part in ["tags", "ssd=old", "report", "checkpoint"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_faulty_report_is_one_sentence_with_its_own_exit_code() {
    let folder = measured();
    let place = folder.path();
    for path in ["results/train", "results/train/report.json"] {
        let said = refused(place, &format!("report {path}"), 3);
        assert!(said.contains(&format!("`stormlp report show {path}` shows it")), "{said}");
    }
    let said = refused(place, "report --kind gds show results/train", 2);
    assert!(said.contains("precedes `show`"), "{said}");
    assert!(said.contains("stormlp report show results/train`"), "{said}");
    let said = refused(place, "report show results", 4);
    assert!(said.contains("`stormlp report results` lists its reports"), "{said}");
    fs::create_dir_all(place.join("bad/one")).unwrap();
    fs::write(place.join("bad/one/report.json"), b"\xff\xfe{}").unwrap();
    let said = refused(place, "report show bad/one", 3);
    assert!(said.contains("is not valid UTF-8"), "{said}");
    let said = refused(place, "report bad --format openmetrics", 3);
    assert!(said.contains("1 report, none of which can be read"), "{said}");
    if Path::new("/dev/full").exists() {
        std::os::unix::fs::symlink("/dev/full", place.join("full.html")).unwrap();
        let words = "report show results/gds --output full.html";
        let said = refused(place, words, 4);
        for part in ["cannot write full.html", "--output FILE"] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn several_reports_are_shown_in_every_format_that_supports_them() {
    let folder = measured();
    let place = folder.path();
    let all = "report show results/gds results/train results/checkpoint";
    let text = shown(place, all);
    assert!(text.contains("AU %") && text.contains("CPU s/GiB") && text.contains("slowest rank s"));
    assert_eq!(json(&shown(place, &format!("{all} --format json"))).as_array().unwrap().len(), 3);
    let page = shown(place, &format!("{all} --format html"));
    assert_eq!(page.matches("<article>").count(), 3);
    let said = refused(place, &format!("{all} --format csv"), 3);
    assert!(said.contains("name only reports of `stormlp gds`"), "{said}");
    let rows = shown(place, "report show results/gds --format csv");
    let twice = shown(place, "report show results/gds results/gds --format csv");
    assert_eq!(twice.lines().count(), 2 * rows.lines().count() - 1);
    let said = refused(place, &format!("{all} --format gdsio"), 3);
    assert!(said.contains("gdsio's result lines"), "{said}");
    for (more, code) in [("--format svg", 2), ("--baseline a.md", 2)] {
        refused(place, &format!("{all} {more}"), code);
    }
}

#[test]
fn a_page_is_self_contained_and_escapes_untrusted_text() {
    let folder = measured();
    let place = folder.path();
    for kind in ["gds", "train", "checkpoint"] {
        let path = place.join("results").join(kind).join("report.json");
        let mut report = json(&fs::read_to_string(&path).unwrap());
        let nasty = "</style><script>alert(1)</script>\u{202e}";
        report["command"] = nasty.into();
        report["host"]["hostname"] = nasty.into();
        report["host"]["cpu_model"] = nasty.into();
        fs::write(&path, report.to_string()).unwrap();
        shown(place, &format!("report show results/{kind} --output {kind}.html"));
        let page = fs::read_to_string(place.join(format!("{kind}.html"))).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{kind}");
        assert!(!page.contains('\u{202e}'), "{kind}");
        // Nothing is fetched from anywhere.
        for from in ["http://", "https://", "url(", "@import", "src="] {
            let named = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!named.contains(from), "{kind}: {from}");
        }
        assert!(page.contains("<svg role=\"img\"") && page.contains("<figcaption>"), "{kind}");
        let svg = shown(place, &format!("report show results/{kind} --format svg"));
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{kind}");
    }
}

#[test]
fn the_format_is_that_of_the_file_and_one_that_cannot_be_written_is_named() {
    let folder = measured();
    let place = folder.path();
    for (file, start) in
        [("a.md", "###"), ("a.csv", "format_version,"), ("a.json", "{"), ("a.prom", "# TYPE")]
    {
        assert_eq!(shown(place, &format!("report show results/gds --output {file}")), "");
        let text = fs::read_to_string(place.join(file)).unwrap();
        assert!(text.starts_with(start) && text.ends_with('\n'), "{file}: {text}");
    }
    let said = refused(place, "report show results/gds --output page", 2);
    assert!(said.contains("not a format's"), "{said}");
    let said = refused(place, "report show results/gds --output none/a.html", 4);
    assert!(said.contains("--output none/a.html: folder none does not exist"), "{said}");
    fs::create_dir(place.join("a.html")).unwrap();
    let said = refused(place, "report show results/gds --output a.html", 4);
    assert!(said.contains("cannot write a.html") && said.contains("--output"), "{said}");
}

#[test]
fn newer_damaged_and_foreign_reports_are_reported_without_a_panic() {
    let folder = measured();
    let place = folder.path();
    let path = place.join("results/gds/report.json");
    let whole = fs::read_to_string(&path).unwrap();
    let mut newer = json(&whole);
    newer["format_version"] = 99.into();
    let cases = [
        (newer.to_string(), "newer stormlp"),
        (whole[..whole.len() / 2].to_string(), "not valid JSON"),
        ("{}".to_string(), "`format_version` is missing"),
        (whole.replace("\"kind\": \"gds\"", "\"kind\": \"tape\""), "the command that wrote it"),
    ];
    for (text, told) in cases {
        fs::write(&path, &text).unwrap();
        for words in
            ["report show results/gds", "report show results/gds results/train --format html"]
        {
            let said = refused(place, words, 3);
            assert!(said.contains(told), "{words}: {said}");
        }
        let list = shown(place, "report --format markdown");
        assert!(list.contains("unreadable") && list.contains("AU "), "{list}");
        // The others are taken up, and the one that is not is named.
        let metrics = run(place, "report --format openmetrics").success();
        let said = stderr(metrics);
        assert!(said.contains("results/gds/report.json is left out"), "{said}");
    }
    fs::create_dir(place.join("empty")).unwrap();
    for words in ["report empty", "report none", "report show empty", "report show none"] {
        refused(place, words, 4);
    }
    // A histogram that nothing saved is left out of the page.
    let mut broken = json(&whole);
    for cell in broken["cells"].as_array_mut().unwrap() {
        cell["latency_histogram"] = "HISTFAAA".into();
    }
    fs::write(&path, broken.to_string()).unwrap();
    let page = shown(place, "report show results/gds --format html");
    assert!(page.contains("it has no readable histogram with more than one latency"));
}

#[test]
fn a_report_that_was_changed_after_it_was_written_says_so_and_is_still_used() {
    let folder = folder();
    let place = folder.path();
    run(place, &format!("gds --path buffered {QUICK}")).success();
    let entry = fs::read_dir(place.join("results")).unwrap().next().unwrap().unwrap();
    let path = entry.path().join("report.json");
    fs::create_dir(place.join("edited")).unwrap();
    let edited = place.join("edited/report.json");
    let said = |words: &str| {
        let report = shown(place, &format!("report show edited {words}"));
        let list = shown(place, &format!("report . {words}"));
        [report, list].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let whole = json(&fs::read_to_string(&path).unwrap());
    assert_eq!(whole.as_object().unwrap().keys().next_back().unwrap(), "digest");
    let compared =
        format!("compare {} edited", entry.path().strip_prefix(place).unwrap().display());

    // Written anew on one line, as tools do, it is the same report.
    fs::write(&edited, whole.to_string()).unwrap();
    for text in said("").into_iter().chain([shown(place, &compared)]) {
        assert!(!text.contains("after it was written"), "{text}");
    }
    if let Ok(jq) = Command::new("jq").arg(".").arg(&path).output() {
        fs::write(&edited, jq.stdout).unwrap();
        assert!(!said("")[0].contains("after it was written"));
    } else {
        skipped("no jq", "apt-get install jq");
    }

    let mut faster = whole.clone();
    let rate = &mut faster["cells"][0]["throughput_bytes_per_second"];
    *rate = (2.0 * rate.as_f64().unwrap()).into();
    fs::write(&edited, faster.to_string()).unwrap();
    let words = "changed after it was written";
    for format in ["", "--details", "--format markdown", "--format html"] {
        assert!(said(format).iter().all(|text| text.contains(words)), "{format}");
    }
    assert!(shown(place, &compared).contains(words));
    // The copy that stormlp writes is no cleaner.
    run(place, "report show edited --output edited/copy.json").success();
    assert!(shown(place, "report show edited/copy.json").contains(words));

    let mut bare = whole;
    bare.as_object_mut().unwrap().remove("digest");
    fs::write(&edited, bare.to_string()).unwrap();
    assert!(said("").iter().all(|text| text.contains("has no digest")));
    assert!(shown(place, &compared).contains("has no digest"));
}

#[test]
fn metrics_have_types_units_and_one_sample_for_each_set_of_labels() {
    let folder = measured();
    let place = folder.path();
    let text = shown(place, "report --format openmetrics");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut seen = std::collections::HashSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            family = words.split(' ').next().unwrap().to_string();
        } else if let Some(unit) = line.strip_prefix(&format!("# UNIT {family} ")) {
            assert!(family.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with('#') {
            let (labels, value) = line.rsplit_once(' ').unwrap();
            assert!(labels.starts_with(&family) && value.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(labels.to_string()), "{line}");
        }
    }
    for part in [
        "stormlp_gds_throughput_bytes_per_second{host=",
        "tag_ssd=\"new\"",
        "path=\"cpu\"",
        "stormlp_train_au_ratio{",
        "stormlp_checkpoint_fsync_seconds{",
        "stormlp_run_info{kind=\"train\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The newest of two that measured the same counts.
    let twice = shown(place, "report show results/gds results/gds --format openmetrics");
    assert_eq!(twice, shown(place, "report show results/gds --format openmetrics"));
}

#[test]
fn tags_are_plain_and_only_for_runs() {
    let folder = folder();
    let place = folder.path();
    for (tags, code) in [("--tag ssd", 2), ("--tag a=1 --tag a=2", 2), ("--tag a=1 --dry-run", 2)] {
        refused(place, &format!("{TRAIN} {tags}"), code);
    }
    run(place, &format!("{TRAIN} --tag a=1 --tag a=1")).success();
    let rows = json(&shown(place, "report --format json"));
    assert_eq!(rows[0]["tags"], serde_json::json!({"a": "1"}));
}

#[test]
fn every_command_has_a_manual_page_without_colours() {
    let folder = folder();
    let place = folder.path();
    run(place, "generate man pages").success();
    for name in ["stormlp", "stormlp-gds", "stormlp-report-show", "stormlp-generate-man"] {
        let page = fs::read_to_string(place.join(format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(".TH stormlp"), "{name}: {page}");
        assert!(!page.contains('\u{1b}'), "{name}");
    }
    assert!(!place.join("pages/stormlp-throttle.1").exists());
    fs::write(place.join("taken"), "").unwrap();
    let said = refused(place, "generate man taken", 4);
    assert!(said.contains("cannot write manual pages to taken"), "{said}");
    let mut plain = stormlp();
    let help = plain.args(["report", "--help"]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert!(!stdout(help.assert().success()).contains('\u{1b}'));
}
