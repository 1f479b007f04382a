//! Warnings about the reliability of results that only the run itself can give.

use crate::plan::client::ClientCost;
use crate::plan::warnings::upper_bound_warning;
use crate::report::{TrainReport, much_read_ahead};
use stormlp_core::evidence::{DirectIo, ObjectStore};
use stormlp_core::others;
use stormlp_core::path::PathKind;
use stormlp_core::transport::{Pages, Transport};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::Backing;

use stormlp_transfer::fallback;

/// A barrier between hosts that costs a larger share of a step's compute limits AU by itself.
const BARRIER_PERCENT: f64 = 1.0;
/// Points of AU that a late host may cost without a warning.
const PACING_POINTS: f64 = 1.0;
/// Share of the dataset that may be cached in a cold epoch.
const COLD_SHARE: f64 = 0.01;

/// Warnings that only the run itself can give.
///
/// `pages` is the backing of each run's buffers.
pub(super) fn of_run(report: &TrainReport, pages: &[Backing]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let direct = report.plan.transport.path.wants_direct();
    warnings.extend(others::warning(&report.series, direct, report.results.group.as_ref()));
    warnings.extend(pacing(report));
    warnings.extend(read_ahead(report));
    warnings.extend(cold(report));
    warnings.extend(upper_bound(report));
    warnings.extend(barrier(report));
    let evidence = report.evidence_of("reads");
    if evidence.is_some_and(|evidence| evidence.direct_io == DirectIo::Refused) {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            "the file system refused or buffered O_DIRECT: the bytes went through its cache",
            "use a file system that has it, or --path buffered",
        ));
    }
    warnings.extend(
        evidence.and_then(|evidence| fallback::warning(report.plan.transport.path, evidence)),
    );
    let store = evidence.and_then(|evidence| evidence.object_store.as_ref());
    warnings.extend(store.into_iter().flat_map(ObjectStore::warnings));
    for fallback in evidence
        .and_then(|evidence| evidence.engine.as_ref())
        .map(|engine| engine.fallbacks.as_slice())
        .unwrap_or_default()
    {
        warnings.push(Warning::new(WarningKind::EngineFellBack, fallback.clone(), ""));
    }
    let Transport { path, pages: asked, .. } = report.plan.transport;
    let meant = asked == Pages::Small || path == PathKind::S3;
    if pages.contains(&Backing::SmallPages) && !meant {
        warnings.push(Warning::new(
            WarningKind::Buffers,
            "buffers use small pages: large direct reads are split and cost more CPU",
            "allow transparent huge pages, or reserve some with vm.nr_hugepages",
        ));
    }
    warnings.extend(report.head.host.debug_build());
    warnings
}

/// Warns when the barrier between hosts costs so much of a step that it limits AU.
fn barrier(report: &TrainReport) -> Option<Warning> {
    let own = report.results.group.as_ref()?.own_barrier_us?;
    let compute_us = report.plan.compute.mean_seconds() * 1e6;
    let share = 100.0 * own.p50 / compute_us;
    (share > BARRIER_PERCENT).then(|| {
        Warning::new(
            WarningKind::HarnessBound,
            format!(
                "the barrier between the hosts took {:.0} µs at the median after the last \
                 arrival, {share:.1} % of a step's compute: AU is lower by that, regardless of \
                 storage",
                own.p50
            ),
            "STORMLP_GROUP=mpi is usually the fastest; leave a CPU free on every host",
        )
    })
}

/// Warns when this host handled events so late that it may have changed AU: the next reads were issued
/// that much later, or the lateness counts as compute, as in the official client.
fn pacing(report: &TrainReport) -> Option<Warning> {
    let late_us = report.results.latency.compute_overshoot_us?.mean;
    let compute_us = report.plan.compute.mean_seconds() * 1e6;
    let au = report.results.mean.au_percent;
    let (points, effect) = if report.plan.late_compute_counts() {
        (au.measured - au.nominal, "counts as compute, as in the official client, and raised AU by")
    } else {
        (late_cost_points(late_us, compute_us, au.measured), "may have cost up to")
    };
    (late_us > 0.0 && points > PACING_POINTS).then(|| {
        Warning::new(
            WarningKind::Pacing,
            format!(
                "this host ended steps {late_us:.0} µs late on average (they compute for \
                 {compute_us:.0} µs), which {effect} {points:.1} points of AU"
            ),
            "leave a CPU free, or emulate fewer accelerators on this host",
        )
    })
}

/// Maximum AU loss in points due to late steps, assuming that each step then waited for reads that
/// were issued late.
fn late_cost_points(late_us: f64, compute_us: f64, au: f64) -> f64 {
    if compute_us <= 0.0 || au <= 0.0 {
        return 0.0;
    }
    let step_us = 100.0 * compute_us / au;
    let in_time_us = (step_us - late_us).max(compute_us);
    (100.0 * compute_us / in_time_us - au).max(0.0)
}

/// Warns when AU relies largely on data read before it began to count.
fn read_ahead(report: &TrainReport) -> Option<Warning> {
    let share = much_read_ahead(&report.plan, &report.results.mean)?;
    (!report.plan.is_null()).then(|| {
        Warning::new(
            WarningKind::TooShort,
            format!(
                "{:.0} % of the samples that AU counts were read before its first step: storage \
                 did not have to sustain this rate",
                100.0 * share
            ),
            "make epochs longer: more --files, and a higher --steps where that limits them",
        )
    })
}

/// Warns when a cold run may have found its files in the page cache.
fn cold(report: &TrainReport) -> Option<Warning> {
    let epochs = report.results.scored_epochs();
    let shares: Option<Vec<f64>> = epochs.iter().map(|epoch| epoch.cached_share).collect();
    let fact = match shares {
        _ if !report.plan.request.is_cold() => return None,
        None => {
            "it is not known whether the page cache was empty: the kernel tells only those who \
                 may write to the files, and nothing about the cache of a FUSE server"
                .to_string()
        }
        Some(shares) => {
            let most = shares.into_iter().fold(0.0, f64::max);
            let percent = (most > COLD_SHARE).then_some(100.0 * most)?;
            format!("{percent:.1} % of the dataset was still in the page cache when an epoch began")
        }
    };
    let remedy = "run as the owner of the files, on a file system that is not in memory (tmpfs), \
                  and end other programs that hold them";
    Some(Warning::new(WarningKind::CacheState, fact, remedy))
}

/// Warns about a run that meets its threshold where DLIO, with its overhead, might not.
fn upper_bound(report: &TrainReport) -> Option<Warning> {
    let plan = &report.plan;
    if plan.is_null() {
        return None;
    }
    // A process has a share of its host's CPUs.
    let group = report.results.group.as_ref();
    let machine = group.and_then(|group| group.machine_of(0));
    let cpus = machine.map_or(report.head.host.cpus, |machine| {
        (machine.cpus / machine.ranks.len().max(1) as u32).max(1)
    });
    let au = report.results.mean.au_percent.profile;
    let known = ClientCost::known(plan.data.format).map(|cost| cost.on(cpus));
    let known = known.map(|cost| (cost, plan.au_percent_with(cost, au)));
    upper_bound_warning(plan, au, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_costs_at_most_what_is_missing() {
        // A step of 1000 µs with 500 µs of compute.
        assert_eq!(late_cost_points(0.0, 500.0, 50.0), 0.0);
        assert_eq!(late_cost_points(200.0, 500.0, 50.0), 12.5);
        assert_eq!(late_cost_points(5000.0, 500.0, 50.0), 50.0);
        // If all data arrived in time, lateness costs nothing.
        assert_eq!(late_cost_points(60.0, 500.0, 100.0), 0.0);
        assert_eq!(late_cost_points(60.0, 0.0, 50.0), 0.0);
        assert_eq!(late_cost_points(60.0, 500.0, 0.0), 0.0);
    }
}
