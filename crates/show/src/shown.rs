//! The interface of saved reports, so that pages, lists, metrics and comparisons are independent of
//! the lane.

use serde::Serialize;
use stormlp_core::evidence::{Evidence, ObjectStore};
use stormlp_core::note::DATA_MISMATCH;
use stormlp_core::report::{Ending, Head, Report, Series};
use stormlp_core::warning::WarningKind;

use crate::chart::Group;
use crate::comparison::figure::Figure;
use crate::document::{self, Document};
use crate::outcome::Outcome;
use crate::settings::Work;

/// A subject of a report, and the reason if it has no results.
pub type Subject = (String, Option<String>);

/// The results of a lane, and how its reports are shown.
pub trait Lane: Serialize + Clone + Sized {
    /// The lane's plan, decided before the first byte moves.
    type Plan: Serialize + Clone;

    /// The number of processes in the run; 0 or 1 for a single one.
    fn hosts(report: &Report<Self::Plan, Self>) -> usize;
    /// The report as a document.
    fn document(report: &Report<Self::Plan, Self>) -> Document;
    /// The charts of the report.
    fn charts(report: &Report<Self::Plan, Self>) -> Vec<Group>;
    /// The evidence of how each part of it ran.
    fn evidence(report: &Report<Self::Plan, Self>) -> Vec<&Evidence> {
        report.evidence.iter().map(|named| &named.evidence).collect()
    }
    /// The figures used in comparisons.
    fn figures(report: &Report<Self::Plan, Self>) -> Vec<Figure>;
    /// The settings that make another run the same work.
    fn work(report: &Report<Self::Plan, Self>) -> Work;
    /// The headline figure with its name, and the verdict for a run with this `status`.
    fn outcome(report: &Report<Self::Plan, Self>, status: String) -> Outcome;
    /// Where data read differ from the data written, as text; `None` if they do not.
    fn mismatch(report: &Report<Self::Plan, Self>) -> Option<String> {
        document::mismatch(&report.ending)
    }
    /// All planned measurements; empty if a report has a single subject.
    fn subjects(_: &Report<Self::Plan, Self>) -> Vec<Subject> {
        Vec::new()
    }
    /// Its time series, by part.
    fn series(report: &Report<Self::Plan, Self>) -> Vec<(String, &Series)> {
        report.series.iter().map(|one| (one.name.clone(), &one.series)).collect()
    }
    /// Prefix of the headline for scaled-down work: `SCALED to 27 %`.
    fn mark(_: &Report<Self::Plan, Self>) -> Option<String> {
        None
    }
}

/// A saved report of any lane.
pub trait Shown {
    /// Version, command, time and host.
    fn head(&self) -> &Head;
    /// How the run ended.
    fn ending(&self) -> &Ending;
    /// The report as saved.
    fn to_json(&self) -> serde_json::Value;
    /// The number of processes in the run, at least 1.
    fn hosts(&self) -> usize;
    /// The report as a document.
    fn document(&self) -> Document;
    /// The charts of the report.
    fn charts(&self) -> Vec<Group>;
    /// The object stores of all its parts, with their counts together; `None` for files.
    fn object_store(&self) -> Option<ObjectStore>;
    /// The texts about retried requests.
    fn retried(&self) -> Vec<&str>;
    /// The figures used in comparisons.
    fn figures(&self) -> Vec<Figure>;
    /// The settings that make another run the same work.
    fn work(&self) -> Work;
    /// The headline figure and the verdict.
    fn outcome(&self) -> Outcome;
    /// Where data read differ from the data written, as text; `None` if they do not.
    fn mismatch(&self) -> Option<String>;
    /// All planned measurements; empty if a report has a single subject.
    fn subjects(&self) -> Vec<Subject>;
    /// Its time series, by part.
    fn series(&self) -> Vec<(String, &Series)>;
    /// Prefix of the headline for scaled-down work: `SCALED to 27 %`.
    fn mark(&self) -> Option<String>;
}

impl<R: Lane> Shown for Report<R::Plan, R> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn ending(&self) -> &Ending {
        &self.ending
    }

    fn to_json(&self) -> serde_json::Value {
        // A report was read from JSON or will be saved as such.
        serde_json::to_value(self).unwrap_or_default()
    }

    fn hosts(&self) -> usize {
        R::hosts(self).max(1)
    }

    fn document(&self) -> Document {
        let mut document = R::document(self);
        document.warn_of_changes(&self.head.integrity);
        document
    }

    fn charts(&self) -> Vec<Group> {
        R::charts(self)
    }

    fn object_store(&self) -> Option<ObjectStore> {
        let stores = R::evidence(self).into_iter().filter_map(|one| one.object_store.clone());
        stores.reduce(|sum, one| sum.plus(&one))
    }

    fn retried(&self) -> Vec<&str> {
        let warnings = self.warnings.iter().filter(|one| one.kind == WarningKind::Retried);
        warnings.map(|warning| &*warning.fact).collect()
    }

    fn figures(&self) -> Vec<Figure> {
        R::figures(self)
    }

    fn work(&self) -> Work {
        R::work(self).of_run(self)
    }

    fn outcome(&self) -> Outcome {
        let outcome = R::outcome(self, status(&self.ending).to_string());
        match R::mismatch(self) {
            // No rate of wrong data is a result.
            Some(_) => Outcome { figure: None, verdict: DATA_MISMATCH.to_string(), ..outcome },
            None => outcome,
        }
    }

    fn mismatch(&self) -> Option<String> {
        R::mismatch(self)
    }

    fn subjects(&self) -> Vec<Subject> {
        R::subjects(self)
    }

    fn series(&self) -> Vec<(String, &Series)> {
        R::series(self)
    }

    fn mark(&self) -> Option<String> {
        R::mark(self)
    }
}

/// How a run ended, in one word.
pub fn status(ending: &Ending) -> &'static str {
    match ending {
        Ending::Unfinished => "unfinished",
        Ending::Complete => "complete",
        Ending::Stopped => "stopped",
        Ending::Failed(_) => "failed",
    }
}
