//! Checks the formulas against published results.

use proptest::prelude::*;

use super::*;
use crate::plan::catalog;
use stormlp_core::names::VariantArray;

fn rule(profile: Profile) -> Rule {
    Rule { profile, batch_size: 7, nominal_seconds: 0.323, sample_bytes: 146_600_628.0 }
}

/// A block of `steps` that start after `p0` and last `step` seconds each, including the last
/// barrier.
fn block(steps: u64, p0: f64, step: f64, compute: f64) -> BlockSums {
    let window = (steps - 1) as f64;
    BlockSums {
        seconds: p0 + window * step,
        steps,
        window_steps: steps - 1,
        window_compute_seconds: window * compute,
        excluded_seconds: p0,
        compute_seconds: steps as f64 * compute,
        ..BlockSums::default()
    }
}

/// Checks a published v1.0 row: AU and MiB/s of N accelerators. AU determines the step time, and
/// the throughput, which includes the first step, determines the length of that step. The formulas
/// must reproduce both, and the first step must match the logs submitted with those runs.
fn check_row(
    name: &str,
    n: u64,
    epoch_steps: u64,
    au_percent: f64,
    mib_per_second: f64,
    p0: std::ops::Range<f64>,
) {
    let w = catalog::find(name, Some("h100")).unwrap().workload(&[]).unwrap();
    let rule = Rule {
        profile: Profile::V1,
        batch_size: w.reader.batch_size,
        nominal_seconds: w.train.computation_time.mean_seconds(),
        sample_bytes: w.dataset.record_length_bytes,
    };
    let step = rule.nominal_seconds / (au_percent / 100.0);
    let per_epoch = n as f64 * f64::from(rule.batch_size) * epoch_steps as f64;
    let total = per_epoch * rule.sample_bytes / f64::from(1u32 << 20) / mib_per_second;
    let first = total - (epoch_steps - 1) as f64 * step;
    assert!(p0.contains(&first), "{name}: first step {first} s");
    let one = [block(epoch_steps, first, step, rule.nominal_seconds)];
    let all: Vec<&[BlockSums]> = (0..n).map(|_| one.as_slice()).collect();
    let got = epoch_measures(&rule, &all);
    assert!((got.au_percent.profile - au_percent).abs() < 1e-6);
    assert!((got.mib_per_second - mib_per_second).abs() < 1e-3);
}

#[test]
fn published_rows_of_v1_come_out_of_the_formulas() {
    // Data of 5030 GiB; steps an epoch = files × samples / batch / N.
    check_row("unet3d", 8, 657, 96.534, 23_176.57, 1.0..4.0);
    check_row("unet3d", 4, 1315, 98.678, 11_869.57, 2.5..4.5);
    check_row("unet3d", 2, 2631, 98.720, 5938.05, 5.0..8.0);
    check_row("cosmoflow", 28, 68_190, 71.888, 15_461.26, 1.0..1.3);
    check_row("cosmoflow", 14, 136_380, 76.782, 8270.5, 1.0..1.2);
    check_row("resnet50", 111, 1060, 90.462, 19_598.8, 0.2..0.6);
    check_row("resnet50", 47, 2505, 91.580, 8402.9, 0.2..0.6);
}

#[test]
fn mib_are_of_the_configured_record_length() {
    // From a v3.0 submission's summary.json: 1844.75 samples/s are 257,913.07 "MB/s".
    let got = mib(&rule(Profile::V3), 1844.75);
    assert!((got - 257_913.07).abs() < 0.5, "{got}");
}

#[test]
fn v2_counts_one_step_less_than_its_window() {
    let block = block(500, 3.0, 0.35, 0.3231);
    let v2 = block_throughput(&rule(Profile::V2), &block);
    let v3 = block_throughput(&rule(Profile::V3), &block);
    assert!((v2 / v3 - 498.0 / 499.0).abs() < 1e-12);
    assert_eq!(block_throughput(&rule(Profile::V2), &BlockSums::default()), 0.0);
}

#[test]
fn v1_takes_nominal_compute_and_the_others_measured() {
    let block = block(500, 3.0, 0.35, 0.33);
    let v1 = block_au(&rule(Profile::V1), &block);
    let v2 = block_au(&rule(Profile::V2), &block);
    assert!((v1.profile - 100.0 * 0.323 / 0.35).abs() < 1e-9);
    assert!((v2.profile - 100.0 * 0.33 / 0.35).abs() < 1e-9);
    assert!(v1.including_startup < v1.nominal);
}

#[test]
fn blocks_weigh_by_their_steps() {
    let fast = block(400, 1.0, 0.323, 0.323);
    let slow = block(100, 1.0, 0.646, 0.323);
    let blocks = [fast, slow];
    let got = epoch_measures(&rule(Profile::V2), &[&blocks]);
    assert!((got.au_percent.profile - (0.8 * 100.0 + 0.2 * 50.0)).abs() < 1e-9);
}

#[test]
fn spread_is_of_the_population() {
    let epochs: Vec<Measures> = [90.0, 94.0]
        .iter()
        .map(|au| Measures {
            au_percent: AuPercent { profile: *au, ..AuPercent::default() },
            ..Measures::default()
        })
        .collect();
    assert_eq!(spread(&epochs).au_percent, 2.0);
    assert_eq!(mean(&epochs).au_percent.profile, 92.0);
}

proptest! {
    #[test]
    fn au_is_at_most_all_of_the_time(
        steps in 2u64..2000, p0 in 0.0f64..10.0, compute in 0.001f64..2.0, wait in 0.0f64..1.0,
        which in 0usize..4, n in 1usize..8,
    ) {
        let rule = Rule { nominal_seconds: compute, ..rule(Profile::VARIANTS[which]) };
        let one = [block(steps, p0 + wait + compute, compute + wait, compute)];
        let all: Vec<&[BlockSums]> = (0..n).map(|_| one.as_slice()).collect();
        let got = epoch_measures(&rule, &all);
        for au in [got.au_percent.profile, got.au_percent.nominal, got.au_percent.measured] {
            prop_assert!(au > 0.0 && au <= 100.0);
        }
        prop_assert!(got.au_percent.including_startup <= got.au_percent.nominal + 1e-6);
        // Over the same window AU and throughput agree: sps = N b AU / c.
        let by_au = n as f64 * 7.0 / compute * got.au_percent.nominal / 100.0;
        prop_assert!((got.window_samples_per_second / by_au - 1.0).abs() < 1e-9);
    }
}
