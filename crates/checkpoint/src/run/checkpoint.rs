//! The main loop of a checkpoint run: saves with pauses between them, then restores.

mod cache;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::plan::{CheckpointPlan, Container, FileFraming, RankPlan, step_folder};
use crate::report::{
    CacheBefore, CheckpointReport, CheckpointResult, CheckpointResults, DeviceBytes, Summary,
    summarise,
};
use stormlp_core::event::{Event, Unit};
use stormlp_core::evidence::ObjectStore;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::location::Location;
use stormlp_core::operation::Direction;
use stormlp_core::others;
use stormlp_core::report::{Ending, Head, NamedEvidence, NamedSeries, Report};
use stormlp_core::transport::DeviceId;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::telemetry::{Instruments, peak_rss_bytes};
use stormlp_transfer::{AcceleratorSet, Regions, TransferError};

use super::blocking_pool::FileTask;
use super::content::{CheckpointContent, file_key};
use super::error::CheckpointError;
use super::folders;
use super::mover::RankTask;
use super::overlap;
use super::phase::{Purpose, Stage};
use super::together::{self, PhaseOutcome};
use stormlp_hosts::fault::Fault;
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::fallback::{self, hold_cufile};
use stormlp_transfer::run_context::RunContext;
use stormlp_transfer::run_context::now;

/// How often a pause checks for a stop request.
const TICK: Duration = Duration::from_millis(50);
/// Fraction of a checkpoint that may remain in the page cache for a restore to count as cold.
const COLD_SHARE: f64 = 0.01;

/// CPU seconds over all phases; zero rather than the `-0.0` of an empty sum if there are none.
fn cpu_seconds<'r>(
    results: impl Iterator<Item = &'r CheckpointResult>,
    pick: fn(&CheckpointResult) -> f64,
) -> f64 {
    results.map(pick).fold(0.0, |sum, seconds| sum + seconds)
}

/// Runs the plan, on several `hosts` if there are any, and passes the results so far to `on_unit` after
/// each save and restore. Results from before a failure or a stop are in the report; its `ending` says
/// which it was.
///
/// # Errors
/// If the run cannot start: no such device, a directory in use, no memory for the buffers.
pub fn run(
    head: Head,
    plan: &CheckpointPlan,
    hosts: Option<&Hosts>,
    surroundings: &RunContext<'_>,
    on_unit: &mut dyn FnMut(&CheckpointReport),
) -> Result<CheckpointReport, CheckpointError> {
    let accelerators = AcceleratorSet::open(&plan.save)?;
    run_over((head, plan, hosts), surroundings, on_unit, accelerators)
}

/// [`run`] with transfers that end in `accelerators`.
pub(super) fn run_over(
    (head, plan, hosts): (Head, &CheckpointPlan, Option<&Hosts>),
    surroundings: &RunContext<'_>,
    on_unit: &mut dyn FnMut(&CheckpointReport),
    accelerators: AcceleratorSet,
) -> Result<CheckpointReport, CheckpointError> {
    let &RunContext { storage, observer, stop } = surroundings;
    // One process locks the folders for all processes that see them.
    let leads = together::leads(plan, hosts);
    let _locks = if leads {
        folders::enter(&**storage, &plan.request.folders, plan.writes > 0)?
    } else {
        folders::hold(&**storage, &plan.request.folders)
    };
    let folders: Vec<_> = plan.request.folders.iter().map(Location::folder).collect();
    let devices = storage.devices(&folders);
    let gpus = plan.save.accelerators().filter_map(DeviceId::gpu_index);
    let instruments = Instruments::around(folders, gpus, plan.request.tune.machine.telemetry);
    let (required, statistics) =
        (plan.request.require.is_some(), plan.request.tune.machine.cufile_stats);
    let _cufile = hold_cufile(plan.path().needs_cufile(), required, statistics)?;
    let mut regions = accelerators.regions(&[&plan.save, &plan.restore])?;
    let mut report = Report::new(head, plan.clone(), CheckpointResults::default());
    report.warnings.clone_from(&plan.warnings);
    report.warnings.extend(report.head.host.debug_build());
    report.results.group = hosts.map(|hosts| hosts.facts.clone());
    let mut run = Run {
        stage: Stage {
            plan,
            storage: &**storage,
            accelerators,
            observer,
            stop,
            devices: &devices,
            instruments: &instruments,
            hosts,
        },
        leads,
        here: together::plan_here(plan, hosts),
        started: Instant::now(),
        report,
        content: CheckpointContent::new(plan.content),
        latencies: [LatencyHistogram::new(), LatencyHistogram::new()],
        on_unit,
    };
    let ended = run.save_all(&mut regions).and_then(|()| run.restore_all(&mut regions));
    // All hosts meet at the end. On an error the run ends regardless of the other hosts.
    let ended = ended.and_then(|()| run.edge());
    run.sum_up();
    let mut report = run.report;
    report.ending = match ended {
        Err(error) => failed(&error, plan),
        Ok(()) if Hosts::have_stopped(hosts, stop) => Ending::Stopped,
        Ok(()) => Ending::Complete,
    };
    report.warnings.extend(of_objects(&report.evidence));
    report.warnings.extend(storage.warnings());
    let warning = still_cached(&report.results.restores);
    report.warnings.extend(warning);
    let direct = plan.path().wants_direct();
    let load = others::warning(&report.series, direct, report.results.group.as_ref());
    report.warnings.extend(load);
    report.head.ended_at = Some(now());
    Ok(report)
}

/// The warnings of saves and of restores about objects: which of them, first.
fn of_objects(evidence: &[NamedEvidence]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for NamedEvidence { name, evidence } in evidence {
        let of_store = evidence.object_store.iter().flat_map(ObjectStore::warnings);
        let named = |warning: Warning| {
            Warning::new(warning.kind, format!("{name}: {}", warning.fact), warning.remedy)
        };
        warnings.extend(of_store.map(named));
    }
    warnings
}

/// The ending of a run that could not continue.
fn failed(error: &CheckpointError, plan: &CheckpointPlan) -> Ending {
    let fell_back = match error {
        CheckpointError::Fault(Fault::Transfer(error)) => {
            fallback::remedy(plan.request.require.is_some(), error)
        }
        _ => None,
    };
    let remedy = fell_back.unwrap_or(error.remedy());
    Ending::failed(error.cause(), error.to_string(), remedy)
}

/// Restores that should have been cold but were not. Whether an O_DIRECT read bypasses cached pages
/// depends on the file system, and there is no way to tell what this one does.
fn still_cached(restores: &[CheckpointResult]) -> Option<Warning> {
    let cached = |restore: &&CheckpointResult| {
        let before = restore.page_cache_before.as_ref();
        before.is_some_and(|before| before.dropped && before.share > COLD_SHARE)
    };
    let steps: Vec<String> =
        restores.iter().filter(cached).map(|restore| restore.step.to_string()).collect();
    (!steps.is_empty()).then(|| {
        Warning::new(
            WarningKind::CacheState,
            format!(
                "more than {:.0} % of checkpoint {} was still in the page cache after it was \
                 dropped",
                COLD_SHARE * 100.0,
                steps.join(", ")
            ),
            "use a --dir on a file system that can drop its cached pages",
        )
    })
}

/// Names that belong to one direction: its parts, evidence and histogram.
fn names(direction: Direction) -> (&'static str, &'static str, &'static str) {
    match direction {
        Direction::Write => ("save", "saves", "save_transfer"),
        Direction::Read => ("restore", "restores", "restore_transfer"),
    }
}

/// A run in progress.
struct Run<'a> {
    stage: Stage<'a>,
    /// Whether this process creates and removes folders and marks checkpoints complete.
    leads: bool,
    /// The plan restricted to the folders that this process sees.
    here: CheckpointPlan,
    started: Instant,
    report: CheckpointReport,
    content: CheckpointContent,
    /// All transfers of the saves and of the restores.
    latencies: [LatencyHistogram; 2],
    on_unit: &'a mut dyn FnMut(&CheckpointReport),
}

impl Run<'_> {
    /// Updates the sums over the results so far.
    fn sum_up(&mut self) {
        let results = &mut self.report.results;
        results.summary =
            Summary { save: summarise(&results.saves), restore: summarise(&results.restores) };
        let both = || results.saves.iter().chain(&results.restores);
        results.cpu_user_seconds = cpu_seconds(both(), |result| result.cpu_user_seconds);
        results.cpu_system_seconds = cpu_seconds(both(), |result| result.cpu_system_seconds);
        results.elapsed_seconds = self.started.elapsed().as_secs_f64();
        results.peak_rss_bytes = peak_rss_bytes();
        let [saves, restores] = &self.latencies;
        let named =
            [saves.named(names(Direction::Write).2), restores.named(names(Direction::Read).2)];
        self.report.histograms = named.into_iter().flatten().collect();
    }

    /// Reports the results so far.
    fn tell(&mut self) {
        self.sum_up();
        (self.on_unit)(&self.report);
    }

    /// Records a phase's non-rank results, whether or not it succeeded.
    fn take(&mut self, direction: Direction, step: u32, phase: &mut PhaseOutcome) {
        let measured = &mut phase.measured;
        let (part, name, _) = names(direction);
        self.latencies[usize::from(direction == Direction::Read)].merge(&measured.latency);
        self.report.series.push(NamedSeries {
            name: format!("{part} {step}"),
            series: std::mem::take(&mut measured.series),
        });
        if let Some(evidence) = measured.evidence.take() {
            let path = self.stage.plan.path();
            let (required, transfers) =
                (self.stage.plan.request.require.is_some(), measured.latency.len());
            let broken = fallback::broken_demand(required, path, &evidence, transfers);
            if let Some(summary) = broken {
                phase.failure.get_or_insert(Fault::FellBack { summary }.into());
            }
            if let Some(warning) = fallback::warning(path, &evidence) {
                self.report.warn(warning);
            }
            // Requests are summed over all saves, or all restores.
            let before = self.report.evidence.extract_if(.., |named| named.name == name).next();
            let before = before.map(|named| named.evidence);
            let evidence = evidence.clone().with_stores_of(before.iter().chain([&evidence]));
            let name = name.to_string();
            self.report.evidence.push(NamedEvidence { name, evidence });
        }
    }

    fn save_all(&mut self, regions: &mut Regions) -> Result<(), CheckpointError> {
        let plan = self.stage.plan;
        for step in 1..=plan.writes {
            // With overlapped training, the training itself is the time between saves.
            if plan.request.overlap_step_seconds.is_none() && !self.pause()? {
                return Ok(());
            }
            if self.is_stopped() {
                return Ok(());
            }
            self.works()?;
            if self.leads {
                folders::begin(self.stage.storage, &self.here, step)?;
            }
            // Leftovers of an earlier run are gone before anyone writes.
            if let Some(hosts) = self.stage.hosts {
                if !hosts.meet(&|| true)? {
                    return Ok(());
                }
                folders::hold(self.stage.storage, &plan.request.folders);
            }
            let outcome = self.save(step, regions);
            if self.leads && !matches!(outcome, Ok(true)) {
                folders::abandon(self.stage.storage, &self.here, step);
            }
            if !outcome? {
                return Ok(());
            }
            if self.leads {
                self.remove_old(step)?;
            }
        }
        Ok(())
    }

    /// Removes checkpoints that checkpoint `step`, which is whole, makes dispensable.
    fn remove_old(&mut self, step: u32) -> Result<(), CheckpointError> {
        let (plan, storage) = (&self.here, self.stage.storage);
        if step == 1 {
            self.report.warnings.extend(folders::remove_earlier(storage, plan)?);
        }
        let old = plan.request.keep.and_then(|keep| step.checked_sub(keep));
        for folder in old.filter(|old| *old > 0).into_iter().flat_map(|old| plan.step_folders(old))
        {
            folders::remove(storage, &folder, true)?;
        }
        Ok(())
    }

    /// Saves one checkpoint; returns whether it is complete.
    fn save(&mut self, step: u32, regions: &mut Regions) -> Result<bool, CheckpointError> {
        let plan = self.stage.plan;
        self.works()?;
        self.announce("saving", step, plan.writes);
        self.free(regions)?;
        let tasks = self.tasks(step, 0);
        let (phase, trained) = overlap::beside(
            overlap::EmulatedSteps::of(plan),
            self.stage.stop,
            || self.stage.run(Purpose::Save, &self.content, tasks, regions),
            |saved| saved.as_ref().is_ok_and(|phase| phase.measured.complete),
        )?;
        let mut phase = phase?;
        self.stage.observer.event(&Event::PhaseFinished);
        self.take(Direction::Write, step, &mut phase);
        if let Some(failure) = phase.failure.take() {
            return Err(failure);
        }
        if !phase.measured.complete {
            return Ok(false);
        }
        self.works()?;
        if self.leads {
            folders::complete(self.stage.storage, &self.here, step)?;
        }
        let shares = std::mem::take(&mut phase.shares);
        let mut result = self.result(step, phase, None);
        together::add(&mut self.report.results.hosts, shares, &result);
        result.overlap = trained.map(|trained| trained.result(result.duration_seconds.max));
        self.report.results.saves.push(result);
        self.tell();
        Ok(true)
    }

    fn restore_all(&mut self, regions: &mut Regions) -> Result<(), CheckpointError> {
        let plan = self.stage.plan;
        for (index, step) in plan.restores.iter().enumerate() {
            if self.is_stopped() {
                return Ok(());
            }
            if (index > 0 || plan.writes > 0) && !self.pause()? {
                return Ok(());
            }
            if self.is_stopped() || !self.restore(*step, regions)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Restores one checkpoint; returns whether all of it was read.
    fn restore(&mut self, step: u32, regions: &mut Regions) -> Result<bool, CheckpointError> {
        let plan = self.stage.plan;
        self.works()?;
        let cache = self.prepare_cache(step)?;
        let mut phase = self.read(Purpose::Restore, step, regions)?;
        self.take(Direction::Read, step, &mut phase);
        if let Some(failure) = phase.failure.take() {
            return Err(failure);
        }
        if !phase.measured.complete {
            return Ok(false);
        }
        self.works()?;
        let shares = std::mem::take(&mut phase.shares);
        let result = self.result(step, phase, cache);
        together::add(&mut self.report.results.hosts, shares, &result);
        let checked = !plan.request.verify || self.check(step, regions)?;
        self.report.results.restores.push(result);
        self.tell();
        Ok(checked)
    }

    /// Reads a checkpoint again and compares every byte. This follows the measured restore, so that
    /// comparing is not part of any measured time. Returns whether all of it was compared.
    fn check(&mut self, step: u32, regions: &mut Regions) -> Result<bool, CheckpointError> {
        let checked = self.read(Purpose::Check, step, regions)?;
        self.works()?;
        self.report.results.verified_bytes += checked.measured.verified_bytes;
        match checked.failure {
            Some(failure) => Err(failure),
            None => Ok(checked.measured.complete),
        }
    }

    /// Reads a checkpoint for one purpose.
    fn read(
        &self,
        purpose: Purpose,
        step: u32,
        regions: &mut Regions,
    ) -> Result<PhaseOutcome, CheckpointError> {
        let plan = self.stage.plan;
        let verb = if purpose == Purpose::Check { "checking" } else { "restoring" };
        self.announce(verb, step, plan.restores.len() as u32);
        self.free(regions)?;
        let tasks = self.tasks(step, plan.rank_shift);
        let read = self.stage.run(purpose, &self.content, tasks, regions)?;
        self.stage.observer.event(&Event::PhaseFinished);
        Ok(read)
    }

    /// Frees the memory. A failed phase may still hold buffers; then it is allocated anew.
    fn free(&self, regions: &mut Regions) -> Result<(), TransferError> {
        if !regions.reset() {
            let plan = self.stage.plan;
            *regions = self.stage.accelerators.regions(&[&plan.save, &plan.restore])?;
        }
        Ok(())
    }

    fn announce(&self, verb: &str, step: u32, of: u32) {
        let plan = self.stage.plan;
        self.stage.observer.event(&Event::PhaseStarted {
            label: format!("{verb} checkpoint {step} of {of}"),
            total: Some(plan.total_bytes),
            unit: Unit::Bytes,
        });
    }

    /// Each rank with its files of checkpoint `step`, or with the files of the rank `shift`
    /// positions later.
    fn tasks(&self, step: u32, shift: u64) -> Vec<RankTask> {
        let plan = self.stage.plan;
        let count = plan.ranks.len();
        let task = |index: usize| {
            let owner = &plan.ranks[(index + shift as usize) % count];
            let folder = plan.request.folders[owner.folder].join(&plan.run).join(step_folder(step));
            let mut framings = self.framings(owner).into_iter();
            let files = owner.files.iter().enumerate().map(|(number, file)| FileTask {
                path: folder.join(&file.name),
                bytes: file.bytes,
                key: file_key(step, owner.rank, number),
                framing: framings.next(),
            });
            RankTask { rank: plan.ranks[index].rank, files: files.collect::<VecDeque<_>>() }
        };
        together::own_ranks(self.stage.hosts, count).map(task).collect()
    }

    /// The framing overlaid on the files of `rank`, in order; none if tensors are packed raw, or if
    /// no byte is written or compared.
    fn framings(&self, rank: &RankPlan) -> Vec<Arc<FileFraming>> {
        let plan = self.stage.plan;
        let needed =
            plan.content.container == Container::Torch && (plan.writes > 0 || plan.request.verify);
        let tensors = needed.then(|| plan.layout.rank_tensors(rank.rank)).into_iter().flatten();
        tensors.map(|file| Arc::new(FileFraming::of(&file))).collect()
    }

    /// Whether the run should stop: a single host as soon as a stop is requested; otherwise once
    /// all hosts have learned of it, in a phase.
    fn is_stopped(&self) -> bool {
        match self.stage.hosts {
            Some(hosts) => hosts.are_apart(),
            None => self.stage.stop.is_stopped(),
        }
    }

    /// Pauses between checkpoints. Returns whether the run continues, on which all hosts agree.
    fn pause(&self) -> Result<bool, CheckpointError> {
        let stop = self.stage.stop;
        let end = Instant::now() + Duration::from_secs_f64(self.stage.plan.pause_seconds);
        self.works()?;
        while !stop.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(TICK));
        }
        match self.stage.hosts {
            Some(hosts) => Ok(!hosts.edge()?),
            None => Ok(!stop.is_stopped()),
        }
    }

    /// Signals the other hosts that this one is working, until all meet again.
    fn works(&self) -> Result<(), CheckpointError> {
        let works = self.stage.hosts.map_or(Ok(()), |hosts| hosts.works(self.stage.stop));
        works.map_err(CheckpointError::from)
    }

    /// Waits until all hosts have reached this point.
    fn edge(&self) -> Result<(), CheckpointError> {
        let edge = self.stage.hosts.map_or(Ok(false), Hosts::edge);
        edge.map(drop).map_err(CheckpointError::from)
    }

    fn result(
        &self,
        step: u32,
        phase: PhaseOutcome,
        page_cache_before: Option<CacheBefore>,
    ) -> CheckpointResult {
        let measured = phase.measured;
        CheckpointResult {
            started_at_seconds: (phase.started - self.started).as_secs_f64(),
            device: measured.device.map(|device| DeviceBytes {
                read_bytes: device.read_bytes,
                written_bytes: device.written_bytes,
            }),
            page_cache_before,
            cpu_user_seconds: measured.cpu.user_seconds,
            cpu_system_seconds: measured.cpu.system_seconds,
            ..CheckpointResult::of_ranks(step, measured.ranks)
        }
    }
}
