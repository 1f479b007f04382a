//! Memory requirements of a run, checked before it starts.

use crate::plan::train_plan::{LoaderPlan, TrainPlan};
use stormlp_core::facts::{HostFacts, PROCESS_BYTES};
use stormlp_core::failure::Problems;
use stormlp_core::units::ByteSize;

/// Loader, recorder and deadlines of one accelerator, generously estimated.
const ACCELERATOR_BYTES: u64 = 256 << 10;
/// A batch that is read ahead, or the worker that reads it.
const TASK_BYTES: u64 = 128;
/// Name, length and order entry of one file.
const FILE_BYTES: u64 = 160;
/// An epoch in the report.
const EPOCH_BYTES: u64 = 2048;
/// An accelerator's share of an epoch in the report.
const ACCELERATOR_EPOCH_BYTES: u64 = 256;
/// Fetch and compute times of one step, if they are kept for other tools.
const STEP_TIME_BYTES: u64 = 8;

/// Estimated memory of a run of `plan`, in bytes.
pub(super) fn estimate(plan: &TrainPlan) -> u64 {
    let accelerators = u64::from(plan.accelerators);
    let tasks = match plan.loader {
        LoaderPlan::Workers { read_threads, batches_outstanding, .. } => {
            u64::from(read_threads) + u64::from(batches_outstanding)
        }
        LoaderPlan::Interleave { read_threads, prefetch_batches, .. } => {
            u64::from(read_threads) + u64::from(prefetch_batches)
        }
    };
    let step_times = if plan.request.keep_step_times {
        plan.steps_per_epoch.saturating_mul(STEP_TIME_BYTES)
    } else {
        0
    };
    let each_epoch = accelerators
        .saturating_mul(step_times.saturating_add(ACCELERATOR_EPOCH_BYTES))
        .saturating_add(EPOCH_BYTES);
    let epochs = u64::from(plan.epochs) * u64::from(plan.runs);
    [
        u64::from(plan.most_accelerators()).saturating_mul(ACCELERATOR_BYTES + tasks * TASK_BYTES),
        plan.data.files.saturating_mul(FILE_BYTES),
        epochs.saturating_mul(each_epoch),
    ]
    .into_iter()
    .fold(PROCESS_BYTES + plan.transport.buffer_bytes(), u64::saturating_add)
}

/// Reports a problem when the estimate exceeds the limit.
pub(super) fn check(plan: &TrainPlan, host: &HostFacts, problems: &mut Problems) {
    let limit = host.usable_memory_bytes();
    if plan.memory_bytes > limit {
        problems.machine(
            format!(
                "the run needs about {} of memory, {} may be used",
                ByteSize(plan.memory_bytes),
                ByteSize(limit)
            ),
            "use fewer accelerators, files or steps, or raise the memory limit (cgroup, \
             ulimit -v)",
        );
    }
}
