//! Conditions that make two runs comparable.

use super::fixtures::matrix::run_of;
use super::fixtures::training as fixtures;
use clap::Args as _;
use serde_json::Value;
use stormlp_matrix::plan::MatrixTune;
use stormlp_show::settings;

use crate::any_report::AnyReport;

/// One report of each of the three kinds, as JSON.
fn reports() -> [Value; 3] {
    [
        run_of(20.0).into(),
        fixtures::report().into(),
        super::fixtures::checkpoint::report(1.0).into(),
    ]
    .map(|report: AnyReport| serde_json::to_value(report).unwrap())
}

fn read(report: &Value) -> AnyReport {
    AnyReport::from_json(&report.to_string()).unwrap()
}

/// The differences found when `value` is set at `place` in the report.
fn changed(report: &Value, place: &str, value: Value) -> Vec<String> {
    let mut other = report.clone();
    let found = other.pointer_mut(place).unwrap_or_else(|| panic!("{place}"));
    assert_ne!(*found, value, "{place}");
    *found = value;
    let [then, now] = [report, &other].map(|one| read(one).work());
    let differences = settings::differences(&then, &now);
    differences.into_iter().map(|one| one.setting).collect()
}

#[test]
fn whatever_changes_the_work_counts_by_its_name_or_its_place() {
    let [gds, train, checkpoint] = reports();
    // So close that the rounded text is the same.
    let longer = gds["plan"]["request"]["duration"]["seconds"].as_f64().unwrap() + 0.001;
    for (report, place, value, findings) in [
        (&gds, "/plan/request/fill", "zero".into(), "--fill"),
        (&gds, "/plan/cells/0/submit_batch", 9.into(), "--tune submit-batch"),
        (&gds, "/plan/cells/0/register_buffers", false.into(), "--tune register"),
        (&gds, "/plan/request/warmup_seconds", 2.5.into(), "--warmup"),
        (&gds, "/plan/request/duration/seconds", longer.into(), "--duration"),
        (&train, "/plan/transport/engine", "uring".into(), "--engine"),
        (&train, "/plan/transport/threads", 77.into(), "--threads"),
        (&train, "/plan/shuffle/files", "off".into(), "plan.shuffle.files"),
        (&train, "/plan/runs", 6.into(), "a warm-up run"),
        (&checkpoint, "/plan/save/engine", "uring".into(), "--engine"),
        (&checkpoint, "/plan/restore/chunk_bytes", 4096.into(), "--io-size"),
        (&checkpoint, "/plan/save/streams", 77.into(), "--queue-depth"),
    ] {
        assert_eq!(changed(report, place, value), [findings]);
    }
}

#[test]
fn options_are_named_as_typed() {
    let line = crate::cli::command();
    let tune = MatrixTune::augment_args(clap::Command::new("tune"));
    let keys: Vec<&str> = tune.get_arguments().filter_map(|one| one.get_long()).collect();
    for report in reports() {
        let command = line.find_subcommand(report["kind"].as_str().unwrap()).unwrap();
        let known: Vec<&str> = command.get_arguments().filter_map(|one| one.get_long()).collect();
        let work = read(&report).work();
        assert!(work.options().count() > 2);
        for option in work.options() {
            let key = option.strip_prefix("--tune ");
            let names = if key.is_some() { &keys } else { &known };
            assert!(names.contains(&key.unwrap_or(&option[2..])), "{option}");
        }
    }
}

#[test]
fn a_matrix_of_two_hosts_is_other_work_than_that_of_one() {
    let [mut gds, ..] = reports();
    gds["hosts"] = serde_json::json!([]);
    let share = serde_json::json!({"name": "h", "bytes": 1, "cpu_seconds": 0.1, "slowest": 1});
    let two = serde_json::json!([share, share]);
    assert_eq!(changed(&gds, "/hosts", two), ["hosts"]);
}

#[test]
fn location_and_repetitions_are_not_part_of_the_work() {
    let [gds, train, checkpoint] = reports();
    for (report, place, value) in [
        (&gds, "/plan/request/name", "other".into()),
        (&gds, "/plan/request/tune/seed", 7.into()),
        (&gds, "/plan/files/0/path", "/elsewhere".into()),
        (&train, "/plan/data/folder", "/elsewhere".into()),
        (&train, "/plan/request/tune/telemetry_seconds", 1.0.into()),
        (&checkpoint, "/plan/request/folders/0", "/elsewhere".into()),
        (&checkpoint, "/plan/writes", 77.into()),
    ] {
        assert_eq!(changed(report, place, value), Vec::<String>::new(), "{place}");
    }
}
