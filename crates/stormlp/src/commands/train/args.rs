//! The request of `stormlp train`: its options, completed from the files that they name.

use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_core::path::PathKind;
use stormlp_core::transport::EngineChoice;
use stormlp_core::workload_file::sets;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::workload::Workload;

use super::Args;
use crate::commands::calibrate::calibrated;
use crate::commands::fresh_seed;
use crate::commands::idle::{refuse, refuse_on_path};

/// Rejects options that have no effect together with others.
fn refuse_idle(asked: &TrainRequest) -> Result<(), Failure> {
    if asked.is_null() {
        let options = [
            ("--engine", asked.engine != EngineChoice::Auto),
            ("--cold", asked.cold),
            ("--data-dir", asked.data_dir.is_some()),
            ("--generate", asked.generate),
            ("--full", asked.full),
        ];
        refuse(&options, "with null storage, which reads and writes nothing")?;
    }
    let of_objects = asked.data_dir.as_ref().is_some_and(Location::names_objects);
    let usual = if of_objects { PathKind::S3 } else { PathKind::Buffered };
    let path = asked.path.unwrap_or(usual);
    let of_cufile = (asked.require_gds, asked.cufile_stats);
    refuse_on_path(path, &asked.threading, of_cufile, asked.device.is_some())?;
    Ok(())
}

/// The request for `workload`, completed from the client's file and other options.
///
/// # Errors
/// If an option has no effect, or the client's file cannot be used.
pub(super) fn request(args: &Args, workload: &Workload) -> Result<TrainRequest, Failure> {
    let mut request = args.request.clone();
    refuse_idle(&request)?;
    request.drawn_seed = fresh_seed();
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
