//! `stormlp calibrate-dlio`: measures what DLIO itself costs on this host, for `--client-overhead FILE`.

mod client;
mod dlio;
mod trials;
mod workplace;

use std::path::{Path, PathBuf};

use rustix::system::sysinfo;
use stormlp_core::failure::Failure;
use stormlp_dataset::section::DataFormat;
use stormlp_hosts::session::Session;
use stormlp_training::plan::calibration::{Calibration, CheckpointCost, FORMAT_VERSION, FORMATS};
use stormlp_training::show as training;

use crate::commands::deliver::{check_folder, replace};
use crate::output::{self, Format};

pub(crate) use client::{calibrated, calibrated_checkpoints};

/// Arguments of `stormlp calibrate-dlio`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp calibrate-dlio           all formats, with the DLIO of python3
  stormlp calibrate-dlio --dlio ~/dlio_benchmark --formats npz
  stormlp train unet3d --client-overhead dlio-calibration.json
                                   then predicts the result of DLIO

Each format needs about two minutes on an idle host, and 1.3 GB in --dir, which
are deleted at the end.")]
pub(crate) struct Args {
    /// Source tree of DLIO [default: the one that PYTHON imports]
    #[arg(long, value_name = "TREE")]
    dlio: Option<PathBuf>,

    /// Python interpreter with DLIO's requirements
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    python: PathBuf,

    /// Formats to measure [default: npz,tfrecord,hdf5,csv,jpeg]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = measurable)]
    formats: Vec<DataFormat>,

    /// Do not measure checkpoints
    #[arg(long)]
    no_checkpoint: bool,

    /// Folder for temporary datasets, on a local disk
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// File for the result
    #[arg(short, long, value_name = "FILE", default_value = "dlio-calibration.json")]
    output: PathBuf,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measures the costs and saves them.
///
/// # Errors
/// With exit code 4 if DLIO does not run here.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let formats = if args.formats.is_empty() { FORMATS.to_vec() } else { args.formats };
    check_folder("--output", &args.output)?;
    if args.output.is_dir() {
        return Err(Failure::usage("--output names a folder: name a file in it"));
    }
    let facts = session.host_facts(None)?;
    // In units of 2^-16.
    let load_before = sysinfo().loads[0] as f64 / 65_536.0;
    let work = workplace::Workplace::inside(&args.dir, session)?;
    let dlio = dlio::Dlio::found(args.python, args.dlio.as_deref(), &work)?;
    let mut calibration = Calibration {
        calibration_version: FORMAT_VERSION,
        started_at: session.started_at(),
        hostname: facts.hostname,
        cpu_model: facts.cpu_model,
        cpus: facts.cpus,
        load_before,
        client: dlio.description.clone(),
        formats: Vec::with_capacity(formats.len()),
        checkpoint: None,
    };
    for format in formats {
        calibration.formats.push(trials::format(format, &dlio, &work)?);
        // Measurements are not lost if a later trial fails.
        save(&args.output, &calibration)?;
    }
    if !args.no_checkpoint {
        work.say("checkpoints: two saves and two restores of 448 MiB, by DLIO and by stormlp");
        let client = dlio.checkpoint(&work)?;
        let own = trials::own_checkpoint(&work)?;
        calibration.checkpoint = Some(CheckpointCost { client, own });
        save(&args.output, &calibration)?;
    }
    args.format.print(&calibration, training::calibration)?;
    if !session.quiet {
        output::say(format!(
            "saved: {0}; use it with --client-overhead {0}",
            args.output.display()
        ));
    }
    Ok(())
}

/// The format of this name, if its cost is measured.
fn measurable(name: &str) -> Result<DataFormat, String> {
    let found = FORMATS.into_iter().find(|format| format.name() == name);
    found.ok_or_else(|| {
        let names = FORMATS.map(DataFormat::name).join(", ");
        format!("the cost of `{name}` is not measured; use {names}")
    })
}

fn save(file: &Path, calibration: &Calibration) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(calibration).map_err(Failure::bug)?;
    // No run would read one with figures that cannot be.
    Calibration::parse(&json).map_err(|why| {
        Failure::machine(anyhow::anyhow!("DLIO's figures cannot be used: {why}; none was saved"))
            .with_help("run DLIO by hand: its reports have rates of zero, or none")
    })?;
    replace("--output", file, &json)
}
