//! One trial: threads, paths and buffers are set up, measured and torn down. Threads serve users or
//! a trace with objects; a serving engine's threads write prefixes beforehand, and prompts load
//! them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stormlp_core::event::{Event, Unit};
use stormlp_core::mt19937::Mt19937;
use stormlp_core::stop::{Ends, StopToken};
use stormlp_core::units::counted;
use stormlp_transfer::run_context::unix_seconds;
use stormlp_transfer::sampler::{Counters, Sampler};
use stormlp_transfer::telemetry::CpuTimes;
use stormlp_transfer::thread_group::{self, Start, Watch};
use stormlp_transfer::{AcceleratorSet, Driver, DriverSet, evidence};

use super::chunk_files::{First, ServingState, WriteQueue};
use super::error::KvcacheError;
use super::loader::{Engine, Loader};
use super::mover::{Mover, WorkerResult};
use super::requests::{Requests, Source};
use super::stage::Stage;
use super::store::Store;
use super::tally::{Measured, Tally, TrialId, Watched};
use super::trace::{Replay, TraceLines};
use super::worker::{Shared, Worker};
use crate::plan::{
    Cache, Class, KvcacheWorkload, Load, Next, Pass, ServingPlan, TraceReader, WRITE_QUEUE, Work,
    draw, file_name,
};
use crate::report::{DeviceBytes, RequestCounts, RequestSeconds};

/// How often the writing of the first prefixes is looked at.
const TICK: Duration = Duration::from_millis(100);

impl Stage<'_> {
    /// Runs a trial from an empty folder, or on the chunks that earlier ones have left there: its
    /// measurements, and why it ended early.
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
            // While no other thread can receive the next request.
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

    /// Runs a trial of prompts from an empty folder, or on the chunks of earlier ones.
    ///
    /// # Errors
    /// If it could not start, or its chunks cannot be removed.
    fn serve(
        &self,
        id: TrialId,
        plan: &ServingPlan,
    ) -> Result<(Measured, Option<KvcacheError>), KvcacheError> {
        let pass = &self.plan.passes[id.pass];
        let of_trial;
        let state = match self.serving {
            Some(state) => state,
            None => {
                of_trial = ServingState::new((self.storage, self.folder), (self.plan, pass, plan));
                &of_trial
            }
        };
        let (files, first) = (&state.files, state.first());
        let source = Mutex::new(match self.replay(pass)? {
            Some(replay) => Source::Trace(Box::new(replay)),
            None => Source::Drawn(&state.prompts, None, 0),
        });
        let next = |now_ns| source.lock().unwrap_or_else(PoisonError::into_inner).next(now_ns);
        let queue = WriteQueue::new(WRITE_QUEUE);
        let engine = Engine {
            files,
            queue: &queue,
            first: &first,
            prompts: &state.prompts,
            loading: &AtomicU32::new(plan.loaders),
            next: &next,
        };
        let ran = self.measure(
            (id, self.plan.transport.threads),
            Tally::of_prompts(plan),
            |watch| self.watch_first(watch, &first, plan.chunk_bytes),
            |index, mover, start| {
                let mut loader = Loader { mover, engine: &engine };
                loader.prepare()?;
                loader.mover.start = start.wait();
                let work = match index < plan.loaders as usize {
                    true => loader.serve_prompts(),
                    false => loader.write_waiting(),
                };
                Ok(loader.mover.finish(work))
            },
        );
        let stays = self.serving.is_some() || (ran.is_ok() && id.keeps);
        let removed = if stays { Ok(()) } else { files.clear() };
        let (mut measured, failure) = ran?;
        measured.tally.prompts().waiting += queue.len();
        self.credit(source, &mut measured);
        Ok((measured, failure.or(removed.err().map(KvcacheError::from))))
    }

    /// Reports progress until the first prefixes are written.
    fn watch_first(&self, watch: &Watch<'_>, first: &First, chunk_bytes: u64) {
        let chunks = first.missing.len() as u64;
        if chunks == 0 {
            return;
        }
        let label = format!("writing {} of the first prefixes", counted(chunks, "chunk"));
        let total = Some(chunks * chunk_bytes);
        self.observer.event(&Event::PhaseStarted { label, total, unit: Unit::Bytes });
        while !watch.gather_for(TICK) {
            let taken = first.taken.load(Ordering::Relaxed) as u64;
            self.observer.event(&Event::Progress { done: taken.min(chunks) * chunk_bytes });
        }
        self.observer.event(&Event::PhaseFinished);
    }

    /// Enters requests sent, or replayed, in the window.
    fn credit(&self, source: Mutex<Source<'_>>, measured: &mut Measured) {
        let seconds = measured.watched.total_seconds.min(self.plan.duration_seconds);
        let source = source.into_inner().unwrap_or_else(PoisonError::into_inner);
        source.credit(&mut measured.tally, (seconds * 1e9) as u64);
    }

    /// Has so many threads do their `work`, each with a mover, and watches them; `before` runs
    /// while they prepare it. Returns their measurements and counts, and the first failure.
    ///
    /// # Errors
    /// If they could not start.
    fn measure(
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
                let (place, transport) = ((index, buffers), &self.plan.transport);
                let path = accelerators.path(self.storage, transport, place, transport.streams);
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
    fn replay(&self, pass: &Pass) -> Result<Option<Replay<'_>>, KvcacheError> {
        let (KvcacheWorkload::Replay(replay), Some(trace)) =
            (&self.plan.request.workload, &self.plan.trace)
        else {
            return Ok(None);
        };
        let reader = TraceReader::new(&pass.model, replay.chunks.block_tokens());
        let lines = TraceLines::open(self.storage, replay.trace.folder(), reader)?;
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
        // Preparation is not measured.
        watch.gather();
        self.meet().inspect_err(|_| failed.stop())?;
        let device_before = self.devices.counters();
        let cpu_before = CpuTimes::of_process();
        let mut sampler = Sampler::new(self.plan.request.tune().telemetry, self.instruments);
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
