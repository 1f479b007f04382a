//! Where the results of a checkpoint run go: the saved report, stdout, MLPerf's files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use stormlp_model::checkpoint::{CheckpointPlan, CheckpointReport};
use stormlp_report::checkpoint::{document, mlperf_summary, per_epoch_stats};
use stormlp_transfer::storage;

use super::args::{Format, OutputArgs};
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// The places results go to, made before the run so that a wrong one shows then.
#[derive(Debug)]
pub(super) struct Outputs {
    format: Format,
    report_path: PathBuf,
    mlperf: Option<PathBuf>,
}

impl Outputs {
    /// Makes the folders.
    ///
    /// # Errors
    /// With exit code 4 when one cannot be made.
    pub(super) fn open(
        args: &OutputArgs,
        plan: &CheckpointPlan,
        session: &Session,
    ) -> Result<Self, Failure> {
        if let Some(folder) = &args.mlperf_output {
            make(folder)?;
        }
        Ok(Self {
            format: args.format,
            report_path: report_folder(&args.results_dir, &plan.model, session)?
                .join("report.json"),
            mlperf: args.mlperf_output.clone(),
        })
    }

    /// Where the report is saved.
    pub(super) fn report_path(&self) -> &Path {
        &self.report_path
    }

    /// Saves the report, writes MLPerf's files and prints the result.
    ///
    /// # Errors
    /// When a file or stdout cannot be written.
    pub(super) fn write(&self, report: &CheckpointReport) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(report).context("a report is plain data")?;
        save(&self.report_path, &json)?;
        if let Some(folder) = &self.mlperf {
            let files = [
                ("summary.json", mlperf_summary(report)),
                ("0_per_epoch_stats.json", per_epoch_stats(report)),
            ];
            for (name, value) in files {
                let json = serde_json::to_string_pretty(&value).context("plain data")?;
                save(&folder.join(name), &json)?;
            }
        }
        match self.format {
            Format::Json => output::print(&json),
            Format::Text => output::show(&document(report)),
        }
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
        .map_err(Failure::machine)
}

fn save(path: &Path, json: &str) -> Result<(), Failure> {
    storage::write_atomically(path, json.as_bytes()).map_err(Failure::storage)
}

/// A new folder for the report, named after the model and the time.
fn report_folder(results: &Path, model: &str, session: &Session) -> Result<PathBuf, Failure> {
    make(results)?;
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let model: String = model.chars().map(safe).collect();
    let stem = format!("checkpoint-{model}-{}", session.file_stamp());
    for attempt in 1..1000 {
        let folder = match attempt {
            1 => results.join(&stem),
            again => results.join(format!("{stem}-{again}")),
        };
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let what = format!("cannot make the folder {}", folder.display());
                return Err(Failure::machine(anyhow::Error::new(error).context(what)));
            }
        }
    }
    Err(Failure::machine(anyhow::anyhow!(
        "{} is full of reports of this second",
        results.display()
    )))
}
