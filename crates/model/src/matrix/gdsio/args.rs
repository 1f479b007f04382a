//! gdsio's command line: single letters, values beside or behind them.

use std::path::PathBuf;

use super::{GdsioError, GdsioJob, GdsioRun, Target, io_size, number, seconds, size, switch};
use crate::names::VariantArray;
use crate::operation::Operation;

/// What a gdsio command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum GdsioArgs {
    /// A run described by flags.
    Run(Box<GdsioRun>),
    /// A run described in a job file.
    JobFile(PathBuf),
    /// The help text.
    Help,
}

/// The flags that stand alone.
const SWITCHES: &str = "VURFbpJh";
/// The flags that take a value.
const VALUED: &str = "fDPdnmwsoixITkaMBO";

/// Reads the arguments after `gdsio`.
///
/// # Errors
/// Names the flag that gdsio does not have, that has no meaning here, or whose value is wrong.
pub fn parse_args(args: &[String]) -> Result<GdsioArgs, GdsioError> {
    let mut run = GdsioRun::default();
    let mut job_file = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            if job_file.replace(PathBuf::from(arg)).is_some() {
                return Err(GdsioError::Contradiction(format!(
                    "`{arg}`: a run takes one job file"
                )));
            }
            continue;
        };
        for (at, letter) in letters.char_indices() {
            let flag = format!("-{letter}");
            if SWITCHES.contains(letter) {
                if letter == 'h' {
                    return Ok(GdsioArgs::Help);
                }
                set_switch(&mut run, letter);
            } else if VALUED.contains(letter) {
                let behind = &letters[at + letter.len_utf8()..];
                let value = match behind {
                    "" => rest.next().ok_or(GdsioError::NoValue(flag.clone()))?,
                    behind => behind,
                };
                set_value(&mut run, &flag, value)?;
                break;
            } else {
                return Err(GdsioError::UnknownFlag(arg.clone()));
            }
        }
    }
    match job_file {
        Some(path) if run == GdsioRun::default() => Ok(GdsioArgs::JobFile(path)),
        Some(path) => Err(GdsioError::Contradiction(format!(
            "a job file ({}) and flags do not go together",
            path.display()
        ))),
        None => Ok(GdsioArgs::Run(Box::new(run))),
    }
}

fn set_switch(run: &mut GdsioRun, letter: char) {
    match letter {
        'V' => run.verify = true,
        'U' => run.unaligned = true,
        'F' => run.refill = true,
        'b' => run.skip_register = true,
        'p' => run.nvlinks = true,
        'J' => run.per_job = true,
        // `-R` asks for random content, which write buffers have anyway.
        _ => {}
    }
}

fn set_value(run: &mut GdsioRun, flag: &str, value: &str) -> Result<(), GdsioError> {
    let job_name = || format!("job{}", run.jobs.len());
    match flag {
        "-f" => {
            let target = Target::File(PathBuf::from(value));
            run.jobs.push(GdsioJob::new(job_name(), target));
        }
        "-D" => {
            let target = Target::Folder(PathBuf::from(value));
            run.jobs.push(GdsioJob::new(job_name(), target));
        }
        "-d" => last_job(run, flag)?.gpu = Some(number(flag, value)?),
        "-n" => last_job(run, flag)?.numa_node = Some(number(flag, value)?),
        "-w" => last_job(run, flag)?.workers = number(flag, value)?,
        "-m" => run.memory = number(flag, value)?,
        "-s" => run.size_bytes = Some(size(flag, value)?),
        "-o" => run.offset_bytes = size(flag, value)?,
        "-i" => run.io_size = io_size(flag, value)?,
        "-x" => run.transfer_type = number(flag, value)?,
        "-I" => run.op = operation(flag, value)?,
        "-T" => run.seconds = Some(seconds(flag, value)?),
        "-k" => run.seed = number(flag, value)?,
        "-a" => run.alignment_bytes = Some(size(flag, value)?),
        "-B" => run.batch = Some(number(flag, value)?),
        "-O" => run.buffered = switch(flag, value)?,
        "-M" => run.read_percent = Some(number(flag, value)?),
        _ => {
            return Err(refused(
                flag,
                "stormlp has no transfers over RDMA sockets; use -D or -f on a mounted file system",
            ));
        }
    }
    Ok(())
}

fn refused(name: &str, reason: &str) -> GdsioError {
    GdsioError::Refused {
        name: name.to_string(),
        reason: reason.to_string(),
    }
}

/// The job that a job option belongs to: the last one named.
fn last_job<'a>(run: &'a mut GdsioRun, flag: &str) -> Result<&'a mut GdsioJob, GdsioError> {
    run.jobs.last_mut().ok_or_else(|| {
        GdsioError::Contradiction(format!("`{flag}` belongs to a job: put it after -f or -D"))
    })
}

/// Reads one of gdsio's kinds of I/O.
pub(super) fn operation(name: &str, value: &str) -> Result<Operation, GdsioError> {
    let index: usize = number(name, value)?;
    Operation::VARIANTS
        .get(index)
        .copied()
        .ok_or_else(|| GdsioError::Value {
            name: name.to_string(),
            value: value.to_string(),
            fault: "gdsio has 0 (read), 1 (write), 2 (randread) and 3 (randwrite)".to_string(),
        })
}
