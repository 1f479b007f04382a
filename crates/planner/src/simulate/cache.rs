//! The page cache of each host, over epochs.
//!
//! It starts cold and keeps the reads of its host, up to its size. If the dataset is larger, it
//! always keeps the same part, like the kernel's active list and unlike LRU: published runs that
//! read faster than their drives can are faster by the part of the dataset that fits into memory. A
//! hash of the file number decides which files are kept.

use crate::plan::Scenario;
use stormlp_training::plan::train_plan::TrainPlan;

use super::reads::SimulatedRead;

/// Granularity of caching.
const STRETCH_BYTES: u64 = 1 << 20;

/// The cache contents in one epoch, with the same share on all hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cache {
    /// Whether there is a cache.
    exists: bool,
    /// Share of the bytes read that is found in the cache.
    share: f64,
    /// Makes contents differ by host and epoch if hosts read different files in each epoch.
    salt: u64,
}

impl Cache {
    /// The contents at the start of `epoch` (from 1).
    pub(super) fn at(plan: &TrainPlan, scenario: &Scenario, direct: bool, epoch: u32) -> Self {
        let bytes = scenario.storage.cache_bytes.filter(|_| !direct);
        let Some(bytes) = bytes else {
            return Self { exists: false, share: 0.0, salt: 0 };
        };
        let all = plan.data.bytes.max(1) as f64;
        let own = own_share(plan, scenario);
        let share = match epoch {
            // Files are dropped before each epoch.
            _ if plan.request.is_cold() => 0.0,
            0 | 1 => 0.0,
            epoch if deals_anew(plan) => {
                let seen = all * (1.0 - (1.0 - own).powi(epoch as i32 - 1));
                seen.min(bytes as f64) / all
            }
            _ => bytes as f64 / (all * own),
        };
        Self {
            exists: true,
            share: share.min(1.0),
            salt: if deals_anew(plan) { u64::from(epoch) } else { 0 },
        }
    }

    /// Whether `host` has the requested data in its cache.
    pub(super) fn has(&self, asked: &SimulatedRead, host: u32) -> bool {
        if !self.exists {
            return false;
        }
        if asked.again || self.share >= 1.0 {
            return true;
        }
        if self.share <= 0.0 {
            return false;
        }
        let stretch = asked.offset / STRETCH_BYTES;
        let salt = match self.salt {
            0 => 0,
            salt => salt << 32 | u64::from(host),
        };
        let place = mixed(mixed(asked.file ^ mixed(salt)) ^ stretch);
        ((place >> 11) as f64 / (1u64 << 53) as f64) < self.share
    }
}

/// Share of the dataset that one host reads in an epoch.
fn own_share(plan: &TrainPlan, scenario: &Scenario) -> f64 {
    let ranks = plan.accelerators.max(1);
    if plan.data.files < u64::from(ranks) && plan.data.samples_per_file > 1 {
        // tf.data: every host reads all of them.
        return 1.0;
    }
    let own = scenario.accelerators_per_host(ranks).min(ranks);
    f64::from(own) / f64::from(ranks)
}

/// Whether hosts read different files in each epoch.
fn deals_anew(plan: &TrainPlan) -> bool {
    plan.profile.reshuffles() && own_files_change(plan)
}

fn own_files_change(plan: &TrainPlan) -> bool {
    use stormlp_training::plan::workload::Shuffle;
    plan.shuffle.files != Shuffle::Off
}

/// Hash of a number (the finalizer of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
