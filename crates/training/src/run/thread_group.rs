//! The threads of a run: the I/O threads with their buffers, and the pacer.

use std::hint;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stormlp_core::path::PathKind;
use stormlp_hosts::Group;
use stormlp_transfer::thread_group::{ThreadGroupError, guarded};
use stormlp_transfer::{Backing, DriverSet, evidence, timer};

use super::error::TrainError;
use super::handles::Handles;
use super::io::{self, IoTally, ThreadGroupSpec};
use super::machine::{Loader, Machine, Nanos};
use super::shared::Shared;

/// The running threads.
pub(super) struct ThreadGroup {
    pub(super) shared: Arc<Shared>,
    pub(super) threads: usize,
    path: PathKind,
    pub(super) backing: Backing,
    handles: Arc<Handles>,
    io: Vec<JoinHandle<IoTally>>,
    pacer: JoinHandle<()>,
}

impl ThreadGroup {
    /// Starts all threads around a machine with these loaders; barriers also wait for the other
    /// hosts of `group`.
    pub(super) fn start(
        spec: &ThreadGroupSpec,
        loaders: Vec<Loader>,
        keep_times: bool,
        group: Option<Arc<Group>>,
    ) -> Result<Self, TrainError> {
        let transport = &spec.transport;
        let mut regions = spec.accelerators.regions(&[transport])?;
        let buffers = (0..transport.threads)
            .map(|thread| spec.accelerators.buffers(transport, thread, &mut regions))
            .collect::<Result<Vec<_>, _>>()?;
        let backing = regions.backing();
        let machine = Machine::new(loaders, keep_times).dealt_over(transport.device_count());
        let drivers = match transport.path {
            // The null path does not access storage.
            PathKind::Null => DriverSet::new(transport.threads),
            _ => DriverSet::counting_loads(transport.threads),
        };
        let shared = Shared::new(machine, drivers, group);
        let handles = Arc::<Handles>::default();
        let mut io = Vec::with_capacity(transport.threads);
        for (index, buffers) in buffers.into_iter().enumerate() {
            let (shared, handles) = (Arc::clone(&shared), Arc::clone(&handles));
            let spec = spec.clone();
            let thread = thread::Builder::new()
                .name(format!("io-{index}"))
                .spawn(move || io::run((index, buffers), &spec, &shared, handles))
                .map_err(ThreadGroupError::Start)?;
            io.push(thread);
        }
        let pacer = spawn_pacer(&shared)?;
        Ok(Self {
            shared,
            threads: transport.threads,
            path: transport.path,
            backing,
            handles,
            io,
            pacer,
        })
    }

    /// Closes the streams of a finished epoch.
    pub(super) fn close_streams(&self) {
        self.handles.clear();
    }

    /// Stops all threads and sums their tallies.
    pub(super) fn stop(self) -> IoTally {
        self.shared.quit();
        let mut sum = IoTally::default();
        let mut seen = Vec::with_capacity(self.threads);
        for thread in self.io {
            // A panic was already recorded as the run's failure by its thread.
            let Ok(tally) = thread.join() else {
                continue;
            };
            sum.bytes += tally.bytes;
            sum.reads += tally.reads;
            sum.latency.merge(&tally.latency);
            sum.registration.merge(&tally.registration);
            seen.extend(tally.evidence);
        }
        sum.evidence = evidence::combine(self.path, &seen.iter().collect::<Vec<_>>());
        let _ = self.pacer.join();
        sum
    }
}

/// How long before a deadline the thread should wake. A plain sleep ends 40 to 90 µs late, mostly
/// because the core must leave its idle state: two percent of a step of 3.5 ms.
const LEAD: Nanos = 80_000;
/// At most one part in this many of the run's time is spent spinning, so that the host does not pay
/// for precision when deadlines are many and far apart.
const SPIN_SHARE: Nanos = 40;

/// Starts the pacer thread.
fn spawn_pacer(shared: &Arc<Shared>) -> Result<JoinHandle<()>, TrainError> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("pacer".to_string())
        .spawn(move || {
            if let Err(panic) = guarded("pacer", || run(&shared)) {
                shared.fail(panic.into());
            }
        })
        .map_err(|source| ThreadGroupError::Start(source).into())
}

fn run(shared: &Shared) {
    // Without it deadlines are kept to about 50 µs; the recorded overshoot shows this.
    let _ = timer::use_finest_slack();
    shared.register_pacer(thread::current());
    let mut doze = Doze::default();
    while let Some(until) = shared.pace() {
        if until == Nanos::MAX {
            thread::park();
        } else {
            doze.sleep_until(until, shared);
        }
    }
}

/// Sleep state of the thread.
#[derive(Default)]
struct Doze {
    /// Time spent spinning.
    spun: Nanos,
    /// When the last sleep longer than [`LEAD`] ended.
    woke: Nanos,
}

impl Doze {
    /// Sleeps until `until` or until an earlier deadline appears, and spins through the last
    /// [`LEAD`]; a deadline that appears while spinning is noticed afterwards.
    fn sleep_until(&mut self, until: Nanos, shared: &Shared) {
        let now = shared.now();
        let far = until > now + LEAD;
        // Deadlines that are always near belong to computations too short to be noticeable.
        let worth_it = far || now < self.woke + LEAD;
        let may_spin = worth_it && self.spun <= now / SPIN_SHARE;
        let lead = if may_spin { LEAD } else { 0 };
        if let Some(nanos) = until.checked_sub(now + lead) {
            thread::park_timeout(Duration::from_nanos(nanos));
        }
        let awake = shared.now();
        if far {
            self.woke = awake;
        }
        if !may_spin || awake + lead < until {
            return;
        }
        let mut now = awake;
        while now < until {
            hint::spin_loop();
            now = shared.now();
        }
        self.spun += now - awake;
    }
}
