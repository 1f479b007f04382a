//! Resumes a matrix: the plan is made again from the options, and only the results are taken from
//! the saved report. Completed cells are not run again.
//!
//! On several hosts the leading process has the report; it tells the others what is complete, and
//! each resumes its own part.

use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use stormlp_core::facts::HostFacts;
use stormlp_core::report::{Head, ReportKind};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_matrix::plan::{MatrixPlan, MatrixReport, MatrixResults, NotTaken, take_measured};

use super::Prepared;
use super::finish::Run;
use crate::commands::deliver::Delivery;
use crate::commands::saved;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::party::Party;
use stormlp_hosts::savers::Savers;
use stormlp_hosts::session::Session;

/// A saved report to resume.
pub(crate) struct Saved {
    path: PathBuf,
    report: MatrixReport,
}

/// What is reused of a saved report: its start and tags, its warnings, and its cells.
type Taken = (Head, Vec<Warning>, MatrixResults);

impl Saved {
    /// Reads a saved report, which must have as many hosts as there are now.
    ///
    /// # Errors
    /// If it cannot be read, or belongs to another command or other hosts.
    pub(crate) fn read(path: &Path, party: &Party) -> Result<Self, Failure> {
        let path = saved::file(path);
        let AnyReport::Gds(report) = saved::of_kind(&path, ReportKind::Gds)? else {
            return Err(Failure::usage("--resume continues a report of `stormlp gds`"));
        };
        check_hosts(&path, &report, party)?;
        Ok(Self { path, report })
    }

    /// The part of it that belongs to `plan`.
    ///
    /// # Errors
    /// With exit code 3 if it is from another machine or another matrix.
    fn take(self, plan: &MatrixPlan, facts: &HostFacts, quiet: bool) -> Result<Taken, Failure> {
        let Self { path, report } = self;
        let there = &report.head.host;
        if facts.hostname != there.hostname {
            return Err(Failure::no_plan(anyhow::anyhow!(
                "{} was measured on {}, and this is {}: cells of two machines do not form a matrix",
                path.display(),
                there.hostname,
                facts.hostname
            ))
            .with_help("start a new matrix, and compare the two with --baseline"));
        }
        let changed = changed_since(there, facts);
        let (head, mut warnings) = (report.head.clone(), report.warnings.clone());
        let command = &head.command;
        let results = take_measured(plan, report).map_err(|why| {
            let (what, help) = match why {
                NotTaken::Another(difference) => (
                    format!("is from a different matrix: {difference}"),
                    format!(
                        "use the original options{} with --resume: `{command}`",
                        if command.contains("--results-dir") {
                            ", except --results-dir,"
                        } else {
                            ""
                        }
                    ),
                ),
                NotTaken::Damaged(what) => (
                    format!("is damaged: {what}"),
                    "run without --resume, which starts a new matrix".to_string(),
                ),
            };
            Failure::no_plan(anyhow::anyhow!("{} {what}", path.display())).with_help(help)
        })?;
        for warning in &changed {
            if !quiet {
                output::say(format!("warning: {warning}"));
            }
        }
        warnings.extend(changed);
        Ok((head, warnings, results))
    }
}

/// Resumes a run, which is saved at `path` again; `saved` is the report there, in the leading
/// process.
///
/// # Errors
/// With exit code 3 if it is from other machines or another matrix; all processes fail alike.
pub(super) fn go_on(
    path: &Path,
    saved: Option<Saved>,
    Prepared { plan, facts }: Prepared,
    party: &Party,
    delivery: &Delivery,
    session: &Session,
) -> Result<Run, Failure> {
    let taken = saved.map(|saved| saved.take(&plan, &facts, session.quiet));
    let taken = party.agree(taken.transpose())?;
    let (then, warnings, results) = party.from_first(&taken)?;
    let mut head = delivery.head(facts, session);
    head.started_at = then.started_at;
    for (key, value) in then.tags {
        head.tags.entry(key).or_insert(value);
    }
    let read = |path: &Path| match saved::any(path) {
        Ok(AnyReport::Gds(report)) => Some(report),
        _ => None,
    };
    let (savers, part) = Savers::resume(&saved::file(path), party, session, read)?;
    let own = part.and_then(|part| take_measured(&plan, part).ok());
    let mut own = own.map_or_else(Vec::new, |own| own.cells);
    // The other cells are measured again.
    own.retain(|one| results.of(one.cell).is_some());
    let mut report = MatrixReport::new(head, plan, results);
    report.warnings.clone_from(&report.plan.warnings);
    for warning in warnings {
        report.warn(warning);
    }
    Ok(Run { report, savers, own, resume_with: None })
}

/// Rejects a report of other hosts.
fn check_hosts(path: &Path, report: &MatrixReport, party: &Party) -> Result<(), Failure> {
    let shown = path.display();
    let refused = |what: String, help: &str| {
        Err(Failure::no_plan(anyhow::anyhow!("{shown} {what}")).with_help(help))
    };
    if let Some(part) = &report.head.part {
        return refused(
            format!("is the part of {} in a run of several hosts", part.host),
            match part.rank {
                Some(_) => "resume the report of the run, two folders above, under the launcher",
                None => "`stormlp report merge` shows what these hosts have; restart all of them",
            },
        );
    }
    let results = &report.results;
    let then: Vec<&str> = results.hosts.iter().map(|host| &*host.name).collect();
    let of = results.group.as_ref().map_or(then.len(), |group| group.size as usize);
    let (of, now) = (of.max(1), party.members().len().max(1));
    if of != now {
        let processes = |count: usize| match count {
            1 => "one process".to_string(),
            count => format!("{count} processes"),
        };
        return refused(
            format!(
                "was measured by {}, and this run has {}: their cells do not form a matrix",
                processes(of),
                processes(now)
            ),
            "resume it the way it was started, under the same launcher if there was one; or start \
             a new matrix",
        );
    }
    let names = party.names();
    let differ = then.iter().zip(&names).find(|(then, now)| *then != *now);
    if let (Some((then, now)), 2..) = (differ, of) {
        return refused(
            format!("was measured on {then}, but this run has {now} in its place"),
            "give the launcher the hosts in the original order, or start a new matrix",
        );
    }
    Ok(())
}

/// Differences between the machine that started a matrix and the one that resumes it: the cells
/// before and after are not comparable like those of one run.
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
                    "this matrix was started under {what} {before} and continued under {what} {now}"
                ),
                "start a new matrix to compare its cells with each other",
            )
        })
        .collect()
}
