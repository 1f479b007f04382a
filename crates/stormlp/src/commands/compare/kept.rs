//! The folder of a comparison of two commands: its request, and the runs of every pair.
//!
//! ```text
//! compare-20261121-072500/request.json      what is compared
//!                         comparison.json   the answer so far
//!                         pair-01/baseline/   output and report of the baseline's run
//!                         pair-01/candidate/  of the candidate's
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use stormlp_core::failure::Failure;
use stormlp_core::mt19937::Mt19937;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::sequential::MOST_PAIRS;
use stormlp_core::units::counted;
use stormlp_hosts::session::Session;
use stormlp_transfer::storage::{self, Disk, Storage as _};

use crate::commands::saved::{self, Saved};
use crate::output;
use stormlp_hosts::saver::{new_folder, results_folder};

/// The sides of a comparison, the baseline first: their options and folders.
pub(super) const SIDES: [&str; 2] = ["baseline", "candidate"];

/// The file of a run's exit code, which is there once it has ended.
pub(super) const EXIT_CODE: &str = "exit-code";

/// The kind of comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    /// The commands of both [sides](SIDES).
    pub(super) commands: [String; 2],
    /// The commands before every run.
    pub(super) setup: Vec<String>,
    /// The names that the user gave the sides.
    pub(super) names: [Option<String>; 2],
    /// The smallest change that matters; `None` for each figure's default.
    pub(super) min_change_percent: Option<f64>,
    /// Whether the work may differ.
    pub(super) force: bool,
    /// The seed of the random order.
    pub(super) seed: u32,
    /// The folder in which the commands run.
    pub(super) folder: PathBuf,
}

impl Request {
    /// Whether the commands differ in options that decide on the work, so that it differs on
    /// purpose. Other programs or workloads are no option.
    pub(super) fn differs_in_options(&self) -> bool {
        let [run, against] = self.commands.each_ref().map(|command| options(command));
        run != against
    }

    /// The order within a pair, the first of which is 0. Two pairs are a block, in the order ABBA or
    /// BAAB at random: a steady drift of the machine cancels out in it.
    pub(super) fn order(&self, pair: usize) -> [usize; 2] {
        let mut random = Mt19937::new(self.seed);
        let mut draws = (0..=pair / 2).map(|_| random.next_u32().is_multiple_of(2));
        let baseline_first = draws.next_back().unwrap_or(true) == pair.is_multiple_of(2);
        if baseline_first { [0, 1] } else { [1, 0] }
    }

    /// Rejects commands with reports that would not be found.
    fn check(&self) -> Result<(), Failure> {
        for (command, side) in self.commands.iter().zip(SIDES) {
            let is_given =
                |option: &&str| command.split_whitespace().any(|word| word.starts_with(*option));
            if let Some(option) = ["--results-dir", "--dry-run"].into_iter().find(is_given) {
                let message = format!("--{side} has {option}, and its report is kept by compare");
                let help = format!("leave out {option} there; compare has --results-dir, too");
                return Err(Failure::usage(message).with_help(help));
            }
        }
        Ok(())
    }
}

/// Options that say where data and results are, and how these are shown. Commands that differ only
/// in them mean to do the same work.
const NOT_WORK: &str = "append d details dir file format o output q quiet results-dir tag";

/// The options of a command that decide on its work, with their values: `--name=value` is as
/// `--name value`.
fn options(command: &str) -> BTreeSet<(&str, &str)> {
    let mut words = command.split_whitespace().peekable();
    let mut options = BTreeSet::new();
    while let Some(word) = words.next() {
        let Some(word) = word.strip_prefix('-') else {
            continue;
        };
        let option = word.split_once('=').unwrap_or_else(|| {
            (word, words.next_if(|next| !next.starts_with('-')).unwrap_or_default())
        });
        if !NOT_WORK.split(' ').any(|name| name == option.0.trim_start_matches('-')) {
            options.insert(option);
        }
    }
    options
}

/// The folder of a comparison.
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it is.
    pub(super) place: PathBuf,
    pub(super) request: Request,
}

impl Folder {
    /// Creates the folder of a new comparison in `results`.
    ///
    /// # Errors
    /// With exit code 2 if a command leaves its report elsewhere, and 4 if the folder cannot be
    /// created.
    pub(super) fn create(
        results: Option<&Path>,
        request: Request,
        session: &Session,
    ) -> Result<Self, Failure> {
        request.check()?;
        let results = results.map_or_else(results_folder, Path::to_path_buf);
        let stem = format!("compare-{}", session.file_stamp());
        let (place, _) = new_folder(&results, &stem)?;
        let place = fs::canonicalize(&place).unwrap_or(place);
        let folder = Self { place, request };
        folder.write("request.json", &folder.request)?;
        Ok(folder)
    }

    /// The folder of an earlier comparison.
    ///
    /// # Errors
    /// With exit code 4 if it is not one.
    pub(super) fn resume(place: &Path) -> Result<Self, Failure> {
        let file = place.join("request.json");
        let help = "name the folder that `stormlp compare --baseline` printed";
        let request: Request = fs::read(&file)
            .map_err(anyhow::Error::new)
            .and_then(|json| Ok(serde_json::from_slice(&json)?))
            .with_context(|| format!("cannot read {}", file.display()))
            .map_err(|error| Failure::machine(error).with_help(help))?;
        request.check()?;
        if !Disk.is_folder(&request.folder)? {
            let folder = request.folder.display();
            let message = format!("the commands ran in {folder}, which is not there any more");
            let help = "mount or restore it, or start a new comparison";
            return Err(Failure::machine(anyhow::anyhow!(message)).with_help(help));
        }
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_path_buf());
        Ok(Self { place, request })
    }

    /// The folder of a side's run in a pair, the first of which is 0.
    pub(super) fn of_run(&self, pair: usize, side: usize) -> PathBuf {
        self.place.join(format!("pair-{:02}/{}", pair + 1, SIDES[side]))
    }

    /// The complete pairs from the first on. A pair that was cut off is kept under another name and
    /// measured again: only neighbours are a pair.
    ///
    /// # Errors
    /// If a report cannot be read, or a folder not be renamed.
    pub(super) fn pairs(&self) -> Result<Vec<[Saved; 2]>, Failure> {
        let mut pairs = Vec::new();
        while pairs.len() < MOST_PAIRS {
            let nth = pairs.len();
            let pair = self.place.join(format!("pair-{:02}", nth + 1));
            if !Disk.is_folder(&pair)? {
                break;
            }
            match self.pair(nth) {
                Ok(both) => pairs.push(both),
                // One that cannot be read may be complete.
                Err(failure) if failure.cause() != Cause::Plan => return Err(failure),
                Err(failure) => {
                    output::say(format!("measured again: {}", failure.note.fact));
                    let mut cut = (1..).map(|time| format!("{}-cut-{time}", pair.display()));
                    let free = cut.find(|name| !Path::new(name).exists()).unwrap_or_default();
                    fs::rename(&pair, free)
                        .with_context(|| format!("cannot rename {}", pair.display()))
                        .map_err(Failure::machine)?;
                    break;
                }
            }
        }
        Ok(pairs)
    }

    /// The complete reports of a pair.
    ///
    /// # Errors
    /// The errors of [`Self::report`].
    pub(super) fn pair(&self, pair: usize) -> Result<[Saved; 2], Failure> {
        Ok([self.report(pair, 0)?, self.report(pair, 1)?])
    }

    /// The complete report of a run.
    ///
    /// # Errors
    /// With exit code 3 if the command left none, several, or one that is not complete; with 4 or 5
    /// if it cannot be read.
    fn report(&self, pair: usize, side: usize) -> Result<Saved, Failure> {
        let folder = self.of_run(pair, side);
        let (command, name) = (&self.request.commands[side], SIDES[side]);
        let wrong = |what: &str| {
            let message = format!("--{name} left {what} in {}: {command}", folder.display());
            let help = "a command runs `stormlp gds`, `train` or `checkpoint` once, and leaves its \
                        report where STORMLP_RESULTS_DIR says";
            Failure::no_plan(anyhow::anyhow!(message)).with_help(help)
        };
        // A run that missed its target measured everything.
        let code = fs::read_to_string(folder.join(EXIT_CODE)).unwrap_or_default();
        if !["0", "6"].contains(&&*code) {
            return Err(wrong("a failed or unfinished run"));
        }
        let is_there = Disk.is_folder(&folder)?;
        let files = if is_there { saved::in_subfolders(&folder)? } else { Vec::new() };
        let file = match files.as_slice() {
            [] => return Err(wrong("no report")),
            [file] => file,
            several => return Err(wrong(&counted(several.len() as u64, "report"))),
        };
        let report = saved::any(file)?;
        if *report.ending() != Ending::Complete {
            return Err(wrong("an incomplete report"));
        }
        let name = file.strip_prefix(&self.place).unwrap_or(file).display().to_string();
        Ok((name, report))
    }

    /// Keeps a `value`, such as the answer so far.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub(super) fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        let path = self.place.join(name);
        let json = serde_json::to_vec_pretty(value).context("a comparison is plain data")?;
        storage::write_atomically(&path, &json)
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(Failure::machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_decide_on_the_work_differ_whatever_their_spelling() {
        let differ = |run: &str, against: &str| options(run) != options(against);
        for (run, against) in [
            ("stormlp gds --dir a --tag v=1", "stormlp gds --tag=v=2 --dir=b"),
            ("stormlp train unet3d -n 4 --quiet", "stormlp train resnet50 -n=4"),
            ("stormlp gds --output a.json --threads 2", "stormlp gds --threads=2"),
        ] {
            assert!(!differ(run, against), "{run}: {:?}, {:?}", options(run), options(against));
        }
        for (run, against) in [
            ("stormlp gds --threads 2", "stormlp gds --threads 4"),
            ("stormlp gds --path cpu --verify", "stormlp gds --path cpu"),
            ("sh fake 1", "sh fake 1 --io-size=4M"),
        ] {
            assert!(differ(run, against), "{run}: {:?}", options(run));
        }
    }

    #[test]
    fn blocks_of_two_pairs_are_balanced_and_begin_at_random() {
        let request = |seed| Request {
            commands: Default::default(),
            setup: Vec::new(),
            names: [None, None],
            min_change_percent: None,
            force: false,
            seed,
            folder: PathBuf::new(),
        };
        let mut first = 0;
        for seed in 0..100 {
            let request = request(seed);
            for block in 0..7 {
                assert_ne!(request.order(2 * block), request.order(2 * block + 1));
                assert_eq!(request.order(block), request.order(block));
                first += usize::from(request.order(2 * block)[0] == 0);
            }
        }
        assert!((280..420).contains(&first), "{first} of 700 blocks");
    }
}
