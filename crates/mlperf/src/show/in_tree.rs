//! The runs that a rehearsal's tree already has, and whether new runs belong with them.

use serde::Serialize;
use serde_json::Value;
use stormlp_core::facts::HostFacts;
use stormlp_core::units::format_duration;

use stormlp_show::settings;
use stormlp_show::settings::{Difference, Work};
use stormlp_show::stamp;

/// Fields of a plan that may differ between runs: how it was requested, and estimates.
const APART: &[&str] = &["request", "transport.engine_asked", "memory_bytes"];
/// Of a training run's request, what no other field of its plan follows from.
const OF_REQUEST: [&str; 7] = [
    "barrier",
    "closed",
    "cold",
    "cufile_stats",
    "keep_step_times",
    "require_gds",
    "telemetry_seconds",
];

/// The work of `plan`.
fn work(plan: &Value) -> Work {
    let add = |work: Work, key: &str| work.with(key, &plan["request"][key].to_string());
    OF_REQUEST.into_iter().fold(Work::of_plan(plan, APART), add)
}

/// A complete run in a rehearsal's tree.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInTree {
    /// Its folder, relative to the tree's parent.
    pub folder: String,
    /// Its `summary.json`.
    pub summary: Value,
    /// Its `provenance.json`.
    pub provenance: Value,
}

impl RunInTree {
    /// The number of the run, from 1, where its files have number and plan.
    pub fn number(&self) -> Option<u32> {
        let plan = &self.provenance["rehearsed"]["plan"];
        let number = self.summary["stormlp"]["run"].as_u64()?;
        u32::try_from(number).ok().filter(|_| plan.is_object())
    }

    /// Its command.
    pub fn command(&self) -> &str {
        let command = &self.provenance["rehearsed"]["command"];
        command.as_str().unwrap_or_default()
    }

    /// Its differences from runs of `plan` on `host`.
    pub fn differences(&self, plan: &impl Serialize, host: &HostFacts) -> Vec<Difference> {
        let rehearsed = &self.provenance["rehearsed"];
        let then = work(&rehearsed["plan"])
            .with("host", rehearsed["host"].as_str().unwrap_or_default())
            .with("stormlp", self.provenance["tool"]["version"].as_str().unwrap_or_default());
        // Digits may change when it is written and read.
        let plan = serde_json::to_string(plan).unwrap_or_default();
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap_or_default();
        let now = work(&plan).with("host", &host.hostname).with("stormlp", &host.stormlp_version);
        settings::differences(&then, &now)
    }

    /// Start and end in seconds since 1970.
    fn span(&self) -> Option<(f64, f64)> {
        // DLIO's times have no time zone; stormlp's are UTC.
        let at = |key: &str| {
            let moment = stamp::unix_seconds(&format!("{}Z", self.summary[key].as_str()?));
            (moment > 0.0).then_some(moment)
        };
        Some((at("start")?, at("end")?))
    }
}

/// The broken rule if the next run starts now: the pause must be less than the shortest run.
pub fn too_long_a_gap(runs: &[RunInTree], now_unix_seconds: f64) -> Option<String> {
    let spans: Vec<(f64, f64)> = runs.iter().filter_map(RunInTree::span).collect();
    let (_, ended) = spans.last()?;
    let shortest = spans.iter().map(|(start, end)| end - start).reduce(f64::min)?;
    let gap = now_unix_seconds - ended;
    (gap >= shortest).then(|| {
        format!(
            "the pause since the last run is {}, and the shortest run took {}: rule 2.1.18 of v3.0 \
             allows less than one run between two",
            format_duration(gap),
            format_duration(shortest)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(start: &str, end: &str) -> RunInTree {
        RunInTree {
            folder: "rehearsal/x".to_string(),
            summary: json!({"start": start, "end": end, "stormlp": {"run": 2}}),
            provenance: json!({"rehearsed": {"plan": {"accelerators": 2, "memory_bytes": 1}}}),
        }
    }

    #[test]
    fn a_pause_as_long_as_the_shortest_run_is_reported() {
        let runs = [
            run("2026-06-01T10:00:00.0", "2026-06-01T10:01:00.0"),
            run("2026-06-01T10:01:01.0", "2026-06-01T10:01:51.0"),
        ];
        let ended = stamp::unix_seconds("2026-06-01T10:01:51Z");
        assert_eq!(too_long_a_gap(&runs, ended + 49.0), None);
        let fault = too_long_a_gap(&runs, ended + 50.0).unwrap();
        assert!(fault.contains("took 50 s"), "{fault}");
        assert_eq!(too_long_a_gap(&[], ended), None);
        assert_eq!(too_long_a_gap(&[run("x", "y")], ended), None);
    }

    #[test]
    fn settings_differ_and_estimates_do_not() {
        let run = run("", "");
        assert_eq!(run.number(), Some(2));
        let host = stormlp_training::show::fixtures::report().head.host;
        let of = |plan: Value| {
            let found = run.differences(&plan, &host).into_iter();
            found.map(|one| one.setting).collect::<Vec<String>>()
        };
        let same = of(json!({"accelerators": 2, "memory_bytes": 7}));
        assert_eq!(same, ["host", "stormlp"]);
        let other = of(json!({"accelerators": 4, "memory_bytes": 1}));
        assert_eq!(other, ["host", "plan.accelerators", "stormlp"]);
    }
}
