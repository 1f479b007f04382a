//! The request of `stormlp train`: its options, completed from the files that they name.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::transport::{EngineChoice, Pages};
use stormlp_core::workload_file::sets;
use stormlp_dataset::section::DataFormat;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::workload::Workload;

use super::Args;
use crate::commands::calibrate::calibrated;
use crate::commands::threads::{check_cufile, check_wait};
use crate::commands::workloads;

/// The named workload, with `--params` applied.
///
/// # Errors
/// With exit code 3 if there is no such workload or its file is invalid, 4 if the file cannot be
/// read.
pub(super) fn workload(request: &TrainRequest) -> Result<Workload, Failure> {
    workloads::load(&request.workload, request.accelerator.as_deref(), &request.params)
}

/// Rejects options for reading with null storage, which reads nothing.
fn check_null(asked: &TrainRequest) -> Result<(), Failure> {
    let vain = match asked.path {
        Some(path) if path != PathKind::Null => format!("--path {path}"),
        _ if asked.engine != EngineChoice::Auto => "--engine".to_string(),
        _ if asked.transfer_bytes.is_some() => "--transfer-size".to_string(),
        _ if asked.device.is_some() => "--device".to_string(),
        _ if asked.pages != Pages::default() => "--pages".to_string(),
        _ if asked.require_gds => "--require-gds".to_string(),
        _ if asked.cufile_stats.is_some() => "--cufile-stats".to_string(),
        _ if asked.cold => "--cold".to_string(),
        _ if asked.data_dir.is_some() => "--data-dir".to_string(),
        _ if asked.generate => "--generate".to_string(),
        _ if asked.full => "--full".to_string(),
        _ if asked.checkpoint_folder.is_some() => "--checkpoint-folder".to_string(),
        _ => return Ok(()),
    };
    Err(Failure::usage(format!(
        "null storage reads and writes nothing, so {vain} would have no effect: leave out one of them"
    )))
}

/// Rejects options that have no effect together with others.
fn refuse_idle(asked: &TrainRequest, workload: &Workload) -> Result<(), Failure> {
    if asked.is_null() {
        check_null(asked)?;
    }
    let of_objects = asked.data_dir.as_ref().is_some_and(Location::names_objects);
    let usual = if of_objects { PathKind::S3 } else { PathKind::Buffered };
    let path = asked.path.unwrap_or(usual);
    if asked.device.is_some() && !path.ends_in_accelerator() {
        return Err(Failure::usage(format!(
            "--device has no effect with --path {path}, which ends in host memory: name another \
             path, or leave --device out"
        )));
    }
    check_cufile(path, asked.require_gds, asked.cufile_stats)?;
    check_wait(&asked.threading, path.ends_in_accelerator())?;
    if asked.transfer_bytes.is_some() && workload.dataset.format != DataFormat::Tfrecord {
        return Err(Failure::usage(format!(
            "--transfer-size has no effect on {} files: it is for tfrecord",
            workload.dataset.format
        )));
    }
    Ok(())
}

/// The request for `workload`, completed from the client's file and other options.
///
/// # Errors
/// If an option has no effect, or the client's file cannot be used.
pub(super) fn request(args: &Args, workload: &Workload) -> Result<TrainRequest, Failure> {
    let mut request = args.request.clone();
    refuse_idle(&request, workload)?;
    // 32 bits, which every JSON reader preserves.
    request.drawn_seed = RandomState::new().build_hasher().finish() >> 32;
    request.telemetry = args.output.telemetry();
    request.keep_step_times = args.mlperf_output.is_some();
    if let Some(file) = request.client.calibration() {
        let (cost, origin) = calibrated(file, workload.dataset.format)?;
        let compute = request.compute.as_ref().unwrap_or(&workload.train.computation_time);
        request.calibrated = Some(cost.beyond_own(compute.mean_seconds()));
        request.calibration = Some(origin);
    }
    if request.data_dir.is_none() && sets(&request.params, "dataset.data_folder") {
        // A folder given on the command line is meant to be used.
        request.data_dir = workload.dataset.data_folder.as_ref().map(Location::from);
    }
    Ok(request)
}
