//! One save or restore: threads, paths and buffers set up, measured, and taken down again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_model::checkpoint::{CheckpointPlan, MovePlan, RankResult, Sample};
use stormlp_model::event::{Event, Observer};
use stormlp_model::evidence::Evidence;
use stormlp_model::operation::Direction;
use stormlp_model::path::MemoryKind;
use stormlp_model::stop::StopToken;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, DeviceCounters};
use stormlp_transfer::{
    Accelerator, AcceleratorBuffer, HostBuffer, PathSpec, Region, TransferError, buffers_needed,
};

use super::clerk::{self, Errand};
use super::content::Content;
use super::error::{CheckpointError, caught};
use super::mover::{Mover, Orders, RankTask, Shared};
use super::world::World;
use crate::matrix::gate::Gate;

/// How often bytes are sampled and progress is told.
const INTERVAL: Duration = Duration::from_millis(100);
/// Samples of a series, at most; a longer one is thinned out.
const MOST_SAMPLES: usize = 512;
/// Threads for what blocks, at most.
const MOST_CLERKS: usize = 64;
/// Stack of a clerk in bytes: it does nothing but call the kernel.
const CLERK_STACK_BYTES: usize = 128 << 10;

/// What all phases of a run share.
pub(super) struct Stage<'a> {
    pub(super) plan: &'a CheckpointPlan,
    pub(super) world: &'a dyn World,
    pub(super) accelerator: Arc<dyn Accelerator>,
    pub(super) observer: &'a dyn Observer,
    pub(super) stop: &'a StopToken,
    pub(super) devices: &'a BlockDevices,
}

/// What one phase measured.
pub(super) struct Measured {
    pub(super) ranks: Vec<RankResult>,
    pub(super) series: Vec<Sample>,
    pub(super) cpu: CpuTimes,
    pub(super) device: Option<DeviceCounters>,
    pub(super) evidence: Option<Evidence>,
    pub(super) verified_bytes: u64,
    /// Whether every rank got to its end.
    pub(super) complete: bool,
    pub(super) failure: Option<CheckpointError>,
}

/// A thread's buffers.
struct Kit {
    host: Vec<HostBuffer>,
    accelerator: Vec<Box<dyn AcceleratorBuffer>>,
    tasks: Vec<RankTask>,
}

/// What the threads of a phase have in common.
struct Common<'a> {
    shared: Shared<'a>,
    gate: Gate,
    start: OnceLock<Instant>,
    finished: AtomicUsize,
    found: Mutex<Vec<(Vec<RankResult>, Option<Evidence>)>>,
}

/// Counts a mover out when its thread ends, however it ends.
struct Leaving<'a> {
    finished: &'a AtomicUsize,
    main: thread::Thread,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.finished.fetch_add(1, Ordering::Release);
        self.main.unpark();
    }
}

impl Stage<'_> {
    /// Moves `tasks` in one direction with buffers from `region`, which must be free.
    pub(super) fn run(
        &self,
        direction: Direction,
        content: &Content,
        tasks: Vec<RankTask>,
        region: &mut Region,
    ) -> Result<Measured, CheckpointError> {
        let moves = match direction {
            Direction::Write => &self.plan.save,
            Direction::Read => &self.plan.restore,
        };
        let wanted = tasks.len();
        let total: u64 = tasks
            .iter()
            .flat_map(|t| &t.files)
            .map(|file| file.bytes)
            .sum();
        let kits = self.kits(moves, tasks, region)?;
        let orders = self.orders(direction, moves, content);
        let common = Common {
            shared: Shared::new(self.stop),
            gate: Gate::default(),
            start: OnceLock::new(),
            finished: AtomicUsize::new(0),
            found: Mutex::new(Vec::new()),
        };
        let (errands, queue) = channel::<Errand>();
        let queue = Mutex::new(queue);
        let watched = thread::scope(|scope| {
            let clerks = wanted.clamp(1, MOST_CLERKS);
            self.spawn_clerks(scope, clerks, &queue)?;
            let mut movers = 0;
            for kit in kits {
                let (common, errands) = (&common, errands.clone());
                let leaving = Leaving {
                    finished: &common.finished,
                    main: thread::current(),
                };
                let named = thread::Builder::new().name("mover".to_string());
                let spawned = named.spawn_scoped(scope, move || {
                    let _leaving = leaving;
                    self.move_bytes(kit, orders, errands, moves, common);
                });
                if let Err(source) = spawned {
                    // Those that run see the failure at once and end.
                    common.shared.fail(no_thread(source).into());
                    break;
                }
                movers += 1;
            }
            // Clerks end when the last sender is gone.
            drop(errands);
            Ok::<_, TransferError>(self.watch(&common, movers, total))
        })?;
        let found = common
            .found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let evidence = found.iter().find_map(|(_, evidence)| evidence.clone());
        let mut ranks: Vec<RankResult> = found.into_iter().flat_map(|(ranks, _)| ranks).collect();
        ranks.sort_unstable_by_key(|result| result.rank);
        let failure = common
            .shared
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(Measured {
            complete: failure.is_none() && ranks.len() == wanted,
            verified_bytes: common.shared.verified_bytes.into_inner(),
            ranks,
            series: watched.series,
            cpu: watched.cpu,
            device: watched.device,
            evidence,
            failure,
        })
    }

    fn orders<'c>(
        &self,
        direction: Direction,
        moves: &MovePlan,
        content: &'c Content,
    ) -> Orders<'c> {
        Orders {
            direction,
            direct: self.plan.path.wants_direct(),
            chunk_bytes: moves.chunk_bytes,
            streams: moves.streams,
            split: moves.split,
            fsync: self.plan.fsync,
            verify: self.plan.verify,
            stamped: self.plan.content.stamped,
            content,
        }
    }

    /// Buffers for each thread, and the ranks dealt out to them in turn.
    fn kits(
        &self,
        moves: &MovePlan,
        tasks: Vec<RankTask>,
        region: &mut Region,
    ) -> Result<Vec<Kit>, TransferError> {
        let threads = moves.threads.min(tasks.len()).max(1);
        let (host, accelerator) = buffers_needed(self.plan.path, moves.slots);
        let bytes = moves.chunk_bytes as usize;
        let full = || TransferError::Memory {
            bytes,
            source: std::io::ErrorKind::OutOfMemory.into(),
        };
        let mut kits = Vec::with_capacity(threads);
        for _ in 0..threads {
            kits.push(Kit {
                host: (0..host)
                    .map(|_| region.carve(bytes, 4096).ok_or_else(full))
                    .collect::<Result<_, _>>()?,
                accelerator: (0..accelerator)
                    .map(|_| self.accelerator.allocate(bytes, MemoryKind::Device, region))
                    .collect::<Result<_, _>>()?,
                tasks: Vec::new(),
            });
        }
        for (index, task) in tasks.into_iter().enumerate() {
            kits[index % threads].tasks.push(task);
        }
        Ok(kits)
    }

    fn spawn_clerks<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        count: usize,
        queue: &'env Mutex<Receiver<Errand>>,
    ) -> Result<(), TransferError> {
        for _ in 0..count {
            thread::Builder::new()
                .name("clerk".to_string())
                .stack_size(CLERK_STACK_BYTES)
                .spawn_scoped(scope, || clerk::serve(self.world, queue))
                .map_err(no_thread)?;
        }
        Ok(())
    }

    /// The life of a mover's thread. A panic in it is a failure like another: nobody waits for
    /// the thread in vain, and what the run measured before is kept.
    fn move_bytes<'c>(
        &self,
        kit: Kit,
        orders: Orders<'c>,
        errands: Sender<Errand>,
        moves: &MovePlan,
        common: &'c Common<'c>,
    ) {
        let who = format!(
            "the thread that moves the bytes of {}",
            ranks_of(&kit.tasks)
        );
        let built = caught(&who, || self.mover(kit, orders, errands, moves, common));
        common.gate.wait();
        let start = *common.start.get_or_init(Instant::now);
        let moved = built.and_then(|mut mover| {
            caught(&who, || {
                mover.run(start);
                Ok((mover.results(), Some(mover.evidence())))
            })
        });
        match moved {
            Ok(result) => common
                .found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(result),
            Err(error) => common.shared.fail(error),
        }
    }

    /// Builds a mover on the thread that it will run on.
    fn mover<'c>(
        &self,
        kit: Kit,
        orders: Orders<'c>,
        errands: Sender<Errand>,
        moves: &MovePlan,
        common: &'c Common<'c>,
    ) -> Result<Mover<'c>, CheckpointError> {
        let spec = PathSpec {
            kind: self.plan.path,
            engine: moves.engine,
            host: kit.host,
            accelerator_buffers: kit.accelerator,
            accelerator: Arc::clone(&self.accelerator),
            submit_batch: 1,
            max_files: kit.tasks.len(),
            register_buffers: true,
        };
        self.accelerator.bind_thread()?;
        let path = self.world.path(spec)?;
        Ok(Mover::new(
            path,
            kit.tasks,
            errands,
            orders,
            &common.shared,
        )?)
    }

    /// Opens the gate, then tells progress and samples until every mover is done.
    fn watch(&self, common: &Common<'_>, movers: usize, total: u64) -> Watched {
        let device_before = self.devices.counters();
        let cpu_before = CpuTimes::of_process();
        common.gate.open(movers);
        let start = *common.start.get_or_init(Instant::now);
        let mut series = Series::default();
        let moved = || common.shared.moved_bytes.load(Ordering::Relaxed);
        while common.finished.load(Ordering::Acquire) < movers {
            thread::park_timeout(INTERVAL);
            series.push(start.elapsed().as_secs_f64(), moved());
            self.observer.event(&Event::Progress {
                done: moved().min(total),
            });
        }
        Watched {
            cpu: CpuTimes::of_process().since(cpu_before),
            device: self
                .devices
                .counters()
                .zip(device_before)
                .map(|(after, before)| after.since(before)),
            series: series.samples,
        }
    }
}

/// What the watching thread saw.
struct Watched {
    series: Vec<Sample>,
    cpu: CpuTimes,
    device: Option<DeviceCounters>,
}

/// Bytes over time, thinned out when it gets long.
#[derive(Default)]
struct Series {
    samples: Vec<Sample>,
    least_gap_seconds: f64,
}

impl Series {
    fn push(&mut self, at_seconds: f64, bytes: u64) {
        let last = self
            .samples
            .last()
            .map_or(f64::NEG_INFINITY, |sample| sample.at_seconds);
        if at_seconds - last < self.least_gap_seconds {
            return;
        }
        if self.samples.len() == MOST_SAMPLES {
            let mut odd = false;
            self.samples.retain(|_| {
                odd = !odd;
                !odd
            });
            let gap = at_seconds / (MOST_SAMPLES / 2) as f64;
            self.least_gap_seconds = gap;
        }
        self.samples.push(Sample { at_seconds, bytes });
    }
}

/// The ranks of a thread, for messages.
fn ranks_of(tasks: &[RankTask]) -> String {
    const NAMED: usize = 4;
    let mut names: Vec<String> = tasks.iter().map(|task| task.rank.to_string()).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    match more {
        0 => format!("ranks {}", names.join(", ")),
        more => format!("ranks {} and {more} more", names.join(", ")),
    }
}

/// A thread could not be started.
fn no_thread(source: std::io::Error) -> TransferError {
    TransferError::Io {
        action: "start a thread",
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_out_and_stays_in_order() {
        let mut series = Series::default();
        for tick in 0..5000u64 {
            series.push(tick as f64 * 0.1, tick);
        }
        assert!(
            series.samples.len() <= MOST_SAMPLES,
            "{}",
            series.samples.len()
        );
        assert!(series.samples.len() > MOST_SAMPLES / 4);
        assert!(
            series
                .samples
                .is_sorted_by(|a, b| a.at_seconds < b.at_seconds)
        );
    }
}
