//! The messages of a search: a line for each run, and the outcome.

use std::path::Path;

use stormlp_core::report::Ending;
use stormlp_core::shell::shell_word;
use stormlp_core::units::{counted, format_duration};
use stormlp_training::plan::find_max::{FindMax, Tried};
use stormlp_training::plan::search::RunKind;
use stormlp_training::report::TrainReport;

use super::AcceleratorFinder;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

impl AcceleratorFinder<'_> {
    /// The result of a run, what is known so far and the estimated time left.
    pub(super) fn line_of(&self, tried: &Tried) -> String {
        let spread = tried.au_spread.map_or(String::new(), |spread| format!(" ± {spread:.1}"));
        let verb = match (tried.meets, tried.certain) {
            _ if tried.rests_on_read_ahead => "only thanks to prefetched samples meets",
            (true, true) => "meets",
            (false, true) => "misses",
            (true, false) => "probably meets",
            (false, false) => "probably misses",
        };
        let kind = match tried.kind {
            RunKind::Probe => "probe",
            RunKind::Full => "full run",
        };
        let left = match self.search.next() {
            None => String::new(),
            Some(_) => format!("; about {} left", format_duration(self.seconds_left())),
        };
        format!(
            "{kind}: {}: AU {:.1}{spread} %, {verb} {:.1} % ({}, {}); {}{left}",
            counted(u64::from(tried.accelerators), "accelerator"),
            tried.au_percent,
            self.threshold_percent,
            counted(tried.steps, "step"),
            format_duration(tried.seconds),
            self.find.known()
        )
    }

    /// Estimated time left: runs take as long as earlier ones of their kind.
    fn seconds_left(&self) -> f64 {
        let left = self.search.left();
        let mean = |kind: RunKind| {
            let of_kind = self.find.tried.iter().filter(|tried| tried.kind == kind);
            let seconds: Vec<f64> = of_kind.map(|tried| tried.seconds).collect();
            (!seconds.is_empty()).then(|| stormlp_core::stats::mean(&seconds))
        };
        let count = self.search.bracket().passing.max(1);
        let planned = || {
            let plan = self.plan_as_it_is(count)?;
            let computed = plan.compute_seconds() * f64::from(plan.runs);
            Some(computed / (self.threshold_percent / 100.0).max(0.1))
        };
        let full = mean(RunKind::Full).or_else(planned).unwrap_or(0.0);
        let probe = mean(RunKind::Probe).unwrap_or(0.0);
        probe * f64::from(left.probes) + full * f64::from(left.full)
    }
}

/// The exit code of the search.
pub(super) fn ended(
    report: &TrainReport,
    find: &FindMax,
    saved: Option<&Path>,
) -> Result<(), Failure> {
    let place = match saved {
        Some(path) => format!("what was measured is saved in {}", path.display()),
        None => "what was measured could not be saved".to_string(),
    };
    match &report.ending {
        Ending::Stopped | Ending::Unfinished => {
            let error = format!("stopped by the user; accelerators: {}; {place}", find.known());
            let again = saved.map(|path| {
                let command = Session::command_line().without_option("--resume");
                let path = shell_word(&path.to_string_lossy());
                format!("`{command} --resume {path}` continues")
            });
            let failure = Failure::stopped(error);
            Err(match again {
                Some(again) => failure.with_help(again),
                None => failure,
            })
        }
        Ending::Failed(note) => Err(Failure::of_run(note, &place)),
        Ending::Complete if find.largest_accelerators > 0 => Ok(()),
        Ending::Complete => {
            let au = find.au_of_one();
            Err(Failure::missed_target(format!(
                "not even one accelerator reaches the {:.1} % that {} requires{au}",
                report.plan.metric.threshold_percent, report.plan.workload
            )))
        }
    }
}
