//! Results of a run: bytes, requests and times of each trial, and means over the trials.
//!
//! A trial is a window of fixed length in which users send requests. The client of the v3.0 round
//! also counts transfers after the window and divides all by the window's length. Here both are
//! apart, and rates are of the window alone.

mod nothing;
mod servers;

use std::collections::BTreeMap;

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use stormlp_core::group::GroupFacts;
use stormlp_core::histogram::LatencyHistogram;
pub use stormlp_core::report::DeviceBytes;
use stormlp_core::report::Report;
use stormlp_core::stats::MeanAndDeviation;
use stormlp_core::units::GIB;
pub use stormlp_core::units::gib_per_second;
use strum::{Display, VariantArray};

pub use nothing::{ended, nothing};
pub use servers::tried_servers;
pub(crate) use servers::unwritten_percent;

use crate::plan::{Class, FindServers, KvcachePlan};

/// Minimum number of samples for a percentile: one lies beyond it.
const FEWEST_FOR_P95: u64 = 20;
/// If more of the sampled objects is in the page cache when their reads begin, the drop had no
/// effect.
pub(crate) const COLD_SHARE: f64 = 0.1;
/// If a smaller share of the bytes came from or went to devices, memory did the rest.
pub const DEVICE_SHARE: f64 = 0.9;

/// Objects and bytes moved between storage and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectsMoved {
    /// Whole objects within the window.
    pub objects: u64,
    /// Bytes within the window. A write counts once `fsync` has returned.
    pub bytes: u64,
    /// Whole objects after the window.
    pub late_objects: u64,
    /// Bytes after the window.
    pub late_bytes: u64,
}

impl ObjectsMoved {
    /// Counts a whole object, `late` if after the window.
    pub(crate) fn count_object(&mut self, late: bool) {
        *if late { &mut self.late_objects } else { &mut self.objects } += 1;
    }

    /// Counts bytes.
    pub(crate) fn count_bytes(&mut self, bytes: u64, late: bool) {
        *if late { &mut self.late_bytes } else { &mut self.bytes } += bytes;
    }

    /// Bytes within and after the window.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.late_bytes)
    }
}

/// Requests, prompts, or entries of a trace: its requests, or its reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestCounts {
    /// Those sent within the window; of prompts and of a trace, those that threads began.
    pub begun: u64,
    /// Those served within the window.
    pub served: u64,
    /// Those begun within the window and served after it.
    pub served_late: u64,
}

impl std::ops::AddAssign for RequestCounts {
    fn add_assign(&mut self, other: Self) {
        self.begun = self.begun.saturating_add(other.begun);
        self.served = self.served.saturating_add(other.served);
        self.served_late = self.served_late.saturating_add(other.served_late);
    }
}

impl RequestCounts {
    /// Counts one that was served, `late` if after the window.
    pub(crate) fn count(&mut self, late: bool) {
        *if late { &mut self.served_late } else { &mut self.served } += 1;
    }

    /// Those served within the window or after it.
    pub fn done(&self) -> u64 {
        self.served.saturating_add(self.served_late)
    }
}

/// Loads of prefixes of one length: each ends when the last of its chunks is there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrefixLoads {
    /// The length in tokens; shorter loads down to the next shorter length are among these.
    pub prefix_tokens: u32,
    /// Tokens that were loaded.
    pub tokens: u64,
    /// Bytes that were loaded.
    pub bytes: u64,
    /// Times of the loads.
    pub load_ms: TimesMs,
    /// The rate of one load: all bytes over the sum of the times.
    pub gib_per_second: f64,
    /// The mean time to compute as many tokens, if the rate of computing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computing_ms: Option<f64>,
}

impl PrefixLoads {
    /// The 95th percentile of a load in milliseconds, or the slowest if there are too few.
    pub(crate) fn slow_ms(&self) -> f64 {
        self.load_ms.p95.unwrap_or(self.load_ms.max)
    }
}

/// The prompts of a serving engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptsServed {
    /// Tokens of all prompts served.
    pub tokens: u64,
    /// Those that were loaded.
    pub loaded_tokens: u64,
    /// Loads of prefixes, by their length.
    pub loads: Vec<PrefixLoads>,
    /// Chunks that were not written because too many waited.
    pub dropped: u64,
    /// Chunks that waited to be written when the trial ended.
    pub waiting: u64,
}

impl PromptsServed {
    /// The share of the tokens that were loaded, 0 to 1.
    pub fn loaded_share(&self) -> f64 {
        self.loaded_tokens as f64 / self.tokens.max(1) as f64
    }
}

/// Where objects were looked for, and found or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lookups {
    /// Objects of other turns of a conversation that were there.
    pub other_turn_hits: u64,
    /// Those that were not written yet, or deleted.
    pub other_turn_misses: u64,
    /// First reads of a request's object.
    pub own_hits: u64,
    /// Objects of requests that were deleted before they were read, and written again.
    pub own_misses: u64,
    /// System prompts: none is ever stored.
    pub prompt_misses: u64,
    /// First reads of their object by requests that begin with a system prompt.
    pub own_hits_with_prompt: u64,
    /// Reads of objects in memory of the host.
    pub memory_hits: u64,
}

/// Objects that left a tier to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, AddAssign, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evictions {
    /// Objects written from memory of the host to storage.
    pub demoted: u64,
    /// Objects deleted from storage.
    pub deleted: u64,
}

/// Page cache residency of a sample of the objects that were read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledResidency {
    /// Objects in the sample.
    pub objects: u64,
    /// Share of their bytes in the page cache before it was to drop them, 0 to 1.
    pub before_drop: f64,
    /// The same afterwards, when the read began.
    pub after_drop: f64,
}

/// Times of one kind in milliseconds; percentiles within 1 %, and `None` with too few samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimesMs {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    #[serde(default)]
    pub p999: Option<f64>,
    /// Maximum.
    pub max: f64,
}

impl TimesMs {
    /// The times in a histogram; `None` if it is empty.
    pub fn of(histogram: &LatencyHistogram) -> Option<Self> {
        let us = histogram.summary()?;
        let p95 = (histogram.len() >= FEWEST_FOR_P95).then(|| histogram.quantile_ns(0.95));
        Some(Self {
            count: histogram.len(),
            mean: us.mean / 1e3,
            p50: us.p50.map(|us| us / 1e3),
            p95: p95.map(|ns| ns as f64 / 1e6),
            p99: us.p99.map(|us| us / 1e3),
            p999: us.p999.map(|us| us / 1e3),
            max: us.max / 1e3,
        })
    }
}

/// Times measured in a trial: whole objects and requests, those after the window included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[derive(Display, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Timed {
    /// Reading an object from storage: opening it, and all its reads.
    Read,
    /// Writing an object to the page cache: creating the file, and all its writes.
    Write,
    /// `fsync` of an object: the original calls it the write of the device.
    Fsync,
    /// Both: until an object is durable.
    Persist,
    /// Waiting to be one of the objects that are written at a time.
    SlotWait,
    /// From the sending of a request until a thread receives it.
    QueueWait,
    /// Reads and writes of a request together.
    Storage,
    /// From the sending of a request to its end.
    Request,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialResult {
    /// The pass it belongs to, as its place in the plan, from 0.
    pub pass: u32,
    /// Its number among the trials of the pass, from 1.
    pub trial: u32,
    /// Start time in seconds since the start of the run.
    pub started_at_seconds: f64,
    /// Length of the window in seconds; shorter than planned if the run ended early.
    pub window_seconds: f64,
    /// From the start until the last thread was done, in seconds.
    pub total_seconds: f64,
    /// Reads.
    pub read: ObjectsMoved,
    /// Writes.
    pub written: ObjectsMoved,
    /// Read rate within the window.
    pub read_gib_per_second: f64,
    /// Write rate within the window.
    pub write_gib_per_second: f64,
    /// Tokens generated by the requests served within the window.
    pub tokens: u64,
    /// The same of those served after it.
    pub late_tokens: u64,
    /// Tokens per second of the window.
    pub tokens_per_second: f64,
    /// The requests of all users, the prompts, or the entries of a trace.
    pub requests: RequestCounts,
    /// The requests of each class of users; empty for a trace and prompts.
    pub classes: BTreeMap<Class, RequestCounts>,
    /// Whether a trace was replayed to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_whole_trace: Option<bool>,
    /// Prompts that loaded prefixes; then objects are chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptsServed>,
    /// The measured times.
    pub times_ms: BTreeMap<Timed, TimesMs>,
    /// Where objects were looked for.
    pub lookups: Lookups,
    /// Objects that made room.
    pub evictions: Evictions,
    /// Page cache residency around reads; `None` if the kernel does not report it, or no byte was
    /// read.
    pub residency: Option<SampledResidency>,
    /// Bytes of the block devices from the start until the last thread was done; `None` without a
    /// local device.
    pub device: Option<DeviceBytes>,
    /// CPU seconds in user mode until then.
    pub cpu_user_seconds: f64,
    /// CPU seconds in the kernel until then.
    pub cpu_system_seconds: f64,
    /// Times of single requests, for MLPerf's files; they are never saved.
    #[serde(skip)]
    pub request_seconds: Option<RequestSeconds>,
    /// The measurements of each of several hosts, by rank; the rest is of all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostTrial>,
}

/// The times of single requests in seconds, in the order in which they ended: those after the window
/// included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestSeconds {
    /// From the sending of each request to its end.
    pub request: Vec<f64>,
    /// Its reads and writes together.
    pub storage: Vec<f64>,
    /// Writing its object and `fsync`; 0 if the object was there, or in memory.
    pub write: Vec<f64>,
    /// Reading its object, all times together; only of requests that read it.
    pub decode: Vec<f64>,
}

impl RequestSeconds {
    /// Adds the times of another host.
    pub(crate) fn add(&mut self, other: &Self) {
        self.request.extend(&other.request);
        self.storage.extend(&other.storage);
        self.write.extend(&other.write);
        self.decode.extend(&other.decode);
    }
}

/// Measurements of one of several hosts in a trial, which all began at the same moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostTrial {
    /// Its name.
    pub name: String,
    /// The seed of its users, requests and content.
    pub seed: u32,
    /// Its measurements.
    pub result: TrialResult,
}

impl TrialResult {
    /// The measurements of each process, by rank: this one alone if there is one.
    pub fn ranks(&self) -> impl Iterator<Item = &Self> {
        let alone = self.hosts.is_empty().then_some(self);
        alone.into_iter().chain(self.hosts.iter().map(|host| &host.result))
    }

    /// Whether storage did no work in it.
    pub fn moved_nothing(&self) -> bool {
        self.read.all_bytes() == 0 && self.written.all_bytes() == 0
    }

    /// CPU seconds for each GiB moved.
    pub fn cpu_seconds_per_gib(&self) -> Option<f64> {
        let bytes = self.read.all_bytes().saturating_add(self.written.all_bytes());
        let seconds = self.cpu_user_seconds + self.cpu_system_seconds;
        (bytes > 0).then(|| seconds / (bytes as f64 / GIB as f64))
    }
}

/// All trials of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassSummary {
    /// The pass, as its place in the plan.
    pub pass: u32,
    /// Its trials.
    pub trials: u32,
    /// Read rate within the window.
    pub read_gib_per_second: MeanAndDeviation,
    /// Write rate within the window.
    pub write_gib_per_second: MeanAndDeviation,
    /// Tokens per second of the window.
    pub tokens_per_second: MeanAndDeviation,
    /// The largest 95th percentile of reading an object, of any host and trial, as in MLPerf.
    pub read_p95_ms_max: Option<f64>,
    /// The same of `fsync`, which MLPerf calls the write of the device.
    pub fsync_p95_ms_max: Option<f64>,
}

/// Measurements of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KvcacheResults {
    /// The trials, in their order.
    pub trials: Vec<TrialResult>,
    /// Means over the trials of each pass.
    pub passes: Vec<PassSummary>,
    /// Total duration of the run, pauses included, in seconds.
    pub elapsed_seconds: f64,
    /// Peak resident set size of the process in bytes.
    pub peak_rss_bytes: u64,
    /// How several hosts found each other, and the cost of synchronising them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupFacts>,
    /// A search for the maximum number of servers; all other results are of the full run at its
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find_max: Option<FindServers>,
}

/// The report of `stormlp kvcache`.
pub type KvcacheReport = Report<KvcachePlan, KvcacheResults>;

/// Means over the trials of each pass; none of a pass without trials.
pub fn summarise(trials: &[TrialResult], passes: usize) -> Vec<PassSummary> {
    (0..passes as u32).filter_map(|pass| summary_of(trials, pass)).collect()
}

fn summary_of(trials: &[TrialResult], pass: u32) -> Option<PassSummary> {
    let own: Vec<&TrialResult> = trials.iter().filter(|trial| trial.pass == pass).collect();
    if own.is_empty() {
        return None;
    }
    let over = |of: fn(&TrialResult) -> f64| {
        MeanAndDeviation::of(&own.iter().map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let largest = |what: Timed| {
        let ranks = own.iter().flat_map(|trial| trial.ranks());
        ranks.filter_map(|rank| rank.times_ms.get(&what)?.p95).max_by(f64::total_cmp)
    };
    Some(PassSummary {
        pass,
        trials: own.len() as u32,
        read_gib_per_second: over(|trial| trial.read_gib_per_second),
        write_gib_per_second: over(|trial| trial.write_gib_per_second),
        tokens_per_second: over(|trial| trial.tokens_per_second),
        read_p95_ms_max: largest(Timed::Read),
        fsync_p95_ms_max: largest(Timed::Fsync),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_a_sample_beyond_them() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(TimesMs::of(&histogram), None);
        (1..=19).for_each(|ms| histogram.record_ns(ms * 1_000_000));
        let few = TimesMs::of(&histogram).unwrap();
        assert_eq!((few.count, few.mean, few.max, few.p95), (19, 10.0, 19.0, None));
        histogram.record_ns(20_000_000);
        let enough = TimesMs::of(&histogram).unwrap();
        assert!((18.8..=19.2).contains(&enough.p95.unwrap()), "{enough:?}");
        assert_eq!(enough.p99, None);
    }
}
