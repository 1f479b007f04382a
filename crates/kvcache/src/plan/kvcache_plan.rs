//! The plan of a run: every number is decided before the first byte moves.

use serde::{Deserialize, Serialize};
use stormlp_core::transport::Transport;
use stormlp_core::warning::Warning;

use super::model::Model;
use super::request::{KvcacheRequest, WorkloadName};
use super::serving::ServingPlan;
use super::trace::TraceFormat;
use super::workload::Speed;

/// The trace of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracePlan {
    /// Its format.
    pub format: TraceFormat,
    /// Requests or operations.
    pub entries: u64,
    /// Lines without work for storage: objects in memory, requests without tokens.
    pub skipped: u64,
    /// From the first to the last as recorded, in seconds.
    pub span_seconds: f64,
    /// How fast it is replayed.
    pub speed: Speed,
}

impl TracePlan {
    /// Its duration if threads keep up, in seconds; `None` if it has no pace.
    pub fn paced_seconds(&self) -> Option<f64> {
        match self.speed {
            Speed::Times(times) => Some(self.span_seconds / times),
            Speed::Max => None,
        }
    }
}

/// The work of a client in each of its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pass {
    /// MLPerf's option with this model, these users, memory and writes; `None` if one differs.
    pub option: Option<u32>,
    /// The model.
    pub model: Model,
    /// Users.
    pub users: u32,
    /// Threads that serve requests.
    pub workers: u32,
    /// Memory of the host that holds objects before storage does, in bytes.
    pub memory_bytes: u64,
    /// Objects that are written at a time.
    pub concurrent_writes: u32,
    /// Requests that its users send per second.
    pub requests_per_second: f64,
    /// The largest object that its users may ask for, in bytes.
    pub largest_object_bytes: u64,
}

/// A run with every number decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KvcachePlan {
    /// The request.
    pub request: KvcacheRequest,
    /// The name of the workload.
    pub workload: WorkloadName,
    /// The trace that is replayed, if one is.
    #[serde(default)]
    pub trace: Option<TracePlan>,
    /// The load of a serving engine, if prompts load prefixes.
    #[serde(default)]
    pub serving: Option<ServingPlan>,
    /// The passes, one after the other.
    pub passes: Vec<Pass>,
    /// Trials of each.
    pub trials: u32,
    /// Duration of a trial in seconds, at most: a trace may end before.
    pub duration_seconds: f64,
    /// Seconds between trials, or between options if the rules fix them.
    pub pause_seconds: f64,
    /// The seed of users, requests and content; of several hosts, this one's.
    pub seed: u32,
    /// The rank of this process, if it is one of several: its objects are in a folder `rank_N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// How bytes move: each thread serves a request at a time.
    pub transport: Transport,
    /// Maximum bytes of objects in the folder.
    pub capacity_bytes: u64,
    /// Free bytes on its file system, including the files of a killed run; `None` if it was not
    /// examined.
    pub free_bytes: Option<u64>,
    /// Host memory for buffers and the noise that objects are made of, in bytes.
    pub buffer_bytes: u64,
    /// Warnings to read before the run.
    pub warnings: Vec<Warning>,
}

impl KvcachePlan {
    /// The names of the models, each once.
    pub fn models(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for pass in &self.passes {
            if !names.contains(&pass.model.name) {
                names.push(pass.model.name.clone());
            }
        }
        names
    }

    /// The models as text.
    pub fn name(&self) -> String {
        self.models().join(", ")
    }

    /// The name of a pass in series and histograms: `option 1`, or the model.
    pub fn part_name(&self, pass: usize) -> String {
        match self.passes.get(pass) {
            Some(Pass { option: Some(option), .. }) => format!("option {option}"),
            Some(Pass { model, .. }) => model.name.clone(),
            None => "a pass that the plan lacks".to_string(),
        }
    }

    /// Whether only the end of its trace ends a trial.
    pub fn ends_with_trace(&self) -> bool {
        self.trace.is_some() && self.request.run.duration_seconds.is_none()
    }

    /// Maximum threads of any pass.
    pub fn most_workers(&self) -> u32 {
        self.passes.iter().map(|pass| pass.workers).max().unwrap_or(1)
    }
}
