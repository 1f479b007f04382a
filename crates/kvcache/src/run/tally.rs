//! What all threads of a trial count together. Objects are large, so a lock for each of their
//! operations costs nothing.

use stormlp_core::histogram::{LatencyHistogram, NamedHistogram};
use stormlp_transfer::page_cache::Residency;

use super::requests::place_of;
use crate::plan::{Class, Request, ServingPlan};
use crate::report::{
    ClassResult, Evictions, FirstToken, Lookups, ObjectsMoved, PrefixLoads, PromptsServed,
    ReplayedTrace, SampledResidency, TimesMs, TrialTimes, gib_per_second,
};

/// The times of a trial or of several.
#[derive(Debug, Default)]
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
#[derive(Debug, Default)]
pub(super) struct Loads(Vec<Load>);

#[derive(Debug, Default, Clone)]
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
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) timings: Timings,
    pub(super) read: ObjectsMoved,
    pub(super) written: ObjectsMoved,
    pub(super) lookups: Lookups,
    pub(super) evictions: Evictions,
    /// Requests of each class served within the window, and after it.
    served: [[u64; 2]; Class::ALL.len()],
    /// Entries of a trace.
    pub(super) replayed: ReplayedTrace,
    pub(super) prompts: PromptsServed,
    /// Whether requests are those of a trace, which have no classes.
    is_replay: bool,
    pub(super) tokens: u64,
    pub(super) late_tokens: u64,
    /// Objects of the sample, and their residency before and after the drop.
    sampled: u64,
    residency: Option<(Residency, Residency)>,
}

impl Tally {
    /// Nothing counted yet, of a trace or of users.
    pub(super) fn of(is_replay: bool) -> Self {
        Self { is_replay, ..Self::default() }
    }

    /// Nothing counted yet of the prompts of a serving engine.
    pub(super) fn of_prompts(plan: &ServingPlan) -> Self {
        let load = |tokens: &u32| Load { prefix_tokens: *tokens, ..Load::default() };
        let loads = Loads(plan.prefix_tokens.iter().map(load).collect());
        Self { timings: Timings { loads, ..Timings::default() }, ..Self::default() }
    }

    /// The prompts of a trial, and `waiting` chunks that were not written when it ended.
    pub(super) fn prompts_of(&self, plan: &ServingPlan, waiting: u64) -> PromptsServed {
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
        PromptsServed { loads: loads.collect(), waiting, ..self.prompts.clone() }
    }

    /// Counts a request that was served, `late` if after the window.
    pub(super) fn served(&mut self, request: &Request, late: bool) {
        match self.is_replay {
            true => self.replayed.count(late),
            false => self.served[place_of(request.class)][usize::from(late)] += 1,
        }
        let tokens = u64::from(request.generate_tokens);
        if late { self.late_tokens += tokens } else { self.tokens += tokens }
    }

    /// Adds an object to the sample.
    pub(super) fn sample(&mut self, before: Residency, after: Residency) {
        self.sampled += 1;
        self.residency = Some(match self.residency {
            Some((all_before, all_after)) => (all_before.plus(before), all_after.plus(after)),
            None => (before, after),
        });
    }

    /// The residency of the sample.
    pub(super) fn residency(&self) -> Option<SampledResidency> {
        self.residency.map(|(before, after)| SampledResidency {
            objects: self.sampled,
            before_drop: before.share(),
            after_drop: after.share(),
        })
    }

    /// The requests of each class, of which so many were offered.
    pub(super) fn classes(&self, offered: [u64; Class::ALL.len()]) -> Vec<ClassResult> {
        let classes = Class::ALL.into_iter().zip(offered).zip(self.served);
        classes
            .map(|((class, offered), served)| {
                let [served, served_late] = served;
                ClassResult { class, offered, served, served_late }
            })
            .collect()
    }
}
