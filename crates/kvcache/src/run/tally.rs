//! The counts of all threads of a trial. Objects are large, so a lock for each of their operations
//! costs little.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stormlp_core::evidence::Evidence;
use stormlp_core::histogram::{LatencyHistogram, NamedHistogram};
use stormlp_core::report::Series;
use stormlp_transfer::page_cache::Residency;
use stormlp_transfer::telemetry::CpuTimes;
use strum::VariantArray as _;

use crate::plan::{Class, KvcachePlan, Request, ServingPlan};
use crate::report::{
    DeviceBytes, Evictions, Lookups, ObjectsMoved, PrefixLoads, PromptsServed, RequestCounts,
    RequestSeconds, SampledResidency, Timed, TimesMs, TrialResult, gib_per_second,
};

/// The times of a trial or of several.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Timings {
    /// Of each kind, in the order of [`Timed`].
    times: [LatencyHistogram; Timed::VARIANTS.len()],
    /// Loading prefixes, by their length.
    pub(super) loads: Loads,
}

/// The loads of prefixes, by their length.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Loads(Vec<Load>);

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Load {
    prefix_tokens: u32,
    times: LatencyHistogram,
    tokens: u64,
    bytes: u64,
    nanos: u64,
}

impl Loads {
    /// Adds one of the length at `place`.
    pub(super) fn record(&mut self, place: usize, nanos: u64, tokens: u32, bytes: u64) {
        let load = &mut self.0[place];
        load.times.record_ns(nanos);
        load.tokens += u64::from(tokens);
        load.bytes += bytes;
        load.nanos += nanos;
    }

    fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.times.merge(&other.times);
            own.tokens += other.tokens;
            own.bytes += other.bytes;
            own.nanos += other.nanos;
        }
    }
}

impl Timings {
    /// Adds a request: when it was sent, taken and done, and the time of storage in nanoseconds.
    pub(super) fn served(&mut self, [sent_ns, taken_ns, done_ns]: [u64; 3], storage_ns: u64) {
        self.record(Timed::QueueWait, taken_ns.saturating_sub(sent_ns));
        self.record(Timed::Storage, storage_ns);
        self.record(Timed::Request, done_ns.saturating_sub(sent_ns));
    }

    /// Adds a time in nanoseconds.
    pub(super) fn record(&mut self, what: Timed, nanos: u64) {
        self.times[what as usize].record_ns(nanos);
    }

    /// How many objects were read and written.
    pub(super) fn objects(&self) -> u64 {
        self.times[Timed::Read as usize].len() + self.times[Timed::Write as usize].len()
    }

    /// Adds the times of another trial.
    pub(super) fn merge(&mut self, other: &Self) {
        let pairs = self.times.iter_mut().zip(&other.times);
        pairs.for_each(|(own, other)| own.merge(other));
        self.loads.merge(&other.loads);
    }

    /// All of them in their saved form, as times of `part`.
    pub(super) fn named(&self, part: &str) -> Vec<NamedHistogram> {
        let times = Timed::VARIANTS.iter().zip(&self.times);
        let named = times.filter_map(|(what, times)| times.named(&format!("{part} {what}")));
        let loads = self.loads.0.iter();
        let loads = loads.filter_map(|load| {
            load.times.named(&format!("{part} load {} tokens", load.prefix_tokens))
        });
        named.chain(loads).collect()
    }

    /// Their summaries.
    pub(super) fn times(&self) -> BTreeMap<Timed, TimesMs> {
        let times = Timed::VARIANTS.iter().zip(&self.times);
        times.filter_map(|(what, times)| Some((*what, TimesMs::of(times)?))).collect()
    }
}

/// The counts of a trial.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) timings: Timings,
    pub(super) read: ObjectsMoved,
    pub(super) written: ObjectsMoved,
    pub(super) lookups: Lookups,
    pub(super) evictions: Evictions,
    pub(super) requests: RequestCounts,
    /// The requests of each class of users; empty for a trace and for prompts.
    pub(super) classes: BTreeMap<Class, RequestCounts>,
    /// Whether a trace was replayed to its end.
    pub(super) is_whole_trace: Option<bool>,
    /// Prompts that load prefixes.
    pub(super) prompts: Option<PromptsServed>,
    /// Times of single requests, if they are to be kept.
    pub(super) request_seconds: Option<RequestSeconds>,
    pub(super) tokens: u64,
    pub(super) late_tokens: u64,
    /// Objects of the sample, and their residency before and after the drop.
    sampled: u64,
    residency: Option<(Residency, Residency)>,
}

impl Tally {
    /// Empty counts for the prompts of a serving engine.
    pub(super) fn of_prompts(plan: &ServingPlan) -> Self {
        let load = |tokens: &u32| Load { prefix_tokens: *tokens, ..Load::default() };
        let loads = Loads(plan.prefix_tokens.iter().map(load).collect());
        let timings = Timings { loads, ..Timings::default() };
        Self { timings, prompts: Some(PromptsServed::default()), ..Self::default() }
    }

    /// The prompts, to count them.
    pub(super) fn prompts(&mut self) -> &mut PromptsServed {
        self.prompts.get_or_insert_default()
    }

    /// Adds the counts of another host in the same trial.
    pub(super) fn add(&mut self, other: &Self) {
        self.timings.merge(&other.timings);
        self.read += other.read;
        self.written += other.written;
        self.lookups += other.lookups;
        self.evictions += other.evictions;
        self.requests += other.requests;
        for (class, other) in &other.classes {
            *self.classes.entry(*class).or_default() += *other;
        }
        if let (Some(own), Some(other)) = (&mut self.is_whole_trace, other.is_whole_trace) {
            *own &= other;
        }
        if let (Some(own), Some(other)) = (&mut self.prompts, &other.prompts) {
            own.tokens += other.tokens;
            own.loaded_tokens += other.loaded_tokens;
            own.dropped += other.dropped;
            own.waiting += other.waiting;
        }
        if let (Some(own), Some(other)) = (&mut self.request_seconds, &other.request_seconds) {
            own.add(other);
        }
        self.tokens += other.tokens;
        self.late_tokens += other.late_tokens;
        if let Some((before, after)) = other.residency {
            self.sample(other.sampled, before, after);
        }
    }

    /// The prompts of a trial, with the loads of each length.
    fn prompts_of(&self, plan: &ServingPlan) -> Option<PromptsServed> {
        let loads = self.timings.loads.0.iter().filter_map(|load| {
            let load_ms = TimesMs::of(&load.times)?;
            let seconds = load.nanos as f64 / 1e9;
            Some(PrefixLoads {
                prefix_tokens: load.prefix_tokens,
                tokens: load.tokens,
                bytes: load.bytes,
                load_ms,
                gib_per_second: gib_per_second(load.bytes, seconds),
                computing_ms: plan
                    .prefill_tokens_per_second
                    .map(|rate| load.tokens as f64 / load_ms.count as f64 / rate * 1e3),
            })
        });
        let prompts = self.prompts.clone()?;
        Some(PromptsServed { loads: loads.collect(), ..prompts })
    }

    /// Keeps the times of a request, if they are kept: from its sending to its end, of storage, of
    /// writing its object, and of reading it if it did; in nanoseconds.
    pub(super) fn keep(
        &mut self,
        [request_ns, storage_ns, write_ns]: [u64; 3],
        decode: Option<u64>,
    ) {
        let Some(requests) = &mut self.request_seconds else { return };
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        requests.request.push(seconds(request_ns));
        requests.storage.push(seconds(storage_ns));
        requests.write.push(seconds(write_ns));
        requests.decode.extend(decode.map(seconds));
    }

    /// Counts a request that was served, `late` if after the window.
    pub(super) fn served(&mut self, request: &Request, late: bool) {
        self.requests.count(late);
        if let Some(class) = self.classes.get_mut(&request.class) {
            class.count(late);
        }
        let tokens = u64::from(request.generate_tokens);
        if late { self.late_tokens += tokens } else { self.tokens += tokens }
    }

    /// Adds so many objects to the sample.
    pub(super) fn sample(&mut self, objects: u64, before: Residency, after: Residency) {
        self.sampled += objects;
        self.residency = Some(match self.residency {
            Some((all_before, all_after)) => (all_before.plus(before), all_after.plus(after)),
            None => (before, after),
        });
    }
}

/// Which trial it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialId {
    /// The place of its pass in the plan.
    pub(super) pass: usize,
    /// Its number, from 1.
    pub(super) trial: u32,
    /// Whether its objects stay when it ends.
    pub(super) keeps: bool,
}

/// The measurements of a trial: by one host, or by all of them once they have exchanged it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) seed: u32,
    /// In seconds since the start of the run.
    pub(super) started_at_seconds: f64,
    pub(super) tally: Tally,
    pub(super) evidence: Option<Evidence>,
    pub(super) watched: Watched,
}

/// The measurements of the monitoring thread.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Watched {
    pub(super) total_seconds: f64,
    pub(super) cpu: CpuTimes,
    pub(super) device: Option<DeviceBytes>,
    pub(super) series: Series,
}

impl Measured {
    /// The result of the trial `id` of `plan`, in which this was measured.
    pub(super) fn result(&self, plan: &KvcachePlan, id: TrialId) -> TrialResult {
        let Self { tally, watched, started_at_seconds, .. } = self;
        let total_seconds = watched.total_seconds;
        let window_seconds = total_seconds.min(plan.duration_seconds);
        TrialResult {
            pass: id.pass as u32,
            trial: id.trial,
            started_at_seconds: *started_at_seconds,
            window_seconds,
            total_seconds,
            read: tally.read,
            written: tally.written,
            read_gib_per_second: gib_per_second(tally.read.bytes, window_seconds),
            write_gib_per_second: gib_per_second(tally.written.bytes, window_seconds),
            tokens: tally.tokens,
            late_tokens: tally.late_tokens,
            tokens_per_second: tally.tokens as f64 / window_seconds.max(f64::MIN_POSITIVE),
            requests: tally.requests,
            classes: tally.classes.clone(),
            is_whole_trace: tally.is_whole_trace,
            prompts: plan.serving.as_ref().and_then(|serving| tally.prompts_of(serving)),
            times_ms: tally.timings.times(),
            lookups: tally.lookups,
            evictions: tally.evictions,
            residency: tally.residency.map(|(before, after)| SampledResidency {
                objects: tally.sampled,
                before_drop: before.share(),
                after_drop: after.share(),
            }),
            device: watched.device,
            cpu_user_seconds: watched.cpu.user_seconds,
            cpu_system_seconds: watched.cpu.system_seconds,
            request_seconds: tally.request_seconds.clone(),
            hosts: Vec::new(),
        }
    }
}
