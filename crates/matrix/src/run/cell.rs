//! A single cell: sets up threads, paths and files, measures, and tears everything down.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::plan::{CacheState, CellPlan, CellSpan, Fill, MatrixPlan, WorkerPlan};
use stormlp_core::event::{Event, Observer};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::pattern::{Pattern, stream_of};
use stormlp_core::report::Series;
use stormlp_core::stop::StopToken;
use stormlp_transfer::accelerator::{self, Accelerator};
use stormlp_transfer::storage::{Access, Handle, Storage};
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, DeviceCounters, Instruments};
use stormlp_transfer::thread_group::{self, Start, Watch};
use stormlp_transfer::{
    Driver, DriverSet, PathBuffers, PathSpec, Region, TransferError, cufile, thread,
};

use super::beside::Side;
use super::error::MatrixError;
use super::offsets::OffsetSpec;
use super::prepare::{files_of, set_cache};
use super::recorder::Recorder;
use super::regions::Regions;
use super::steady::SteadyWatch;
use super::worker::{BufferFill, CellWorker, WorkerOutcome, WorkerTask};
use stormlp_core::stop::Ends;
use stormlp_transfer::run_context::unix_seconds;
use stormlp_transfer::sampler::{Counters, Sampler};

/// The raw results of a cell, before they become part of a report.
pub(crate) struct CellMeasurement {
    pub(crate) outcomes: Vec<WorkerOutcome>,
    pub(crate) watched: WatchedCell,
    pub(crate) device_names: Vec<String>,
    pub(crate) accelerator: String,
    pub(crate) interrupted: bool,
}

/// Observations of the machine during the measured time of a cell.
pub(crate) struct WatchedCell {
    pub(crate) cpu: CpuTimes,
    pub(crate) device: Option<DeviceCounters>,
    pub(crate) series: Series,
    /// When the gate opened, in multi-host runs.
    pub(crate) started_unix_seconds: Option<f64>,
    /// Whether a cell that was to become steady did.
    pub(crate) steady: Option<bool>,
}

/// The input of a worker before it starts.
struct WorkerSupplies<'a> {
    index: usize,
    plan: &'a WorkerPlan,
    accelerator: Arc<dyn Accelerator>,
    buffers: PathBuffers,
    file: Handle,
    sync: Option<File>,
    work: WorkerTask,
}

pub(crate) struct Bench<'a> {
    pub(crate) plan: &'a MatrixPlan,
    pub(crate) storage: &'a dyn Storage,
    pub(crate) instruments: &'a Instruments,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) stop: &'a StopToken,
    pub(crate) side: Side<'a>,
}

impl Bench<'_> {
    /// Runs a cell with buffers from `regions`, all of which must be free.
    pub(crate) fn run(
        &self,
        cell: &CellPlan,
        regions: &mut Regions,
    ) -> Result<CellMeasurement, MatrixError> {
        let workers = &self.plan.thread_groups[cell.thread_group].workers;
        let mut supplies = Vec::with_capacity(workers.len());
        for (index, worker) in workers.iter().enumerate() {
            let region = regions.of(worker.numa_node);
            // Memory allocated here is also first touched here.
            supplies.push(thread::bound(worker.cpus.as_ref(), || {
                self.supplies(cell, worker, index, region)
            })?);
        }
        let accelerator = names(&supplies);
        let files = workers.iter().map(|worker| &*self.plan.files[worker.file].path);
        let devices = self.storage.devices(&files.collect::<Vec<_>>());
        let drivers = DriverSet::new(workers.len());
        let failed = StopToken::new();
        let (outcomes, watched) = thread_group::run(
            "worker",
            supplies,
            &failed,
            |supplies, start| self.work(cell, supplies, &drivers, &failed, start),
            |watch| {
                // The rehearsals are over.
                watch.gather();
                let cooled = self.cool(cell).map_err(MatrixError::from);
                let met = cooled.and_then(|()| self.side.meet(self.stop));
                let watched = met.and_then(|()| self.watch(watch, &drivers, &devices, &failed));
                watched.inspect_err(|_| failed.stop())
            },
        )?;
        let watched = watched?;
        self.side.finish(self.stop);
        Ok(CellMeasurement {
            outcomes: outcomes.into_iter().collect::<Result<_, _>>()?,
            watched,
            device_names: devices.names(),
            accelerator,
            interrupted: self.stop.is_stopped(),
        })
    }

    fn supplies<'w>(
        &self,
        cell: &CellPlan,
        worker: &'w WorkerPlan,
        index: usize,
        region: &mut Region,
    ) -> Result<WorkerSupplies<'w>, TransferError> {
        let wait = cell.transport.wait;
        let accelerator = accelerator::open(worker.device.gpu_index(), wait)?;
        accelerator.bind_thread()?;
        let buffers = PathBuffers::allocate(
            cell.transport.path,
            cell.transport.queue_depth,
            cell.transport.chunk_bytes as usize,
            (&*accelerator, cell.transport.memory),
            region,
        )?;
        let path = &self.plan.files[worker.file].path;
        let mixed = self.plan.request.read_percent.is_some();
        let access = match cell.op.direction() {
            Direction::Read if !mixed => Access::Read,
            Direction::Read | Direction::Write => Access::ReadWrite,
        };
        let file = self.storage.handle(path, access, cell.direct)?;
        let sync = match &file {
            Handle::File(file) if cell.fsync => {
                Some(file.try_clone().map_err(|e| TransferError::file("open", path, e))?)
            }
            Handle::File(_) | Handle::Object(_) => None,
        };
        // Threads of several hosts draw different offsets.
        let number = (u64::from(self.side.rank()) << 32) + index as u64;
        let work = self.assignment(cell, worker, number, path);
        Ok(WorkerSupplies { index, plan: worker, accelerator, buffers, file, sync, work })
    }

    fn assignment(
        &self,
        cell: &CellPlan,
        worker: &WorkerPlan,
        index: u64,
        path: &Path,
    ) -> WorkerTask {
        let plan = self.plan;
        let size = worker.io_size_in(cell.io_size);
        let (duration, passes) = match plan.request.span() {
            CellSpan::Seconds(seconds) | CellSpan::Steady(seconds) => {
                (Some(Duration::from_secs_f64(seconds)), None)
            }
            CellSpan::Passes(passes) => (None, Some(u64::from(passes))),
        };
        let direction = cell.op.direction();
        let only_reads = direction == Direction::Read && plan.request.read_percent.is_none();
        let is_made_anew = plan.request.verify || plan.request.tune.regenerate;
        let fill = match plan.request.fill {
            _ if only_reads => BufferFill::Untouched,
            _ if is_made_anew => BufferFill::EveryTime,
            Fill::Random => BufferFill::Once,
            Fill::Zero => BufferFill::Zeroes,
        };
        WorkerTask {
            rehearses: self.rehearses(cell),
            direction,
            read_percent: plan.request.read_percent,
            offsets: OffsetSpec {
                start: worker.start_bytes,
                len: worker.length_bytes,
                size,
                random: cell.op.is_random(),
                align: plan.request.tune.random_alignment_bytes,
                seed: plan
                    .request
                    .tune
                    .seed
                    .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                passes,
            },
            fill,
            // The null path reads no data that could be verified.
            verify: plan.request.verify && only_reads && cell.transport.path != PathKind::Null,
            pattern: Pattern::new(plan.request.tune.seed, stream_of(path)),
            warmup: Duration::from_secs_f64(plan.request.warmup_seconds),
            duration,
        }
    }

    /// Whether a few transfers precede the cell so that cuFile counts their routes; not if cuFile
    /// cannot count or must count throughout, nor if they would change a page cache that is to be
    /// left as it is.
    fn rehearses(&self, cell: &CellPlan) -> bool {
        let changes_cache = self.plan.request.cache == CacheState::AsIs && !cell.direct;
        let counts = |driver: Arc<cufile::Driver>| driver.api().counts_routes();
        cell.transport.path.needs_cufile()
            && !changes_cache
            && self.plan.request.tune.machine.cufile_stats.is_none()
            && cufile::Driver::current().is_some_and(counts)
    }

    /// Drops the rehearsed ranges and the kernel's readahead from the page cache.
    fn cool(&self, cell: &CellPlan) -> Result<(), TransferError> {
        if self.plan.request.cache == CacheState::Cold && self.rehearses(cell) {
            let files = files_of(self.plan, cell);
            set_cache(self.storage, CacheState::Cold, &files, self.observer)?;
        }
        Ok(())
    }

    /// Whether every transfer of a worker consists of whole 4 KiB blocks at multiples of 4 KiB.
    fn is_page_aligned(&self, cell: &CellPlan, worker: &WorkerPlan) -> bool {
        let size = worker.io_size_in(cell.io_size);
        let offsets = if cell.op.is_random() {
            self.plan.request.tune.random_alignment_bytes
        } else {
            size.min_bytes
        };
        let numbers = [
            worker.start_bytes,
            worker.length_bytes,
            size.min_bytes,
            size.max_bytes,
            size.step_bytes,
            offsets,
        ];
        numbers.iter().all(|bytes| bytes.is_multiple_of(4096))
    }

    /// The body of a worker thread.
    fn work(
        &self,
        cell: &CellPlan,
        supplies: WorkerSupplies<'_>,
        drivers: &DriverSet,
        failed: &StopToken,
        start: &mut Start<'_>,
    ) -> Result<WorkerOutcome, TransferError> {
        let WorkerSupplies { index, plan: worker, sync, work, file, .. } = supplies;
        let spec = PathSpec {
            kind: cell.transport.path,
            engine: cell.transport.engine,
            host: supplies.buffers.host,
            accelerator_buffers: supplies.buffers.accelerator,
            accelerator: supplies.accelerator,
            submit_batch: cell.transport.submit_batch,
            max_files: 1,
            register_buffers: cell.transport.register_buffers,
            page_aligned: self.is_page_aligned(cell, worker),
        };
        let prepare = || {
            thread::bind(worker.cpus.as_ref())?;
            let mut driver = Driver::new(self.storage.path(spec)?, drivers, index);
            let file = driver.attach(file)?;
            Ok((driver, file))
        };
        let (driver, file) = prepare().inspect_err(|_: &TransferError| failed.stop())?;
        let recorder = Recorder::new(work.read_percent.is_some());
        let ends = Ends { stop: self.stop, failed };
        Ok(CellWorker::new(driver, file, sync, work, ends, recorder).run(start))
    }

    /// The watch over a cell that is to become steady, before which `bytes` were moved. Several
    /// processes would end at different times.
    fn steady(&self, bytes: u64) -> Option<SteadyWatch> {
        match self.plan.request.span() {
            CellSpan::Steady(most) if !self.side.has_hosts() => Some(SteadyWatch::new(most, bytes)),
            _ => None,
        }
    }

    /// Starts the workers, all of which are ready, and monitors them until all are done, or until
    /// their rate is steady: `end` ends them.
    fn watch(
        &self,
        watch: &Watch<'_>,
        drivers: &DriverSet,
        devices: &BlockDevices,
        end: &StopToken,
    ) -> Result<WatchedCell, MatrixError> {
        let mut sampler = Sampler::new(self.plan.request.tune.machine.telemetry, self.instruments);
        if self.plan.request.warmup_seconds == 0.0 {
            // Sampled before the first transfer so that no byte is missed.
            sampler.look(0, Counters::now(drivers, devices));
        }
        watch.open();
        let start = Instant::now();
        let started_unix_seconds = self.side.has_hosts().then(unix_seconds);
        self.side.measures(self.stop)?;
        let measured_from = start + Duration::from_secs_f64(self.plan.request.warmup_seconds);
        let interval = self.plan.request.tune.machine.telemetry.tick();
        while Instant::now() < measured_from && !watch.is_over() {
            let left = measured_from.saturating_duration_since(Instant::now());
            watch.sleep(interval.min(left));
        }
        let cpu = CpuTimes::of_process();
        let device = devices.counters();
        let mut look = |at_the_end: bool| {
            let at_ns = measured_from.elapsed().as_nanos() as u64;
            sampler.tick(at_ns, at_the_end, || Counters::now(drivers, devices));
        };
        if self.plan.request.warmup_seconds > 0.0 {
            look(true);
        }
        let (mut steady, mut is_steady) = (self.steady(drivers.total().bytes), false);
        let mut tick = measured_from + interval;
        while !watch.is_over() {
            // A finished worker wakes this thread before its tick.
            watch.sleep(tick.saturating_duration_since(Instant::now()));
            if Instant::now() < tick {
                continue;
            }
            tick += interval;
            look(false);
            let total = drivers.total();
            self.observer.event(&Event::Moved { bytes: total.bytes, operations: total.operations });
            let elapsed = measured_from.elapsed();
            let undecided = steady.as_mut().filter(|_| !end.is_stopped());
            if undecided.is_some_and(|steady| steady.look(elapsed, total.bytes)) {
                is_steady = true;
                end.stop();
            }
        }
        let last = devices.counters();
        look(true);
        Ok(WatchedCell {
            cpu: CpuTimes::of_process().since(cpu),
            device: last.zip(device).map(|(now, then)| now.since(then)),
            series: sampler.series(),
            started_unix_seconds,
            steady: steady.map(|_| is_steady),
        })
    }
}

fn names(supplies: &[WorkerSupplies<'_>]) -> String {
    let mut names: Vec<String> = supplies.iter().map(|one| one.accelerator.name()).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}
