//! One save or restore: threads, paths and buffers are set up, measured and torn down.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::plan::CheckpointPlan;
use stormlp_core::event::{Event, Observer};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_core::stop::StopToken;
use stormlp_core::transport::Transport;
use stormlp_transfer::storage::Storage;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, Instruments};
use stormlp_transfer::thread_group::{self, Start, ThreadGroupError, Watch};
use stormlp_transfer::{AcceleratorSet, Driver, DriverSet, PathBuffers, Regions, TransferError};

use super::blocking_pool::{self, FileRequest};
use super::content::CheckpointContent;
use super::error::CheckpointError;
use super::mover::{MoveRules, Mover, MoverResult, RankTask};
use super::together::{self, PhaseMeasurement, PhaseOutcome};
use stormlp_core::stop::Ends;
use stormlp_hosts::multi_host::Hosts;
use stormlp_transfer::evidence;
use stormlp_transfer::sampler::{Counters, Sampler};

/// Maximum number of threads for blocking operations.
const MAX_BLOCKING_THREADS: usize = 64;
/// Stack size of a blocking_pool in bytes: it only calls the kernel.
const BLOCKING_STACK_BYTES: usize = 128 << 10;

/// The purpose of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A measured save.
    Save,
    /// A measured restore.
    Restore,
    /// A second, unmeasured restore that compares every byte.
    Check,
}

impl Purpose {
    /// Direction of the transfers.
    pub(super) fn direction(self) -> Direction {
        match self {
            Self::Save => Direction::Write,
            Self::Restore | Self::Check => Direction::Read,
        }
    }
}

/// State shared by all phases of a run.
pub(super) struct Stage<'a> {
    pub(super) plan: &'a CheckpointPlan,
    pub(super) storage: &'a dyn Storage,
    pub(super) accelerators: AcceleratorSet,
    pub(super) observer: &'a dyn Observer,
    pub(super) stop: &'a StopToken,
    pub(super) devices: &'a BlockDevices,
    pub(super) instruments: &'a Instruments,
    /// The hosts, if several share the run.
    pub(super) hosts: Option<&'a Hosts>,
}

impl PhaseOutcome {
    /// Collects the results of each mover; `asked` is the requested path.
    fn take(&mut self, asked: PathKind, movers: Vec<Result<MoverResult, CheckpointError>>) {
        let mut seen = Vec::with_capacity(movers.len());
        let measured = &mut self.measured;
        for moved in movers {
            let failure = match moved {
                Ok(moved) => {
                    measured.ranks.extend(moved.ranks);
                    measured.latency.merge(&moved.latency);
                    measured.verified_bytes += moved.verified_bytes;
                    seen.push(moved.evidence);
                    moved.failure
                }
                Err(failure) => Some(failure),
            };
            self.failure = self.failure.take().or(failure);
        }
        measured.evidence = evidence::combine(asked, &seen.iter().collect::<Vec<_>>());
        measured.ranks.sort_unstable_by_key(|result| result.rank);
    }
}

/// The input of one mover before it starts.
struct MoverSupplies {
    index: usize,
    buffers: PathBuffers,
    tasks: Vec<RankTask>,
    requests: Sender<FileRequest>,
}

impl<'a> Stage<'a> {
    /// Moves `tasks` for one purpose, with buffers from `regions`, which must be free.
    pub(super) fn run(
        &self,
        purpose: Purpose,
        content: &CheckpointContent,
        tasks: Vec<RankTask>,
        regions: &mut Regions,
    ) -> Result<PhaseOutcome, CheckpointError> {
        let transport = match purpose {
            Purpose::Save => &self.plan.save,
            Purpose::Restore | Purpose::Check => &self.plan.restore,
        };
        let wanted = tasks.len();
        let files = tasks.iter().flat_map(|task| &task.files);
        let total: u64 = files.map(|file| file.bytes).sum();
        let (requests, queue) = channel::<FileRequest>();
        let queue = Mutex::new(queue);
        let supplies = self.supplies(transport, tasks, requests, regions)?;
        let rules = self.rules(purpose, wanted, transport, content);
        let drivers = DriverSet::counting_loads(supplies.len());
        let failed = StopToken::new();
        let ends = Ends { stop: self.stop, failed: &failed };
        let (movers, watched) = thread::scope(|scope| {
            let threads = wanted.clamp(1, MAX_BLOCKING_THREADS);
            // They end once the last mover has dropped its request channel.
            let supplies = supplies;
            self.spawn_blocking_pool(scope, threads, &queue)?;
            thread_group::run(
                "mover",
                supplies,
                &failed,
                |supplies, start| {
                    self.move_bytes(supplies, rules, transport, &drivers, ends, start)
                },
                |watch| {
                    let watched = self.watch(watch, &drivers, total);
                    watched.inspect_err(|_| failed.stop())
                },
            )
        })?;
        let mut phase = watched?;
        phase.measured.series.load = drivers.load();
        phase.take(transport.path, movers);
        let has_failed = phase.failure.is_some();
        phase.measured.complete = !has_failed && phase.measured.ranks.len() == wanted;
        // A failure here also ends the other hosts.
        if let Some(hosts) = self.hosts.filter(|_| !has_failed) {
            together::put_together(hosts, transport.path, &mut phase, self.stop)?;
        }
        Ok(phase)
    }

    fn rules<'c>(
        &self,
        purpose: Purpose,
        ranks: usize,
        transport: &Transport,
        content: &'c CheckpointContent,
    ) -> MoveRules<'c> {
        let direction = purpose.direction();
        let client = self.plan.client.as_ref().filter(|_| purpose != Purpose::Check);
        let ranks = ranks * self.processes_here();
        MoveRules {
            direction,
            direct: transport.path.wants_direct(),
            chunk_bytes: transport.chunk_bytes,
            window: transport.window,
            split: direction == Direction::Read && self.plan.splits_restores(),
            fsync: self.plan.fsync,
            verify: purpose == Purpose::Check,
            client_seconds_per_gib: client
                .map_or(0.0, |client| client.seconds_per_gib(direction, ranks)),
            stamped: self.plan.content.stamped,
            content,
        }
    }

    /// Processes of the run on this host.
    fn processes_here(&self) -> usize {
        let machine = |hosts: &Hosts| {
            let machine = hosts.facts.machine_of(hosts.group.rank())?;
            Some(machine.ranks.len())
        };
        self.hosts.and_then(machine).unwrap_or(1).max(1)
    }

    /// Buffers for each thread, and its ranks: each is moved to or from the device it is dealt to.
    fn supplies(
        &self,
        transport: &Transport,
        tasks: Vec<RankTask>,
        requests: Sender<FileRequest>,
        regions: &mut Regions,
    ) -> Result<Vec<MoverSupplies>, TransferError> {
        let threads = transport.threads.min(tasks.len()).max(1);
        let mut supplies = Vec::with_capacity(threads);
        for index in 0..threads {
            supplies.push(MoverSupplies {
                index,
                requests: requests.clone(),
                buffers: self.accelerators.buffers(transport, index, regions)?,
                tasks: Vec::new(),
            });
        }
        let devices = transport.device_count();
        for (index, task) in tasks.into_iter().enumerate() {
            supplies[mover_of(index, devices, threads)].tasks.push(task);
        }
        Ok(supplies)
    }

    fn spawn_blocking_pool<'scope, 'env: 'scope>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        count: usize,
        queue: &'env Mutex<Receiver<FileRequest>>,
    ) -> Result<(), ThreadGroupError> {
        for _ in 0..count {
            thread::Builder::new()
                .name("blocking_pool".to_string())
                .stack_size(BLOCKING_STACK_BYTES)
                .spawn_scoped(scope, || blocking_pool::serve(self.storage, queue))
                .map_err(ThreadGroupError::Start)?;
        }
        Ok(())
    }

    /// Body of a mover's thread.
    fn move_bytes(
        &self,
        supplies: MoverSupplies,
        rules: MoveRules<'_>,
        transport: &Transport,
        drivers: &DriverSet,
        ends: Ends<'_>,
        start: &mut Start<'_>,
    ) -> Result<MoverResult, CheckpointError> {
        let prepare = || {
            let MoverSupplies { index, buffers, tasks, requests } = supplies;
            let place = (index, buffers);
            let path = self.accelerators.path(self.storage, transport, place, transport.streams)?;
            Mover::new(Driver::new(path, drivers, index), tasks, requests, rules, ends)
        };
        let mover = prepare().inspect_err(|_| ends.failed.stop())?;
        Ok(mover.run(start.wait()))
    }

    /// Opens the gate, then reports progress and takes samples until every mover is done.
    fn watch(
        &self,
        watch: &Watch<'_>,
        drivers: &DriverSet,
        total: u64,
    ) -> Result<PhaseOutcome, CheckpointError> {
        if let Some(hosts) = self.hosts {
            watch.gather();
            hosts.meet(&|| !self.stop.is_stopped())?;
        }
        let device_before = self.devices.counters();
        let cpu_before = CpuTimes::of_process();
        let mut sampler =
            Sampler::with_fine_start(self.plan.request.tune.machine.telemetry, self.instruments);
        // Before the first transfer, so that no byte is missed.
        sampler.look(0, Counters::now(drivers, self.devices));
        let start = watch.open();
        if let Some(hosts) = self.hosts {
            hosts.works(self.stop)?;
        }
        let mut is_over = false;
        while !is_over {
            watch.sleep(sampler.pause());
            is_over = watch.is_over();
            let at_ns = start.elapsed().as_nanos() as u64;
            sampler.tick(at_ns, is_over, || Counters::now(drivers, self.devices));
            // Direct transfers extend past the end of a file, up to a whole block.
            let done = drivers.total().bytes.min(total);
            self.observer.event(&Event::Progress { done });
        }
        let device = self.devices.counters().zip(device_before);
        let measured = PhaseMeasurement {
            cpu: CpuTimes::of_process().since(cpu_before),
            device: device.map(|(after, before)| after.since(before)),
            series: sampler.series(),
            ..PhaseMeasurement::default()
        };
        Ok(PhaseOutcome { started: start, measured, shares: Vec::new(), failure: None })
    }
}

/// The mover, of `threads`, of the rank with the number `index` here: of those that serve its
/// device, the next in turn.
fn mover_of(index: usize, devices: usize, threads: usize) -> usize {
    let device = index % devices;
    let serving = (device..threads).step_by(devices).count().max(1);
    (device + index / devices % serving * devices) % threads
}

#[cfg(test)]
mod tests {
    use super::mover_of;

    #[test]
    fn ranks_are_moved_by_the_threads_of_their_device() {
        for (devices, threads) in [(1, 1), (1, 5), (2, 2), (2, 6), (3, 7), (4, 4)] {
            let mut ranks = vec![0; threads];
            for rank in 0..4 * devices * threads {
                let mover = mover_of(rank, devices, threads);
                assert_eq!(mover % devices, rank % devices, "{devices} devices, {threads} threads");
                ranks[mover] += 1;
            }
            assert!(ranks.iter().all(|count| *count > 0), "{ranks:?}");
        }
    }
}
