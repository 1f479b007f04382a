//! Saves the results of a run: the whole report by the leading process, and next to it the results
//! of each of several processes.
//!
//! Each process keeps its own part in the folder of the run, on its own host if the folder is not
//! shared: the results survive on whichever host outlives the others.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use serde::Serialize;
use stormlp_core::report::PartOf;
use stormlp_core::report::Report;
use stormlp_matrix::plan::{CellReport, MatrixReport};

use super::Delivery;
use super::saver::Saver;
use crate::commands::saved;
use stormlp_core::failure::Failure;
use stormlp_hosts::party::Party;
use stormlp_hosts::session::Session;

/// See the [module's description](self).
#[derive(Debug)]
pub(crate) struct Savers {
    /// It is inside the folder of the whole report, so it is removed first if nothing was measured.
    part: Option<Part>,
    /// `None` unless this is the leading process.
    whole: Option<Saver>,
}

/// The part saved by one of several processes.
#[derive(Debug)]
struct Part {
    saver: Saver,
    of: PartOf,
}

impl Delivery {
    /// Creates the folder of the run called `name`, and in it that of each process.
    ///
    /// # Errors
    /// With exit code 4 if one cannot be created; all processes fail alike then.
    pub(crate) fn savers(
        &self,
        name: &str,
        party: &Party,
        session: &Session,
    ) -> Result<Savers, Failure> {
        if party.is_alone() {
            return Ok(Savers::alone(self.saver(name, session)?));
        }
        let leads = session.group.leads();
        let whole = leads.then(|| self.saver(name, session)).transpose();
        let whole = party.agree(whole)?;
        let folder = whole.as_ref().and_then(|saver| saver.path().parent());
        let own = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let answers = party.exchange(&own)?;
        let run_id = answers.into_iter().next().flatten().unwrap_or_default();
        let of = party.part_of(&run_id);
        let of = of.ok_or_else(|| Failure::bug(anyhow::anyhow!("no process has this rank")))?;
        let saver = Saver::of_part(self.results_dir.as_deref(), &of);
        let saver = party.agree(saver)?;
        let part = Some(Part { saver, of });
        Ok(Savers { whole, part })
    }
}

impl Savers {
    /// For a run with a single process.
    pub(crate) fn alone(whole: Saver) -> Self {
        Self { whole: Some(whole), part: None }
    }

    /// For a run that resumes the report at `path`, and the part of this process in it if it is one
    /// of several.
    ///
    /// # Errors
    /// With exit code 4 if a part cannot be saved; all processes fail alike then.
    pub(crate) fn resume(
        path: &Path,
        party: &Party,
        session: &Session,
    ) -> Result<(Self, Option<MatrixReport>), Failure> {
        let whole = session.group.leads().then(|| Saver::resume(path));
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let run = path.parent().unwrap_or(Path::new(""));
        let run_id = run.file_name().unwrap_or_default().to_string_lossy();
        let Some(of) = party.part_of(&run_id) else {
            return Ok((Self { whole, part: None }, None));
        };
        let found = Saver::place_of_part(run, &of).join("report.json");
        let own = match saved::any(&found) {
            Ok(AnyReport::Gds(report)) => Some(report),
            _ => None,
        };
        let is_own = |report: &MatrixReport| {
            let part = report.head.part.as_ref();
            part.is_some_and(|part| (part.rank, &part.host) == (of.rank, &of.host))
        };
        let own = own.filter(is_own);
        let saver = match own {
            Some(_) => Ok(Saver::resume(&found)),
            None => Saver::of_part(run.parent(), &of),
        };
        let saver = party.agree(saver)?;
        let part = Some(Part { saver, of });
        Ok((Self { whole, part }, own))
    }

    fn each(&self) -> impl Iterator<Item = &Saver> {
        let part = self.part.as_ref().map(|part| &part.saver);
        self.whole.iter().chain(part)
    }

    /// The path of the report known to this process.
    pub(crate) fn path(&self) -> PathBuf {
        let first = self.each().next();
        first.map_or_else(PathBuf::new, |saver| saver.path().to_path_buf())
    }

    /// The folder that contains the parts of several processes.
    pub(crate) fn parts_folder(&self) -> Option<&Path> {
        let own = self.part.as_ref()?.saver.path();
        own.parent()?.parent()
    }

    /// Like [`Saver::prepare_cufile`].
    pub(crate) fn prepare_cufile(&self, require_gds: bool) {
        // cuFile's log is per process, next to the part of that process.
        if let Some(saver) = self.each().last() {
            saver.prepare_cufile(require_gds);
        }
    }

    /// Saves a completed cell of a matrix.
    pub(crate) fn cell(&mut self, own: &CellReport, whole: &CellReport) {
        if let Some(saver) = &mut self.whole {
            saver.cell(whole);
        }
        if let Some(part) = &mut self.part {
            part.saver.cell(own);
        }
    }

    /// Saves the results of all hosts so far, like [`Saver::unit`]: each host has all of them.
    pub(crate) fn unit<P, R>(&mut self, report: impl FnOnce() -> Report<P, R>)
    where
        P: Serialize + Clone,
        R: Serialize + Clone,
    {
        match (&mut self.whole, &mut self.part) {
            (None, None) => {}
            (Some(saver), None) => saver.unit(report),
            (None, Some(part)) => {
                let of = part.of.clone();
                part.saver.unit(|| copy_of(&report(), of));
            }
            (Some(saver), Some(part)) => {
                let report = report();
                saver.unit(|| &report);
                part.saver.unit(|| copy_of(&report, part.of.clone()));
            }
        }
    }

    /// Saves the report of a starting run; `own` is that of this process alone.
    ///
    /// # Errors
    /// As [`Saver::begin`].
    pub(crate) fn begin<R: Serialize>(
        &mut self,
        whole: &R,
        own: impl FnOnce(PartOf) -> R,
    ) -> Result<(), Failure> {
        if let Some(saver) = &mut self.whole {
            saver.begin(whole)?;
        }
        match &mut self.part {
            Some(part) => part.saver.begin(&own(part.of.clone())),
            None => Ok(()),
        }
    }

    /// Saves the finished reports, and prints the whole one in the leading process; then `outcome`
    /// says how the run went.
    ///
    /// # Errors
    /// As [`Delivery::finish`].
    pub(crate) fn finish<R: Serialize + Clone + Into<AnyReport>>(
        self,
        (whole, own): (&R, impl FnOnce(PartOf) -> R),
        delivery: &Delivery,
        session: &Session,
        outcome: impl FnOnce(Option<&Path>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut kept = None;
        if let Some(mut part) = self.part {
            part.saver.save(&own(part.of));
            kept = Some(part.saver.finish());
        }
        match (self.whole, kept) {
            (Some(saver), None) => delivery.finish(saver, whole, session, outcome),
            (Some(saver), Some(kept)) => {
                let went = delivery.finish(saver, whole, session, outcome);
                went.and(kept.map(drop))
            }
            (None, kept) => {
                let kept = kept.transpose();
                let path = kept.as_ref().ok().and_then(Option::as_deref);
                outcome(path).and(kept.map(drop))
            }
        }
    }
}

/// The copy of the whole report that one host keeps.
pub(crate) fn copy_of<P: Clone, R: Clone>(whole: &Report<P, R>, of: PartOf) -> Report<P, R> {
    let mut copy = whole.clone();
    copy.head.part = Some(of);
    copy
}

/// The part of one of several hosts of a matrix: `whole` with only its own `cells`.
pub(crate) fn own_part(whole: &MatrixReport, cells: &[CellReport], of: PartOf) -> MatrixReport {
    let mut part = copy_of(whole, of);
    part.results.hosts.clear();
    part.results.find_knee = None;
    part.results.cells = cells.to_vec();
    part
}
