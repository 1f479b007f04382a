//! Checks whether the options for threads and cuFile have an effect.

use stormlp_core::path::PathKind;
use stormlp_core::transport::Threading;

use stormlp_core::failure::Failure;

/// Rejects the option for how threads wait for a GPU if no transfer ends in one.
///
/// # Errors
/// With exit code 2.
pub(crate) fn check_wait(asked: &Threading, ends_in_accelerator: bool) -> Result<(), Failure> {
    if asked.wait.is_some() && !ends_in_accelerator {
        return Err(Failure::usage(
            "--wait has no effect where transfers end in host memory: leave it out, or name a --path \
             into a GPU's memory",
        ));
    }
    Ok(())
}

/// Rejects cuFile options if `path` does not use cuFile.
///
/// # Errors
/// With exit code 2.
pub(crate) fn check_cufile(
    path: PathKind,
    require_gds: bool,
    cufile_stats: Option<u8>,
) -> Result<(), Failure> {
    let option = match (require_gds, cufile_stats) {
        _ if path.needs_cufile() => return Ok(()),
        (true, _) => "--require-gds",
        (false, Some(_)) => "--cufile-stats",
        (false, None) => return Ok(()),
    };
    Err(Failure::usage(match path {
        // Nobody need name it.
        PathKind::S3 => {
            format!("{option} has no effect on objects, which cuFile does not move: leave it out")
        }
        path => format!(
            "{option} has no effect with --path {path}, which is not one of cuFile's: leave it out, \
             or name one of those"
        ),
    }))
}
