//! The result of a run of servers, for a search: whether loads are fast enough, and their limit.

use stormlp_core::knee::KneeLimit;
use stormlp_core::largest::RunKind;
use stormlp_core::others;

use super::{COLD_SHARE, DEVICE_SHARE, KvcacheReport, PrefixLoads, TrialResult};
use crate::plan::{MOST_DROPPED_PERCENT, ServingPlan, TriedServers};

/// The result of the run of `report`, which lasted `seconds`; `None` if it loaded no prefix.
pub fn tried_servers(report: &KvcacheReport, run: RunKind, seconds: f64) -> Option<TriedServers> {
    let serving = report.plan.serving.as_ref()?;
    let trial = report.results.trials.last()?;
    let loads = &trial.prompts.as_ref()?.loads;
    let share = |one: &PrefixLoads| one.slow_ms() / one.computing_ms.unwrap_or(f64::INFINITY);
    let slowest = loads.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
    let load_seconds = |one: &PrefixLoads| one.load_ms.mean / 1e3 * one.load_ms.count as f64;
    let total_seconds = trial.total_seconds.max(f64::MIN_POSITIVE);
    let at_work = (trial.cpu_user_seconds + trial.cpu_system_seconds) / total_seconds;
    let cpus = f64::from(report.head.host.cpus.max(1));
    let most = cpus.min(report.plan.transport.threads as f64);
    let background_cpus = report.series.last().and_then(|one| others::cpus(&one.series, at_work));
    let limited_by = KneeLimit::of(at_work, most, reads_memory(trial));
    let dropped_percent = unwritten_percent(trial, serving);
    Some(TriedServers {
        servers: serving.loaders,
        run,
        meets: share(slowest) <= 1.0 && dropped_percent <= MOST_DROPPED_PERCENT,
        prefix_tokens: slowest.prefix_tokens,
        load_ms: slowest.slow_ms(),
        is_slowest: slowest.load_ms.p95.is_none(),
        computing_ms: slowest.computing_ms?,
        dropped_percent,
        prompts_per_second: trial.requests.done() as f64 / total_seconds,
        loading: loads.iter().map(load_seconds).sum::<f64>() / total_seconds,
        read_gib_per_second: trial.read_gib_per_second,
        limited_by: KneeLimit::beside(background_cpus.unwrap_or(0.0), (at_work, cpus), limited_by),
        background_cpus,
        seconds,
    })
}

/// New chunks that were not written, in percent of those that prompts brought: they were dropped, or
/// still waited at the end. As many as one prompt brings may wait: those are on their way.
pub(crate) fn unwritten_percent(trial: &TrialResult, load: &ServingPlan) -> f64 {
    let Some(prompts) = &trial.prompts else { return 0.0 };
    let longest = load.prefix_tokens.iter().max().map_or(0, |tokens| tokens / load.chunk_tokens);
    let on_their_way = u64::from(longest) * trial.ranks().count() as u64;
    let unwritten = prompts.dropped + prompts.waiting.saturating_sub(on_their_way);
    let brought = unwritten + trial.written.objects + trial.written.late_objects;
    unwritten as f64 / brought.max(1) as f64 * 100.0
}

/// Whether reads came from memory, by the page cache or the devices.
fn reads_memory(trial: &TrialResult) -> bool {
    let stayed = trial.residency.is_some_and(|sample| sample.after_drop > COLD_SHARE);
    let read = trial.read.all_bytes() as f64;
    stayed || trial.device.is_some_and(|one| (one.read_bytes as f64) < DEVICE_SHARE * read)
}

#[cfg(test)]
mod tests {
    use super::super::super::show::fixtures;
    use super::*;
    use stormlp_core::telemetry::{Measure, Track};

    #[test]
    fn the_length_that_is_slowest_to_load_decides() {
        // 2048, 8192 and 32768 tokens in 20 ms to 160 ms and more, each computed at 20,000 a second.
        let mut report = fixtures::serving();
        let tried = tried_servers(&report, RunKind::Probe, 30.0).unwrap();
        let loads = &report.results.trials[0].prompts.as_ref().unwrap().loads;
        let shares = loads.iter().map(|one| one.slow_ms() / one.computing_ms.unwrap());
        let most = shares.fold(0.0, f64::max);
        assert!((tried.load_percent() / 100.0 - most).abs() < 1e-9, "{tried:?}");
        assert_eq!(tried.which(), "P95");
        // 12 of 212 chunks that prompts brought were dropped.
        assert_eq!((tried.servers, tried.dropped_percent.round(), tried.meets), (8, 6.0, false));
        report.results.trials[0].prompts.as_mut().unwrap().dropped = 0;
        let tried = tried_servers(&report, RunKind::Probe, 30.0).unwrap();
        assert_eq!((tried.dropped_percent, tried.meets), (0.0, most <= 1.0));
        // The chunks of one prompt of 32768 tokens may wait; any beyond them are not written.
        let wait = |waiting: u64| {
            let mut report = report.clone();
            report.results.trials[0].prompts.as_mut().unwrap().waiting = waiting;
            tried_servers(&report, RunKind::Probe, 30.0).unwrap()
        };
        assert_eq!(wait(128).dropped_percent, 0.0);
        let behind = wait(128 + 200);
        assert_eq!((behind.dropped_percent.round(), behind.meets), (50.0, false));
        // All CPU time is what limits it.
        let trial = &mut report.results.trials[0];
        let cpus = f64::from(report.head.host.cpus);
        trial.cpu_user_seconds = cpus * trial.total_seconds;
        let tried = tried_servers(&report, RunKind::Probe, 30.0).unwrap();
        assert_eq!(tried.limited_by, Some(KneeLimit::Client));
        // With nearly all of it used by others.
        report.results.trials[0].cpu_user_seconds = 0.0;
        let series = &mut report.series[0].series;
        series.last_interval_seconds = Some(series.interval_seconds);
        let values = vec![cpus * series.interval_seconds; series.interval_bytes.len()];
        let of = "host".to_string();
        series.tracks = vec![Track { measure: Measure::HostCpuSeconds, of, values }];
        let tried = tried_servers(&report, RunKind::Probe, 30.0).unwrap();
        assert_eq!(tried.limited_by, Some(KneeLimit::Others));
        // Of too few loads for a percentile the slowest counts, which is not called one.
        for loads in &mut report.results.trials[0].prompts.as_mut().unwrap().loads {
            loads.load_ms.p95 = None;
        }
        let tried = tried_servers(&report, RunKind::Probe, 30.0).unwrap();
        assert_eq!(tried.which(), "at most");
        report.results.trials[0].prompts = None;
        assert_eq!(tried_servers(&report, RunKind::Probe, 30.0), None);
    }
}
