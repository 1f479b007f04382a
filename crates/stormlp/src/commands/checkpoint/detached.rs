//! Checkpoints of hosts without a launcher: each saves and restores its own, and only the start
//! time is shared.

use stormlp_checkpoint::plan::{CheckpointPlan, CheckpointRequest, ScaleChoice};
use stormlp_checkpoint::run::CheckpointError;
use stormlp_hosts::company::Company;
use stormlp_transfer::storage::LockError;

use super::args::Args;
use crate::commands::detached::DetachedArgs;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Advice for running all hosts as one run.
const LAUNCHER: &str =
    "leave out --start-at and --run-id, and start the hosts with a launcher (mpirun, srun)";

/// Rejects what independent hosts cannot do together.
///
/// # Errors
/// With exit code 2.
pub(super) fn check(
    args: &Args,
    request: &CheckpointRequest,
    session: &Session,
) -> Result<(), Failure> {
    args.detached.check(session)?;
    if args.detached.company().is_alone() {
        return Ok(());
    }
    let of_one_run =
        [("--closed", request.closed), ("--mlperf-output", args.mlperf_output.is_some())];
    match of_one_run.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} needs one checkpoint of all hosts: with --start-at each host has its own"
        ))
        .with_help(LAUNCHER)),
    }
}

/// Rejects a size that each host would choose from its own free space and speed.
///
/// # Errors
/// With exit code 3.
pub(super) fn check_size(
    asked: &DetachedArgs,
    request: &CheckpointRequest,
    plan: &CheckpointPlan,
) -> Result<(), Failure> {
    let auto = request.scale.is_none_or(|scale| scale == ScaleChoice::Auto);
    if asked.company().is_alone() || !auto || !plan.is_scaled() || plan.writes == 0 {
        return Ok(());
    }
    let what = "the whole checkpoint does not fit here, and each host would choose for itself how \
                much of it to save: with --start-at all must save the same";
    Err(Failure::no_plan(anyhow::anyhow!("{what}"))
        .with_help("give every host the same --scale FACTOR, or fewer --ranks"))
}

/// Advice for `error`.
pub(super) fn remedy(error: &CheckpointError, company: Company<'_>, closed: bool) -> &'static str {
    match (error, company) {
        (CheckpointError::Lock(LockError::Held { .. }), Company::From(_)) => {
            "give every host a --dir of its own: hosts started by their clocks share nothing"
        }
        _ => error.remedy(closed),
    }
}
