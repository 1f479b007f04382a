//! Steps per epoch, by edition.

use super::datasize::steps_per_epoch;
use crate::plan::train_plan::TrainPlan;
use stormlp_core::profile::Profile;
use stormlp_dataset::section::DataFormat;

/// The inputs of the number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInputs {
    /// The edition that defines the rules.
    pub profile: Profile,
    /// Format of the files.
    pub format: DataFormat,
    /// Number of files.
    pub files: u64,
    /// Samples per file.
    pub samples_per_file: u64,
    /// Accelerators in total.
    pub accelerators: u32,
    /// Samples per step per accelerator.
    pub batch_size: u32,
    /// Workers per accelerator.
    pub read_threads: u32,
}

impl StepInputs {
    /// The inputs from a plan.
    pub fn of(plan: &TrainPlan) -> Self {
        Self {
            profile: plan.profile,
            format: plan.data.format,
            files: plan.data.files,
            samples_per_file: plan.data.samples_per_file,
            accelerators: plan.accelerators,
            batch_size: plan.batch_size,
            read_threads: plan.loader.read_threads(),
        }
    }
}

/// Steps per epoch of each accelerator.
///
/// Up to v2.0: `floor(files × samples / batch / accelerators)`. From v3.0 whole files are dealt to
/// accelerators and the remainder is dropped. Parquet files are further dealt to workers, each of
/// which drops rows that do not fill a batch, like the loaders of v3.0's DLIO. Record files are
/// sharded by TensorFlow in every edition, which starts over when a shard is exhausted.
pub fn steps(split: &StepInputs) -> u64 {
    let accelerators = u64::from(split.accelerators.max(1));
    let batch = u64::from(split.batch_size.max(1));
    if !split.profile.reshuffles() || split.format == DataFormat::Tfrecord {
        return steps_per_epoch(split.files, split.samples_per_file, batch, accelerators);
    }
    let own = split.files / accelerators;
    if split.format != DataFormat::Parquet {
        return steps_per_epoch(own, split.samples_per_file, batch, 1);
    }
    let workers = u64::from(split.read_threads.max(1));
    // `files % workers` of the workers have one file more.
    let (each, more) = (own / workers, own % workers);
    let batches = |files: u64| steps_per_epoch(files, split.samples_per_file, batch, 1);
    more.saturating_mul(batches(each + 1))
        .saturating_add((workers - more).saturating_mul(batches(each)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use stormlp_core::names::VariantArray;

    fn split(
        profile: Profile,
        format: DataFormat,
        files: u64,
        spf: u64,
        n: u32,
        b: u32,
    ) -> StepInputs {
        StepInputs {
            profile,
            format,
            files,
            samples_per_file: spf,
            accelerators: n,
            batch_size: b,
            read_threads: 4,
        }
    }

    #[test]
    fn editions_differ_in_what_does_not_go_round() {
        let unet3d = |profile| steps(&split(profile, DataFormat::Npz, 167, 1, 2, 7));
        assert_eq!((unet3d(Profile::V2), unet3d(Profile::V3)), (11, 11));
        let odd = |profile| steps(&split(profile, DataFormat::Npz, 15, 1, 2, 7));
        assert_eq!((odd(Profile::V2), odd(Profile::V3)), (1, 1));
        let uneven = |profile| steps(&split(profile, DataFormat::Npz, 3, 10, 2, 15));
        assert_eq!((uneven(Profile::V2), uneven(Profile::V3)), (1, 0));
        // A v3.0 submission: 1,293,758 files, 46 accelerators, batches of 7: 4017 steps.
        let azure = split(Profile::V3, DataFormat::Npz, 1_293_758, 1, 46, 7);
        assert_eq!(steps(&azure), 4017);
    }

    #[test]
    fn parquet_workers_drop_their_own_rests() {
        let flux = split(Profile::V3, DataFormat::Parquet, 16, 288, 2, 48);
        assert_eq!(steps(&flux), 48);
        // 8 files for 4 workers: 2 x 100 rows make 4 batches of 48, not 200/48 summed.
        assert_eq!(steps(&split(Profile::V3, DataFormat::Parquet, 8, 100, 1, 48)), 16);
    }

    proptest! {
        #[test]
        fn no_edition_makes_steps_of_nothing(
            files in 0u64..5000, spf in 1u64..2000, n in 1u32..300, b in 1u32..500, v in 0usize..4,
            parquet: bool,
        ) {
            let format = if parquet { DataFormat::Parquet } else { DataFormat::Npz };
            let split = split(Profile::VARIANTS[v], format, files, spf, n, b);
            let samples = steps(&split) * u64::from(n) * u64::from(b);
            prop_assert!(samples <= files * spf);
        }
    }
}
