//! The words of the command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// The double that stands for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Double {
    /// A CUDA 12, which counts no routes.
    #[value(name = "12")]
    Cuda12,
    /// A CUDA 13.
    #[value(name = "13")]
    Cuda13,
}

/// Proves stormlp on this machine and writes a report; README.md in this folder says what it shows.
///
/// Exit codes: 0 everything holds; 1 something does not; 2 it could not start; 3 no check failed,
/// and the route of some cells is not proven, or there was no check.
#[derive(Debug, Parser)]
#[command(name = "accept", bin_name = "tests/gpu/accept/run")]
pub(crate) struct Options {
    /// Only `run` starts it.
    #[arg(long, hide = true)]
    accept: bool,
    /// Folder on the storage in question, with 3 GiB of free space
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "accept-report.md")]
    pub(crate) report: PathBuf,
    /// Only parts with this in their name
    #[arg(long, value_name = "WORDS")]
    pub(crate) only: Option<String>,
    /// All of it against a double: emulated, and named so
    #[arg(long)]
    pub(crate) without_gpu: bool,
    /// The CUDA of the double
    #[arg(long, value_name = "CUDA", default_value = "13", requires = "without_gpu")]
    pub(crate) double: Double,
    /// Folder of the programs; next to this one unless it is named
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
}

impl Options {
    /// The options among these words, of which the first is the program.
    ///
    /// # Errors
    /// When one is unknown, or help is asked for; or `--only` names none of these parts.
    pub(crate) fn of(words: &[String], parts: &[&str]) -> Result<Self, clap::Error> {
        let options = Self::try_parse_from(words)?;
        if !parts.iter().any(|part| options.takes(part)) {
            let only = options.only.as_deref().unwrap_or_default();
            return Err(clap::Error::raw(
                clap::error::ErrorKind::InvalidValue,
                format!(
                    "--only {only}: no part has that name; the parts are\n  {}\n",
                    parts.join("\n  ")
                ),
            ));
        }
        Ok(options)
    }

    /// Whether a part of this name is to run.
    pub(crate) fn takes(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only))
    }
}
