//! The folder of a comparison of two commands: its request, and the runs of every pair.
//!
//! ```text
//! compare-20261121-072500/request.json      what is compared
//!                         comparison.json   the answer so far
//!                         pair-01/run/      output and report of the baseline's run
//!                         pair-01/against/  of the other's
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use stormlp_core::failure::Failure;
use stormlp_core::mt19937::Mt19937;
use stormlp_core::note::Cause;
use stormlp_core::sequential::MOST_PAIRS;
use stormlp_core::units::counted;
use stormlp_hosts::session::Session;
use stormlp_show::comparison::Comparison;
use stormlp_transfer::storage::{self, Disk, Storage as _};

use super::Saved;
use crate::cli::VERSION;
use crate::commands::saved;
use crate::hosts::hostname;
use crate::output;
use stormlp_hosts::saver::{new_folder, results_folder};

/// What is compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    /// The command of the baseline.
    pub(super) run: String,
    /// The command that is compared with it.
    pub(super) against: String,
    /// The commands before every run.
    pub(super) setup: Vec<String>,
    /// The least change that matters; `None` for that of each figure.
    pub(super) effect_percent: Option<f64>,
    /// Whether the work may differ.
    pub(super) force: bool,
    /// The seed of the random order.
    pub(super) seed: u32,
    /// When the comparison started, RFC 3339 in UTC.
    pub(super) started_at: String,
    /// The folder in which the commands run.
    pub(super) folder: PathBuf,
    /// The host and the stormlp that started the comparison.
    pub(super) hostname: String,
    pub(super) version: String,
}

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The baseline: `--run`.
    Run,
    /// The other: `--against`.
    Against,
}

impl Side {
    /// Its option and folder.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Against => "against",
        }
    }
}

impl Request {
    /// A request that starts now, without commands.
    pub(super) fn new(session: &Session) -> Self {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            run: String::new(),
            against: String::new(),
            setup: Vec::new(),
            effect_percent: None,
            force: false,
            seed: clock.map_or(0, |since| since.subsec_nanos()),
            started_at: session.started_at(),
            folder: std::env::current_dir().unwrap_or_else(|_| ".".into()),
            hostname: hostname(),
            version: VERSION.to_string(),
        }
    }

    /// Warns if what runs now is not what ran before.
    fn warn_of_changes(&self) {
        let (host, version) = (hostname(), VERSION.to_string());
        for (what, then, now) in
            [("host", &self.hostname, &host), ("stormlp version", &self.version, &version)]
        {
            if then != now {
                output::say(format!(
                    "warning: the pairs so far are of {what} {then}, and this is {now}: start a new \
                     comparison unless both do the same"
                ));
            }
        }
    }

    /// The command of a side.
    pub(super) fn command(&self, side: Side) -> &str {
        match side {
            Side::Run => &self.run,
            Side::Against => &self.against,
        }
    }

    /// Whether the commands differ in options that decide on the work, so that it differs on
    /// purpose. Other programs or workloads are no option.
    pub(super) fn differs_in_options(&self) -> bool {
        let [run, against] = [&self.run, &self.against].map(|command| options(command));
        run != against
    }

    /// The order within a pair, the first of which is 0. Two pairs are a block, in the order ABBA or
    /// BAAB at random: a steady drift of the machine cancels out in it.
    pub(super) fn order(&self, pair: usize) -> [Side; 2] {
        let mut random = Mt19937::new(self.seed);
        let mut draws = (0..=pair / 2).map(|_| random.next_u32().is_multiple_of(2));
        let baseline_first = draws.next_back().unwrap_or(true) == pair.is_multiple_of(2);
        if baseline_first { [Side::Run, Side::Against] } else { [Side::Against, Side::Run] }
    }

    /// Rejects commands whose report would not be found.
    fn check(&self) -> Result<(), Failure> {
        for side in [Side::Run, Side::Against] {
            let command = self.command(side);
            let given =
                |option: &&str| command.split_whitespace().any(|word| word.starts_with(*option));
            if let Some(option) = ["--results-dir", "--dry-run"].iter().find(|option| given(option))
            {
                let name = side.name();
                let message = format!("--{name} has {option}, and its report is kept by compare");
                let help = format!("leave out {option} there; compare has --results-dir, too");
                return Err(Failure::usage(message).with_help(help));
            }
        }
        Ok(())
    }
}

/// Options that say where data and results are, and how these are shown. Commands that differ only
/// in them mean to do the same work.
const NOT_WORK: [&str; 11] = [
    "columns",
    "data-dir",
    "details",
    "dir",
    "export",
    "file",
    "format",
    "output",
    "quiet",
    "results-dir",
    "tag",
];

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
        if !NOT_WORK.contains(&option.0.trim_start_matches('-')) {
            options.insert(option);
        }
    }
    options
}

/// The folder of a comparison.
#[derive(Debug)]
pub(super) struct Folder {
    place: PathBuf,
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
        let help = "name the folder that `stormlp compare --run` printed";
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
        request.warn_of_changes();
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_path_buf());
        Ok(Self { place, request })
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The folder of a side's run in a pair, the first of which is 0.
    pub(super) fn of_run(&self, pair: usize, side: Side) -> PathBuf {
        self.of_pair(pair).join(side.name())
    }

    fn of_pair(&self, pair: usize) -> PathBuf {
        self.place.join(format!("pair-{:02}", pair + 1))
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
            let pair = self.of_pair(nth);
            if !Disk.is_folder(&pair)? {
                break;
            }
            let both = self.report(nth, Side::Run);
            match both.and_then(|run| Ok([run, self.report(nth, Side::Against)?])) {
                Ok(both) => pairs.push(both),
                // One that cannot be read may be complete.
                Err(failure) if failure.cause() != Cause::Plan => return Err(failure),
                Err(_) => {
                    self.set_aside(&pair)?;
                    break;
                }
            }
        }
        Ok(pairs)
    }

    fn set_aside(&self, pair: &Path) -> Result<(), Failure> {
        let name = |nth: u32| {
            let mut name = pair.as_os_str().to_os_string();
            name.push(format!("-cut-{nth}"));
            PathBuf::from(name)
        };
        let mut nth = 1;
        while Disk.look(&name(nth))?.is_some() {
            nth += 1;
        }
        fs::rename(pair, name(nth))
            .with_context(|| format!("cannot rename {}", pair.display()))
            .map_err(Failure::machine)
    }

    /// The complete report of a run.
    ///
    /// # Errors
    /// With exit code 3 if the command left none, several, or one that is not complete; with 4 or 5
    /// if it cannot be read.
    pub(super) fn report(&self, pair: usize, side: Side) -> Result<Saved, Failure> {
        let folder = self.of_run(pair, side);
        let command = self.request.command(side);
        let wrong = |what: &str| {
            let message =
                format!("--{} left {what} in {}: {command}", side.name(), folder.display());
            let help = "a command runs `stormlp gds`, `train` or `checkpoint` once, and leaves its \
                        report where STORMLP_RESULTS_DIR says";
            Failure::no_plan(anyhow::anyhow!(message)).with_help(help)
        };
        let is_there = Disk.is_folder(&folder)?;
        let files = if is_there { saved::in_subfolders(&folder)? } else { Vec::new() };
        let file = match files.as_slice() {
            [] => return Err(wrong("no report")),
            [file] => file,
            several => return Err(wrong(&counted(several.len() as u64, "report"))),
        };
        let report = saved::any(file)?;
        if *report.ending() != stormlp_core::report::Ending::Complete {
            return Err(wrong("an incomplete report"));
        }
        let name = file.strip_prefix(&self.place).unwrap_or(file).display().to_string();
        Ok((name, report))
    }

    /// Keeps the answer so far.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub(super) fn keep(&self, comparison: &Comparison) -> Result<(), Failure> {
        self.write("comparison.json", comparison)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
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
            ("stormlp gds --export a.json --threads 2", "stormlp gds --threads=2"),
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
            run: String::new(),
            against: String::new(),
            setup: Vec::new(),
            effect_percent: None,
            force: false,
            seed,
            started_at: String::new(),
            folder: PathBuf::new(),
            hostname: String::new(),
            version: String::new(),
        };
        let mut first = 0;
        for seed in 0..100 {
            let request = request(seed);
            for block in 0..7 {
                assert_ne!(request.order(2 * block), request.order(2 * block + 1));
                assert_eq!(request.order(block), request.order(block));
                first += usize::from(request.order(2 * block)[0] == Side::Run);
            }
        }
        assert!((280..420).contains(&first), "{first} of 700 blocks");
    }
}
