//! `stormlp submission describe`: creates a template of a system description, or checks one.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use stormlp_mlperf::show as submission;
use stormlp_mlperf::submission::NOTICE;
use stormlp_mlperf::submission::system_yaml::{draft, faults};
use stormlp_transfer::probe;

use crate::commands::workloads::read_text;
use crate::output::{self, Format};
use stormlp_core::failure::Failure;

/// Arguments of `stormlp submission describe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission describe -o systems/fast.yaml
  stormlp submission describe --check systems/fast.yaml

Facts that only you know are marked FILL_IN. Exit code of --check: 6 if there are problems.")]
pub(crate) struct Args {
    /// Check this description
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    check: Option<PathBuf>,

    /// Output file, which must not exist [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Output format of --check
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "check")]
    format: Format,
}

/// Creates a description, or checks one.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(file) = &args.check {
        return check(file, args.format);
    }
    let text = draft(&probe::system_facts(), NOTICE);
    let Some(file) = &args.output else {
        return output::print(&text);
    };
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("cannot write {}", file.display()));
        Failure::machine(error).with_help("name a file that does not exist yet: --output FILE")
    })?;
    output::say(format!(
        "{} is written; replace FILL_IN, then check it with --check",
        file.display()
    ));
    Ok(())
}

fn check(file: &Path, format: Format) -> Result<(), Failure> {
    let found = faults(&read_text(file, "description of a system")?);
    match format {
        Format::Json => output::print(&output::json(&found)?)?,
        Format::Text => {
            output::print(&submission::system_faults(&found, &file.display().to_string()))?;
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let wrong = submission::count_of_faults(&found);
    Err(Failure::missed_target(format!("{}: {wrong}", file.display())))
}
