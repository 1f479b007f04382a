//! AU and throughput by each edition's formula, and by corrected ones.
//!
//! For one accelerator and one block of steps: T is the block's wall time, p₀ the fetch wait and
//! compute of the steps excluded at its start, S its steps, c the nominal and c̄ the measured
//! compute of a step, b the batch size. The formulas are from `statscounter.py` in each edition's
//! DLIO:
//!
//! | profile | AU | samples per second |
//! |---|---|---|
//! | v1 | (S − 1) c / (T − p₀) | S b / T |
//! | v2 | Σ c̄ / (T − p₀) | (S − 2) b / (T − p₀) |
//! | v3 | Σ c̄ / (T − p₀) | (S − 1) b / (T − p₀) |
//! | native | Σ c̄ / (T − p₀) | (S − 1) b / (T − p₀) |
//!
//! v2's S − 2 over a window of S − 1 steps is an error of that edition, kept so that results remain
//! comparable. Blocks of an epoch are averaged weighted by their steps. AU is then averaged over
//! accelerators and epochs; throughput is summed over accelerators and averaged over epochs.

use std::ops::Add;

use crate::plan::train_plan::TrainPlan;
use crate::report::{AuPercent, BlockSums, Measures, Spread};
use stormlp_core::profile::Profile;
use stormlp_core::stats;

/// Inputs of the formulas in addition to the sums.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The edition that defines the formula.
    pub profile: Profile,
    /// Samples per step per accelerator.
    pub batch_size: u32,
    /// Mean nominal compute of a step in seconds.
    pub nominal_seconds: f64,
    /// Configured bytes per sample, used for MiB/s.
    pub sample_bytes: f64,
}

impl Rule {
    /// The inputs from a plan.
    pub fn of(plan: &TrainPlan) -> Self {
        Self {
            profile: plan.profile,
            batch_size: plan.batch_size,
            nominal_seconds: plan.compute.mean_seconds(),
            sample_bytes: plan.data.sample_bytes,
        }
    }
}

/// AU of one block by each definition.
pub fn block_au(rule: &Rule, block: &BlockSums) -> AuPercent {
    let window = block.seconds - block.excluded_seconds;
    let nominal_window = block.window_steps as f64 * rule.nominal_seconds;
    let nominal = percent(nominal_window, window);
    let measured = percent(block.window_compute_seconds, window);
    AuPercent {
        profile: match rule.profile {
            Profile::V1 => nominal,
            Profile::V2 | Profile::V3 | Profile::Native => measured,
        },
        nominal,
        measured,
        including_startup: percent(block.steps as f64 * rule.nominal_seconds, block.seconds),
    }
}

/// Samples per second of one block by the profile's formula.
pub fn block_throughput(rule: &Rule, block: &BlockSums) -> f64 {
    let batch = f64::from(rule.batch_size);
    let window = block.seconds - block.excluded_seconds;
    match rule.profile {
        Profile::V1 => ratio(block.steps as f64 * batch, block.seconds),
        // Below two steps the published formula is negative; there is no interval to measure.
        Profile::V2 => ratio((block.steps as f64 - 2.0).max(0.0) * batch, window),
        Profile::V3 | Profile::Native => ratio(block.window_steps as f64 * batch, window),
    }
}

/// The measures of an epoch; `accelerators[rank]` are the blocks of that accelerator. Bytes read
/// and waiting times are not known here and stay zero.
pub fn epoch_measures(rule: &Rule, accelerators: &[&[BlockSums]]) -> Measures {
    let native = Rule { profile: Profile::Native, ..*rule };
    let mut sum = Measures::default();
    for blocks in accelerators {
        let steps: u64 = blocks.iter().map(|block| block.steps).sum();
        for block in *blocks {
            let weight = ratio(block.steps as f64, steps as f64);
            let au = block_au(rule, block);
            sum.au_percent += au * weight;
            sum.samples_per_second += weight * block_throughput(rule, block);
            sum.window_samples_per_second += weight * block_throughput(&native, block);
        }
    }
    let share = ratio(1.0, accelerators.len() as f64);
    sum.au_percent = sum.au_percent * share;
    sum.mib_per_second = mib(rule, sum.samples_per_second);
    sum
}

/// Means over epochs, regardless of their run.
pub fn mean(epochs: &[Measures]) -> Measures {
    let sum = epochs.iter().copied().fold(Measures::default(), Add::add);
    sum / epochs.len().max(1) as f64
}

/// Population standard deviations over epochs, as every edition reports them.
pub fn spread(epochs: &[Measures]) -> Spread {
    let each = |get: &dyn Fn(&Measures) -> f64| {
        stats::population_deviation(&epochs.iter().map(get).collect::<Vec<f64>>())
    };
    Spread {
        au_percent: each(&|m| m.au_percent.profile),
        samples_per_second: each(&|m| m.samples_per_second),
        mib_per_second: each(&|m| m.mib_per_second),
    }
}

/// MiB/s of `samples_per_second` by the *configured* record length, as every edition reports it
/// (`train_io_mean_MB_per_second` in DLIO's summary). The report also has MiB/s by measured bytes.
pub fn mib(rule: &Rule, samples_per_second: f64) -> f64 {
    mib_of_samples(samples_per_second, rule.sample_bytes)
}

/// MiB/s of `samples_per_second` at `sample_bytes` each.
pub fn mib_of_samples(samples_per_second: f64, sample_bytes: f64) -> f64 {
    samples_per_second * sample_bytes / f64::from(1u32 << 20)
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * ratio(part, whole)
}

/// `part / whole`, or 0 when `whole` is zero, as in DLIO.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
