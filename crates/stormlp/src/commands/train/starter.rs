//! A starter set: the dataset that a run makes where there is none, small enough to be made unasked.

use std::path::Path;

use stormlp_core::units::ByteSize;
use stormlp_dataset::generate;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::workload::Workload;
use stormlp_transfer::storage::Disk;

use super::data::dataset;
use crate::exit::Failure;

/// A starter set is never larger.
const MOST_BYTES: u64 = 10 << 30;
/// So many files are for training for each one for evaluation.
const TRAINED_PER_EVALUATED: u64 = 8;
/// A run over a starter set computes about so long.
const SECONDS: f64 = 55.0;
/// v2.0's formulas need three steps, the others two.
const LEAST_STEPS: f64 = 3.0;

/// Training files of a starter set in `folder`: enough for about a minute of compute, within 10 GiB
/// and half of the free space, and never too few for three steps.
///
/// # Errors
/// When three steps need more than that.
pub(super) fn files(
    workload: &Workload,
    request: &TrainRequest,
    folder: &Path,
) -> Result<u64, Failure> {
    let free = generate::room(&Disk, folder).map_err(Failure::machine)?;
    files_within(workload, request, MOST_BYTES.min(free.free_bytes / 2))
}

/// Makes the workload's dataset a starter set of `files` training files: it has no subfolders and
/// as many files for evaluation as it can spare.
pub(super) fn shape(workload: &mut Workload, files: u64) {
    let spec = &mut workload.dataset;
    spec.num_files_train = files;
    spec.num_files_eval = evaluated_of(files, spec.num_files_eval);
    spec.num_subfolders_train = 0;
    spec.num_subfolders_eval = 0;
}

fn files_within(
    workload: &Workload,
    request: &TrainRequest,
    most_bytes: u64,
) -> Result<u64, Failure> {
    let spec = &workload.dataset;
    let samples_per_file = spec.num_samples_per_file.max(1) as f64;
    let file_bytes = spec.record_length_bytes * samples_per_file;
    let accelerators = u64::from(request.accelerators.unwrap_or(1));
    let step_samples =
        f64::from(request.batch_size.unwrap_or(workload.reader.batch_size)) * accelerators as f64;
    let files_of = |steps: f64| (steps * step_samples / samples_per_file).ceil() as u64;
    let least = match files_of(LEAST_STEPS).max(1) {
        few if few < accelerators => few,
        files => files.next_multiple_of(accelerators),
    };
    let too_large = |bytes: u64| {
        Failure::machine(anyhow::anyhow!(
            "three steps need {least} files for training, {} including evaluation files, but a \
             starter dataset is limited to {} here",
            ByteSize(bytes),
            ByteSize(most_bytes)
        ))
        .with_help("give the number of files with --files N, or use fewer --accelerators")
    };
    // By the mean size first, so that nobody waits for the sizes of a set that is too large by far.
    let within = trained_of((most_bytes as f64 / file_bytes) as u64, spec.num_files_eval);
    if within < least {
        let files = least + evaluated_of(least, spec.num_files_eval);
        return Err(too_large((files as f64 * file_bytes) as u64));
    }
    // No more than the workload has, as far as that is enough.
    let of_workload = spec.num_files_train.max(least);
    let wanted = files_of(steps(workload, request)).min(within).min(of_workload);
    let mut files = in_shares(wanted, accelerators).max(least);
    loop {
        let bytes = drawn_bytes(workload, request, files)?;
        if bytes <= most_bytes {
            return Ok(files);
        }
        if files == least {
            return Err(too_large(bytes));
        }
        let fitting = (files as f64 * most_bytes as f64 / bytes as f64) as u64;
        files = in_shares(fitting.min(files - 1), accelerators).max(least);
    }
}

/// Steps of an epoch that make a run last as long as it should.
fn steps(workload: &Workload, request: &TrainRequest) -> f64 {
    if let Some(steps) = request.steps {
        // One more than asked for, so that the fetch after the last step finds something.
        return steps as f64 + 1.0;
    }
    let compute = request.compute.unwrap_or(workload.train.computation_time);
    let epochs = f64::from(request.epochs.unwrap_or(workload.train.epochs));
    SECONDS / epochs / compute.mean_seconds().max(1e-4)
}

/// At most `files`, as many for each accelerator, so that all have the same number of steps.
fn in_shares(files: u64, accelerators: u64) -> u64 {
    if files >= accelerators { files / accelerators * accelerators } else { files }
}

/// What a starter set of `files` training files takes: the sizes that are drawn may lie well above
/// their mean where files are few.
fn drawn_bytes(workload: &Workload, request: &TrainRequest, files: u64) -> Result<u64, Failure> {
    let mut starter = workload.clone();
    shape(&mut starter, files);
    let profile = request.profile.unwrap_or(workload.edition);
    Ok(dataset(&starter, profile)?.total_bytes())
}

/// The files for evaluation beside `files` for training, of the workload's `evaluated`.
fn evaluated_of(files: u64, evaluated: u64) -> u64 {
    evaluated.min(files.div_ceil(TRAINED_PER_EVALUATED))
}

/// The most files for training that leave room, among `files`, for those for evaluation.
fn trained_of(files: u64, evaluated: u64) -> u64 {
    let share = TRAINED_PER_EVALUATED;
    let with_a_share = (u128::from(files) * u128::from(share) / u128::from(share + 1)) as u64;
    with_a_share.max(files.saturating_sub(evaluated))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::commands::workloads;

    fn request(accelerators: u32) -> TrainRequest {
        TrainRequest { accelerators: Some(accelerators), ..TrainRequest::default() }
    }

    #[test]
    fn no_starter_set_exceeds_its_bound() {
        for name in ["unet3d", "resnet50", "cosmoflow"] {
            let workload = workloads::load(name, None, &[]).unwrap();
            for accelerators in [1, 2] {
                let request = request(accelerators);
                for most_bytes in [MOST_BYTES, 9 << 30, 8 << 30] {
                    let files = files_within(&workload, &request, most_bytes).unwrap();
                    let bytes = drawn_bytes(&workload, &request, files).unwrap();
                    assert!(bytes <= most_bytes, "{name}: {files} files, {}", ByteSize(bytes));
                    assert_eq!(files % u64::from(accelerators), 0);
                }
            }
        }
    }

    #[test]
    fn the_largest_set_within_the_bound_is_near_it() {
        let workload = workloads::load("unet3d", None, &[]).unwrap();
        let files = files_within(&workload, &request(1), MOST_BYTES).unwrap();
        let bytes = drawn_bytes(&workload, &request(1), files).unwrap();
        assert!(bytes > MOST_BYTES / 20 * 19, "{}", ByteSize(bytes));
    }

    #[test]
    fn three_steps_fit_or_are_refused_by_what_they_take() {
        let workload = workloads::load("unet3d", None, &[]).unwrap();
        let batch = u64::from(workload.reader.batch_size);
        let three = drawn_bytes(&workload, &request(1), 3 * batch).unwrap();
        let files = files_within(&workload, &request(1), three).unwrap();
        assert_eq!(files, 3 * batch);
        let refused = files_within(&workload, &request(1), three - 1).unwrap_err();
        let (needed, most) = (ByteSize(three), ByteSize(three - 1));
        assert_eq!(
            refused.error.to_string(),
            format!(
                "three steps need {files} files for training, {needed} including evaluation \
                 files, but a starter dataset is limited to {most} here"
            )
        );
        let refused = files_within(&workload, &request(1), three / 4).unwrap_err();
        assert!(refused.error.to_string().starts_with("three steps need"));
    }
}
