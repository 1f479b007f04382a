//! Rejects options that have no effect together with other options.

use stormlp_core::failure::Failure;
use stormlp_core::path::PathKind;
use stormlp_core::tune::MachineTune;

/// Where the folder for MLPerf's files has no effect; rules ask where it is.
pub(crate) const OPEN_DRY_RUN: &str = "with --dry-run and without --closed";

/// Rejects `options` that are given; `place` says where they have no effect.
///
/// # Errors
/// With exit code 2.
pub(crate) fn refuse(options: &[(&str, bool)], place: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(Failure::usage(format!("{option} has no effect {place}: leave it out")))
        }
        None => Ok(()),
    }
}

/// Rejects options for threads, cuFile and `--device` if the transfers of `path` need none of them.
///
/// # Errors
/// With exit code 2.
pub(crate) fn refuse_on_path(
    path: PathKind,
    tune: &MachineTune,
    require_gds: bool,
    has_device: bool,
) -> Result<(), Failure> {
    let with_path = match path {
        // It need not be named.
        PathKind::S3 => "on objects".to_string(),
        path => format!("with --path {path}"),
    };
    if !path.needs_cufile() {
        let counts = ("--tune cufile-stats", tune.cufile_stats.is_some());
        let options = [("--require gds", require_gds), counts];
        refuse(&options, &format!("{with_path}, which cuFile does not move"))?;
    }
    if !path.ends_in_accelerator() {
        let options = [("--tune wait", tune.wait.is_some()), ("--device", has_device)];
        refuse(&options, &format!("{with_path}, which ends in host memory"))?;
    }
    Ok(())
}
