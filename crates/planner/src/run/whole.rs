//! A whole run, and the part of the answer that it gives.

use crate::plan::{
    Case, CheckpointTimes, Need, Prediction, Range, Sizing, SizingAnswer, assumptions,
};

/// Throughput above storage bandwidth by more than this percentage is explained.
const LEAST_MORE_PERCENT: f64 = 0.05;

/// A whole run and its prediction.
pub(super) struct Whole {
    pub(super) case: Case,
    pub(super) prediction: Prediction,
}

impl Whole {
    /// Whether it reaches the threshold.
    pub(super) fn meets(&self) -> bool {
        self.prediction.au_percent >= self.case.whole.metric.threshold_percent
    }

    /// The answer without any results of a search.
    pub(super) fn into_answer(self, sizing: &Sizing) -> SizingAnswer {
        let meets_threshold = self.meets();
        let Self { case, prediction } = self;
        let mut notes = assumptions::of(sizing, &case.whole);
        notes.extend(case.assumptions());
        notes.extend(above_storage(&case, &prediction));
        let run_seconds = case.run_seconds(&prediction);
        let plan = case.whole;
        SizingAnswer {
            measured: false,
            profile: plan.profile,
            accelerators: plan.accelerators,
            asked: sizing.asked.accelerators.is_some(),
            hosts: case.hosts,
            au_percent: prediction.au_percent,
            threshold_percent: plan.metric.threshold_percent,
            meets_threshold,
            samples_per_second: prediction.samples_per_second,
            mib_per_second: prediction.mib_per_second,
            read_mib_per_second: prediction.read_mib_per_second,
            largest_accelerators: 0,
            range: Range::default(),
            client: sizing.client_in_words(),
            warnings: Vec::new(),
            storage_alone_accelerators: 0,
            is_lower_bound: false,
            limited_by: prediction.limited_by,
            storage_part: prediction.storage_part(),
            search_limited_by: prediction.limited_by,
            search_storage_part: None,
            need: Need::default(),
            storage: sizing.storage.model.to_string(),
            storage_source: sizing.storage.source.clone(),
            storage_model: sizing.storage.model.clone(),
            dataset: case.size,
            host_memory_bytes: sizing.host_memory_bytes(),
            host_memory_assumed: sizing.asked.host_spec().memory_bytes.is_none(),
            host_read_bytes_per_second: sizing.host_rate(),
            hosts_are_full: false,
            run_seconds,
            checkpoint: checkpoint(sizing, case.hosts),
            rows: Vec::new(),
            over_accelerators: Vec::new(),
            over_devices: Vec::new(),
            assumptions: notes,
            model_error: String::new(),
            not_validated: Vec::new(),
            workload: plan.workload,
            accelerator: plan.accelerator,
            prediction,
        }
    }
}

/// Explains throughput above the storage bandwidth.
fn above_storage(case: &Case, prediction: &Prediction) -> Option<String> {
    let more = 100.0 * (case.storage_share(prediction.samples_per_second)? - 1.0);
    (more > LEAST_MORE_PERCENT).then(|| {
        format!(
            "throughput covers only the steps that count; samples prefetched before them raise it \
             {more:.1} % above the storage bandwidth"
        )
    })
}

/// Checkpoint times of the job on this many hosts.
fn checkpoint(sizing: &Sizing, hosts: u32) -> Option<CheckpointTimes> {
    let (what, bytes) = sizing.checkpoint()?;
    let storage = sizing.storage.model.of_hosts(hosts);
    let of_host = [
        storage.link.map(|link| link.bytes_per_second),
        storage.connections.and_then(|all| Some(all.bytes_per_second * f64::from(all.number?))),
    ];
    let of_host = of_host.into_iter().flatten().fold(f64::INFINITY, f64::min);
    let links = of_host * f64::from(hosts);
    let times = CheckpointTimes::new(
        what,
        bytes,
        storage.write_bytes_per_second().map(|rate| rate.min(links)),
        storage.read_bytes_per_second().min(links),
        sizing.asked.mtbf_seconds,
    );
    let asked = sizing.checkpoint.is_some() || sizing.asked.mtbf_seconds.is_some();
    Some(CheckpointTimes { asked, ..times })
}
