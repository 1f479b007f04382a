//! Runs in which storage did no work: the text in place of a figure.

use std::path::Path;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::units::format_duration;

use super::{KvcacheReport, TrialResult};

/// Why storage did no work in a run, as text, with the remedy; `None` if it did some.
pub fn nothing(report: &KvcacheReport) -> Option<(String, &'static str)> {
    let trials = &report.results.trials;
    if !trials.iter().all(TrialResult::moved_nothing) {
        return None;
    }
    let sum = |of: fn(&TrialResult) -> u64| trials.iter().map(of).sum::<u64>();
    let absent = sum(|trial| trial.lookups.own_misses);
    Some(if trials.is_empty() {
        (String::new(), "")
    } else if report.plan.trace.is_some() && absent > 0 {
        let why = format!(": none of the {absent} objects that the trace reads was there");
        (why, "use a trace that writes the objects it reads")
    } else if sum(|trial| trial.lookups.memory_hits) > 0 {
        (": all objects stayed in memory".to_string(), "use a smaller --tune cpu-cache")
    } else if report.plan.ends_with_trace() {
        (
            ": its prompts fill no block".to_string(),
            "use a smaller --chunk-tokens, or another trace",
        )
    } else {
        let seconds = format_duration(report.plan.duration_seconds);
        (format!(": no byte was moved in {seconds}"), "use a longer --duration")
    })
}

/// The end of a run with its report `saved` there.
///
/// # Errors
/// Why it ended early, or with exit code 3 that storage did no work.
pub fn ended(report: &KvcacheReport, saved: Option<&Path>) -> Result<(), Failure> {
    match (nothing(report), &report.ending) {
        (Some(_), Ending::Stopped) => Err(Failure::stopped("stopped before anything was measured")),
        (Some((why, help)), Ending::Complete) => {
            let what = format!("no result{why}");
            Err(Failure::saying(Cause::Plan, what).with_help(help))
        }
        (_, ending) => ending.outcome(saved),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::show::fixtures;
    use super::super::ObjectsMoved;
    use super::*;

    #[test]
    fn a_run_in_which_storage_did_nothing_says_why_and_has_no_figure() {
        let mut report = fixtures::report();
        assert_eq!((nothing(&report), ended(&report, None)), (None, Ok(())));
        for trial in &mut report.results.trials {
            (trial.read, trial.written) = (ObjectsMoved::default(), ObjectsMoved::default());
        }
        let failure = ended(&report, None).unwrap_err();
        assert_eq!(failure.cause().exit_code(), 3);
        assert!(failure.note.fact.contains("no byte was moved in 5 m"), "{failure:?}");
        report.results.trials[0].lookups.memory_hits = 1;
        assert!(nothing(&report).unwrap().0.contains("stayed in memory"));
        report.results.trials.clear();
        report.ending = Ending::Stopped;
        let failure = ended(&report, None).unwrap_err();
        assert_eq!(failure.note.fact, "stopped before anything was measured");
    }
}
