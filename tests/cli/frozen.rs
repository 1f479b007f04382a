//! Reports of format versions 1 to 3, kept as the program of their time wrote them: they load, and
//! every number in them is still shown.
//!
//! `tests/fixtures/reports/expect.json` has what each says: its row in a list, the rows of its CSV
//! without prose, and figures of its JSON by names that [`PLACES`] finds. What was measured does
//! not change: where the shape of the JSON does, `PLACES` follows, and neither a report nor its rows
//! and figures are touched. Which of a matrix's measured rates stands for it in a list is a choice,
//! the headline's: the fastest that moved data from storage. `figure` follows where that changes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{stdout, stormlp};

/// Where the JSON that is printed has a figure; `#` at the end counts what is there.
const PLACES: [(&str, &str); 54] = [
    ("kind", "/kind"),
    ("started_at", "/started_at"),
    ("hostname", "/host/hostname"),
    ("tag_ssd", "/tags/ssd"),
    ("ending", "/ending/status"),
    ("cause", "/ending/kind"),
    ("warnings", "/warnings#"),
    ("hosts", "/hosts#"),
    ("processes", "/group/size"),
    ("run_id", "/part/run_id"),
    // A matrix.
    ("planned_cells", "/plan/cells#"),
    ("cells", "/cells#"),
    ("tracks", "/cells/0/tracks#"),
    ("intervals", "/cells/0/interval_bytes#"),
    ("jobs", "/cells/0/jobs#"),
    ("read_percent", "/plan/request/read_percent"),
    ("proof", "/cells/0/evidence/direct_storage/proof"),
    ("direct", "/cells/0/evidence/direct_storage/direct_operations/p2pdma"),
    ("fallback", "/cells/0/evidence/direct_storage/fallback_operations"),
    ("by_kernel", "/cells/0/evidence/direct_storage/kernel_operations/nvidia_fs"),
    ("direct_of_part", "/evidence/0/direct_storage/direct_operations/p2pdma"),
    ("checked_bytes", "/cells/0/verification/checked_bytes"),
    ("mismatched", "/cells/0/verification/mismatched_transfers"),
    ("knees", "/find_knee/knees#"),
    ("knee_threads", "/find_knee/knees/0/threads"),
    ("knee_depth", "/find_knee/knees/0/queue_depth"),
    // Training.
    ("au_percent", "/au_percent/profile"),
    ("samples_per_second", "/samples_per_second"),
    ("mib_per_second", "/mib_per_second"),
    ("threshold_percent", "/plan/metric/threshold_percent"),
    ("meets_threshold", "/meets_threshold"),
    ("bound", "/verdict/bound"),
    ("epochs", "/epochs#"),
    ("runs", "/runs#"),
    ("checkpoints", "/checkpoints#"),
    ("eval_au_percent", "/epochs/0/evaluation/au_percent"),
    ("most", "/find_max/largest_accelerators"),
    ("least_missing", "/find_max/least_missing"),
    ("tried", "/find_max/tried#"),
    // Checkpoints.
    ("saves", "/saves#"),
    ("restores", "/restores#"),
    ("ranks", "/plan/ranks#"),
    ("save_rate", "/summary/save/all_ranks/gib_per_second/mean"),
    ("restore_rate", "/summary/restore/all_ranks/gib_per_second/mean"),
    ("verified_bytes", "/verified_bytes"),
    ("save_knee", "/find_knee/save/streams"),
    ("restore_knee", "/find_knee/restore/streams"),
    // Both of these.
    ("distributions", "/histograms#"),
    ("distributed", "/histograms/0/count"),
    ("distributed_p99_us", "/histograms/0/summary_us/p99"),
    ("series", "/series#"),
    ("series_intervals", "/series/0/interval_bytes#"),
    ("series_tracks", "/series/0/tracks#"),
    ("evidence", "/evidence#"),
];

/// What is said of a report whose figures contradict each other; one test makes sure of the words.
const COMPLAINT: &str = "contradicts itself";

/// A report, and what it is known to say.
struct Frozen {
    /// `v1/gds.json`, or the folder of one that may have a journal and parts beside it.
    name: String,
    place: PathBuf,
    expected: Value,
    /// The columns of `expected` rows.
    columns: Vec<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reports")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// All of them; that none lies there without being expected, and the other way round.
fn frozen() -> Vec<Frozen> {
    let all = json(&fs::read_to_string(fixtures().join("expect.json")).unwrap());
    let mut there: Vec<String> = Vec::new();
    for version in ["v1", "v2", "v3"] {
        for entry in fs::read_dir(fixtures().join(version)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            there.push(format!("{version}/{name}"));
        }
    }
    there.sort();
    let reports = all["reports"].as_object().unwrap();
    let mut known: Vec<&String> = reports.keys().collect();
    known.sort();
    assert_eq!(there.iter().collect::<Vec<_>>(), known);
    let columns = |kind: &str| {
        let columns = all["columns"][kind].as_str().unwrap();
        columns.split(',').map(String::from).collect()
    };
    let of = |(name, expected): (&String, &Value)| Frozen {
        name: name.clone(),
        place: fixtures().join(name),
        expected: expected.clone(),
        columns: columns(expected["figures"]["kind"].as_str().unwrap()),
    };
    reports.iter().map(of).collect()
}

/// What is printed of a report in a format: with exit code 0, and nothing on stderr.
fn shown(place: &Path, format: &str) -> String {
    let mut command = stormlp();
    command.arg("report").arg(place).args(["--format", format]);
    let output = command.assert().success().get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "", "{} {format}", place.display());
    String::from_utf8(output.stdout).unwrap()
}

/// The fields of each line, those in quotes without them.
fn table(csv: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(letter),
            }
        }
        fields
    };
    csv.lines().map(row).collect()
}

/// The rows of a table with the columns of these names alone.
fn rows(csv: &str, columns: &[String]) -> Vec<Vec<String>> {
    let table = table(csv);
    let place = |name: &String| {
        let found = table[0].iter().position(|column| column == name);
        found.unwrap_or_else(|| panic!("column {name} is gone"))
    };
    let places: Vec<usize> = columns.iter().map(place).collect();
    let row = |row: &Vec<String>| places.iter().map(|place| row[*place].clone()).collect();
    table[1..].iter().map(row).collect()
}

/// Whether two are the same number, however they are written.
fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn same(a: &str, b: &str) -> bool {
    match (a.parse(), b.parse()) {
        (Ok(a), Ok(b)) => alike(a, b),
        _ => a == b,
    }
}

/// What `report` has at one of the [`PLACES`]; null where there is nothing.
fn figure(report: &Value, place: &str) -> Value {
    match place.strip_suffix('#') {
        None => report.pointer(place).cloned().unwrap_or_default(),
        Some(list) => {
            let list = report.pointer(list).and_then(Value::as_array);
            list.map_or(Value::Null, |list| list.len().into())
        }
    }
}

/// All figures that a report has.
fn figures(report: &Value) -> Map<String, Value> {
    let figures = PLACES.map(|(name, place)| (name.to_string(), figure(report, place)));
    let message = figures.into_iter().filter(|(_, value)| !value.is_null());
    message.collect()
}

/// Where a report says something else than `frozen` expects.
fn differences(frozen: &Frozen, report: &Value, csv: &str) -> Vec<String> {
    let mut found = Vec::new();
    let expected = frozen.expected["figures"].as_object().unwrap();
    let message = figures(report);
    for name in PLACES.map(|(name, _)| name) {
        let (was, is) = (expected.get(name), message.get(name));
        let numbers = was.and_then(Value::as_f64).zip(is.and_then(Value::as_f64));
        if !numbers.map_or(was == is, |(was, is)| alike(was, is)) {
            found.push(format!("{}: {name} was {was:?}, is {is:?}", frozen.name));
        }
    }
    let was: Vec<Vec<&str>> = (frozen.expected["rows"].as_array().unwrap().iter())
        .map(|row| row.as_str().unwrap().split(',').collect())
        .collect();
    let is = rows(csv, &frozen.columns);
    if was.len() != is.len() {
        let (was, is) = (was.len(), is.len());
        found.push(format!("{}: {was} rows were {is}", frozen.name));
    }
    for (number, (was, is)) in was.iter().zip(&is).enumerate() {
        for ((column, was), is) in frozen.columns.iter().zip(was).zip(is) {
            if !same(was, is) {
                let place = format!("{}: row {number}: {column}", frozen.name);
                found.push(format!("{place} was {was:?}, is {is:?}"));
            }
        }
    }
    found
}

#[test]
fn every_number_is_reported_as_measured() {
    let mut found = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again.json");
    for frozen in frozen() {
        let (text, csv) = (shown(&frozen.place, "json"), shown(&frozen.place, "csv"));
        found.extend(differences(&frozen, &json(&text), &csv));
        // What is printed is a report itself, in the format of today.
        fs::write(&again, &text).unwrap();
        assert_eq!(shown(&again, "csv"), csv, "{}", frozen.name);
        assert_eq!(shown(&again, "json"), text, "{}", frozen.name);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The numbers in a text, thousands with or without commas.
fn numbers(text: &str) -> Vec<f64> {
    let plain = text.replace(',', "");
    let words = plain.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn pages_have_the_figure_and_do_not_call_reports_changed() {
    for frozen in frozen() {
        for format in ["text", "markdown", "html"] {
            let text = shown(&frozen.place, format);
            let name = &frozen.name;
            if let Some(figure) = frozen.expected["figure"].as_f64() {
                let close = |number: &f64| (number - figure).abs() <= figure.abs() * 0.01;
                let is_there = numbers(&text).iter().any(close);
                assert!(is_there, "{name} {format}: no {figure}: {text}");
            }
            assert!(!text.contains(COMPLAINT), "{name} {format}: {text}");
        }
    }
}

/// What is in a column of the rows that are expected, times `scale`.
fn scaled(frozen: &Frozen, column: &str, scale: f64) -> Vec<f64> {
    let place = frozen.columns.iter().position(|name| name == column);
    let rows = frozen.expected["rows"].as_array().unwrap().iter();
    let field = |row: &Value| {
        let field = row.as_str().unwrap().split(',').nth(place.unwrap());
        Some(field.unwrap().parse::<f64>().ok()? * scale)
    };
    rows.filter_map(field).collect()
}

#[test]
fn metrics_have_every_rate() {
    const GIB: f64 = (1 << 30) as f64;
    for frozen in frozen() {
        let text = shown(&frozen.place, "openmetrics");
        assert!(text.ends_with("# EOF\n"), "{}: {text}", frozen.name);
        let samples: Vec<f64> = (text.lines().filter(|line| !line.starts_with('#')))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        let rates = match frozen.expected["figures"]["kind"].as_str().unwrap() {
            "gds" => scaled(&frozen, "throughput_bytes_per_second", 1.0),
            "train" => scaled(&frozen, "au_percent", 0.01),
            _ => scaled(&frozen, "gib_per_second_total", GIB),
        };
        for rate in rates {
            let is_there = samples.iter().any(|sample| alike(*sample, rate));
            assert!(is_there, "{}: no {rate}: {text}", frozen.name);
        }
    }
}

/// The rows of a list of `place`, as JSON.
fn listed(place: &Path) -> Vec<Value> {
    json(&shown(place, "json")).as_array().unwrap().clone()
}

#[test]
fn a_list_has_a_row_for_each_with_its_figure() {
    let folder = tempfile::tempdir().unwrap();
    // Files of version 1 have names of their own; in a list each lies in the folder of its run.
    for frozen in frozen() {
        let Some(name) = frozen.name.strip_prefix("v1/") else {
            continue;
        };
        let run = folder.path().join(name.trim_end_matches(".json"));
        fs::create_dir(&run).unwrap();
        fs::copy(&frozen.place, run.join("report.json")).unwrap();
    }
    let mut rows = listed(folder.path());
    for version in ["v2", "v3"] {
        rows.extend(listed(&fixtures().join(version)));
    }
    for frozen in frozen() {
        let run = frozen.name.trim_end_matches(".json");
        let parent = match run.split_once('/').unwrap() {
            ("v1", name) => folder.path().join(name),
            _ => frozen.place.clone(),
        };
        let file = parent.join("report.json").display().to_string();
        let row = rows.iter().find(|row| row["file"] == file.as_str());
        let row = row.unwrap_or_else(|| panic!("{run} is not in the list"));
        let expected = &frozen.expected;
        assert_eq!(row["kind"], expected["figures"]["kind"], "{run}");
        assert_eq!(row["status"], expected["figures"]["ending"], "{run}");
        assert_eq!(row["unit"], expected["unit"], "{run}");
        let (is, was) = (row["figure"].as_f64(), expected["figure"].as_f64());
        let same = is.zip(was).map_or(is == was, |(is, was)| alike(is, was));
        assert!(same, "{run}: {was:?} was {is:?}");
    }
    assert_eq!(rows.len(), frozen().len());
    // Two places are shown whole.
    let two = ["gds-mixed", "train-v2"].map(|name| fixtures().join("v2").join(name));
    let mut command = stormlp();
    command.arg("report").args(&two).args(["--format", "json"]);
    let both = json(&stdout(command.assert().success()));
    let kinds: Vec<&Value> = both.as_array().unwrap().iter().map(|r| &r["kind"]).collect();
    assert_eq!(kinds, ["gds", "train"]);
}

#[test]
fn a_report_is_identical_to_itself() {
    for frozen in frozen() {
        let mut command = stormlp();
        command.arg("compare").args([&frozen.place, &frozen.place]);
        let assert = command.args(["--format", "json"]).assert();
        if frozen.expected["figure"].is_null() {
            // Nothing was measured that could be compared.
            assert.code(3);
            continue;
        }
        let compared = json(&stdout(assert.success()));
        // Levels that nobody read in an interval are not equal to themselves, and only training
        // has any.
        if frozen.expected["figures"]["kind"] != "train" {
            assert_eq!(compared["identical"], true, "{}", frozen.name);
        }
        let figures = compared["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{}", frozen.name);
        for figure in figures {
            assert_eq!(figure["baseline"], figure["value"], "{}", frozen.name);
            let verdict = figure["verdict"].as_str().unwrap();
            let changed = ["improved", "regressed"].contains(&verdict);
            assert!(!changed, "{}: {figure}", frozen.name);
        }
        assert_eq!(compared["differences"], Value::Array(Vec::new()));
    }
}

#[test]
fn parts_of_a_killed_run_are_merged() {
    let mut command = stormlp();
    let place = fixtures().join("v2/hosts-gds-killed");
    command.args(["report", "merge", "--format", "json"]);
    let merged = json(&stdout(command.arg(place).assert().success()));
    assert_eq!(merged["hosts"].as_array().unwrap().len(), 2);
    let cells = merged["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let hosts = cell["hosts"].as_array().unwrap().iter();
        let bytes: u64 = hosts.map(|host| host["bytes"].as_u64().unwrap()).sum();
        assert_eq!(cell["bytes"], bytes);
    }
}

/// Were a number of a report another one, the tests above would tell.
#[test]
fn an_edited_number_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("v1/gds.json", "/cells/0/throughput_bytes_per_second"),
        ("v1/train.json", "/runs/1/epochs/0/mib_per_second"),
        ("v1/checkpoint.json", "/saves/0/gib_per_second/total"),
        ("v2/gds-mixed", "/cells/0/throughput_bytes_per_second"),
        ("v2/train-v2", "/epochs/0/mib_per_second"),
        ("v2/checkpoint", "/saves/0/gib_per_second/total"),
    ];
    for (name, place) in changes {
        let frozen = frozen().into_iter().find(|frozen| frozen.name == name);
        let frozen = frozen.unwrap();
        let file = match frozen.place.is_dir() {
            true => frozen.place.join("report.json"),
            false => frozen.place.clone(),
        };
        let mut report = json(&fs::read_to_string(file).unwrap());
        let number = report.pointer_mut(place).unwrap();
        *number = (number.as_f64().unwrap() * 1.1).into();
        let changed = folder.path().join("changed.json");
        fs::write(&changed, report.to_string()).unwrap();
        let (text, csv) = (shown(&changed, "json"), shown(&changed, "csv"));
        let found = differences(&frozen, &json(&text), &csv);
        assert!(!found.is_empty(), "{name} {place}");
        let page = shown(&changed, "text");
        assert!(page.contains(COMPLAINT), "{name} {place}: {page}");
    }
}
