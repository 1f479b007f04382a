//! `stormlp workloads`: the built-in training workloads, and lookup of a workload by name.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use clap::Subcommand;
use stormlp_checkpoint::plan::builtin;
use stormlp_core::printable::printable;
use stormlp_core::profile::Profile;
use stormlp_core::units::ByteSize;
use stormlp_training::plan::catalog;
use stormlp_training::plan::catalog::{BuiltinWorkload, CATALOG};
use stormlp_training::plan::warnings::edition;
use stormlp_training::plan::workload::Workload;
use stormlp_training::show as training;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Disk, Kind, Reader, Storage as _};

use crate::output::{self, Format};
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Workload files are never larger; a device or a dataset named by mistake may be.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// Arguments of `stormlp workloads`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp workloads                           all built-in workloads and their storage demand
  stormlp workloads show unet3d > my.yaml     a template; then `stormlp train my.yaml`
  stormlp workloads --format json             for scripts")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Show>,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Show {
    /// Print a workload as YAML
    Show {
        /// Name of a workload, with or without its accelerator
        #[arg(value_name = "NAME")]
        name: String,

        /// Accelerator
        #[arg(long, value_name = "NAME")]
        accelerator: Option<String>,
    },
}

/// Lists the workloads, or prints one.
///
/// # Errors
/// With exit code 3 if the workload does not exist.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    if let Some(Show::Show { name, accelerator }) = &args.command {
        return output::print(built_in(name, accelerator.as_deref())?.yaml);
    }
    let workloads: Vec<Workload> = CATALOG
        .iter()
        .map(|entry| entry.workload(&[]))
        .collect::<Result<_, _>>()
        .context("a built-in workload is broken")
        .map_err(Failure::bug)?;
    args.format.print(workloads.as_slice(), training::workloads)
}

/// Warns if the edition of a workload is unknown: sizes and rounding depend on it.
pub(crate) fn tell_edition(workload: &Workload, asked: Option<Profile>, session: &Session) {
    if let Some(warning) = edition(workload, asked).filter(|_| !session.quiet) {
        output::say(format!("warning: {warning}"));
    }
}

fn built_in(name: &str, accelerator: Option<&str>) -> Result<&'static BuiltinWorkload, Failure> {
    catalog::find(name, accelerator).map_err(|error| {
        Failure::no_plan(error).with_help("`stormlp workloads` lists the built-in ones")
    })
}

/// Reads a small text file; a device or a dataset named by mistake is rejected.
///
/// # Errors
/// With exit code 4 if it cannot be read, 3 if it is too large or not text.
pub(crate) fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    read_bounded(path, what, MOST_FILE_BYTES)
}

/// Reads a regular text file of at most `most_bytes`.
///
/// # Errors
/// With exit code 4 if it cannot be read, 5 if its device failed, 3 if it is too large or not text.
pub(crate) fn read_bounded(path: &Path, what: &str, most_bytes: u64) -> Result<String, Failure> {
    let cannot = |error: TransferError| {
        let fact = format!("cannot read {what} {}: {}", path.display(), error.reason());
        let mut failure = Failure::from(error);
        failure.note.fact = printable(&fact).into_owned();
        failure
    };
    if Disk.look(path).map_err(cannot)?.is_some_and(|found| found.kind != Kind::File) {
        let error = anyhow::anyhow!("cannot read {what} {}: not a regular file", path.display());
        return Err(Failure::machine(error));
    }
    let mut bytes = Vec::new();
    Reader::open(&Disk, path)
        .and_then(|file| {
            let read = file.take(most_bytes + 1).read_to_end(&mut bytes);
            read.map_err(|source| TransferError::file("read", path, source))
        })
        .map_err(cannot)?;
    if bytes.len() as u64 > most_bytes {
        return Err(Failure::no_plan(anyhow::anyhow!(
            "cannot read {what} {}: larger than {}",
            path.display(),
            ByteSize(most_bytes)
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..at];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Failure::no_plan(anyhow::anyhow!(
            "cannot read {what} {}: byte {at} in line {line} is not valid UTF-8",
            path.display()
        ))
    })
}

/// What to do with the name of a training workload where a model of checkpoints is expected; `None`
/// if it is not one.
pub(crate) fn of_training(name: &str) -> Option<String> {
    let known = catalog::find(name, None).ok();
    known.map(|_| format!("{name} is a training workload: `stormlp train {name}` runs it"))
}

/// The workload called `name`: a built-in one, or a YAML file of MLPerf Storage or DLIO; `params`
/// override it.
///
/// # Errors
/// With exit code 3 if there is no such workload or its file is invalid, 4 if the file cannot be
/// read.
pub(crate) fn load(
    name: &str,
    accelerator: Option<&str>,
    params: &[String],
) -> Result<Workload, Failure> {
    let path = Path::new(name);
    let ends_in_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    if !ends_in_yaml && !name.contains('/') {
        if builtin::yaml(name).is_some() {
            let fact = anyhow::anyhow!("{name} is a model of checkpoints, not a training workload");
            return Err(Failure::no_plan(fact).with_help(format!(
                "`stormlp checkpoint {name}` runs it, and `stormlp plan unet3d --storage STORAGE \
                 --checkpoint {name}` predicts its times"
            )));
        }
        let entry = built_in(name, accelerator)?;
        return Ok(entry.workload(params)?);
    }
    let text = read_text(path, "workload file").map_err(|failure| {
        failure.with_help("`stormlp workloads show NAME` prints a workload to start from")
    })?;
    let workload = Workload::parse(&text, name, params)?;
    if workload.workflow.train && !workload.describes_dataset {
        let error = anyhow::anyhow!(
            "{name} has no `dataset`: how many files of which format and size are read"
        );
        return Err(Failure::no_plan(error)
            .with_help("`stormlp workloads show NAME` prints a complete workload to start from"));
    }
    let own = &workload.accelerator;
    if let Some(other) = accelerator.filter(|other| !other.eq_ignore_ascii_case(own)) {
        let fact = anyhow::anyhow!("{name} is for accelerator {own}, but --accelerator is {other}");
        return Err(Failure::no_plan(fact).with_help(format!(
            "--accelerator chooses among the built-in workloads; for a file set --params \
             stormlp.accelerator={other} and --compute-time"
        )));
    }
    Ok(workload)
}
