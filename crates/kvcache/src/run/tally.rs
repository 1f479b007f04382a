//! What all threads of a trial count together. Objects are large, so a lock for each of their
//! operations costs nothing.

use serde::{Deserialize, Serialize};
use stormlp_core::histogram::{LatencyHistogram, NamedHistogram};
use stormlp_transfer::page_cache::Residency;

use super::requests::place_of;
use super::trial::{TrialId, Watched};
use crate::plan::{Class, KvcachePlan, Request, ServingPlan};
use crate::report::{
    ClassResult, Evictions, FirstToken, Lookups, ObjectsMoved, PrefixLoads, PromptsServed,
    ReplayedTrace, RequestSeconds, SampledResidency, TimesMs, TrialResult, TrialTimes,
    gib_per_second,
};

/// The times of a trial or of several.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Timings {
    pub(super) read: LatencyHistogram,
    pub(super) write: LatencyHistogram,
    pub(super) fsync: LatencyHistogram,
    pub(super) persist: LatencyHistogram,
    pub(super) slot_wait: LatencyHistogram,
    pub(super) queue_wait: LatencyHistogram,
    pub(super) storage: LatencyHistogram,
    pub(super) request: LatencyHistogram,
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
        self.queue_wait.record_ns(taken_ns.saturating_sub(sent_ns));
        self.storage.record_ns(storage_ns);
        self.request.record_ns(done_ns.saturating_sub(sent_ns));
    }

    /// Adds those of another trial.
    pub(super) fn merge(&mut self, other: &Self) {
        let pairs = self.each_mut().into_iter().zip(other.each());
        pairs.for_each(|(own, (_, other))| own.merge(other));
        self.loads.merge(&other.loads);
    }

    fn each_mut(&mut self) -> [&mut LatencyHistogram; 8] {
        [
            &mut self.read,
            &mut self.write,
            &mut self.fsync,
            &mut self.persist,
            &mut self.slot_wait,
            &mut self.queue_wait,
            &mut self.storage,
            &mut self.request,
        ]
    }

    fn each(&self) -> [(&'static str, &LatencyHistogram); 8] {
        [
            ("read", &self.read),
            ("write", &self.write),
            ("fsync", &self.fsync),
            ("persist", &self.persist),
            ("slot_wait", &self.slot_wait),
            ("queue_wait", &self.queue_wait),
            ("storage", &self.storage),
            ("request", &self.request),
        ]
    }

    /// All of them in their saved form, as those of `part`.
    pub(super) fn named(&self, part: &str) -> Vec<NamedHistogram> {
        let named =
            |(name, times): (&str, &LatencyHistogram)| times.named(&format!("{part} {name}"));
        let loads = self.loads.0.iter();
        let loads = loads.filter_map(|load| {
            load.times.named(&format!("{part} load {} tokens", load.prefix_tokens))
        });
        self.each().into_iter().filter_map(named).chain(loads).collect()
    }

    /// Their summaries.
    pub(super) fn times(&self) -> TrialTimes {
        TrialTimes {
            read: TimesMs::of(&self.read),
            write: TimesMs::of(&self.write),
            fsync: TimesMs::of(&self.fsync),
            persist: TimesMs::of(&self.persist),
            slot_wait: TimesMs::of(&self.slot_wait),
            queue_wait: TimesMs::of(&self.queue_wait),
            storage: TimesMs::of(&self.storage),
            request: TimesMs::of(&self.request),
        }
    }
}

/// What was counted in a trial.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) timings: Timings,
    pub(super) read: ObjectsMoved,
    pub(super) written: ObjectsMoved,
    pub(super) lookups: Lookups,
    pub(super) evictions: Evictions,
    /// Requests that each class sent; nothing for a trace or prompts.
    pub(super) offered: Option<[u64; Class::ALL.len()]>,
    /// Requests of each class served within the window, and after it.
    served: [[u64; 2]; Class::ALL.len()],
    /// Entries of a trace, whose requests have no classes.
    pub(super) replayed: Option<ReplayedTrace>,
    /// Prompts that load prefixes.
    pub(super) prompts: Option<PromptsServed>,
    /// Times of single requests, if they are to be kept.
    pub(super) requests: Option<RequestSeconds>,
    pub(super) tokens: u64,
    pub(super) late_tokens: u64,
    /// Objects of the sample, and their residency before and after the drop.
    sampled: u64,
    residency: Option<(Residency, Residency)>,
}

impl Tally {
    /// Nothing counted yet, of a trace or of users.
    pub(super) fn of(is_replay: bool) -> Self {
        Self { replayed: is_replay.then(ReplayedTrace::default), ..Self::default() }
    }

    /// Nothing counted yet of the prompts of a serving engine.
    pub(super) fn of_prompts(plan: &ServingPlan, is_replay: bool) -> Self {
        let load = |tokens: &u32| Load { prefix_tokens: *tokens, ..Load::default() };
        let loads = Loads(plan.prefix_tokens.iter().map(load).collect());
        let timings = Timings { loads, ..Timings::default() };
        Self { timings, prompts: Some(PromptsServed::default()), ..Self::of(is_replay) }
    }

    /// The prompts, to count them.
    pub(super) fn prompts(&mut self) -> &mut PromptsServed {
        self.prompts.get_or_insert_default()
    }

    /// Nothing counted yet of the same kinds as in `other`.
    pub(super) fn like(other: Option<&Self>) -> Self {
        let of = |other: &Self| Self {
            offered: other.offered.map(|_| Default::default()),
            replayed: other
                .replayed
                .map(|_| ReplayedTrace { is_whole: true, ..Default::default() }),
            prompts: other.prompts.as_ref().map(|_| PromptsServed::default()),
            requests: other.requests.as_ref().map(|_| RequestSeconds::default()),
            ..Self::default()
        };
        other.map_or_else(Self::default, of)
    }

    /// Adds what another host counted in the same trial.
    pub(super) fn add(&mut self, other: &Self) {
        self.timings.merge(&other.timings);
        self.read += other.read;
        self.written += other.written;
        self.lookups += other.lookups;
        self.evictions += other.evictions;
        for (own, other) in self.offered.iter_mut().flatten().zip(other.offered.iter().flatten()) {
            *own += other;
        }
        let pairs = self.served.iter_mut().flatten().zip(other.served.iter().flatten());
        pairs.for_each(|(own, other)| *own += other);
        if let (Some(own), Some(other)) = (&mut self.replayed, &other.replayed) {
            own.add(*other);
        }
        if let (Some(own), Some(other)) = (&mut self.prompts, &other.prompts) {
            own.add(other);
        }
        if let (Some(own), Some(other)) = (&mut self.requests, &other.requests) {
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
                first_token: plan.prefill_tokens_per_second.map(|rate| {
                    FirstToken::of(load_ms, load.tokens as f64 / load_ms.count as f64, plan, rate)
                }),
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
        let Some(requests) = &mut self.requests else { return };
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        requests.request.push(seconds(request_ns));
        requests.storage.push(seconds(storage_ns));
        requests.write.push(seconds(write_ns));
        requests.decode.extend(decode.map(seconds));
    }

    /// Counts a request that was served, `late` if after the window.
    pub(super) fn served(&mut self, request: &Request, late: bool) {
        match &mut self.replayed {
            Some(replayed) => replayed.count(late),
            None => self.served[place_of(request.class)][usize::from(late)] += 1,
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

    /// The residency of the sample.
    fn residency(&self) -> Option<SampledResidency> {
        self.residency.map(|(before, after)| SampledResidency {
            objects: self.sampled,
            before_drop: before.share(),
            after_drop: after.share(),
        })
    }

    /// The requests of each class; none of a trace or of prompts.
    fn classes(&self) -> Vec<ClassResult> {
        let offered = self.offered.into_iter().flatten();
        let classes = Class::ALL.into_iter().zip(offered).zip(self.served);
        classes
            .map(|((class, offered), served)| {
                let [served, served_late] = served;
                ClassResult { class, offered, served, served_late }
            })
            .collect()
    }

    /// The result of the trial `id` of `plan`, in which this was counted and that was `watched`.
    pub(super) fn result(
        &self,
        (plan, id): (&KvcachePlan, TrialId),
        started_at_seconds: f64,
        watched: &Watched,
    ) -> TrialResult {
        let total_seconds = watched.total_seconds;
        let window_seconds = total_seconds.min(plan.duration_seconds);
        TrialResult {
            pass: id.pass as u32,
            trial: id.trial,
            started_at_seconds,
            window_seconds,
            total_seconds,
            read: self.read,
            written: self.written,
            read_gib_per_second: gib_per_second(self.read.bytes, window_seconds),
            write_gib_per_second: gib_per_second(self.written.bytes, window_seconds),
            tokens: self.tokens,
            late_tokens: self.late_tokens,
            tokens_per_second: self.tokens as f64 / window_seconds.max(f64::MIN_POSITIVE),
            classes: self.classes(),
            replayed: self.replayed,
            prompts: plan.serving.as_ref().and_then(|serving| self.prompts_of(serving)),
            times_ms: self.timings.times(),
            lookups: self.lookups,
            evictions: self.evictions,
            residency: self.residency(),
            device: watched.device,
            cpu_user_seconds: watched.cpu.user_seconds,
            cpu_system_seconds: watched.cpu.system_seconds,
            requests: self.requests.clone(),
            hosts: Vec::new(),
        }
    }
}
