//! Reads a saved calibration for `--client FILE`.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_dataset::section::DataFormat;
use stormlp_training::plan::calibration::{Calibration, FormatCost};

use crate::commands::workloads::read_text;

const HOW: &str = "`stormlp calibrate` measures and saves one; --client dlio takes the cost of another \
                   host, none takes none";

/// The calibration saved in `file`.
///
/// # Errors
/// With exit code 4 if it cannot be read, 3 if it is not a calibration.
fn saved(file: &Path) -> Result<Calibration, Failure> {
    let text = read_text(file, "calibration").map_err(|failure| failure.with_help(HOW))?;
    Calibration::parse(&text).map_err(|why| {
        let what = anyhow::anyhow!("{} is not a calibration: {why}", file.display());
        Failure::no_plan(what).with_help(HOW)
    })
}

/// The cost of `format` in the calibration saved in `file`.
///
/// # Errors
/// As [`saved`], and with exit code 3 if it does not have the format.
pub(crate) fn calibrated(file: &Path, format: DataFormat) -> Result<FormatCost, Failure> {
    let calibration = saved(file)?;
    calibration.of(format).copied().map_err(|why| {
        Failure::no_plan(anyhow::anyhow!("{}: {why}", file.display()))
            .with_help(format!("`stormlp calibrate --formats {format}` measures it"))
    })
}
