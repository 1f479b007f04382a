//! Reads a saved calibration for `--client-overhead FILE`.

use std::path::Path;

use stormlp_checkpoint::plan::CheckpointClient;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::failure::Failure;
use stormlp_dataset::section::DataFormat;
use stormlp_training::plan::calibration::{Calibration, FormatCost};
use stormlp_training::plan::client::unknown_cost;

use crate::commands::workloads::read_text;

const HOW: &str = "`stormlp calibrate-dlio` measures and saves one; --client-overhead dlio uses the cost of \
                   another machine, none adds none";
const HOW_OF_CHECKPOINTS: &str = "`stormlp calibrate-dlio` measures and saves one; what checkpoints cost on \
                                  another machine is not known";

/// The calibration saved in `file`.
///
/// # Errors
/// With exit code 4 if it cannot be read, 3 if it is not a calibration.
fn saved(file: &Path, how: &str) -> Result<Calibration, Failure> {
    let text = read_text(file, "calibration").map_err(|failure| failure.with_help(how))?;
    Calibration::parse(&text).map_err(|why| {
        let what = anyhow::anyhow!("{} is not a calibration: {why}", file.display());
        Failure::no_plan(what).with_help(how)
    })
}

/// The cost of `format` in the calibration saved in `file`, and where it was measured.
///
/// # Errors
/// As [`saved`], and with exit code 3 if it does not have the format.
pub(crate) fn calibrated(
    file: &Path,
    format: DataFormat,
) -> Result<(FormatCost, CalibrationOrigin), Failure> {
    let calibration = saved(file, HOW)?;
    let cost = calibration.of(format).copied().map_err(|why| {
        let help = unknown_cost(format)
            .unwrap_or_else(|| format!("`stormlp calibrate-dlio --formats {format}` measures it"));
        Failure::no_plan(anyhow::anyhow!("{}: {why}", file.display())).with_help(help)
    })?;
    Ok((cost, calibration.origin(file.display().to_string())))
}

/// DLIO's time for checkpoints beyond this program's, by the calibration saved in `file`.
///
/// # Errors
/// As [`saved`], and with exit code 3 if it has no costs of checkpoints.
pub(crate) fn calibrated_checkpoints(file: &Path) -> Result<CheckpointClient, Failure> {
    let calibration = saved(file, HOW_OF_CHECKPOINTS)?;
    let Some(cost) = calibration.checkpoint else {
        let what = anyhow::anyhow!("{} has no costs of checkpoints", file.display());
        return Err(Failure::no_plan(what)
            .with_help("`stormlp calibrate-dlio` without --no-checkpoint measures them"));
    };
    let pace = cost.beyond_own();
    Ok(CheckpointClient {
        save_seconds_per_gib: pace.save_seconds_per_gib,
        restore_seconds_per_gib: pace.restore_seconds_per_gib,
        cpus: calibration.cpus,
        origin: calibration.origin(file.display().to_string()),
    })
}
