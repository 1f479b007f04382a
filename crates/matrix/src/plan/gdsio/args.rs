//! gdsio's command line: single-letter flags with attached or separate values.

use std::collections::HashMap;
use std::path::PathBuf;

use super::run::{GdsioError, GdsioJob, GdsioRun, io_size, number, seconds, size, switch};
use crate::plan::request::JobTarget;
use stormlp_core::names::VariantArray;
use stormlp_core::operation::Operation;

/// The parsed form of a gdsio command line.
#[derive(Debug, Clone, PartialEq)]
pub enum GdsioArgs {
    /// A run described by flags.
    Run(Box<GdsioRun>),
    /// A run described in a job file.
    JobFile(PathBuf),
    /// The help text.
    Help,
}

/// Flags without a value.
const SWITCHES: &str = "VURFbpJh";
/// Flags with a value.
const VALUED: &str = "fDPdnmwsoixITkaMBO";

struct Flag<'a> {
    letter: char,
    value: &'a str,
}

impl Flag<'_> {
    /// Whether the flag starts a new job.
    fn is_target(&self) -> bool {
        matches!(self.letter, 'f' | 'D')
    }
}

/// Parses the arguments after `gdsio`.
///
/// # Errors
/// Names the flag that gdsio does not have, that is unsupported here, or whose value is invalid.
pub fn parse_args(args: &[String]) -> Result<GdsioArgs, GdsioError> {
    let (mut flags, job_files) = split(args)?;
    if flags.iter().any(|flag| flag.letter == 'h') {
        return Ok(GdsioArgs::Help);
    }
    match job_files.as_slice() {
        [] => {}
        [path] if flags.is_empty() => return Ok(GdsioArgs::JobFile(PathBuf::from(path))),
        [path] => {
            return Err(GdsioError::Contradiction(format!(
                "a job file ({path}) and flags cannot be combined"
            )));
        }
        [_, second, ..] => {
            return Err(GdsioError::Contradiction(format!("`{second}`: a run takes one job file")));
        }
    }
    // With a single target, job options belong to it wherever they appear.
    if flags.iter().filter(|flag| flag.is_target()).count() == 1 {
        flags.sort_by_key(|flag| !flag.is_target());
    }
    check_repeats(&flags)?;
    let mut run = GdsioRun::default();
    for Flag { letter, value } in flags {
        if SWITCHES.contains(letter) {
            set_switch(&mut run, letter)
        } else {
            set_value(&mut run, &format!("-{letter}"), value)?
        }
    }
    Ok(GdsioArgs::Run(Box::new(run)))
}

/// Splits the arguments into flags in their original order and other words.
fn split(args: &[String]) -> Result<(Vec<Flag<'_>>, Vec<&str>), GdsioError> {
    let (mut flags, mut others) = (Vec::new(), Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            others.push(arg.as_str());
            continue;
        };
        for (at, letter) in letters.char_indices() {
            if SWITCHES.contains(letter) {
                flags.push(Flag { letter, value: "" });
            } else if VALUED.contains(letter) {
                let value = match &letters[at + letter.len_utf8()..] {
                    "" => (rest.next().map(String::as_str))
                        .ok_or_else(|| GdsioError::NoValue(format!("-{letter}")))?,
                    behind => behind,
                };
                flags.push(Flag { letter, value });
                break;
            } else {
                return Err(GdsioError::UnknownFlag(arg.clone()));
            }
        }
    }
    Ok((flags, others))
}

/// Rejects an option given twice with different values, as one of them would be ignored. Job
/// options are exempt: all others apply to the whole line.
fn check_repeats(flags: &[Flag<'_>]) -> Result<(), GdsioError> {
    let mut given: HashMap<(char, usize), &str> = HashMap::new();
    let mut job = 0;
    for flag in flags.iter().filter(|flag| VALUED.contains(flag.letter)) {
        let letter = flag.letter;
        let of_job = match letter {
            'f' | 'D' => {
                job += 1;
                continue;
            }
            'd' | 'n' | 'w' => job,
            _ => 0,
        };
        let before = given.insert((letter, of_job), flag.value);
        let Some(before) = before.filter(|before| *before != flag.value) else {
            continue;
        };
        let advice = match letter {
            'd' | 'n' | 'w' => "a job has one of it; name the other job's -f or -D before it",
            'i' => {
                "it applies to all jobs of a line; in a job file each section may have its \
                 io_size, \
                 or run a line for each"
            }
            'o' => {
                "it applies to all jobs of a line; in a job file each section may have its \
                 start_offset, or run a line for each"
            }
            _ => "it applies to all jobs of a line; run a line for each",
        };
        let value = flag.value;
        return Err(GdsioError::Contradiction(format!(
            "`-{letter} {value}` after `-{letter} {before}`: {advice}"
        )));
    }
    Ok(())
}

fn set_switch(run: &mut GdsioRun, letter: char) {
    match letter {
        'V' => run.verify = true,
        'U' => run.unaligned = true,
        'F' => run.refill = true,
        'b' => run.skip_register = true,
        'p' => run.nvlinks = true,
        'J' => run.per_job = true,
        // `-R` requests random content, which write buffers have anyway.
        _ => {}
    }
}

fn set_value(run: &mut GdsioRun, flag: &str, value: &str) -> Result<(), GdsioError> {
    let job_name = || format!("job{}", run.jobs.len());
    match flag {
        "-f" => {
            let target = JobTarget::File(PathBuf::from(value));
            run.jobs.push(GdsioJob::new(job_name(), target));
        }
        "-D" => {
            let target = JobTarget::Folder(PathBuf::from(value));
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
    GdsioError::Refused { name: name.to_string(), reason: reason.to_string() }
}

/// The job that a job option applies to: the last one named.
fn last_job<'a>(run: &'a mut GdsioRun, flag: &str) -> Result<&'a mut GdsioJob, GdsioError> {
    run.jobs.last_mut().ok_or_else(|| {
        GdsioError::Contradiction(format!(
            "`{flag}` belongs to a job: name its -f or -D; with several, put it after its own"
        ))
    })
}

/// Parses one of gdsio's kinds of I/O.
pub(super) fn operation(name: &str, value: &str) -> Result<Operation, GdsioError> {
    let index: usize = number(name, value)?;
    Operation::VARIANTS.get(index).copied().ok_or_else(|| GdsioError::Value {
        name: name.to_string(),
        value: value.to_string(),
        fault: "gdsio has 0 (read), 1 (write), 2 (randread) and 3 (randwrite)".to_string(),
    })
}
