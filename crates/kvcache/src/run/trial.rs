//! One trial: threads, paths and buffers are set up, measured and torn down.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stormlp_core::event::{Event, Observer, Unit};
use stormlp_core::evidence::Evidence;
use stormlp_core::mt19937::Mt19937;
use stormlp_core::report::Series;
use stormlp_core::stop::{Ends, StopToken};
use stormlp_core::units::counted;
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::run_context::unix_seconds;
use stormlp_transfer::sampler::{Counters, Sampler};
use stormlp_transfer::storage::Storage;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, Instruments};
use stormlp_transfer::thread_group::{self, Start, Watch};
use stormlp_transfer::{AcceleratorSet, Driver, DriverSet, evidence};

use super::chunk_files::ServingState;
use super::error::KvcacheError;
use super::mover::{Mover, WorkerResult};
use super::requests::{Next, Requests, Source, Work};
use super::store::Store;
use super::tally::Tally;
use super::trace::{Replay, TraceLines};
use super::worker::{Shared, Worker};
use crate::plan::{Cache, Class, KvcachePlan, Load, Noise, Pass, TraceReader, draw, file_name};
use crate::report::{DeviceBytes, RequestCounts, RequestSeconds};

/// What all trials of a run share.
pub(super) struct Stage<'a> {
    pub(super) plan: &'a KvcachePlan,
    pub(super) folder: &'a std::path::Path,
    pub(super) storage: &'a dyn Storage,
    pub(super) observer: &'a dyn Observer,
    pub(super) stop: &'a StopToken,
    pub(super) devices: &'a BlockDevices,
    pub(super) instruments: &'a Instruments,
    pub(super) noise: &'a Noise,
    pub(super) started: Instant,
    /// The chunks that several runs share, if they do.
    pub(super) serving: Option<&'a ServingState<'a>>,
    /// The hosts, if several measure together.
    pub(super) hosts: Option<&'a Hosts>,
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

/// What was measured in a trial: by one host, or by all of them once they have exchanged it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) seed: u32,
    /// In seconds since the start of the run.
    pub(super) started_at_seconds: f64,
    pub(super) tally: Tally,
    pub(super) evidence: Option<Evidence>,
    pub(super) watched: Watched,
}

/// What the monitoring thread measured.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Watched {
    pub(super) total_seconds: f64,
    pub(super) cpu: CpuTimes,
    pub(super) device: Option<DeviceBytes>,
    pub(super) series: Series,
}

impl Stage<'_> {
    /// The time in which a trial is measured.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs_f64(self.plan.duration_seconds)
    }

    /// Whether chunks are moved with `O_DIRECT`.
    pub(super) fn is_direct(&self) -> bool {
        self.plan.transport.path.wants_direct()
    }

    /// Runs a trial from an empty folder, or on the chunks that earlier ones have left there: what was
    /// measured, and why it ended early.
    ///
    /// # Errors
    /// If it could not start, or its objects cannot be removed.
    pub(super) fn run(
        &self,
        id: TrialId,
    ) -> Result<(Measured, Option<KvcacheError>), KvcacheError> {
        if let Some(plan) = &self.plan.serving {
            return self.serve(id, plan);
        }
        let pass = &self.plan.passes[id.pass];
        let store = Store::new(
            Cache::new(pass.memory_bytes, self.plan.capacity_bytes),
            pass.concurrent_writes,
        );
        let source = Mutex::new(match self.replay(pass)? {
            Some(replay) => Source::Trace(Box::new(replay)),
            None => Source::Users(self.requests(pass)),
        });
        let mut tally = Tally::default();
        tally.request_seconds = self.plan.request.lists_requests.then(RequestSeconds::default);
        if self.plan.trace.is_none() {
            tally.classes = Class::ALL.map(|class| (class, RequestCounts::default())).into();
        }
        let next = |now_ns| {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let next = source.next(now_ns)?;
            // While no other thread can take what comes after it.
            if let Next::Take(Work::Operate { key, write_tokens: Some(_) }, _) = &next {
                store.expect(key);
            }
            Ok(next)
        };
        let shared = Shared { model: &pass.model, next: &next, store: &store };
        let ran = self.measure(
            (id, pass.workers as usize),
            tally,
            |_| (),
            |_, mover, start| {
                let mut worker = Worker { mover, shared: &shared };
                worker.mover.start = start.wait();
                let work = worker.serve_all();
                Ok(worker.mover.finish(work))
            },
        );
        let kept = ran.is_ok() && id.keeps;
        let removed = if kept { Ok(()) } else { self.remove(store) };
        let (mut measured, failure) = ran?;
        self.credit(source, &mut measured);
        Ok((measured, failure.or(removed.err())))
    }

    /// Enters what was sent, or replayed, in the window.
    pub(super) fn credit(&self, source: Mutex<Source<'_>>, measured: &mut Measured) {
        let seconds = measured.watched.total_seconds.min(self.plan.duration_seconds);
        let source = source.into_inner().unwrap_or_else(PoisonError::into_inner);
        source.credit(&mut measured.tally, (seconds * 1e9) as u64);
    }

    /// Has so many threads do their `work`, each with a mover of its own, and watches them; `before` runs
    /// while they prepare it. What they measured and counted, and the first failure.
    ///
    /// # Errors
    /// If they could not start.
    pub(super) fn measure(
        &self,
        (id, threads): (TrialId, usize),
        tally: Tally,
        before: impl FnOnce(&Watch<'_>),
        work: impl Fn(usize, Mover<'_>, &mut Start<'_>) -> Result<WorkerResult, KvcacheError> + Sync,
    ) -> Result<(Measured, Option<KvcacheError>), KvcacheError> {
        let accelerators = AcceleratorSet::open(&self.plan.transport)?;
        let mut regions = accelerators.regions(&[&self.plan.transport])?;
        let buffers = (0..threads)
            .map(|index| accelerators.buffers(&self.plan.transport, index, &mut regions))
            .collect::<Result<Vec<_>, _>>()?;
        let drivers = DriverSet::counting_loads(threads);
        let started_at_seconds = self.started.elapsed().as_secs_f64();
        let (tally, failed) = (Mutex::new(tally), StopToken::new());
        let ends = Ends { stop: self.stop, failed: &failed };
        let (workers, watched) = thread_group::run(
            "worker",
            buffers.into_iter().enumerate(),
            &failed,
            |(index, buffers), start| {
                let place = (index, buffers);
                let path = accelerators.path(self.storage, &self.plan.transport, place);
                let path = path.inspect_err(|_| failed.stop())?;
                let driver = Driver::new(path, &drivers, index);
                work(index, Mover::new(driver, self, ends, &tally), start)
            },
            |watch| {
                before(watch);
                self.watch(watch, &drivers, id, &failed)
            },
        )?;
        let mut watched = watched?;
        watched.series.load = drivers.load();
        let (mut seen, mut failure) = (Vec::with_capacity(workers.len()), None);
        for worker in workers {
            let failed = match worker {
                Ok(worker) => {
                    seen.push(worker.evidence);
                    worker.failure
                }
                Err(error) => Some(error),
            };
            failure = failure.or(failed);
        }
        let seen: Vec<_> = seen.iter().collect();
        let measured = Measured {
            seed: self.plan.seed,
            started_at_seconds,
            tally: tally.into_inner().unwrap_or_else(PoisonError::into_inner),
            evidence: evidence::combine(self.plan.transport.path, &seen),
            watched,
        };
        Ok((measured, failure))
    }

    /// The trace from its beginning, if one is replayed.
    pub(super) fn replay(&self, pass: &Pass) -> Result<Option<Replay<'_>>, KvcacheError> {
        let (Some(file), Some(trace)) = (&self.plan.request.trace, &self.plan.trace) else {
            return Ok(None);
        };
        let reader = TraceReader::new(&pass.model, self.plan.request.serving.block_tokens());
        let lines = TraceLines::open(self.storage, file.folder(), reader)?;
        Ok(Some(Replay::new(lines, trace.speed)))
    }

    /// The users of a pass, who begin now.
    fn requests(&self, pass: &Pass) -> Requests {
        let mut random = Mt19937::of_python(self.plan.seed);
        let users = draw(&mut random, pass.users);
        let started_unix_ms = (unix_seconds() * 1e3) as u64;
        Requests::new(Load::new(users, random), started_unix_ms, self.window().as_nanos() as u64)
    }

    /// Opens the gate, then reports progress and takes samples until every thread is done.
    fn watch(
        &self,
        watch: &Watch<'_>,
        drivers: &DriverSet,
        id: TrialId,
        failed: &StopToken,
    ) -> Result<Watched, KvcacheError> {
        let window = self.window();
        let total = match &self.plan.trace {
            Some(trace) if self.plan.ends_with_trace() => trace.paced_seconds(),
            _ => Some(window.as_secs_f64()),
        };
        let total = total.map(|seconds| (seconds * 1e3) as u64);
        let label = self.label(id);
        self.observer.event(&Event::PhaseStarted { label, total, unit: Unit::Milliseconds });
        // What they prepare is not measured.
        watch.gather();
        self.meet().inspect_err(|_| failed.stop())?;
        let device_before = self.devices.counters();
        let cpu_before = CpuTimes::of_process();
        let mut sampler = Sampler::new(self.plan.request.telemetry, self.instruments);
        sampler.look(0, Counters::now(drivers, self.devices));
        let start = watch.open();
        self.works().inspect_err(|_| failed.stop())?;
        let (mut is_over, mut is_late) = (false, false);
        while !is_over {
            watch.sleep(sampler.pause());
            is_over = watch.is_over();
            let elapsed = start.elapsed();
            sampler
                .tick(elapsed.as_nanos() as u64, is_over, || Counters::now(drivers, self.devices));
            if elapsed >= window && !is_late && !is_over {
                is_late = true;
                let label = "requests that are being served".to_string();
                let unit = Unit::Milliseconds;
                self.observer.event(&Event::PhaseFinished);
                self.observer.event(&Event::PhaseStarted { label, total: None, unit });
            }
            let since = if is_late { elapsed.saturating_sub(window) } else { elapsed };
            self.observer.event(&Event::Progress { done: since.as_millis() as u64 });
        }
        self.observer.event(&Event::PhaseFinished);
        let device = self.devices.counters().zip(device_before);
        let device = device.map(|(after, before)| after.since(before));
        Ok(Watched {
            total_seconds: start.elapsed().as_secs_f64(),
            cpu: CpuTimes::of_process().since(cpu_before),
            device: device.map(|moved| DeviceBytes {
                read_bytes: moved.read_bytes,
                written_bytes: moved.written_bytes,
            }),
            series: sampler.series(),
        })
    }

    /// Waits for the other hosts, so that all begin at the same moment.
    fn meet(&self) -> Result<(), KvcacheError> {
        let met = self.hosts.map_or(Ok(true), |hosts| hosts.meet(&|| !self.stop.is_stopped()));
        // A stop reaches the threads by its token.
        met.map(drop).map_err(KvcacheError::from)
    }

    /// Tells the other hosts that this one works, until all meet again.
    pub(super) fn works(&self) -> Result<(), KvcacheError> {
        let works = self.hosts.map_or(Ok(()), |hosts| hosts.works(self.stop));
        works.map_err(KvcacheError::from)
    }

    fn label(&self, id: TrialId) -> String {
        let pass = &self.plan.passes[id.pass];
        let option = pass.option.map_or(String::new(), |option| format!("option {option}, "));
        let (trial, trials) = (id.trial, self.plan.trials);
        let load = match (&self.plan.trace, &self.plan.serving) {
            (Some(trace), _) => format!("{} entries of the trace", trace.entries),
            (None, Some(_)) if self.serving.is_none() => "prompts".to_string(),
            (None, Some(load)) => counted(load.loaders.into(), "server"),
            (None, None) => format!("{} users", pass.users),
        };
        format!("{option}trial {trial} of {trials}, {}, {load}", pass.model.name)
    }

    /// Removes the objects of a trial.
    fn remove(&self, store: Store) -> Result<(), KvcacheError> {
        let stored = store.into_stored().into_iter();
        let paths: Vec<_> = stored.map(|key| self.folder.join(file_name(&key))).collect();
        self.storage.remove_all(&paths)?;
        Ok(())
    }
}
