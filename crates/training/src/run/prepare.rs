//! Translates a plan and the files found into a run in the machine's terms.

use std::ops::Range;
use std::sync::Arc;

use crate::plan::distribution::Distribution;
use crate::plan::train_plan::{BlockEnd, LoaderPlan, ReadPattern, TrainPlan};
use crate::plan::workload::Shuffle;
use stormlp_core::facts::FoundFile;
use stormlp_core::location::Location;
use stormlp_core::mt19937::Mt19937;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_transfer::storage::Storage;

use super::dataset::{DatasetSource, EpochIndex, FramingCache};
use super::machine::{
    ClientWork, Interleave, InterleaveConfig, Loader, Nanos, Pace, PhaseSpec, RowGroups, Share,
    Workers, WorkersConfig,
};
use super::order::{Contiguous, Generated, Resharded, Reshuffle, Strided};
use super::source::{DataFile, Source};

/// tf.data and DLIO read a footer or index once per open file; this many are cached.
const FRAMING_FILES_PER_WORKER: usize = 2;

/// A dataset's order, by epoch.
pub trait Order: Send + Sync {
    /// The order of samples and files in epoch `epoch` (from 1).
    fn epoch(&self, epoch: u32) -> EpochOrder;
}

/// One epoch's order.
pub struct EpochOrder {
    /// Maps reads to bytes.
    pub source: Arc<dyn Source>,
    /// The share of each accelerator.
    pub shares: Vec<Share>,
}

/// The order of `plan` over `inventory` (unused with null storage) for `own`, this host's
/// accelerators.
pub(super) fn order(
    storage: &Arc<dyn Storage>,
    plan: &TrainPlan,
    inventory: &Inventory,
    own: &Range<u32>,
) -> impl Order + use<> {
    let files = match plan.data.folder.as_ref().filter(|_| !plan.is_null()) {
        Some(folder) => real_files(folder, &inventory.train, plan.data.files),
        None => null_files(plan.data.files, plan.data.bytes),
    };
    let workers = match plan.loader {
        LoaderPlan::Workers { read_threads, .. } => read_threads.max(1) as usize,
        LoaderPlan::Interleave { .. } => 1,
    };
    let limit = FRAMING_FILES_PER_WORKER * workers * own.len();
    PlannedOrder {
        plan: Arc::new(plan.clone()),
        files: Arc::new(files),
        own: own.clone(),
        framing: Arc::new(FramingCache::new(Arc::clone(storage), limit)),
    }
}

fn real_files(folder: &Location, found: &[FoundFile], count: u64) -> Vec<DataFile> {
    let files = found
        .iter()
        .take(count as usize)
        .map(|file| DataFile { path: folder.join(&file.name), bytes: file.bytes });
    files.collect()
}

/// Imaginary files, all of the mean length.
fn null_files(count: u64, bytes: u64) -> Vec<DataFile> {
    let mean = bytes.checked_div(count).unwrap_or(0);
    let file = DataFile { path: "null storage".into(), bytes: mean };
    vec![file; count as usize]
}

/// One loader per accelerator.
pub fn loaders(plan: &TrainPlan, accelerators: usize) -> Vec<Loader> {
    let batch_size = u64::from(plan.batch_size);
    let loader = match plan.loader {
        LoaderPlan::Workers {
            read_threads,
            batches_outstanding,
            persistent,
            row_groups_in_flight,
            ..
        } => Loader::Workers(Workers::new(WorkersConfig {
            read_threads,
            batches_outstanding,
            batch_size,
            persistent,
            group_window: row_groups_in_flight,
        })),
        LoaderPlan::Interleave {
            read_threads,
            shuffle_records,
            prefetch_batches,
            computation_threads,
            keep_every,
        } => Loader::Interleave(Box::new(Interleave::new(InterleaveConfig {
            read_threads,
            batch_size,
            shuffle_size: shuffle_records,
            batches_ahead: u64::from(prefetch_batches) + u64::from(computation_threads),
            keep_every: u64::from(keep_every),
            repeat: true,
        }))),
    };
    vec![loader; accelerators]
}

/// Training of epoch `epoch` (from 1), with each accelerator's share.
pub fn training(plan: &TrainPlan, epoch: u32, shares: Vec<Share>) -> PhaseSpec {
    let checkpoint = plan.checkpoint.as_ref();
    let seed = plan.shuffle.seed;
    PhaseSpec {
        steps: plan.steps_per_epoch,
        barrier: true,
        barrier_ns: 0,
        fetch_after_last: plan.block_end == BlockEnd::AfterNextFetch,
        exclude_start_steps: plan.metric.exclude_start_steps,
        exclude_end_steps: plan.metric.exclude_end_steps,
        checkpoint_steps: checkpoint.and_then(|checkpoint| checkpoint.steps_between),
        writes_checkpoints: true,
        compute: pace(plan.compute, seed, epoch),
        late_counts: plan.late_compute_counts(),
        preprocess: pace(plan.preprocess, seed ^ 0x5eed, epoch),
        client: client_work(plan),
        shares,
    }
}

/// The work of the accounted client, using this host's CPUs.
fn client_work(plan: &TrainPlan) -> ClientWork {
    let Some(cost) = &plan.client else {
        return ClientWork::default();
    };
    let step_seconds = cost.step_seconds_of(plan.batch_size);
    let sample_seconds = cost.worker_seconds(1.0, plan.data.read_sample_bytes);
    let oversleep_seconds = cost.oversleep_seconds.unwrap_or(0.0);
    ClientWork::new((step_seconds * 1e9) as Nanos, sample_seconds * 1e9, cost.cpus)
        .oversleeping((oversleep_seconds * 1e9) as Nanos)
}

fn pace(distribution: Distribution, seed: u64, epoch: u32) -> Pace {
    drawn(distribution, seed.wrapping_add(u64::from(epoch)))
}

/// Durations from `distribution`; like DLIO, uses the absolute value of each draw.
pub(super) fn drawn(distribution: Distribution, seed: u64) -> Pace {
    let nanos = |seconds: f64| (seconds.abs() * 1e9).round() as Nanos;
    match distribution {
        Distribution::Constant { seconds } => Pace::Constant(nanos(seconds)),
        other => {
            let mut generator = Mt19937::new(seed as u32);
            Pace::Drawn(Box::new(move || nanos(other.draw(&mut generator))))
        }
    }
}

struct PlannedOrder {
    plan: Arc<TrainPlan>,
    files: Arc<Vec<DataFile>>,
    framing: Arc<FramingCache>,
    /// The accelerators of this host.
    own: Range<u32>,
}

/// The order of `epoch`, and each accelerator's share.
pub fn index(plan: &TrainPlan, epoch: u32) -> (Arc<dyn EpochIndex>, Vec<Share>) {
    let (files, samples_per_file) = (plan.data.files, plan.data.samples_per_file);
    let accelerators = u64::from(plan.accelerators);
    let ranks = 0..plan.accelerators;
    if let LoaderPlan::Interleave { .. } = plan.loader {
        let order = Strided { files, samples_per_file, accelerators };
        let share = |rank| Share { files: order.files_of(rank), ..Share::default() };
        return (Arc::new(order), ranks.map(share).collect());
    }
    let shuffle = (plan.shuffle.files != Shuffle::Off).then_some(Reshuffle {
        seed: plan.shuffle.file_seed,
        change_epoch: plan.shuffle.seed_change_epoch,
    });
    if plan.profile.reshuffles() {
        let order = Resharded::new(files, samples_per_file, accelerators, shuffle, epoch);
        let shares = ranks.map(|rank| share(plan, order.files_of(rank) * samples_per_file));
        let shares = shares.collect();
        return (Arc::new(order), shares);
    }
    let order = Contiguous { files, samples_per_file, accelerators };
    let shares = ranks.map(|rank| share(plan, order.samples(rank))).collect();
    if plan.shuffle.by_generators {
        let readers = (plan.loader.concurrent_reads() as u64, u64::from(plan.batch_size));
        return (Arc::new(Generated::new(order, readers, shuffle, epoch)), shares);
    }
    (Arc::new(order), shares)
}

/// Converts `samples` samples to a loader's share: batches, or row groups for each worker.
fn share(plan: &TrainPlan, samples: u64) -> Share {
    let batches = samples / u64::from(plan.batch_size.max(1));
    let LoaderPlan::Workers { read_threads, .. } = plan.loader else {
        return Share::default();
    };
    let data = &plan.data;
    if plan.reads != ReadPattern::RowGroups {
        return Share { batches, ..Share::default() };
    }
    let files = samples / data.samples_per_file.max(1);
    let workers = u64::from(read_threads.max(1));
    let of_file: Arc<[u64]> = rows_of_groups(data.samples_per_file, data.row_group_rows).into();
    let groups = (0..workers).map(|worker| {
        let own = files.saturating_sub(worker).div_ceil(workers);
        RowGroups { of_file: Arc::clone(&of_file), files: own as usize }
    });
    Share { groups: groups.collect(), ..Share::default() }
}

/// Rows of each row group of a file.
pub fn rows_of_groups(rows: u64, group_rows: u64) -> Vec<u64> {
    let group_rows = group_rows.clamp(1, rows.max(1));
    let mut groups = vec![group_rows; (rows / group_rows) as usize];
    if !rows.is_multiple_of(group_rows) {
        groups.push(rows % group_rows);
    }
    groups
}

impl Order for PlannedOrder {
    fn epoch(&self, epoch: u32) -> EpochOrder {
        let (index, shares) = index(&self.plan, epoch);
        let own = self.own.start as usize..self.own.end as usize;
        let source = DatasetSource {
            plan: Arc::clone(&self.plan),
            files: Arc::clone(&self.files),
            index,
            first_accelerator: self.own.start,
            framing: Arc::clone(&self.framing),
        };
        EpochOrder { source: Arc::new(source), shares: shares[own].to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_group_may_be_smaller() {
        assert_eq!(rows_of_groups(288, 100), [100, 100, 88]);
        assert_eq!(rows_of_groups(288, 1024), [288]);
        assert_eq!(rows_of_groups(8, 4), [4, 4]);
    }
}
