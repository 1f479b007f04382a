//! The part of a run that is simulated: some of its steps and, if there are very many accelerators,
//! some of those.
//!
//! All accelerators do the same, so a few of them on their share of storage represent all of them
//! on all of storage. The difference: on a share of storage a single read lasts as long as the
//! reads of all accelerators it represents, one after the other. If storage is the bottleneck, they
//! wait as long in any case; if it is not, the error is less than 1/n with n reads in flight.

use super::scenario::{Scenario, Shares};
use stormlp_training::plan::client::ClientCost;
use stormlp_training::plan::distribution::Distribution;
use stormlp_training::plan::train_plan::{LoaderPlan, ReadPattern, TrainPlan};

/// If an accelerator keeps one in more records than this, fewer but larger records are simulated.
const MOST_KEPT_APART: u32 = 64;

/// How much of a run is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// About this many reads by all accelerators together.
    pub(super) reads: u64,
    /// Minimum steps of a simulated epoch, in addition to those in which loaders fill up.
    pub(super) least_steps: u64,
    /// Minimum number of accelerators that represent all of them.
    pub(super) least_accelerators: u32,
}

impl Extent {
    /// As few reads as show roughly the same: for ranges and tables.
    pub const ROUGH: Self = Self { reads: 100_000, least_steps: 32, least_accelerators: 16 };
    /// The whole run.
    pub const WHOLE: Self = Self::reads(u64::MAX);

    /// About this many reads.
    pub const fn reads(reads: u64) -> Self {
        Self { reads, least_steps: 64, least_accelerators: 64 }
    }
}

/// The simulated part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) accelerators: u32,
    pub(super) hosts: u32,
    pub(super) epochs: u32,
    pub(super) steps: u64,
    /// The first steps, in which loaders fill up.
    pub(super) filling: u64,
    /// Files read in these steps.
    pub(super) files: u64,
}

impl Part {
    /// The `extent` of `whole`, with `files` files in the dataset.
    pub(super) fn of(whole: &TrainPlan, scenario: &Scenario, files: u64, extent: Extent) -> Self {
        // Without a page cache to warm up, all epochs are alike; with one, all but the first, unless
        // hosts read other files in each.
        let epochs = match scenario.storage.cache_bytes {
            Some(_) if scenario.hosts > 1 && whole.profile.reshuffles() => whole.epochs,
            Some(_) => whole.epochs.min(2),
            None => 1,
        };
        let most = whole.steps_per_epoch;
        let filling = filling(whole);
        let fewest = (filling + extent.least_steps).min(most);
        let room = extent.reads as f64;
        let of_step = whole.reads_of_epoch() / most as f64 / f64::from(whole.accelerators);
        let of_step = of_step / coarser(whole) * f64::from(epochs);
        let (accelerators, hosts) = if may_stand_for_others(whole, scenario) {
            let wanted = (room / of_step / fewest as f64) as u32;
            standing(whole, scenario, wanted.max(extent.least_accelerators))
        } else {
            (whole.accelerators, scenario.hosts)
        };
        let steps = room / of_step / f64::from(accelerators);
        let steps = (steps as u64).clamp(fewest, most);
        // Loaders read on beyond the last step, as in the middle of an epoch, and loaders that
        // assign whole files lose some.
        let share = (steps + filling + 1) as f64 / most as f64;
        let of_all = match keeps(whole) {
            1 => f64::from(accelerators) / f64::from(whole.accelerators),
            // Each accelerator goes through all files and keeps its share of the records.
            _ => f64::from(accelerators),
        };
        let taken =
            ((files as f64 * share).ceil() + opened_ahead(whole)).min(files as f64) * of_all;
        let taken = (taken.ceil() as u64).next_multiple_of(u64::from(accelerators));
        Self {
            accelerators,
            hosts,
            epochs,
            steps,
            filling,
            files: if accelerators == whole.accelerators {
                taken.clamp(1, files.max(1))
            } else {
                taken.max(1)
            },
        }
    }

    /// Adjusts `plan`, the run of these accelerators, to represent a part of `whole`.
    pub(super) fn cut(&self, plan: &mut TrainPlan, whole: &TrainPlan) {
        plan.epochs = self.epochs;
        if self.steps < whole.steps_per_epoch {
            plan.metric.exclude_start_steps = self.filling.min(self.steps / 2);
        }
        let share = f64::from(self.accelerators) / f64::from(whole.accelerators);
        plan.client = whole.client.map(|client| of_share(client, share));
        keep_fewer(plan, whole);
    }

    /// Their share of storage, and of their hosts' network.
    pub(super) fn shares(&self, whole: &TrainPlan, scenario: &Scenario) -> Shares {
        let of_host = scenario.accelerators_per_host(whole.accelerators);
        Shares {
            storage: f64::from(self.accelerators) / f64::from(whole.accelerators),
            link: if self.accelerators == whole.accelerators {
                1.0
            } else {
                f64::from(self.accelerators) / f64::from(self.hosts) / f64::from(of_host)
            },
        }
    }
}

/// Steps in which the loaders of `whole` fill up, or which AU excludes.
pub(super) fn filling(whole: &TrainPlan) -> u64 {
    let groups = match (&whole.loader, &whole.reads) {
        (
            LoaderPlan::Workers { read_threads, row_groups_in_flight, .. },
            ReadPattern::RowGroups,
        ) => {
            let groups = u64::from((*read_threads).max(1)) * u64::from(*row_groups_in_flight);
            (groups * whole.data.rows_of_group()).div_ceil(u64::from(whole.batch_size.max(1)))
        }
        _ => 0,
    };
    whole.batches_ahead().max(groups) + whole.metric.exclude_start_steps
}

/// Files that loaders have open in addition to the current step's. Without them, loaders would read
/// fewer files at a time towards the end of a part.
fn opened_ahead(whole: &TrainPlan) -> f64 {
    match whole.loader {
        LoaderPlan::Interleave { read_threads, keep_every: 1, .. } => {
            f64::from(3 * read_threads) * f64::from(whole.accelerators)
        }
        LoaderPlan::Interleave { read_threads, .. } => f64::from(3 * read_threads),
        LoaderPlan::Workers { .. } => 0.0,
    }
}

/// Whether loaders read so far ahead that an epoch says little about storage: more than a tenth of it
/// may be prefetched before the first step that counts. Searches on real storage use the same limit.
pub(super) fn reads_far_ahead(whole: &TrainPlan) -> bool {
    10 * filling(whole) > whole.steps_per_epoch
}

/// Whether all accelerators do the same. They do not if times are random, as the slowest of more
/// accelerators is slower, or with several hosts with page caches, which together hold more data.
fn may_stand_for_others(whole: &TrainPlan, scenario: &Scenario) -> bool {
    let is_constant = |time| matches!(time, Distribution::Constant { .. });
    let cached = scenario.storage.cache_bytes.is_some() && scenario.hosts > 1;
    is_constant(whole.compute) && is_constant(whole.preprocess) && !cached
}

/// About `wanted` accelerators, with as many per host as in `whole`: accelerators and hosts.
fn standing(whole: &TrainPlan, scenario: &Scenario, wanted: u32) -> (u32, u32) {
    let all = whole.accelerators;
    let wanted = wanted.min(all);
    let of_host = scenario.accelerators_per_host(all);
    if of_host > wanted {
        return (wanted, 1);
    }
    let hosts = wanted.div_ceil(of_host).min(scenario.hosts);
    let accelerators = hosts.saturating_mul(of_host);
    if accelerators < all { (accelerators, hosts) } else { (all, scenario.hosts) }
}

/// An accelerator keeps one in this many records.
fn keeps(plan: &TrainPlan) -> u32 {
    match plan.loader {
        LoaderPlan::Interleave { keep_every, .. } => keep_every.max(1),
        LoaderPlan::Workers { .. } => 1,
    }
}

/// Number of records simulated as one.
fn coarser(whole: &TrainPlan) -> f64 {
    (f64::from(keeps(whole)) / f64::from(MOST_KEPT_APART)).max(1.0)
}

/// Makes each accelerator keep one in as many records as in `whole`, or in fewer, larger ones.
fn keep_fewer(plan: &mut TrainPlan, whole: &TrainPlan) {
    let coarser = coarser(whole);
    let LoaderPlan::Interleave { keep_every, .. } = &mut plan.loader else {
        return;
    };
    *keep_every = keeps(whole).min(MOST_KEPT_APART);
    if coarser > 1.0 {
        let samples = plan.data.samples_per_file as f64 / coarser;
        plan.data.samples_per_file = (samples.round() as u64).max(1);
        if let ReadPattern::Records { transfer_size } = &mut plan.reads {
            *transfer_size = (*transfer_size as f64 * coarser) as u64;
        }
    }
}

/// The client's cost on a share of the CPUs: a whole number of CPUs, scaled to match the share.
fn of_share(client: ClientCost, share: f64) -> ClientCost {
    let exact = client.cpus as f64 * share;
    let cpus = exact.round().max(1.0);
    ClientCost {
        cpu_seconds_per_sample: client.cpu_seconds_per_sample * cpus / exact,
        cpu_seconds_per_gib: client.cpu_seconds_per_gib * cpus / exact,
        cpus: cpus as usize,
        ..client
    }
}
