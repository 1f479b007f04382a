//! Simulates a run: the real emulator with a virtual clock and simulated storage.
//!
//! Loaders, order, barrier, compute and AU are the code of a real run. Only [`reads`] depends on
//! the workload: it calculates the reads of a real run.

mod cache;
mod reads;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use derive_more::{Add, Mul, Sub};

use crate::plan::prediction::BUSY_PERCENT;
use crate::plan::{LimitedBy, Prediction, Scenario};
use cache::Cache;
use reads::{Calls, Reads, Sizes};
use storage::{Grain, SimulatedStorage};
use stormlp_core::stop::StopToken;
use stormlp_training::plan::metrics;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::report::verdict::Bound;
use stormlp_training::report::{EpochReport, Measures, WaitingSeconds, scored};
use stormlp_training::run::attribution::{self, Reading};
use stormlp_training::run::machine::drive::{self, DriveError, InFlightReads, VirtualClock};
use stormlp_training::run::machine::{Machine, Nanos, PhaseSpec, Share};
use stormlp_training::run::measure::{self, PhaseMeasured};
use stormlp_training::run::{prepare, verdict};
use stormlp_transfer::telemetry::CpuTimes;

/// If a larger share of the bytes comes from the page cache, memory is the limit: storage alone would
/// feed far fewer accelerators.
const FROM_MEMORY_PERCENT: f64 = 50.0;

/// Why a simulation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The plan has no steps or no accelerators.
    #[error("no work: {steps} steps for {accelerators} accelerators")]
    NothingToDo {
        /// Steps per epoch.
        steps: u64,
        /// Number of accelerators.
        accelerators: u32,
    },
    /// Storage is so slow that a run would last for decades.
    #[error("a run on this storage would last more than 30 years")]
    Endless,
    /// The simulation was stopped by the user, or stalled.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

/// Predicts one run of `plan` on the hosts and storage of `scenario`. The same plan and scenario give
/// exactly the same result.
///
/// # Errors
/// If the plan has no steps, or `stop` was triggered.
pub fn simulate(
    plan: &TrainPlan,
    scenario: &Scenario,
    stop: &StopToken,
) -> Result<Prediction, SimulateError> {
    let sizes =
        if reads::sizes_matter(plan) { Sizes::of(plan, scenario) } else { Sizes::mean(plan) };
    simulate_over(plan, scenario, sizes, stop)
}

/// As [`simulate`], with files of these sizes.
fn simulate_over(
    plan: &TrainPlan,
    scenario: &Scenario,
    sizes: Sizes,
    stop: &StopToken,
) -> Result<Prediction, SimulateError> {
    let (steps, accelerators) = (plan.steps_per_epoch, plan.accelerators);
    if steps == 0 || accelerators == 0 || plan.data.files == 0 {
        return Err(SimulateError::NothingToDo { steps, accelerators });
    }
    let mut simulation = Simulation::new(plan, scenario, sizes);
    let epochs = simulation.epochs(stop)?;
    Ok(simulation.prediction(&epochs))
}

/// A run in simulated time.
struct Simulation<'a> {
    plan: &'a TrainPlan,
    scenario: &'a Scenario,
    calls: Calls,
    sizes: Arc<Sizes>,
    machine: Machine,
    storage: SimulatedStorage,
    clock: VirtualClock,
    flights: InFlightReads,
    before_last: Totals,
}

/// The progress of a run so far.
#[derive(Debug, Clone, Copy, Default, Add, Sub, Mul)]
struct Totals {
    ns: f64,
    bytes: f64,
    cached_bytes: f64,
    device_ns: f64,
    link_ns: f64,
    host_ns: f64,
    connections_ns: f64,
}

/// The reads of a phase and each accelerator's share.
struct Phase {
    reads: (Reads, Cache),
    shares: Vec<Share>,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a TrainPlan, scenario: &'a Scenario, sizes: Sizes) -> Self {
        let calls = Calls::of(plan, scenario);
        let sizes = Arc::new(sizes);
        let phase = phase_of(plan, scenario, (calls, &sizes), 1);
        let reads = plan.reads_of_epoch() * f64::from(plan.epochs);
        let grain = Grain {
            parts: (scenario.events as f64 / reads.max(1.0)) as u64,
            checkpoint: checkpoint_ns(plan, scenario),
            request_bytes: phase.reads.0.usual_request_bytes(),
        };
        let accelerators = plan.accelerators;
        let storage = SimulatedStorage::new(scenario, accelerators, calls, grain, phase.reads);
        Self {
            plan,
            scenario,
            calls,
            sizes,
            machine: Machine::new(prepare::loaders(plan, accelerators as usize), false),
            storage,
            clock: VirtualClock::default(),
            flights: InFlightReads::default(),
            before_last: Totals::default(),
        }
    }

    fn epochs(&mut self, stop: &StopToken) -> Result<Vec<EpochReport>, SimulateError> {
        let plan = self.plan;
        let mut next_checkpoint = plan.checkpoint.as_ref().and_then(|rules| rules.after_epoch);
        let mut epochs = Vec::new();
        for epoch in 1..=plan.epochs {
            self.before_last = self.totals();
            epochs.push(self.training(epoch, stop)?);
            if next_checkpoint == Some(epoch)
                && let Some(rules) = &plan.checkpoint
            {
                self.clock.now += checkpoint_ns(plan, self.scenario);
                next_checkpoint = Some(epoch.saturating_add(rules.epochs_between.max(1)));
            }
        }
        let last = epochs.last().cloned();
        epochs.extend(last.iter().cycle().take(self.scenario.more_like_last as usize).cloned());
        Ok(epochs)
    }

    fn training(&mut self, epoch: u32, stop: &StopToken) -> Result<EpochReport, SimulateError> {
        let plan = self.plan;
        let how = (self.calls, &self.sizes);
        let Phase { reads, shares } = phase_of(plan, self.scenario, how, epoch);
        self.storage.turn_to(reads);
        if plan.prewarm {
            let spec = PhaseSpec { steps: 1, shares: shares.clone(), ..PhaseSpec::nothing() };
            self.run(spec, stop)?;
            self.drain()?;
        }
        let spec = PhaseSpec {
            barrier_ns: (self.scenario.barrier_seconds * 1e9) as Nanos,
            ..prepare::training(plan, epoch, shares)
        };
        let first = self.reading();
        self.run(spec, stop)?;
        let last = self.reading();
        let waiting = attribution::divide(&first, &last, 1, false);
        let measured = PhaseMeasured::between([&first, &last], waiting, &self.machine, 0);
        Ok(measure::epoch(plan, epoch, &measured))
    }

    fn run(&mut self, spec: PhaseSpec, stop: &StopToken) -> Result<(), SimulateError> {
        let Self { machine, storage, clock, flights, .. } = self;
        drive::run_on(machine, storage, spec, clock, flights, &|| stop.is_stopped())?;
        if self.storage.is_endless { Err(SimulateError::Endless) } else { Ok(()) }
    }

    fn drain(&mut self) -> Result<(), SimulateError> {
        let Self { machine, storage, clock, flights, .. } = self;
        Ok(drive::drain(machine, storage, clock, flights)?)
    }

    fn reading(&mut self) -> Reading {
        let served = self.storage.served;
        Reading {
            now: self.clock.now,
            waits: self.machine.waits(self.clock.now),
            bytes: served.bytes + served.cached_bytes,
            device: Some(self.storage.counters()),
            cpu: CpuTimes::default(),
            cpu_wait_seconds: None,
        }
    }

    fn totals(&self) -> Totals {
        let served = self.storage.served;
        let [link_ns, host_ns, connections_ns] = self.storage.link_host_and_connections_ns();
        Totals {
            ns: self.clock.now as f64,
            bytes: (served.bytes + served.cached_bytes) as f64,
            cached_bytes: served.cached_bytes as f64,
            device_ns: served.device_ns,
            link_ns,
            host_ns,
            connections_ns,
        }
    }

    fn prediction(&self, epochs: &[EpochReport]) -> Prediction {
        let plan = self.plan;
        let measures: Vec<Measures> = scored(plan, epochs);
        let mean = metrics::mean(&measures);
        let reports: Vec<&EpochReport> = epochs.iter().collect();
        let cause = verdict::main_cause(plan, &reports, &mean);
        let simulated = self.totals();
        let of_last = simulated - self.before_last;
        let all = simulated + of_last * f64::from(self.scenario.more_like_last);
        let of_time = |ns: f64, number: f64| (100.0 * ns / all.ns.max(1.0) / number).min(100.0);
        let devices = f64::from(storage::groups(self.scenario));
        // Hosts without accelerators have nothing to do.
        let hosts = f64::from(self.scenario.hosts.clamp(1, plan.accelerators.max(1)));
        let storage_busy_percent = of_time(all.device_ns, devices);
        let link_busy_percent = of_time(all.link_ns, hosts);
        let host_busy = of_time(all.host_ns, hosts);
        let connections_busy_percent = of_time(all.connections_ns, hosts);
        let other_busy = storage_busy_percent.max(link_busy_percent).max(connections_busy_percent);
        let samples_per_second = samples_per_second(plan, &mean);
        let cached_percent = 100.0 * all.cached_bytes / all.bytes.max(1.0);
        Prediction {
            au_percent: au_percent(&mean),
            samples_per_second,
            mib_per_second: metrics::mib(&metrics::Rule::of(plan), samples_per_second),
            read_mib_per_second: mean.read_mib_per_second,
            run_seconds: all.ns / 1e9,
            limited_by: match limited_by(cause, &mean.waiting_seconds) {
                LimitedBy::Storage if host_busy >= BUSY_PERCENT && host_busy > other_busy => {
                    LimitedBy::Client
                }
                // Waiting times do not tell, as storage and client both cause a part of them.
                LimitedBy::Client if other_busy >= FULL_PERCENT => LimitedBy::Storage,
                LimitedBy::Storage if cached_percent > FROM_MEMORY_PERCENT => LimitedBy::Memory,
                other => other,
            },
            storage_busy_percent,
            link_busy_percent,
            connections_busy_percent,
            host_busy_percent: host_busy,
            cached_percent,
            waiting_seconds: mean.waiting_seconds,
            epoch_au_percent: measures.iter().map(au_percent).collect(),
            events: self.clock.events,
        }
    }
}

/// The reads of `epoch`.
fn phase_of(
    plan: &TrainPlan,
    scenario: &Scenario,
    (calls, sizes): (Calls, &Arc<Sizes>),
    epoch: u32,
) -> Phase {
    let (index, shares) = prepare::index(plan, epoch);
    let reads = Reads::new(plan, calls, sizes, index);
    let cache = Cache::at(plan, scenario, calls.direct, epoch);
    Phase { reads: (reads, cache), shares }
}

/// Duration of a checkpoint during training.
fn checkpoint_ns(plan: &TrainPlan, scenario: &Scenario) -> Nanos {
    let bytes = plan.checkpoint.as_ref().map_or(0, |rules| rules.bytes);
    let rate = scenario.storage.write_bytes_per_second();
    rate.map_or(0, |rate| (1e9 * bytes as f64 / rate) as Nanos)
}

/// AU. A simulated step is never shorter than its compute time, so more than 100 % is rounding.
fn au_percent(measures: &Measures) -> f64 {
    measures.au_percent.profile.min(100.0)
}

/// Throughput of a run. The formulas for whole runs include the first steps, or exclude only the very
/// first: if a part of a run excludes more, the throughput of its window is used.
fn samples_per_second(plan: &TrainPlan, mean: &Measures) -> f64 {
    if plan.metric.exclude_start_steps > 1 {
        mean.window_samples_per_second
    } else {
        mean.samples_per_second
    }
}

fn limited_by(limited_by: Bound, waiting: &WaitingSeconds) -> LimitedBy {
    match limited_by {
        Bound::Compute | Bound::ReadAhead | Bound::Unknown => LimitedBy::Nothing,
        Bound::Storage | Bound::Startup => LimitedBy::Storage,
        Bound::Client => LimitedBy::Client,
        Bound::StorageAndClient if waiting.storage >= waiting.cpu => LimitedBy::Storage,
        Bound::StorageAndClient => LimitedBy::Client,
        Bound::Barrier => LimitedBy::Barrier,
    }
}

/// Storage that is busy for as much of a run does all that it can.
const FULL_PERCENT: f64 = 95.0;
