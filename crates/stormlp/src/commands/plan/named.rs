//! The targets that options of `stormlp plan` name: workload, saved reports and checkpoint model.

use std::path::Path;

use stormlp_checkpoint::plan::builtin;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::units::parse_some_bytes;
use stormlp_planner::plan::{KnownStorage, Overhead, Sizing, SizingRequest};
use stormlp_training::plan::client::Client;
use stormlp_transfer::probe;
use stormlp_transfer::storage::{Disk, Storage as _};

use crate::commands::calibrate::calibrated;
use crate::commands::{saved, workloads};

/// `asked` with everything it names.
///
/// # Errors
/// If the workload, the storage, the checkpoint or an option is invalid.
pub(super) fn sizing(mut asked: SizingRequest) -> Result<Sizing, Failure> {
    let (Some(name), Some(text)) = (&asked.workload, &asked.storage) else {
        return Err(incomplete(asked.workload.as_deref()));
    };
    let workload = workloads::load(name, asked.accelerator.as_deref(), &asked.params)?;
    let storage = storage(text)?;
    let mut calibration = None;
    if let Some(Overhead::Of(Client::Calibrated(file))) = &asked.client_overhead {
        let compute = asked.compute.as_ref().unwrap_or(&workload.train.computation_time);
        let (cost, origin) = calibrated(file, workload.dataset.format)?;
        let cost = cost.whole(compute.mean_seconds());
        (asked.client_overhead, calibration) = (Some(Overhead::Typed(cost)), Some(origin));
    }
    let sizing = Sizing {
        storage,
        workload,
        host: probe::host_facts(),
        checkpoint: asked.checkpoint.as_deref().map(checkpoint).transpose()?,
        calibration,
        asked,
    };
    sizing.check()?;
    Ok(sizing)
}

/// The failure for a request without a workload or storage, with a command to type.
fn incomplete(workload: Option<&str>) -> Failure {
    let missing = if workload.is_some() { "--storage" } else { "a workload" };
    Failure::usage(format!("a plan needs {missing}")).with_help(format!(
        "type `stormlp plan {} --storage 4x:read=14.5GB/s,latency=80us`; --storage list shows known \
         drives, and --storage REPORT uses a report of `stormlp gds`",
        workload.unwrap_or("unet3d")
    ))
}

/// An inconsistent report may still be useful, so it is used with a warning.
pub(super) fn storage(text: &str) -> Result<KnownStorage, Failure> {
    let path = Path::new(text);
    if let Some(described) = KnownStorage::described(text, Disk.look(path)?.is_some())? {
        return Ok(described);
    }
    let report = saved::gds(path).map_err(|failure| {
        failure.with_help(
            "--storage is a report of `stormlp gds`, or figures such as read=14.5GB/s,latency=80us",
        )
    })?;
    Ok(KnownStorage::measured(&report, text)?)
}

/// Description and size of the requested checkpoint.
fn checkpoint(asked: &str) -> Result<(String, u64), Failure> {
    if let Ok(size) = parse_some_bytes(asked) {
        return Ok(("custom size".to_string(), size));
    }
    let Some(model) = builtin::load(asked) else {
        let names: Vec<&str> = builtin::names().collect();
        let what = format!("--checkpoint: `{asked}` is neither a size nor a model");
        return Err(Failure::saying(Cause::Plan, what)
            .with_help(format!("use a size such as 1.2TB, or one of {}", names.join(", "))));
    };
    let layout = model.layout(model.parallelism_of_all_ranks());
    Ok((model.name.clone(), layout.total_bytes()))
}
