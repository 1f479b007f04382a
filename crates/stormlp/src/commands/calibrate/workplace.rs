//! The folder in which a calibration works, and the commands that it runs there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::Context as _;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::shell::shell_word;
use stormlp_hosts::session::Session;
use stormlp_transfer::storage::FolderLock;
use stormlp_transfer::telemetry::CpuTimes;

use crate::commands::process;
use crate::output;

/// A separate folder for all files of trials; removed when dropped.
pub(super) struct Workplace<'a> {
    folder: PathBuf,
    session: &'a Session,
    _lock: FolderLock,
}

impl Drop for Workplace<'_> {
    fn drop(&mut self) {
        // Leftovers are in a folder with a telling name.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> Workplace<'a> {
    /// A new folder inside `dir`, in place of the one that a killed calibration left.
    pub(super) fn inside(dir: &Path, session: &'a Session) -> Result<Self, Failure> {
        let cannot = || format!("cannot make the folder {FOLDER} in {}", dir.display());
        // The trials run in separate folders.
        let dir = dir.canonicalize().with_context(cannot).map_err(not_made)?;
        let folder = dir.join(FOLDER);
        let lock = || FolderLock::take(&folder).map_err(|error| not_made(error.into()));
        if folder.join(OWN).is_file() {
            let _held = lock()?;
            fs::remove_dir_all(&folder).map_err(|error| not_made(error.into()))?;
        }
        // One without the file is of a calibration that was killed before it had one, if it is empty.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder).with_context(cannot).map_err(not_made)?;
        fs::write(folder.join(OWN), "").with_context(cannot).map_err(not_made)?;
        let work = Self { _lock: lock()?, folder, session };
        work.say(&format!("the trials run in {}", work.folder.display()));
        Ok(work)
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn say(&self, line: &str) {
        if !self.session.quiet {
            output::say(line);
        }
    }

    /// Runs `words`; its output lies in the folder.
    pub(super) fn start(
        &self,
        words: &[String],
        variables: &[(&str, OsString)],
    ) -> Result<ExitStatus, Failure> {
        let command: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        let place = (Path::new("."), variables);
        let ended = process::run(&command.join(" "), place, &self.folder, &self.session.stop);
        let status = ended.map_err(|error| not_made(error.into()))?;
        if self.session.stop.is_stopped() {
            return Err(Failure::stopped("stopped by the user"));
        }
        Ok(status)
    }

    /// Runs `words`, which must succeed or miss a target. The CPU seconds of all its processes.
    pub(super) fn run(
        &self,
        words: &[String],
        variables: &[(&str, OsString)],
    ) -> Result<f64, Failure> {
        let before = CpuTimes::of_children();
        let status = self.start(words, variables)?;
        if !status.success() && status.code() != Some(Cause::MissedTarget.exit_code().into()) {
            let named: Vec<_> =
                words.iter().take(NAMED_WORDS).map(|word| shell_word(word)).collect();
            let of_storage = status.code() == Some(Cause::Storage.exit_code().into());
            let cause = if of_storage { Cause::Storage } else { Cause::Machine };
            let said = self.last_words().unwrap_or_default();
            let what = format!("`{} …` ended with {status}: {said}", named.join(" "));
            return Err(Failure::saying(cause, what));
        }
        Ok(CpuTimes::of_children().since(before).total_seconds())
    }

    /// Runs this program with `words` and `options`, as [`Self::run`].
    pub(super) fn own(&self, words: &[String], options: &str) -> Result<f64, Failure> {
        let program = self.session.executable()?.display().to_string();
        let results = format!("--results-dir={}", self.path("results").display());
        let options = options.split_whitespace().map(str::to_string);
        let words: Vec<String> =
            [program].into_iter().chain(words.to_vec()).chain(options).collect();
        match words[1].as_str() {
            "datagen" => self.run(&words, &[]),
            _ => self.run(&[words, vec![results, "--quiet".to_string()]].concat(), &[]),
        }
    }

    /// The last words of the last command.
    pub(super) fn last_words(&self) -> Option<String> {
        process::last_words(&self.folder)
    }
}

/// The name of the folder.
const FOLDER: &str = "stormlp-calibrate";
/// The file that makes it one: the lock is in folders of other commands, too.
const OWN: &str = ".stormlp-calibrate";
/// A command is named by its first words: its options fill a screen.
const NAMED_WORDS: usize = 3;

pub(super) fn not_made(error: anyhow::Error) -> Failure {
    Failure::machine(error).with_help("name a folder that you may write to with --dir")
}
