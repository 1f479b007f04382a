//! The rows for programs: a trial each, the loads of each length of prefix in it, and the answer of a
//! search.

use serde_json::{Value, json};
use stormlp_show::records::Records;

use super::trials::{generates, pass_of};
use crate::plan::is_of_memory;
use crate::report::{KvcacheReport, TrialResult, nothing};

/// JSON pointers to the columns of the records: with a leading `/` into the trial, otherwise into
/// the report.
pub const RECORDS: [(&str, &str); 62] = [
    ("format_version", "format_version"),
    ("started_at", "started_at"),
    ("hostname", "host/hostname"),
    ("command", "command"),
    ("workload", "plan/workload"),
    ("seed", "plan/seed"),
    ("path", "plan/transport/path"),
    ("option", "/option"),
    ("model", "/model"),
    ("users", "/users"),
    ("trial", "/trial"),
    ("started_at_seconds", "/started_at_seconds"),
    ("window_seconds", "/window_seconds"),
    ("total_seconds", "/total_seconds"),
    ("read_gib_per_second", "/read_gib_per_second"),
    ("write_gib_per_second", "/write_gib_per_second"),
    ("read_bytes", "/read/bytes"),
    ("read_late_bytes", "/read/late_bytes"),
    ("read_objects", "/read/objects"),
    ("written_bytes", "/written/bytes"),
    ("written_late_bytes", "/written/late_bytes"),
    ("written_objects", "/written/objects"),
    ("tokens_per_second", "/tokens_per_second"),
    ("offered", "/requests/begun"),
    ("served", "/requests/served"),
    ("served_late", "/requests/served_late"),
    ("read_p50_ms", "/times_ms/read/p50"),
    ("read_p95_ms", "/times_ms/read/p95"),
    ("read_p99_ms", "/times_ms/read/p99"),
    ("write_p95_ms", "/times_ms/write/p95"),
    ("fsync_p95_ms", "/times_ms/fsync/p95"),
    ("persist_p95_ms", "/times_ms/persist/p95"),
    ("slot_wait_p95_ms", "/times_ms/slot_wait/p95"),
    ("queue_wait_p95_ms", "/times_ms/queue_wait/p95"),
    ("storage_p95_ms", "/times_ms/storage/p95"),
    ("request_p95_ms", "/times_ms/request/p95"),
    ("other_turn_hits", "/lookups/other_turn_hits"),
    ("other_turn_misses", "/lookups/other_turn_misses"),
    ("deleted", "/evictions/deleted"),
    ("resident_before_drop", "/residency/before_drop"),
    ("resident_after_drop", "/residency/after_drop"),
    ("device_read_bytes", "/device/read_bytes"),
    ("device_written_bytes", "/device/written_bytes"),
    ("cpu_user_seconds", "/cpu_user_seconds"),
    ("cpu_system_seconds", "/cpu_system_seconds"),
    ("not_there", "/lookups/own_misses"),
    ("prompt_tokens", "/prompts/tokens"),
    ("loaded_tokens", "/prompts/loaded_tokens"),
    ("chunks_dropped", "/prompts/dropped"),
    ("storage_p50_ms", "/times_ms/storage/p50"),
    ("storage_p99_ms", "/times_ms/storage/p99"),
    ("hosts", "/processes"),
    ("prefix_tokens", "/load/prefix_tokens"),
    ("loads", "/load/load_ms/count"),
    ("load_p50_ms", "/load/load_ms/p50"),
    ("load_p95_ms", "/load/load_ms/p95"),
    ("load_p99_ms", "/load/load_ms/p99"),
    ("load_gib_per_second", "/load/gib_per_second"),
    ("fed_servers", "/fed_servers"),
    ("fed_from_memory", "/fed_from_memory"),
    ("chunks_waiting", "/prompts/waiting"),
    ("tags", "tags"),
];

/// The records of a report.
pub(super) fn records(report: &KvcacheReport) -> Records {
    let mut alone = report.clone();
    alone.results.trials.clear();
    Records::new(&alone, units(report), &RECORDS)
}

/// The answer of a search; and the records of the trials, each with its pass, followed by the loads
/// of each length of prefix in it.
fn units(report: &KvcacheReport) -> impl Iterator<Item = Value> {
    let answer = report.results.find_max.as_ref().filter(|find| !find.tried.is_empty());
    let answer = answer.map(|find| {
        let model = report.plan.name();
        json!({
            "model": model,
            "fed_servers": find.largest,
            "fed_from_memory": is_of_memory(find),
        })
    });
    // A run without work for storage has no figure.
    let rates = ["read_gib_per_second", "write_gib_per_second", "tokens_per_second"];
    let absent = match (nothing(report).is_some(), generates(&report.plan)) {
        (true, _) => &rates[..],
        (false, false) => &rates[2..],
        (false, true) => &[],
    };
    let absent = absent.to_vec();
    let of_trial = move |trial: &TrialResult| {
        // A trial is plain data, so it always serialises to JSON.
        let mut value = serde_json::to_value(trial).unwrap_or_default();
        let mut of_load = json!({ "trial": trial.trial });
        let processes = trial.ranks().count() as u64;
        absent.iter().for_each(|figure| value[*figure] = Value::Null);
        for value in [&mut value, &mut of_load] {
            if let Some(pass) = pass_of(&report.plan, trial.pass) {
                value["option"] = json!(pass.option);
                value["model"] = json!(pass.model.name);
                // Of all processes, as their figures.
                let users = u64::from(pass.users) * processes;
                value["users"] = json!((users > 0).then_some(users));
            }
            value["processes"] = processes.into();
        }
        let loads = trial.prompts.iter().flat_map(|prompts| &prompts.loads).map(|load| {
            of_load["load"] = json!(load);
            of_load.clone()
        });
        let loads: Vec<Value> = loads.collect();
        std::iter::once(value).chain(loads)
    };
    answer.into_iter().chain(report.results.trials.iter().flat_map(of_trial))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use crate::report::{HostTrial, ObjectsMoved};

    fn value<'a>(records: &'a Records, row: usize, name: &str) -> &'a Value {
        let column = records.columns.iter().position(|column| *column == name).expect("a column");
        &records.rows[row][column]
    }

    #[test]
    fn what_was_not_measured_is_empty() {
        let mut report = fixtures::report();
        let all = records(&report);
        assert!(
            value(&all, 0, "tokens_per_second").is_number() && value(&all, 0, "users").is_number()
        );
        // Chunks have neither users nor tokens that are generated.
        let serving = records(&fixtures::serving());
        assert!(value(&serving, 0, "read_gib_per_second").is_number());
        for name in ["tokens_per_second", "users"] {
            assert!(value(&serving, 0, name).is_null(), "{name}");
        }
        let found = records(&fixtures::find_max());
        assert!(value(&found, 0, "fed_servers").is_number() && value(&found, 0, "users").is_null());
        let mut two = report.clone();
        let host = HostTrial {
            name: "host".to_string(),
            seed: 42,
            result: report.results.trials[0].clone(),
        };
        two.results.trials[0].hosts = vec![host.clone(), host];
        assert_eq!([0, 1].map(|row| value(&records(&two), row, "users").clone()), [400, 200]);
        // Storage did nothing.
        for trial in &mut report.results.trials {
            (trial.read, trial.written) = (ObjectsMoved::default(), ObjectsMoved::default());
        }
        let none = records(&report);
        for name in ["read_gib_per_second", "write_gib_per_second", "tokens_per_second"] {
            assert!(value(&none, 0, name).is_null(), "{name}");
        }
        assert_eq!(*value(&none, 0, "read_bytes"), 0);
    }
}
