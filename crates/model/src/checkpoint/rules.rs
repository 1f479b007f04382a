//! MLPerf Storage's rules for a closed checkpoint run.

use super::builtin;
use super::choice::FsyncPolicy;
use super::plan::CheckpointPlan;
use super::problem::Problem;
use super::request::CheckpointRequest;
use super::workload::Mode;

/// The rules a closed run would break; none when it is not closed.
pub(super) fn closed_problems(request: &CheckpointRequest, plan: &CheckpointPlan) -> Vec<Problem> {
    if !plan.closed {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut rule = |holds: bool, what: String| {
        if !holds {
            problems.push(Problem::plan(
                format!("closed rules: {what}"),
                "follow the rule, or run without --closed",
            ));
        }
    };
    let closed = builtin::load(&plan.model).filter(|model| *model == request.workload);
    rule(
        closed.is_some(),
        format!(
            "`{}` is none of MLPerf's models as they are defined",
            plan.model
        ),
    );
    if let Some(model) = closed {
        let ranks = model.parallelism_of_all_ranks().ranks();
        rule(
            plan.mode == Mode::Default || plan.model == "llama3-8b",
            "subset mode is for the 8B model only".to_string(),
        );
        rule(
            plan.scaling.ranks == ranks,
            format!("{} ranks; {} has {ranks}", plan.scaling.ranks, plan.model),
        );
    }
    let reads = request.reads.unwrap_or(plan.restores.len() as u32);
    rule(
        matches!((plan.writes, reads), (10, 10) | (10, 0) | (0, 10)),
        format!(
            "{} writes and {reads} reads; it is 10 of both, in one run or in two",
            plan.writes
        ),
    );
    rule(
        plan.fsync == FsyncPolicy::PerFile,
        format!("--fsync {}; each file is synced", plan.fsync),
    );
    rule(
        (plan.pause_seconds - 5.0).abs() < 1e-9,
        format!("a pause of {} s; it is 5 s", plan.pause_seconds),
    );
    rule(
        plan.overlap.is_none() && plan.rank_shift == 0 && plan.keep.is_none(),
        "--overlap, --rank-shift and --keep are not part of it".to_string(),
    );
    rule(
        request.scale.is_none_or(|scale| {
            scale == super::choice::ScaleChoice::Auto
                || scale == super::choice::ScaleChoice::Factor(1.0)
        }),
        "--scale below 1".to_string(),
    );
    problems
}
