//! The settings of a plan by their places in it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use stormlp_core::matrix::MatrixPlan;
use stormlp_core::report::AnyReport;

use crate::numbers::percent;

/// What of the plan of a matrix is no part of the work: how it was asked for and called, where its
/// files are and what has to be done to them first, how often it is repeated, which of many alike
/// orders was drawn, what it makes an error, and what was estimated.
const OF_MATRIX: &[&str] = &[
    "name",
    "paths",
    "repeat",
    "find_knee",
    "seed",
    "keep",
    "require_gds",
    "require_direct",
    "telemetry_seconds",
    "folders",
    "files.path",
    "files.action",
    "files.content",
    "files.folder",
    "files.made_here",
    "files.block_device",
    "files.file_system",
    // As a share, in words of their own.
    "files.hole_bytes",
    "layout_bytes",
    // The host's, which writes the files: that of the cells stands with them.
    "engine",
    "job_names",
    "cells.engine_asked",
    "cells.repeat",
    "cells.crew",
    "cells.availability",
    // What the file system lets happen, which the path that ran shows; what was asked stands in
    // `open_direct`.
    "cells.direct",
    "cells.requested_bytes",
    "cells.estimated_seconds",
    "region_bytes",
    "estimated_seconds",
    "warnings",
];

/// The same of a training run; its runs are told as whether there was a warm-up.
const OF_TRAINING: &[&str] = &[
    "workload_source",
    "runs",
    "closed",
    "data.folder",
    "metric.threshold_percent",
    "shuffle.seed",
    "shuffle.file_seed",
    "checkpoint.folder",
    "transport.engine_asked",
    "require_gds",
    "telemetry_seconds",
    "keep_step_times",
    "memory_bytes",
];

/// The same of a checkpoint run. What ranks write follows from the model and its layout; more saves
/// or restores are more samples.
const OF_CHECKPOINT: &[&str] = &[
    "closed",
    "full_run",
    "ranks",
    "folders",
    "writes",
    "restore_steps",
    "save.engine_asked",
    "restore.engine_asked",
    "content.seed",
    "require_gds",
    "telemetry_seconds",
    "free_bytes",
    "peak_bytes",
    "buffer_bytes",
    "warnings",
];

/// What begins the place of a setting in a report.
const PLAN: &str = "plan.";

/// What stands at every place of the plan of a report that is part of the work, and what follows from
/// those that are not and is.
pub(super) fn of(report: &AnyReport) -> BTreeMap<String, String> {
    let hosts = report.hosts().to_string();
    let (mut places, name, value) = match report {
        AnyReport::Gds(report) => {
            let holes = report.plan.hole_share().map_or("none".to_string(), percent);
            let mut places = in_plan(&once(&report.plan), OF_MATRIX);
            places.insert("hosts".to_string(), hosts);
            (places, "holes", holes)
        }
        AnyReport::Train(report) => {
            let warm_up = if report.plan.runs > 1 { "yes" } else { "no" };
            let places = in_plan(&report.plan, OF_TRAINING);
            (places, "a warm-up run", warm_up.to_string())
        }
        AnyReport::Checkpoint(report) => {
            let folders = report.plan.folders.len().to_string();
            let mut places = in_plan(&report.plan, OF_CHECKPOINT);
            let hosts = if report.results.is_of_detached_hosts() {
                format!("{hosts} with checkpoints of their own")
            } else {
                hosts
            };
            places.insert("hosts".to_string(), hosts);
            (places, "folders", folders)
        }
    };
    places.insert(name.to_string(), value);
    places
}

/// Whether `place` is that of a plan's field, or within it.
pub(super) fn is_within(place: &str, field: &str) -> bool {
    let place = place.strip_prefix(PLAN).unwrap_or(place);
    let rest = place.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The plan with one cell of each combination.
fn once(plan: &MatrixPlan) -> MatrixPlan {
    let mut plan = plan.clone();
    plan.cells.retain(|cell| cell.repeat == 1);
    plan
}

pub(super) fn in_plan(plan: &impl Serialize, apart: &[&str]) -> BTreeMap<String, String> {
    // A plan was read from JSON, or will be saved as such.
    let plan = serde_json::to_value(plan).unwrap_or_default();
    let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    collect(&plan, "", apart, &mut found);
    let places = found.into_iter();
    places.map(|(place, values)| (format!("{PLAN}{place}"), words(&values))).collect()
}

/// Counts every value at its place; the entries of a list share theirs.
fn collect(
    value: &Value,
    place: &str,
    apart: &[&str],
    found: &mut BTreeMap<String, BTreeMap<String, usize>>,
) {
    if apart.contains(&place) {
        return;
    }
    let word = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let inner = match place {
                    "" => key.clone(),
                    place => format!("{place}.{key}"),
                };
                collect(value, &inner, apart, found);
            }
            return;
        }
        Value::Array(values) => {
            for value in values {
                collect(value, place, apart, found);
            }
            return;
        }
        Value::Null => "none".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let values = found.entry(place.to_string()).or_default();
    *values.entry(word).or_default() += 1;
}

/// `uring`, or `2 × psync, 6 × uring`.
fn words(values: &BTreeMap<String, usize>) -> String {
    let counted = values.iter().map(|(value, count)| match count {
        1 => value.clone(),
        count => format!("{count} × {value}"),
    });
    counted.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::matrix::tests::run_of;
    use crate::training::fixtures;
    use crate::{checkpoint, settings};

    /// The three kinds of reports, as JSON.
    fn reports() -> [Value; 3] {
        [run_of(20.0).into(), fixtures::report().into(), checkpoint::tests::report(1.0).into()]
            .map(|report: AnyReport| serde_json::to_value(report).unwrap())
    }

    fn read(report: &Value) -> AnyReport {
        AnyReport::from_json(&report.to_string()).unwrap()
    }

    /// What differs between a report and the same with `value` at `place`.
    fn changed(report: &Value, place: &str, value: Value) -> Vec<String> {
        let mut other = report.clone();
        let found = other.pointer_mut(place).unwrap_or_else(|| panic!("{place}"));
        assert_ne!(*found, value, "{place}");
        *found = value;
        let [then, now] = [report, &other].map(|one| settings::Work::of(&read(one)));
        let differences = settings::differences(&then, &now);
        differences.into_iter().map(|one| one.setting).collect()
    }

    #[test]
    fn whatever_changes_the_work_counts_by_its_name_or_its_place() {
        let [gds, train, checkpoint] = reports();
        // So close to the other that words do not tell them apart.
        let longer = gds["plan"]["span"]["seconds"].as_f64().unwrap() + 0.001;
        for (report, place, value, told) in [
            (&gds, "/plan/fill", "every".into(), "plan.fill"),
            (&gds, "/plan/cells/0/submit_batch", 9.into(), "plan.cells.submit_batch"),
            (&gds, "/plan/cells/0/register_buffers", false.into(), "plan.cells.register_buffers"),
            (&gds, "/plan/warmup_seconds", 2.5.into(), "warm-up"),
            (&gds, "/plan/span/seconds", longer.into(), "plan.span.seconds"),
            (&train, "/plan/transport/engine", "psync".into(), "plan.transport.engine"),
            (&train, "/plan/transport/threads", 77.into(), "plan.transport.threads"),
            (&train, "/plan/shuffle/files", "off".into(), "plan.shuffle.files"),
            (&train, "/plan/runs", 6.into(), "a warm-up run"),
            (&checkpoint, "/plan/save/engine", "uring".into(), "plan.save.engine"),
            (&checkpoint, "/plan/restore/chunk_bytes", 4096.into(), "plan.restore.chunk_bytes"),
            (&checkpoint, "/plan/save/streams", 77.into(), "plan.save.streams"),
            (&checkpoint, "/plan/rank_shift", 1.into(), "plan.rank_shift"),
        ] {
            assert_eq!(changed(report, place, value), [told]);
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
    fn detached_hosts_are_other_work_than_hosts_of_one_checkpoint() {
        let detached: AnyReport = checkpoint::tests::detached().into();
        let detached = serde_json::to_value(detached).unwrap();
        let mut together = detached.clone();
        let member = stormlp_core::group::Member::fixture(0, "h1");
        let group = stormlp_core::group::GroupFacts::fixture(&[member]);
        together["group"] = serde_json::to_value(group).unwrap();
        let [then, now] = [&together, &detached].map(|one| settings::Work::of(&read(one)));
        let told = settings::differences(&then, &now);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((&*told[0].setting, &*told[0].baseline), ("hosts", "2"));
    }

    #[test]
    fn where_and_how_often_is_no_part_of_the_work() {
        let [gds, train, checkpoint] = reports();
        for (report, place, value) in [
            (&gds, "/plan/name", "other".into()),
            (&gds, "/plan/seed", 7.into()),
            (&gds, "/plan/files/0/path", "/elsewhere".into()),
            (&train, "/plan/data/folder", "/elsewhere".into()),
            (&train, "/plan/telemetry_seconds", 1.0.into()),
            (&checkpoint, "/plan/folders/0", "/elsewhere".into()),
            (&checkpoint, "/plan/writes", 77.into()),
        ] {
            assert_eq!(changed(report, place, value), Vec::<String>::new(), "{place}");
        }
    }

    #[test]
    fn every_place_that_is_left_out_is_one_of_the_plan() {
        let lists = [OF_MATRIX, OF_TRAINING, OF_CHECKPOINT];
        for (report, list) in reports().iter().zip(lists) {
            let all = in_plan(&report["plan"], &[]);
            for field in list {
                let may_be_absent = ["checkpoint.folder", "warnings", "restore_steps"];
                let found = all.keys().any(|place| is_within(place, field));
                assert!(found || may_be_absent.contains(field), "{field}: {all:#?}");
            }
        }
    }
}
