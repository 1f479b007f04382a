//! Trials as text and as rows of tables.

use stormlp_show::document::{Cell, Col, Quantity, Table, number, word};

use crate::plan::{KvcachePlan, Pass, TraceFormat};
use crate::report::{KvcacheReport, Timed, TimesMs, TrialResult};

/// A percentile of too few samples.
pub(super) const UNKNOWN: &str = "?";

/// A row of a table of trials.
pub(super) type Trial<'a> = &'a TrialResult;

/// The name of a pass as text.
pub(super) fn name_of(pass: &Pass) -> String {
    match pass.option {
        Some(option) => format!("{option} {}", pass.model.name),
        None => pass.model.name.clone(),
    }
}

pub(super) fn pass_of(plan: &KvcachePlan, index: u32) -> Option<&Pass> {
    plan.passes.get(index as usize)
}

/// The name of the pass at `index`.
pub(super) fn pass_name(report: &KvcacheReport, index: u32) -> String {
    pass_of(&report.plan, index).map_or(String::new(), name_of)
}

pub(super) fn key_of(report: &KvcacheReport, trial: &TrialResult) -> String {
    format!("{} run {}", pass_name(report, trial.pass), trial.trial)
}

/// Whether tokens are generated: not by prompts, nor by the reads and writes of a trace.
pub(super) fn generates(plan: &KvcachePlan) -> bool {
    let is_of_operations =
        plan.trace.as_ref().is_some_and(|trace| trace.format == TraceFormat::MlperfIo);
    plan.serving.is_none() && !is_of_operations
}

/// Bytes over time.
pub(super) fn gib_s(rate: f64) -> Quantity {
    Quantity::higher(rate, "GiB/s")
}

/// Milliseconds as text.
pub(super) fn seconds_of(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.1} ms") } else { format!("{:.2} s", ms / 1e3) }
}

pub(super) fn ms(trial: &TrialResult, what: Timed, of: fn(&TimesMs) -> Option<f64>) -> Cell {
    known_ms(trial.times_ms.get(&what).and_then(of))
}

pub(super) fn known_ms(ms: Option<f64>) -> Cell {
    ms.map_or(UNKNOWN.into(), |ms| Quantity::lower(ms, "ms").into())
}

pub(super) fn per_trial<'a>(report: &'a KvcacheReport, columns: Vec<Col<'a, Trial<'a>>>) -> Table {
    let own = [
        word("option", 0, |one: &Trial<'_>| pass_name(report, one.pass)).setting(),
        number("run", 0, |one: &Trial<'_>| one.trial),
    ];
    let all = own.into_iter().chain(columns).collect();
    Table::of(&report.results.trials, |one| key_of(report, one), all)
}
