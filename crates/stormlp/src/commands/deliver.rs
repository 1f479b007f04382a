//! Delivery of results, common to all commands: the folder in which a result is saved after every
//! unit of work, stdout, exported files, and comparison with an earlier report.

mod file;
mod forms;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::any_report::AnyReport;
use anyhow::Context;
use clap::Args;
use stormlp_core::facts::HostFacts;
use stormlp_core::json;
use stormlp_core::location::names_object;
use stormlp_core::report::{Ending, Head, ReportKind};
use stormlp_core::tag::{self, Tag, Tags};
use stormlp_mlperf::official::OutputFile;
use stormlp_show::comparison::{Comparison, Named, Terms};
use stormlp_show::document::{Document, DryRun};
use stormlp_show::html::Sheet;
use stormlp_show::markdown;
use stormlp_transfer::storage::{Disk, Durability, Storage as _};

use super::idle::refuse;
use super::saved;
use crate::output;
use stormlp_core::failure::{Failure, Resolution};
use stormlp_hosts::peers::Peers;
use stormlp_hosts::saver::{Saver, results_folder};
use stormlp_hosts::session::Session;

pub(crate) use file::{check_folder, replace};
pub(crate) use forms::{ExportArgs, Format, Forms, Targets, formats_without, names_without};

/// Advice if the folder for MLPerf's files cannot be written.
const MLPERF_HELP: &str = "name a folder that you may write to: --mlperf-output DIR";

/// Output options of a report.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    targets: ExportArgs,

    /// Earlier report to compare with
    #[arg(long, value_name = "REPORT")]
    baseline: Option<PathBuf>,
}

/// Output options of a command that runs something.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    #[command(flatten)]
    show: ShowArgs,

    /// Folder for reports [default: $STORMLP_RESULTS_DIR, otherwise stormlp-results]
    #[arg(long, value_name = "DIR")]
    results_dir: Option<PathBuf>,

    /// Tag of the report; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    tag: Vec<Tag>,
}

/// The checked options: errors appear before the run.
#[derive(Debug)]
pub(crate) struct Delivery {
    kind: ReportKind,
    targets: Targets,
    baseline: Option<(String, AnyReport)>,
    results_dir: Option<PathBuf>,
    /// The saved report that the run continues.
    pub(crate) resumes: Option<PathBuf>,
    tags: Tags,
}

impl OutputArgs {
    /// Reads the baseline and checks that every export can be written.
    ///
    /// # Errors
    /// If an option has no effect, or a file cannot be used.
    pub(crate) fn open(self, kind: ReportKind) -> Result<Delivery, Failure> {
        let tags = tag::collect(&self.tag).map_err(Failure::usage)?;
        let delivery = self.show.delivery(kind, ExportArgs::open)?;
        Ok(Delivery { results_dir: self.results_dir, tags, ..delivery })
    }

    /// The result folders, including `other`, that are on the same file system as one of `data`.
    pub(crate) fn beside<'a>(
        &self,
        data: impl IntoIterator<Item = &'a Path>,
        other: Option<&Path>,
    ) -> Vec<PathBuf> {
        // Objects are on none.
        let data = data.into_iter().filter(|path| !names_object(path));
        let data: Vec<u64> = data.filter_map(file_system).collect();
        let results = self.results_dir.clone().unwrap_or_else(results_folder);
        let all = [Some(results), other.map(Path::to_path_buf)];
        let shared =
            |folder: &PathBuf| file_system(folder).is_some_and(|found| data.contains(&found));
        all.into_iter().flatten().filter(shared).collect()
    }

    /// Prints the plan of a run that may have problems, and ends as the run would.
    ///
    /// # Errors
    /// As [`Self::print_plan`], and with all problems.
    pub(crate) fn dry_run<P: serde::Serialize>(
        &self,
        resolution: Resolution<P>,
        closed: bool,
        document: impl FnOnce(&DryRun<'_, P>) -> Document,
    ) -> Result<(), Failure> {
        if let Some(plan) = resolution.shown() {
            let shown = DryRun { plan, problems: &resolution.problems };
            self.print_plan(&shown, closed, document)?;
        }
        let problems = resolution.problems;
        if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
    }

    /// Prints a plan instead of a result. For a `closed` one, the folder for results matters.
    ///
    /// # Errors
    /// If a plan does not have the format, or that folder has no effect.
    pub(crate) fn print_plan<T: serde::Serialize>(
        &self,
        plan: &T,
        closed: bool,
        document: impl FnOnce(&T) -> Document,
    ) -> Result<(), Failure> {
        refuse(&[("--results-dir", self.results_dir.is_some() && !closed)], "with --dry-run")?;
        match self.show.targets.format() {
            Format::Text => output::show(&document(plan)),
            Format::Markdown => output::print(&markdown::render(&document(plan))),
            Format::Json => output::print(&output::json(plan)?),
            _ => Err(Failure::usage(
                "a plan has the formats text, markdown and json: it contains no measurements",
            )),
        }
    }
}

/// The file system of a folder, which need not exist yet.
fn file_system(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let found = folder.ancestors().find_map(|part| fs::metadata(part).ok());
    found.map(|facts| facts.dev())
}

impl ShowArgs {
    /// Like [`OutputArgs::open`], for an existing report.
    pub(crate) fn open(self, kind: ReportKind) -> Result<Delivery, Failure> {
        self.delivery(kind, ExportArgs::open_saved)
    }

    fn delivery(
        self,
        kind: ReportKind,
        open: impl FnOnce(ExportArgs, &[&str]) -> Result<Targets, Failure>,
    ) -> Result<Delivery, Failure> {
        let columns_of_csv = crate::any_report::record_columns(kind);
        let targets = open(self.targets, &columns_of_csv)?;
        if targets.any(|format| format == Format::Gdsio) && kind != ReportKind::Gds {
            let name = kind.name();
            return Err(Failure::usage(format!(
                "gdsio's result lines are only for `stormlp gds`, not for `stormlp {name}`"
            )));
        }
        let is_compared = |format: Format| {
            matches!(format, Format::Text | Format::Markdown | Format::Html | Format::Json)
        };
        if self.baseline.is_some() && !targets.any(is_compared) {
            return Err(Failure::usage(
                "--baseline shows in --format text, json, markdown and html only",
            ));
        }
        let baseline = |path: &Path| {
            let file = saved::only(path)?;
            let name = file.display().to_string();
            saved::of_kind(&file, kind).map(|report| (name, report))
        };
        let baseline = self.baseline.as_deref().map(baseline).transpose()?;
        Ok(Delivery { baseline, ..Delivery::new(kind, targets) })
    }

    /// The same for something other than a single report of stormlp, `this`.
    pub(crate) fn open_other(self, this: &str) -> Result<Targets, Failure> {
        if self.baseline.is_some() {
            return Err(Failure::usage(format!("--baseline requires a single report, not {this}")));
        }
        self.targets.open_saved(&[])
    }
}

impl Delivery {
    fn new(kind: ReportKind, targets: Targets) -> Self {
        Self { kind, targets, baseline: None, results_dir: None, resumes: None, tags: Tags::new() }
    }

    /// The output of `stormlp gdsio`: its result line, and a line for each job with `-J`.
    pub(crate) fn gdsio(per_job: bool) -> Self {
        Self::new(ReportKind::Gds, Targets::gdsio(per_job))
    }

    /// The report head of a run that starts now.
    pub(crate) fn head(&self, facts: HostFacts, session: &Session) -> Head {
        let (command, started_at) = (Session::command_line().to_string(), session.started_at());
        let mut head = Head::new(self.kind, command, started_at, facts);
        head.tags.clone_from(&self.tags);
        head
    }

    /// The format of stdout.
    pub(crate) fn format(&self) -> Format {
        self.targets.format
    }

    /// Creates the folder in which the run called `name` is saved, unless it continues a report.
    ///
    /// # Errors
    /// The errors of [`Saver::create`].
    pub(crate) fn saver(
        &self,
        name: &str,
        peers: &Peers,
        session: &Session,
    ) -> Result<Saver, Failure> {
        match &self.resumes {
            Some(report) => Ok(Saver::resume(report, session)),
            None => {
                let name = format!("{}-{name}", self.kind.name());
                Saver::create(self.results_dir.as_deref(), &name, peers, session)
            }
        }
    }

    /// Saves the finished report, prints it and writes the exports in the leading process; then `outcome` says how the run went. Results are printed even if they cannot be
    /// saved.
    ///
    /// # Errors
    /// The error of `outcome`, or if an output could not be written.
    pub(crate) fn finish<R: serde::Serialize + Clone + Into<AnyReport>>(
        &self,
        saver: Saver,
        report: &R,
        session: &Session,
        outcome: impl FnOnce(Option<&Path>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match saver.finish(report) {
            Some(saved) => self.show(&report.clone().into(), saved, session, outcome),
            None => outcome(None),
        }
    }

    /// Shows a report that was `saved`.
    fn show(
        &self,
        report: &AnyReport,
        saved: Result<PathBuf, Failure>,
        session: &Session,
        outcome: impl FnOnce(Option<&Path>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (printed, exported) = self
            .with_forms(report, |forms| (self.targets.print(forms), self.targets.export(forms)));
        let printed = match &saved {
            Ok(path) => {
                let path = path.display();
                if !session.quiet {
                    output::say(format!("report: {path}"));
                }
                let shows = format!("`stormlp report show {path}` shows the result");
                output::or_warn(printed, shows);
                Ok(())
            }
            Err(_) => printed,
        };
        let outcome = outcome(saved.as_deref().ok());
        match (outcome, saved.map(drop).and(printed).and(exported)) {
            (outcome, Ok(())) => outcome,
            // Why the run failed matters more than that its report could not be saved.
            (Err(outcome), Err(unwritten)) if *report.ending() != Ending::Complete => {
                output::report(&unwritten);
                Err(outcome)
            }
            (_, Err(unwritten)) => Err(unwritten),
        }
    }

    /// Prints a saved report and writes the exports.
    ///
    /// # Errors
    /// If it shares no figure with the baseline, or stdout or a file cannot be written.
    pub(crate) fn write(&self, report: &AnyReport) -> Result<(), Failure> {
        if let Some(comparison) = self.comparison(report).filter(|one| one.figures.is_empty()) {
            let help = "name a --baseline that measured the same";
            return Err(Failure::no_plan(anyhow::anyhow!(comparison.sentence)).with_help(help));
        }
        self.with_forms(report, |forms| self.targets.deliver(forms))
    }

    /// Does something with a report in all formats.
    fn with_forms<T>(&self, report: &AnyReport, deliver: impl FnOnce(&Forms<'_>) -> T) -> T {
        let comparison = self.comparison(report);
        let mut document = report.document();
        if let Some(comparison) = &comparison {
            comparison.close(&mut document);
        }
        deliver(&Forms {
            json: &|| json(report, comparison.as_ref()),
            sheets: &|| vec![Sheet::new(&**report, document.clone())],
            documents: vec![document.clone()],
            reports: vec![report],
        })
    }

    /// The comparison with the baseline, if any.
    fn comparison(&self, report: &AnyReport) -> Option<Comparison> {
        let (name, baseline) = self.baseline.as_ref()?;
        let [then, now] = [(name.as_str(), baseline), ("this run", report)]
            .map(|(name, report)| [Named { name, report: &**report }]);
        Some(Comparison::of(&then, &now, Terms::default()))
    }
}

/// The report as saved, with its comparison.
fn json(report: &AnyReport, comparison: Option<&Comparison>) -> Result<String, Failure> {
    let mut value = serde_json::to_value(report).map_err(Failure::bug)?;
    if let Some(comparison) = comparison {
        value["comparison"] = serde_json::to_value(comparison).map_err(Failure::bug)?;
    }
    output::json(&json::sealed(&value, &report.head().integrity).map_err(Failure::bug)?)
}

/// Creates the folder of `--mlperf-output` before the run, so that errors appear early.
///
/// # Errors
/// With exit code 4 if it cannot be created.
pub(crate) fn make_mlperf_folder(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
        .map_err(|error| Failure::machine(error).with_help(MLPERF_HELP))
}

/// Writes the files for MLPerf's tools. `files` creates them from the names already taken: results
/// of another run are never overwritten.
pub(crate) fn write_mlperf(
    folder: &Path,
    files: impl FnOnce(&dyn Fn(&str) -> bool) -> Vec<OutputFile>,
) -> Result<(), Failure> {
    Disk.hold(folder);
    let taken = |name: &str| !matches!(Disk.look(&folder.join(name)), Ok(None));
    for file in files(&taken) {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        Disk.make_folder(parent)
            .and_then(|()| Disk.write(&path, file.content.as_ref(), Durability::Whole))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::machine(error).with_help(MLPERF_HELP))?;
    }
    output::wrote(folder);
    Ok(())
}
