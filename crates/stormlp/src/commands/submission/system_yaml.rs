//! `stormlp submission system-yaml`: creates a template of a system description, or checks one.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use stormlp_core::units::counted;
use stormlp_mlperf::submission::NOTICE;
use stormlp_mlperf::submission::system_yaml::{draft, faults};
use stormlp_transfer::probe;

use crate::commands::workloads::read_text;
use crate::output;
use stormlp_core::failure::Failure;

/// Arguments of `stormlp submission system-yaml`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp submission system-yaml                            a draft with this machine as the client
  stormlp submission system-yaml --output systems/fast.yaml
  stormlp submission system-yaml --check systems/fast.yaml  remaining problems, by field and line

The fields are those of MLPerf Storage v3.0. What only you know is marked FILL_IN. With --check,
exit code 0 if there are no problems, 6 if there are.")]
pub(crate) struct Args {
    /// Check this description instead of creating one
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    check: Option<PathBuf>,

    /// Output file; existing files are not overwritten [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// With --check, print JSON for scripts
    #[arg(long, requires = "check")]
    json: bool,
}

/// Creates a description, or checks one.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(file) = &args.check {
        return check(file, args.json);
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

/// `1 field is`, `2 fields are`.
fn are(fields: u64) -> String {
    let verb = if fields == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(fields, "field"))
}

fn check(file: &Path, json: bool) -> Result<(), Failure> {
    let found = faults(&read_text(file, "description of a system")?);
    if json {
        output::print(&output::json(&found)?)?;
    } else if found.is_empty() {
        output::print(&format!("{}: no problems", file.display()))?;
    } else {
        let lines = found.iter().map(|fault| {
            let line = fault.line.map_or(String::new(), |line| format!(":{line}"));
            let field = match fault.field.as_str() {
                "" => String::new(),
                field => format!("{field}: "),
            };
            format!("{}{line}: {field}{}", file.display(), fault.message)
        });
        output::print(&lines.collect::<Vec<String>>().join("\n"))?;
    }
    if found.is_empty() {
        return Ok(());
    }
    let blank = found.iter().filter(|fault| fault.is_blank).count() as u64;
    let wrong = found.len() as u64 - blank;
    let words = match (wrong, blank) {
        (wrong, 0) => format!("{} wrong", are(wrong)),
        (0, blank) => format!("{} not filled in", are(blank)),
        (wrong, blank) => format!("{} wrong, and {} not filled in", are(wrong), are(blank)),
    };
    Err(Failure::missed_target(format!("{}: {words}", file.display())))
}
