//! The tree of a rehearsal: the runs it contains, and what each new run adds.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;
use stormlp_transfer::error::TransferError;
use stormlp_transfer::storage::{Disk, Facts, Kind, Storage as _};

use crate::official::OutputFile;
use crate::show::{
    PROVENANCE, Rehearsal, RunInTree, checkpointing, too_long_a_gap, training, training_reports,
};

/// Folder, next to the tree, for runs that were interrupted while being written.
const CUT_OFF: &str = "rehearsal-cut-off";
/// No file of a run read here is nearly as large.
const MOST_BYTES: u64 = 16 << 20;

/// A rehearsed result, and the tree that it is in.
#[derive(Debug)]
pub struct RehearsedResult {
    /// The parent of the folder `rehearsal`.
    folder: PathBuf,
    rehearsal: Rehearsal,
    /// The complete runs of the result in the tree, in order.
    runs: Vec<RunInTree>,
    /// Files that were being written when stormlp was killed.
    cut_off: Vec<PathBuf>,
}

impl RehearsedResult {
    /// A tree that has no result at `place` yet, or whose result is resumed. The folders of the
    /// runs are in `runs` below the place.
    ///
    /// # Errors
    /// With exit code 4 if the result exists and is not resumed, or cannot be; with 4 or 5 if
    /// storage does not tell what exists.
    pub fn open(
        folder: PathBuf,
        rehearsal: Rehearsal,
        (place, runs): (&str, &str),
        resume: bool,
    ) -> Result<Self, Failure> {
        let at = folder.join(place);
        let mut tree = Self { folder, rehearsal, runs: Vec::new(), cut_off: Vec::new() };
        match (Disk.look(&at)?.is_some(), resume) {
            (false, _) => {}
            (true, true) => tree.take_up(&at, place, runs)?,
            (true, false) => {
                let what =
                    format!("{} already exists: it contains another rehearsal", at.display());
                return Err(Failure::saying(Cause::Machine, what).with_help(
                    "continue it with --resume if it was interrupted; otherwise remove it, or name \
                     another --tree or --system",
                ));
            }
        }
        Ok(tree)
    }

    /// The folder that contains the tree.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finds the existing runs of a result.
    fn take_up(&mut self, at: &Path, place: &str, below: &str) -> Result<(), Failure> {
        let (parent, place) = match below {
            "" => (at.to_path_buf(), place.to_string()),
            below => (at.join(below), format!("{place}/{below}")),
        };
        let entries = if Disk.is_folder(&parent)? { Disk.list(&parent)? } else { Vec::new() };
        for entry in entries.into_iter().filter(|entry| entry.is_folder() && !entry.facts.link) {
            let (run, name) = (parent.join(&entry.name), entry.name.to_string_lossy());
            match whole(&run, format!("{place}/{name}"))? {
                Some(whole) => self.runs.push(whole),
                None => self.cut_off.push(run),
            }
        }
        self.runs.sort_by(|a, b| a.folder.cmp(&b.folder));
        if self.runs.is_empty() {
            // What was written before the first run was complete is useless.
            self.cut_off = vec![at.to_path_buf()];
        }
        Ok(())
    }

    /// The number of the next run of `plan`; `None` if all exist.
    ///
    /// # Errors
    /// With exit code 3 if runs in the tree belong to another plan.
    pub fn next_run(&self, plan: &TrainPlan, host: &HostFacts) -> Result<Option<u32>, Failure> {
        for (number, run) in (1..).zip(&self.runs) {
            let at = self.folder.join(&run.folder);
            if run.number() != Some(number) {
                return Err(not_ours(&format!(
                    "{} is not run {number} of a rehearsal of this stormlp's",
                    at.display()
                )));
            }
            if let Some(differs) = run.differences(plan, host).first() {
                return Err(not_ours(&format!(
                    "{} is from a different rehearsal: {} was {}, and is now {}",
                    at.display(),
                    differs.setting,
                    differs.baseline,
                    differs.value
                ))
                .with_help(format!(
                    "use the original options with --resume: `{}`",
                    run.command()
                )));
            }
        }
        let there = self.runs.len() as u32;
        Ok((there < plan.runs).then_some(there + 1))
    }

    /// Warnings, for a report that starts at run `next`, about the runs before it.
    pub fn warnings(&self, next: u32, now_unix_seconds: f64) -> Vec<Warning> {
        let warn =
            |fact: String, advice: &str| Warning::new(WarningKind::NotComparable, fact, advice);
        let mut warnings = Vec::new();
        if next > 1 {
            let before = match next {
                2 => "run 1 was".to_string(),
                _ => format!("runs 1 to {} were", next - 1),
            };
            warnings.push(warn(
                format!(
                    "{before} measured by an earlier command: the figures only cover the others"
                ),
                "results.json in the tree has all of them",
            ));
        }
        let gap = too_long_a_gap(&self.runs, now_unix_seconds);
        warnings.extend(gap.map(|gap| warn(gap, "start again in another --tree to meet the rule")));
        warnings
    }

    /// Whether the one run of a checkpointing result exists; `now` is the command line.
    ///
    /// # Errors
    /// With exit code 3 if another command created it.
    pub fn has_checkpoints(&self, now: &str) -> Result<bool, Failure> {
        let Some(run) = self.runs.first() else {
            return Ok(false);
        };
        let plain = |command: &str| {
            let words = command.split(' ').filter(|word| *word != "--resume");
            words.skip(1).collect::<Vec<&str>>().join(" ")
        };
        if plain(run.command()) == plain(now) {
            Ok(true)
        } else {
            let at = self.folder.join(&run.folder);
            let (then, at) = (run.command(), at.display());
            let what = format!("{at} is from a different rehearsal: `{then}`");
            Err(not_ours(&what))
        }
    }

    /// Moves interrupted runs out of the tree, before the first run. `say` gets where each went.
    ///
    /// # Errors
    /// With exit code 4 if they cannot be moved.
    pub fn set_aside(&mut self, say: impl Fn(String)) -> Result<(), Failure> {
        for from in self.cut_off.drain(..) {
            let to = free_name(&self.folder.join(CUT_OFF), &from);
            let parent = to.parent().unwrap_or(&self.folder);
            let moved = fs::create_dir_all(parent).and_then(|()| fs::rename(&from, &to));
            moved.map_err(|error| {
                let (from, to) = (from.display(), to.display());
                let what = format!("cannot move {from}, which is incomplete, to {to}: {error}");
                Failure::saying(Cause::Machine, what)
                    .with_help("move it out of the tree, or name another --tree")
            })?;
            say(format!(
                "{} was incomplete and is moved to {}: it is run again",
                from.display(),
                to.display()
            ));
        }
        Ok(())
    }

    /// The files of completed runs of a report that the tree does not have yet, and all runs in the
    /// tree when they are written.
    pub fn training(
        &self,
        report: &TrainReport,
        workload: &Workload,
        taken: &dyn Fn(&str) -> bool,
    ) -> (Vec<OutputFile>, Vec<RunInTree>) {
        let data = report.plan.data.folder.as_ref().map(Location::folder);
        let separate = separate(data, &self.folder);
        let mut runs = self.runs.clone();
        let files = training(report, workload, &self.rehearsal, separate, &mut runs, taken);
        (files, runs)
    }

    /// Takes the runs of a result that are written.
    pub fn take(&mut self, runs: Vec<RunInTree>) {
        self.runs = runs;
    }

    /// The reports of a training result whose runs are all in the tree; the last may be missing.
    pub fn training_reports(&self, plan: &TrainPlan, host: &HostFacts) -> Vec<OutputFile> {
        training_reports(plan, &self.rehearsal, &host.stormlp_version, &self.runs)
    }

    /// The files of a checkpointing result; none unless it completed.
    pub fn checkpointing(
        &self,
        report: &CheckpointReport,
        taken: &dyn Fn(&str) -> bool,
    ) -> Vec<OutputFile> {
        if report.ending != Ending::Complete {
            return Vec::new();
        }
        let data = report.plan.request.folders.first().map(Location::folder);
        checkpointing(report, &self.rehearsal, separate(data, &self.folder), taken)
    }
}

fn not_ours(what: &str) -> Failure {
    Failure::saying(Cause::Plan, what).with_help(
        "leave out --resume, and name another --tree or --system, or remove the rehearsal",
    )
}

/// The run in a folder; `None` if it was interrupted while being written. One that cannot be read is
/// an error: it may be whole.
fn whole(at: &Path, folder: String) -> Result<Option<RunInTree>, Failure> {
    let (summary, provenance) =
        (json_in(&at.join("summary.json"))?, json_in(&at.join(PROVENANCE))?);
    let both = summary.zip(provenance);
    Ok(both.map(|(summary, provenance)| RunInTree { folder, summary, provenance }))
}

/// The content of a regular JSON file; `None` if there is none, or another content.
fn json_in(path: &Path) -> Result<Option<Value>, Failure> {
    let found = Disk.look(path)?;
    let is_usable =
        |file: &Facts| file.kind == Kind::File && !file.link && file.bytes <= MOST_BYTES;
    if !found.as_ref().is_some_and(is_usable) {
        return Ok(None);
    }
    let text = fs::read(path).map_err(|error| TransferError::file("read", path, error))?;
    Ok(serde_json::from_slice(&text).ok())
}

/// An unused name below `folder`, based on that of `of`.
fn free_name(folder: &Path, of: &Path) -> PathBuf {
    let name = of.file_name().unwrap_or_default().to_string_lossy();
    let names = (2u32..).map(|again| folder.join(format!("{name}-{again}")));
    let mut all = std::iter::once(folder.join(&*name)).chain(names);
    all.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| folder.join(&*name))
}

/// Whether data and results are on different file systems, if known.
fn separate(data: Option<&Path>, results: &Path) -> Option<bool> {
    let device = |path: &Path| Some(fs::metadata(path).ok()?.dev());
    Some(device(data?)? != device(results)?)
}
