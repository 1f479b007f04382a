//! Continuing a matrix: the plan is made anew from the options, and of the saved report only what
//! was measured is taken. Cells that are done are not run again.

use std::path::{Path, PathBuf};

use stormlp_model::facts::HostFacts;
use stormlp_model::matrix::{MatrixPlan, MatrixReport, NotTaken, take_measured};
use stormlp_model::report::{AnyReport, ReportKind};
use stormlp_model::warning::{Warning, WarningKind};

use super::finish::Run;
use crate::commands::deliver::{Delivery, Saver, Savers};
use crate::commands::saved;
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// A saved report that is to be gone on with.
pub(crate) struct Saved {
    path: PathBuf,
    report: MatrixReport,
}

impl Saved {
    /// Reads a saved report.
    ///
    /// # Errors
    /// When it cannot be read, or is another command's.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let path = saved::file(path);
        match saved::of_kind(&path, ReportKind::Gds)? {
            AnyReport::Gds(report) => Ok(Self { path, report }),
            _ => Err(Failure::usage(
                "--resume goes on with a report of `stormlp gds`",
            )),
        }
    }

    /// A run of `plan` that has already what was measured of it, and is saved in the same file.
    ///
    /// # Errors
    /// With exit code 3 when another machine measured it, or another matrix.
    pub(crate) fn resume(
        self,
        plan: MatrixPlan,
        facts: HostFacts,
        delivery: &Delivery,
        session: &Session,
    ) -> Result<Run, Failure> {
        let Self { path, report } = self;
        let there = &report.head.host;
        if facts.hostname != there.hostname {
            return Err(Failure::no_plan(anyhow::anyhow!(
                "{} was measured on {}, and this is {}: cells of two machines make no matrix",
                path.display(),
                there.hostname,
                facts.hostname
            ))
            .with_help("start a new matrix, and compare the two with --baseline"));
        }
        let changed = changed_since(there, &facts);
        let mut head = delivery.head(facts, session);
        head.started_at.clone_from(&report.head.started_at);
        for (key, value) in &report.head.tags {
            head.tags
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
        let (command, warnings) = (report.head.command.clone(), report.warnings.clone());
        let results = take_measured(&plan, report).map_err(|why| {
            let (what, help) = match why {
                NotTaken::Another(difference) => (
                    format!("is of another matrix: {difference}"),
                    format!(
                        "give the options that it was begun with beside --resume; it says \
                         `{command}`"
                    ),
                ),
                NotTaken::Damaged(what) => (
                    format!("is damaged: {what}"),
                    "run without --resume, which starts a new matrix".to_string(),
                ),
            };
            Failure::no_plan(anyhow::anyhow!("{} {what}", path.display())).with_help(help)
        })?;
        let mut resumed = MatrixReport::new(head, plan, results);
        resumed.warnings.clone_from(&resumed.plan.warnings);
        for warning in warnings {
            resumed.warn(warning);
        }
        for warning in changed {
            if !session.quiet {
                output::say(format!("warning: {warning}"));
            }
            resumed.warn(warning);
        }
        Ok(Run {
            report: resumed,
            savers: Savers::alone(Saver::resume(&path)),
            resume_with: Some(session.command_line()),
        })
    }
}

/// What differs between the machine that began a matrix and the one that goes on with it: the
/// cells of before and after do not compare as those of one run do.
fn changed_since(there: &HostFacts, here: &HostFacts) -> Vec<Warning> {
    let differences = [
        ("Linux", &there.kernel, &here.kernel),
        ("stormlp", &there.stormlp_version, &here.stormlp_version),
    ];
    (differences.into_iter())
        .filter(|(_, before, now)| before != now)
        .map(|(what, before, now)| {
            Warning::new(
                WarningKind::NotComparable,
                format!(
                    "this matrix was begun under {what} {before} and continued under {what} {now}"
                ),
                "start a new matrix to compare its cells with each other",
            )
        })
        .collect()
}
