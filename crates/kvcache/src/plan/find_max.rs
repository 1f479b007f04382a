//! Results of `stormlp kvcache serving --find-max`: how many servers storage feeds, their limit, and every
//! number that was tried.
//!
//! A server is a thread that loads the prefix of a prompt, computes the rest and starts the next.
//! So many are fed if loads take no longer than computing would: the 95th percentile of loading a
//! prefix, at each length, is at most the time to compute as many tokens. Chunks that are not
//! written cannot be loaded later, so nearly all new chunks have to be written, too.

use serde::{Deserialize, Serialize};
use stormlp_core::knee::KneeLimit;
use stormlp_core::largest::{Largest, RunKind, Trial, Tried};

/// The number of servers that is tried first.
pub const FIRST_SERVERS: u32 = 8;
/// A probe is this share of a full run, but not so short that servers still begin together.
const PROBE_SHARE: f64 = 0.1;
const LEAST_PROBE_SECONDS: f64 = 5.0;
/// Maximum share of new chunks, in percent, that may be dropped or left waiting.
pub const MOST_DROPPED_PERCENT: f64 = 5.0;

/// The largest number of servers that storage feeds.
pub type FindServers = Largest<TriedServers, KneeLimit>;

/// A run of so many servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedServers {
    /// Servers.
    pub servers: u32,
    /// Whether it was a probe, with a preliminary verdict, or a full run.
    pub run: RunKind,
    /// Whether loading is fast enough at each length, and writing keeps up.
    pub meets: bool,
    /// The length at which loading is the largest share of the time to compute.
    pub prefix_tokens: u32,
    /// The 95th percentile of loading such a prefix in milliseconds; of fewer than 20 loads the slowest.
    pub load_ms: f64,
    /// Whether that is the slowest, since there were too few loads for a percentile.
    #[serde(default)]
    pub is_slowest: bool,
    /// The time to compute as many tokens in milliseconds.
    pub computing_ms: f64,
    /// Chunks that were dropped or left waiting instead of written, in percent of those that prompts
    /// brought; as many as one prompt brings may wait.
    pub dropped_percent: f64,
    /// Prompts per second of all servers.
    pub prompts_per_second: f64,
    /// Servers that load at a time, in the mean.
    pub loading: f64,
    /// Read rate within the window.
    pub read_gib_per_second: f64,
    /// Its limit; `None` if unknown.
    pub limited_by: Option<KneeLimit>,
    /// CPUs that other programs used, if they used enough to disturb it and telemetry shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_cpus: Option<f64>,
    /// Duration in seconds.
    pub seconds: f64,
}

impl TriedServers {
    /// The share of loading in the time to compute, in percent; up to 100 passes.
    pub fn load_percent(&self) -> f64 {
        self.load_ms / self.computing_ms * 100.0
    }

    /// Which of the loads took `load_ms`, in words.
    pub fn which(&self) -> &'static str {
        if self.is_slowest { "at most" } else { "P95" }
    }

    /// Its limit, as text.
    pub fn limit(&self) -> String {
        let limit = self.limited_by.map_or("unknown", KneeLimit::name);
        match self.background_cpus {
            Some(cpus) => format!("{limit}; other programs used {cpus:.1} CPUs"),
            None => limit.to_string(),
        }
    }

    /// Whether it passes, in words.
    pub fn verdict(&self) -> &'static str {
        match (self.load_percent() <= 100.0, self.dropped_percent <= MOST_DROPPED_PERCENT) {
            (true, true) => "pass",
            (false, _) => "P95 too high",
            (true, false) => "writes fall behind",
        }
    }

    /// The same trial for the search.
    pub fn trial(&self) -> Trial {
        // Of all servers so many load at a time, and loads may be so much longer.
        let slower = 100.0 / self.load_percent() - 1.0;
        let by_loads = f64::from(self.servers) + self.loading * slower;
        // So many would bring the chunks that are written now.
        let written = (100.0 - self.dropped_percent) / (100.0 - MOST_DROPPED_PERCENT);
        let by_writes = if written < 1.0 { f64::from(self.servers) * written } else { f64::MAX };
        Trial {
            count: self.servers,
            kind: self.run,
            passed: self.meets,
            certain: self.run == RunKind::Full,
            suggests: Some(by_loads.min(by_writes) as u32),
        }
    }
}

impl Tried for TriedServers {
    type Limit = KneeLimit;
    const WHAT: &'static str = "server";

    fn count(&self) -> u32 {
        self.servers
    }

    fn kind(&self) -> RunKind {
        self.run
    }

    fn meets(&self) -> bool {
        self.meets
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn limited_by(&self) -> Option<KneeLimit> {
        self.limited_by
    }

    fn spares_storage(limit: KneeLimit) -> bool {
        matches!(limit, KneeLimit::Client | KneeLimit::Others)
    }

    fn to_text(&self) -> String {
        format!(
            "{} tokens loaded in {} {:.1} ms, {:.0} % of the time to compute them, {}",
            self.prefix_tokens,
            self.which(),
            self.load_ms,
            self.load_percent(),
            self.verdict()
        )
    }
}

/// The duration of a run if a full one lasts `full_seconds`.
pub fn expected_seconds(full_seconds: f64, kind: RunKind) -> f64 {
    match kind {
        RunKind::Probe => (full_seconds * PROBE_SHARE).max(LEAST_PROBE_SECONDS).min(full_seconds),
        RunKind::Full => full_seconds,
    }
}

/// Whether memory is part of the answer: it does not show storage alone.
pub fn is_of_memory(find: &FindServers) -> bool {
    find.answer().is_some_and(|one| one.limited_by == Some(KneeLimit::Memory))
}

#[cfg(test)]
mod tests {
    use stormlp_core::largest::Search;

    use super::*;

    fn tried(servers: u32, run: RunKind, load_ms: f64, by: KneeLimit) -> TriedServers {
        TriedServers {
            servers,
            run,
            meets: load_ms <= 100.0,
            prefix_tokens: 2048,
            load_ms,
            is_slowest: false,
            computing_ms: 100.0,
            dropped_percent: 0.0,
            prompts_per_second: 40.0,
            loading: 4.0,
            read_gib_per_second: 3.0,
            limited_by: Some(by),
            background_cpus: None,
            seconds: 5.0,
        }
    }

    /// Storage whose loads take 10 ms for each server.
    fn searched(by: KneeLimit, most: u32) -> FindServers {
        let mut search = Search::new(FIRST_SERVERS, most, 1);
        let mut find = FindServers::begun(1);
        while let Some((count, kind)) = search.next() {
            let tried = tried(count, kind, 10.0 * f64::from(count), by);
            search.tell(tried.trial());
            find.tried.push(tried);
            find.conclude(&search);
            assert!(find.tried.len() < 30, "{find:?}");
        }
        find
    }

    #[test]
    fn so_many_are_fed_as_load_no_slower_than_they_compute() {
        let find = searched(KneeLimit::Storage, 500);
        assert_eq!((find.largest, find.smallest_failing), (10, Some(11)));
        assert_eq!((find.known().as_str(), find.is_lower_bound), ("10", false));
        let answer = find.answer().unwrap();
        assert_eq!((answer.run, answer.load_percent()), (RunKind::Full, 100.0));
        assert!(searched(KneeLimit::Client, 500).is_lower_bound);
        // More cannot be tried.
        let find = searched(KneeLimit::Storage, 9);
        assert_eq!((find.largest, find.smallest_failing, find.is_lower_bound), (9, None, true));
    }

    #[test]
    fn what_loads_in_half_the_time_may_have_twice_as_many_loads() {
        let trial = tried(8, RunKind::Probe, 50.0, KneeLimit::Storage).trial();
        assert_eq!((trial.suggests, trial.certain, trial.passed), (Some(12), false, true));
        let trial = tried(8, RunKind::Full, 200.0, KneeLimit::Storage).trial();
        assert_eq!((trial.suggests, trial.certain, trial.passed), (Some(6), true, false));
        let behind = TriedServers {
            dropped_percent: 52.5,
            ..tried(8, RunKind::Full, 50.0, KneeLimit::Storage)
        };
        assert_eq!((behind.verdict(), behind.trial().suggests), ("writes fall behind", Some(4)));
    }

    #[test]
    fn a_probe_is_short_but_no_longer_than_a_run() {
        assert_eq!(
            [300.0, 20.0, 1.0].map(|full| expected_seconds(full, RunKind::Probe)),
            [30.0, 5.0, 1.0]
        );
    }
}
