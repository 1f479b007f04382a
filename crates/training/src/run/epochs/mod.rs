//! One run: its epochs, the work between them, and the records.

mod checkpoints;
mod hosts;
mod runner;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::plan::train_plan::TrainPlan;
use crate::report::{RunReport, StepLists, WaitingSeconds, WrittenCheckpoint};
use stormlp_core::event::{Event, Unit};
use stormlp_core::note::Cause;
use stormlp_core::report::{Ending, Series};
use stormlp_core::transport::DeviceId;
use stormlp_transfer::AcceleratorSet;
use stormlp_transfer::telemetry::{self, CpuTimes, Instruments};
use stormlp_transfer::thread_group::guarded;

use self::runner::{Cut, OnEpoch, Runner, has_failed};
use super::attribution::{self, Reading};
use super::cache;
use super::error::TrainError;
use super::io::IoTally;
use super::io::ThreadGroupSpec;
use super::machine::{Halt, PhaseSpec};
use super::measure::{self, Distributions, PhaseMeasured, RunMeasured};
use super::prepare::{self, EpochOrder, Order};
use super::shared::Shared;
use super::source::Source;
use super::thread_group::ThreadGroup;
use super::together::{self, Others};
use stormlp_transfer::fallback;
use stormlp_transfer::run_context::{RunContext, unix_seconds};
use stormlp_transfer::sampler::{Counters, Sampler};

/// Poll interval while a loader is drained.
const DRAIN_POLL: Duration = Duration::from_millis(1);
/// Maximum number of accelerators with bytes kept over time: 1024 numbers each.
const MOST_RANKS: usize = 64;

/// Runs all epochs of `plan` in `order`, calls `on_epoch` after each with the measurements so
/// far, and adds to `distributions`. A failure, a triggered stop or a `judge` that has seen enough
/// ends the run; measurements are kept.
///
/// # Errors
/// When the run cannot begin: no threads, no buffers, or a path not available on this machine.
pub(super) fn run(
    plan: &TrainPlan,
    order: &dyn Order,
    accelerators: &AcceleratorSet,
    Others { hosts, judge }: Others<'_>,
    surroundings: &RunContext<'_>,
    distributions: &mut Distributions,
    on_epoch: OnEpoch<'_>,
) -> Result<RunMeasured, TrainError> {
    let storage = &**surroundings.storage;
    let writer = checkpoints::writer(plan, hosts, storage)?;
    let own = together::accelerators(hosts, plan);
    let loaders = prepare::loaders(plan, own.len());
    let spec = ThreadGroupSpec {
        storage: Arc::clone(surroundings.storage),
        transport: plan.transport.clone(),
        accelerators: accelerators.clone(),
        head_from_bytes: plan.head_from_bytes(),
    };
    let group = hosts.map(|hosts| Arc::clone(&hosts.group));
    let thread_group = ThreadGroup::start(&spec, loaders, plan.request.keep_step_times, group)?;
    if judge.is_some() {
        thread_group.shared.with(|machine, _| machine.mark_steps());
    }
    let watched = watched(plan);
    let devices = storage.devices(watched.as_slice());
    let instruments = instruments(plan, watched);
    let measured = RunMeasured {
        report: RunReport { started_unix_seconds: unix_seconds(), ..RunReport::default() },
        ending: Ending::Unfinished,
        steps: Vec::new(),
        series: Series::default(),
        evidence: None,
        backing: thread_group.backing,
        devices: devices.names(),
    };
    let mut runner = Runner {
        plan,
        surroundings,
        distributions,
        on_epoch,
        judge,
        devices,
        sampler: Sampler::new(plan.request.tune.telemetry, &instruments),
        measured,
        writer,
        written: Vec::new(),
        storage,
        thread_group,
        hosts,
        own,
    };
    let went = guarded("main", || runner.all_epochs(order)).map_err(Cut::from).flatten();
    let shared = Arc::clone(&runner.thread_group.shared);
    let tally = runner.thread_group.stop();
    let mut measured = runner.measured;
    measured.ending = ending(plan, went, shared.take_failure(), &tally);
    measured.series = runner.sampler.series();
    measured.series.load = shared.drivers.load();
    let others = hosts.filter(|_| measured.ending == Ending::Complete);
    measured.evidence = together::evidence(others, plan, tally.evidence, surroundings.stop);
    runner.distributions.reads.merge(&tally.latency);
    runner.distributions.registrations.merge(&tally.registration);
    let complete = measured.ending == Ending::Complete;
    let seconds = measure::seconds(shared.now());
    measure::sum_up(&mut measured.report, plan, complete, seconds);
    Ok(measured)
}

/// How a run ended, by the end of its epochs, failures of threads, and the path that ran.
fn ending(
    plan: &TrainPlan,
    went: Result<(), Cut>,
    failure: Option<TrainError>,
    tally: &IoTally,
) -> Ending {
    let ending = match (went, failure) {
        (_, Some(error)) | (Err(Cut::Error(error)), None) => {
            return Ending::Failed(error.note(plan));
        }
        (Err(Cut::Stopped), None) => Ending::Stopped,
        (Ok(()) | Err(Cut::Failed), None) => Ending::Complete,
    };
    let broken = tally.evidence.as_ref().and_then(|evidence| {
        let path = plan.transport.path;
        fallback::broken_demand(plan.request.require.is_some(), path, evidence, tally.reads)
    });
    match broken {
        Some(message) => Ending::failed(Cause::Storage, message, fallback::REMEDY),
        None => ending,
    }
}

/// Input of the sampler: a reading, and the counts of `shared`.
fn counters(plan: &TrainPlan, reading: &Reading, shared: &Shared) -> Counters {
    let (device, drivers) = (reading.device, &shared.drivers);
    // A single rank is the whole.
    let is_kept = |ranks: &Vec<u64>| (2..=MOST_RANKS).contains(&ranks.len()) && !plan.is_null();
    Counters {
        bytes: reading.bytes,
        in_flight: drivers.total().in_flight as u32,
        flown: drivers.flown(),
        cpu_seconds: reading.cpu.total_seconds(),
        device_bytes: device.map(|device| device.read_bytes + device.written_bytes),
        rank_bytes: Some(shared.rank_bytes()).filter(is_kept).unwrap_or_default(),
    }
}

/// The folder with the monitored devices, if storage is used.
fn watched(plan: &TrainPlan) -> Option<&Path> {
    let folder = plan.data.folder.as_ref().filter(|_| !plan.is_null());
    folder.map(|location| location.folder())
}

/// The instruments for a run of `plan`.
fn instruments(plan: &TrainPlan, watched: Option<&Path>) -> Instruments {
    let gpus = plan.transport.accelerators().filter_map(DeviceId::gpu_index);
    Instruments::around(watched, gpus, plan.request.tune.telemetry)
}

impl<'a> Runner<'a> {
    fn epochs(&mut self, order: &dyn Order) -> Result<(), Cut> {
        let plan = self.plan;
        let mut next_checkpoint = plan.checkpoint.as_ref().and_then(|rules| rules.after_epoch);
        for epoch in 1..=plan.epochs {
            self.training(epoch, order)?;
            if next_checkpoint == Some(epoch)
                && let Some(rules) = &plan.checkpoint
            {
                self.checkpoint_after(epoch)?;
                next_checkpoint = Some(epoch.saturating_add(rules.epochs_between.max(1)));
            }
        }
        Ok(())
    }

    /// Runs one epoch's training, including the profile's prewarming.
    fn training(&mut self, epoch: u32, order: &dyn Order) -> Result<(), Cut> {
        let plan = self.plan;
        if plan.prewarm {
            self.prewarm(order.epoch(epoch))?;
        }
        let order = order.epoch(epoch);
        let label = format!("epoch {epoch} of {}", plan.epochs);
        let phase = PhaseSpec {
            writes_checkpoints: self.writer.is_some(),
            ..prepare::training(plan, epoch, order.shares)
        };
        self.phase(epoch, &label, phase, order.source)
    }

    /// Writes the checkpoint after a step; other hosts learn of it at the end of the epoch.
    fn checkpoint_within(&mut self, epoch: u32, step: u64) -> Result<(), Cut> {
        let stop = self.surroundings.stop;
        let written = match self.hosts {
            None => self.write(epoch, step)?,
            // No other code checks on the other hosts in the meantime.
            Some(hosts) => {
                let written = hosts.watched(stop, || self.write(epoch, step));
                written.map_err(TrainError::from)??
            }
        };
        self.written.extend(written);
        Ok(())
    }

    /// Writes the checkpoint after an epoch, for which the other hosts wait.
    fn checkpoint_after(&mut self, epoch: u32) -> Result<(), Cut> {
        let step = self.plan.steps_per_epoch;
        let Some(hosts) = self.hosts else {
            let written = self.write(epoch, step)?;
            self.measured.report.checkpoints.extend(written);
            return Ok(());
        };
        let stop = self.surroundings.stop;
        let (written, heard) = hosts.alongside(stop, || self.write(epoch, step), has_failed);
        let stopped = heard.map_err(TrainError::from)?;
        let written = written?;
        if stopped {
            return Err(Cut::Stopped);
        }
        let all = hosts
            .exchange(&written, stop)
            .map_err(TrainError::from)?
            .ok_or(Cut::Stopped)?
            .into_iter()
            .flatten();
        self.measured.report.checkpoints.extend(all);
        self.works()
    }

    /// Writes a checkpoint if this host is responsible for it.
    fn write(&mut self, epoch: u32, step: u64) -> Result<Option<WrittenCheckpoint>, Cut> {
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let started = self.thread_group.shared.now();
        let Some(bytes) = writer.write(epoch, step, self.surroundings.stop)? else {
            return Err(Cut::Stopped);
        };
        Ok(Some(WrittenCheckpoint {
            epoch,
            step,
            bytes,
            started_seconds: started as f64 / 1e9,
            duration_seconds: (self.thread_group.shared.now() - started) as f64 / 1e9,
        }))
    }

    /// Waits until everything that the loaders started has finished.
    fn drain(&self) -> Result<(), Cut> {
        let shared = &self.thread_group.shared;
        while shared.with(|machine, _| machine.loaders_busy()) {
            if self.surroundings.stop.is_stopped() {
                return Err(self.abort());
            }
            self.verdict()?;
            thread::sleep(DRAIN_POLL);
        }
        self.verdict()
    }

    /// Reads one batch per accelerator and discards it.
    fn prewarm(&mut self, order: EpochOrder) -> Result<(), Cut> {
        let phase = PhaseSpec { steps: 1, shares: order.shares, ..PhaseSpec::nothing() };
        if !self.thread_group.shared.begin(order.source, phase) {
            return Err(Cut::Failed);
        }
        loop {
            match self.thread_group.shared.wait(self.plan.request.tune.telemetry.tick()) {
                None if self.surroundings.stop.is_stopped() => return Err(self.abort()),
                None => {}
                Some(_) => break,
            }
        }
        // Shutting down the workers waits for their current reads.
        self.drain()
    }

    /// Runs one phase, including the checkpoints within it.
    fn phase(
        &mut self,
        epoch: u32,
        label: &str,
        phase: PhaseSpec,
        source: Arc<dyn Source>,
    ) -> Result<(), Cut> {
        let cached = self.prepare_cache(&*source)?;
        if self.surroundings.stop.is_stopped() {
            return Err(Cut::Stopped);
        }
        self.meet_before_phase()?;
        let first = self.reading();
        let at_first = counters(self.plan, &first, &self.thread_group.shared);
        self.sampler.look(first.now, at_first);
        let steps = phase.steps;
        // A read left over from the previous epoch may have failed since.
        if !self.thread_group.shared.begin(source, phase) {
            return Err(Cut::Failed);
        }
        self.surroundings.observer.event(&Event::PhaseStarted {
            label: label.to_string(),
            total: Some(steps),
            unit: Unit::Steps,
        });
        let (last, waiting, went) = self.watch(epoch, first);
        let went = went.and_then(|()| self.verdict()).and_then(|()| self.catch_up(steps));
        self.surroundings.observer.event(&Event::PhaseFinished);
        let shared = &self.thread_group.shared;
        let own = self.own.start;
        let mut measured = shared.with(|machine, _| PhaseMeasured {
            waits_us: machine.joint().map_or(Vec::new(), |joint| joint.waits_us().to_vec()),
            cached_share: cached,
            ..PhaseMeasured::between([&first, &last], waiting, machine, own)
        });
        measured.checkpoints = std::mem::take(&mut self.written);
        // After losing a host no exchange is possible, so this host keeps its part.
        let together = self.ends_with_others(&went);
        let put = if together { self.put_together(&mut measured) } else { Ok(()) };
        self.book(epoch, &measured);
        self.thread_group.close_streams();
        went.and(put)?;
        self.verdict()
    }

    /// Waits for the end of a phase that began at `first`; samples the counters meanwhile, and
    /// writes the checkpoints within it.
    fn watch(&mut self, epoch: u32, first: Reading) -> (Reading, WaitingSeconds, Result<(), Cut>) {
        let mut waiting = WaitingSeconds::default();
        let mut last = first;
        let mut went = Ok(());
        loop {
            let halt = self.thread_group.shared.wait(self.patience());
            let now = self.reading();
            waiting += self.divide(&last, &now);
            let (plan, shared) = (self.plan, &self.thread_group.shared);
            self.sampler.tick(now.now, halt.is_some(), || counters(plan, &now, shared));
            last = now;
            match halt {
                Some(Halt::PhaseOver) => {
                    self.has_seen_enough();
                    return (last, waiting, went);
                }
                Some(Halt::Checkpoint) => {
                    let step = self.thread_group.shared.with(|machine, _| machine.steps_done());
                    went = self.checkpoint_within(epoch, step);
                    // An error ends the phase here, but its measurements so far are kept.
                    match went {
                        Ok(()) => self.thread_group.shared.with(|machine, now| machine.resume(now)),
                        Err(Cut::Stopped) => went = Err(self.abort_for_all()),
                        Err(_) => drop(self.abort()),
                    }
                }
                None if self.surroundings.stop.is_stopped() => went = Err(self.abort_for_all()),
                None if self.has_seen_enough() => went = Err(self.abort()),
                None => {
                    self.check_hosts();
                    let shared = &self.thread_group.shared;
                    let done = shared.with(|machine, _| machine.steps_done());
                    self.surroundings.observer.event(&Event::Progress { done });
                }
            }
        }
    }

    /// Whether there is a judge that needs no more steps.
    fn has_seen_enough(&mut self) -> bool {
        let Some(judge) = &mut self.judge else {
            return false;
        };
        let heard = judge.heard();
        let marks = (self.thread_group.shared).with(|machine, _| machine.marks(heard).to_vec());
        judge.hear(&marks)
    }

    /// Records the result of a phase and reports it.
    fn book(&mut self, epoch: u32, phase: &PhaseMeasured) {
        let plan = self.plan;
        let measured = &mut self.measured;
        let report = measure::epoch(plan, epoch, phase);
        self.surroundings.note(measure::epoch_line(plan, &report));
        measured.report.epochs.push(report);
        measured.report.checkpoints.extend(phase.checkpoints.iter().cloned());
        self.distributions.steps.merge(&phase.histograms);
        if plan.request.keep_step_times {
            measured.steps.push(StepLists { epoch, steps: phase.steps.clone() });
        }
        measured.series = self.sampler.series();
        (self.on_epoch)(measured, self.distributions, phase.ended_ns());
    }

    /// Evicts the files from the page cache for a cold run, and measures the cached share.
    fn prepare_cache(&self, source: &dyn Source) -> Result<Option<f64>, TrainError> {
        if self.plan.is_null() {
            return Ok(None);
        }
        let files = source.files();
        if self.plan.request.is_cold() {
            cache::drop_all(self.storage, files)?;
        }
        cache::look(self.storage, files)
    }

    fn reading(&self) -> Reading {
        let shared = &self.thread_group.shared;
        let (now, waits) = shared.with(|machine, now| (now, machine.waits(now)));
        Reading {
            now,
            waits,
            // Null storage does not read.
            bytes: if self.plan.is_null() { 0 } else { shared.bytes() },
            device: self.devices.counters(),
            cpu: CpuTimes::of_process(),
            cpu_wait_seconds: Some(telemetry::cpu_wait_seconds()),
        }
    }

    fn divide(&self, before: &Reading, after: &Reading) -> WaitingSeconds {
        attribution::divide(before, after, self.thread_group.threads, self.plan.is_null())
    }
}
