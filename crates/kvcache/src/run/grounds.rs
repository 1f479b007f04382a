//! What the runs on a folder have in common: the folder itself, locked and marked; what watches it;
//! and the noise that all objects are pieces of.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use stormlp_core::location::Location;
use stormlp_core::transport::DeviceId;
use stormlp_transfer::cufile::Driver as CuFile;
use stormlp_transfer::fallback::{hold_cufile, settings};
use stormlp_transfer::storage::{FolderLock, Storage};
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes, Instruments};

use super::error::KvcacheError;
use super::folder;
use crate::plan::{KvcachePlan, Marker, NOISE_ELEMENTS, Noise};

/// Elements of the noise that a thread makes at a time.
const NOISE_PART: usize = 1 << 20;

/// See the [module's description](self).
pub(super) struct Grounds {
    pub(super) folder: Location,
    pub(super) devices: BlockDevices,
    pub(super) instruments: Instruments,
    pub(super) noise: Noise,
    /// CPU seconds that it took to make.
    pub(super) noise_cpu_seconds: f64,
    pub(super) started: Instant,
    _cufile: Option<Arc<CuFile>>,
    _lock: FolderLock,
}

impl Grounds {
    /// Enters the folder of a plan, and makes the noise.
    ///
    /// # Errors
    /// If the folder is in use or holds files of others, or nothing but a path is acceptable that
    /// cannot run.
    pub(super) fn enter(plan: &KvcachePlan, storage: &dyn Storage) -> Result<Self, KvcacheError> {
        let folder = plan.request.own_folder();
        let marker = Marker::new(plan.models(), plan.seed, plan.trace.is_some());
        let lock = folder::enter(storage, folder.folder(), &marker)?;
        let cufile = hold_cufile(
            plan.transport.path.needs_cufile(),
            &settings(plan.request.serving.require_gds, None),
        )?;
        let gpus = plan.transport.accelerators().filter_map(DeviceId::gpu_index);
        let telemetry = plan.request.telemetry;
        let started = Instant::now();
        let (noise, noise_cpu_seconds) = make_noise(plan);
        Ok(Self {
            devices: storage.devices(&[folder.folder()]),
            instruments: Instruments::around([folder.folder()], gpus, telemetry),
            noise,
            noise_cpu_seconds,
            started,
            folder,
            _cufile: cufile,
            _lock: lock,
        })
    }
}

/// All of the noise, made on every CPU, and the CPU seconds that it took.
fn make_noise(plan: &KvcachePlan) -> (Noise, f64) {
    let before = CpuTimes::of_process();
    let noise = Noise::new(plan.seed.into());
    let mut all = vec![[0; 2]; NOISE_ELEMENTS as usize];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let parts = all.chunks_mut(NOISE_PART).zip((0..).step_by(NOISE_PART));
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (nth, part) in parts.enumerate() {
        shares[nth % threads].push(part);
    }
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(|| {
                share.into_iter().for_each(|(part, place)| noise.generate(place, part));
            });
        }
    });
    let seconds = CpuTimes::of_process().since(before).total_seconds();
    (noise.holding(all), seconds)
}
