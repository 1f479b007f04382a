//! Merges the measurements of hosts without a launcher, each with its own checkpoints. Each save
//! and restore becomes the bytes of all hosts over the longest of their durations.

use std::collections::BTreeSet;

use crate::report::{
    CacheBefore, CheckpointReport, CheckpointResult, CheckpointResults, DeviceBytes, HostPhase,
    RankResult, Summary, summarise,
};
use stormlp_core::histogram::{LatencyHistogram, NamedHistogram};
use stormlp_core::report::{HostShare, NamedEvidence, NamedSeries, PartOf, Report};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::parts;
use stormlp_hosts::parts::{TOGETHER, began_by_clocks, count_hosts_once, names};

use super::together;
use stormlp_hosts::company::sum_of_series;

/// Accessor for the saves or restores of a report, and the name of their series.
type PhaseOf = (fn(&CheckpointResults) -> &Vec<CheckpointResult>, &'static str);

const PHASES: [PhaseOf; 2] =
    [(|results| &results.saves, "save"), (|results| &results.restores, "restore")];

/// Merges `parts`, the saved reports of hosts started by clock, in order; their plans must be
/// alike. Machine, folders and plan are taken from the first host, so the plan describes one host.
/// `None` if any report is not marked as a part.
pub fn merged(parts: &[CheckpointReport]) -> Option<CheckpointReport> {
    let first = parts.first()?;
    let hosts = DetachedHosts::of(parts)?;
    let mut torn = Vec::new();
    let mut shares = Vec::new();
    let [saves, restores] = PHASES.map(|(pick, name)| {
        let (whole, missing) = hosts.phase(parts, pick);
        torn.extend(missing.iter().map(|step| format!("{name} {step}")));
        for result in &whole {
            together::add(&mut shares, hosts.shares(parts, pick, result), result);
        }
        whole
    });
    let seconds = |number: fn(&CheckpointResult) -> f64| -> f64 {
        saves.iter().chain(&restores).map(number).sum()
    };
    let elapsed = parts.iter().map(|part| part.results.elapsed_seconds);
    let results = CheckpointResults {
        summary: Summary { save: summarise(&saves), restore: summarise(&restores) },
        elapsed_seconds: elapsed.fold(0.0, f64::max),
        verified_bytes: parts.iter().map(|part| part.results.verified_bytes).sum(),
        cpu_user_seconds: seconds(|one| one.cpu_user_seconds),
        cpu_system_seconds: seconds(|one| one.cpu_system_seconds),
        // Per process, as under a launcher.
        peak_rss_bytes: first.results.peak_rss_bytes,
        find_knee: None,
        hosts: shares,
        group: None,
        saves,
        restores,
    };
    let mut head = first.head.clone();
    head.part = None;
    let ends = parts.iter().filter_map(|part| part.head.ended_at.clone());
    head.ended_at = ends.max();
    let mut whole = Report {
        ending: parts::ending(parts.iter().map(|part| part.ending.clone())),
        histograms: histograms(parts)?,
        series: series(parts, &results),
        evidence: evidence(parts),
        ..Report::new(head, first.plan.clone(), results)
    };
    for warning in parts.iter().flat_map(|part| &part.warnings) {
        whole.warn(warning.clone());
    }
    for warning in warnings(&whole.results, &torn) {
        whole.warn(warning);
    }
    Some(whole)
}

/// The hosts of the parts, in order.
struct DetachedHosts {
    names: Vec<String>,
    /// Whether a host's device counters are included: processes on one host see the same devices.
    counted: Vec<bool>,
    /// Ranks per host.
    ranks: u64,
}

impl DetachedHosts {
    fn of(parts: &[CheckpointReport]) -> Option<Self> {
        let known: Option<Vec<&PartOf>> =
            parts.iter().map(|part| part.head.part.as_ref()).collect();
        let known = known?;
        let boots: Vec<(&str, &str)> =
            known.iter().map(|part| (&*part.host, &*part.boot_id)).collect();
        Some(Self {
            names: names(&known),
            counted: count_hosts_once(&boots),
            ranks: parts.first()?.plan.ranks.len() as u64,
        })
    }

    /// Every checkpoint of a phase that all hosts have, and those that some of them lack.
    fn phase(
        &self,
        parts: &[CheckpointReport],
        pick: fn(&CheckpointResults) -> &Vec<CheckpointResult>,
    ) -> (Vec<CheckpointResult>, Vec<u32>) {
        let all = parts.iter().flat_map(|part| pick(&part.results));
        let steps: BTreeSet<u32> = all.map(|result| result.step).collect();
        let (mut whole, mut missing) = (Vec::new(), Vec::new());
        for step in steps {
            match own(parts, pick, step) {
                Some(all) => whole.push(self.together(&all)),
                None => missing.push(step),
            }
        }
        (whole, missing)
    }

    /// Merges a save or restore of all hosts, `all`.
    fn together(&self, all: &[&CheckpointResult]) -> CheckpointResult {
        let ranks = all.iter().enumerate().flat_map(|(host, one)| {
            let before = host as u64 * self.ranks;
            one.ranks.iter().map(move |rank| RankResult { rank: before + rank.rank, ..*rank })
        });
        let step = all.first().map_or(0, |first| first.step);
        let starts = all.iter().map(|one| one.started_at_seconds);
        let clocks = all.iter().filter_map(|one| one.started_unix_seconds);
        let hosts: Vec<HostPhase> = all
            .iter()
            .zip(&self.names)
            .map(|(one, name)| HostPhase {
                name: name.clone(),
                bytes: one.bytes,
                duration_seconds: one.duration_seconds.max,
                started_unix_seconds: one.started_unix_seconds,
            })
            .collect();
        CheckpointResult {
            started_at_seconds: starts.reduce(f64::min).unwrap_or(0.0),
            started_unix_seconds: clocks.reduce(f64::min),
            device: self.devices(all),
            page_cache_before: cached(all),
            cpu_user_seconds: all.iter().map(|one| one.cpu_user_seconds).sum(),
            cpu_system_seconds: all.iter().map(|one| one.cpu_system_seconds).sum(),
            at_once_share: at_once(&hosts),
            hosts,
            ..CheckpointResult::of_ranks(step, ranks.collect())
        }
    }

    /// Device counters of all hosts, counting each host once.
    fn devices(&self, all: &[&CheckpointResult]) -> Option<DeviceBytes> {
        let counting = all.iter().zip(&self.counted).filter(|(_, counts)| **counts);
        let none = DeviceBytes { read_bytes: 0, written_bytes: 0 };
        counting.map(|(one, _)| one.device).try_fold(none, |sum, own| {
            let own = own?;
            Some(DeviceBytes {
                read_bytes: sum.read_bytes + own.read_bytes,
                written_bytes: sum.written_bytes + own.written_bytes,
            })
        })
    }

    /// Each host's share in `result`.
    fn shares(
        &self,
        parts: &[CheckpointReport],
        pick: fn(&CheckpointResults) -> &Vec<CheckpointResult>,
        result: &CheckpointResult,
    ) -> Vec<HostShare> {
        let all = own(parts, pick, result.step).unwrap_or_default();
        let shares = all.iter().zip(&self.names).map(|(one, name)| HostShare {
            name: name.clone(),
            bytes: one.bytes,
            cpu_seconds: one.cpu_user_seconds + one.cpu_system_seconds,
            slowest: 0,
        });
        shares.collect()
    }
}

/// Checkpoint `step` of each part; `None` unless all have it.
fn own(
    parts: &[CheckpointReport],
    pick: fn(&CheckpointResults) -> &Vec<CheckpointResult>,
    step: u32,
) -> Option<Vec<&CheckpointResult>> {
    let own = |part| pick(part).iter().find(|result| result.step == step);
    parts.iter().map(|part| own(&part.results)).collect()
}

/// The fraction of the longest duration during which all hosts were active, by their clocks.
fn at_once(hosts: &[HostPhase]) -> Option<f64> {
    let time = |host: &HostPhase| Some((host.started_unix_seconds?, host.duration_seconds));
    let times: Option<Vec<(f64, f64)>> = hosts.iter().map(time).collect();
    parts::share_at_once(&times.filter(|times| times.len() > 1)?)
}

/// The fraction of all bytes in the page caches; `None` unless known for each host.
fn cached(all: &[&CheckpointResult]) -> Option<CacheBefore> {
    let each: Option<Vec<CacheBefore>> = all.iter().map(|one| one.page_cache_before).collect();
    let each = each?;
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let pairs = all.iter().zip(&each);
    let cached = pairs.map(|(one, cache)| cache.share * one.bytes as f64);
    Some(CacheBefore {
        share: cached.sum::<f64>() / bytes.max(1) as f64,
        dropped: each.iter().all(|cache| cache.dropped),
        by_cachestat: each.iter().map(|cache| cache.by_cachestat).sum(),
        files: each.iter().map(|cache| cache.files).sum(),
    })
}

/// The transfer histograms of all hosts added up; `None` if a saved histogram is invalid.
fn histograms(parts: &[CheckpointReport]) -> Option<Vec<NamedHistogram>> {
    let mut sums: Vec<(&str, LatencyHistogram)> = Vec::new();
    for one in parts.iter().flat_map(|part| &part.histograms) {
        let own = LatencyHistogram::of_report(&one.data, &one.summary_us)?;
        match sums.iter_mut().find(|(name, _)| *name == one.name) {
            Some((_, sum)) => sum.merge(&own),
            None => sums.push((&one.name, own)),
        }
    }
    let named = sums.iter().filter_map(|(name, sum)| sum.named(name));
    Some(named.collect())
}

/// Time series of the saves and restores in which the hosts overlapped. In others, a sum would mix
/// different times.
fn series(parts: &[CheckpointReport], results: &CheckpointResults) -> Vec<NamedSeries> {
    let summed = PHASES.iter().flat_map(|(pick, name)| {
        let at_once = pick(results)
            .iter()
            .filter(|one| one.at_once_share.is_some_and(|share| share >= TOGETHER));
        at_once.filter_map(move |one| {
            let name = format!("{name} {}", one.step);
            let own = |part: &'_ CheckpointReport| {
                let found = part.series.iter().find(|series| series.name == name);
                found.map(|found| found.series.clone())
            };
            let all: Option<Vec<_>> = parts.iter().map(own).collect();
            let all = all?;
            let series = sum_of_series(&all.iter().collect::<Vec<_>>());
            Some(NamedSeries { name, series })
        })
    });
    summed.collect()
}

/// Evidence for all hosts, under each name that any of them has.
fn evidence(parts: &[CheckpointReport]) -> Vec<NamedEvidence> {
    let mut found: Vec<NamedEvidence> = Vec::new();
    for NamedEvidence { name, .. } in parts.iter().flat_map(|part| &part.evidence) {
        if found.iter().any(|known| known.name == *name) {
            continue;
        }
        let all = parts.iter().flat_map(|part| &part.evidence);
        let own = all.filter(|one| one.name == *name);
        found.extend(
            parts::evidence_of_all(own.map(|one| &one.evidence))
                .map(|evidence| NamedEvidence { name: name.clone(), evidence }),
        );
    }
    found
}

/// Warnings about hosts that were started independently.
fn warnings(results: &CheckpointResults, torn: &[String]) -> Vec<Warning> {
    let mut warnings = vec![Warning::new(
        WarningKind::Hosts,
        "each of these hosts saved and restored checkpoints of its own: the rates are those of \
         independent hosts, not of one checkpoint of a job, whose ranks wait for each other",
        "start the hosts with a launcher to measure one checkpoint of all of them",
    )];
    if !torn.is_empty() {
        let fact = format!(
            "left out, as not completed on every host: {}; latencies and verified bytes \
             still include their transfers",
            torn.join(", ")
        );
        warnings.push(Warning::new(WarningKind::Hosts, fact, ""));
    }
    let all = PHASES.iter().flat_map(|(pick, name)| {
        let told = pick(results).iter();
        told.filter_map(move |one| Some((one.at_once_share?, format!("{name} {}", one.step))))
    });
    let least = all.min_by(|(one, _), (other, _)| one.total_cmp(other));
    if let Some((least, which)) = least {
        let advice = "use fewer saves and restores in a run: only the first starts at the set time";
        warnings.push(began_by_clocks("save and restore", (least, &which), advice));
    }
    warnings
}

#[cfg(test)]
#[path = "merge_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
