//! gdsio's command line: single-letter flags with attached or separate values.

use std::collections::HashMap;
use std::path::PathBuf;

use stormlp_core::location::folder_or_prefix;

use super::run::GdsioRun;
use crate::plan::request::JobTarget;

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
/// Names the flag that gdsio does not have, that is unsupported here, or that has an invalid value.
pub fn parse_args(args: &[String]) -> Result<GdsioArgs, String> {
    let (mut flags, job_files) = split(args)?;
    if flags.iter().any(|flag| flag.letter == 'h') {
        return Ok(GdsioArgs::Help);
    }
    match job_files.as_slice() {
        [] => {}
        [path] if flags.is_empty() => return Ok(GdsioArgs::JobFile(PathBuf::from(path))),
        [path] => {
            return Err(format!("a job file ({path}) and flags cannot be combined"));
        }
        [_, second, ..] => return Err(format!("`{second}`: a run accepts one job file")),
    }
    // With a single target, job options belong to it wherever they appear.
    if flags.iter().filter(|flag| flag.is_target()).count() == 1 {
        flags.sort_by_key(|flag| !flag.is_target());
    }
    check_repeats(&flags)?;
    let mut run = GdsioRun::default();
    for Flag { letter, value } in flags {
        let name = format!("job{}", run.request.jobs.len());
        match letter {
            'f' => run.add_job(name, JobTarget::File(folder_or_prefix(value)?)),
            'D' => run.add_job(name, JobTarget::Folder(folder_or_prefix(value)?)),
            _ => run.set(letter, &format!("-{letter}"), value)?,
        }
    }
    Ok(GdsioArgs::Run(Box::new(run)))
}

/// Splits the arguments into flags in their original order and other words.
fn split(args: &[String]) -> Result<(Vec<Flag<'_>>, Vec<&str>), String> {
    let (mut flags, mut others) = (Vec::new(), Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            others.push(arg.as_str());
            continue;
        };
        for (at, letter) in letters.char_indices() {
            if SWITCHES.contains(letter) {
                flags.push(Flag { letter, value: "1" });
            } else if VALUED.contains(letter) {
                let value = match &letters[at + letter.len_utf8()..] {
                    "" => (rest.next().map(String::as_str))
                        .ok_or_else(|| format!("`-{letter}` needs a value"))?,
                    behind => behind,
                };
                flags.push(Flag { letter, value });
                break;
            } else {
                return Err(format!("gdsio has no flag `{arg}`"));
            }
        }
    }
    Ok((flags, others))
}

/// Rejects an option given twice with different values, as one of them would be ignored. Job
/// options are exempt: all other options apply to the whole line.
fn check_repeats(flags: &[Flag<'_>]) -> Result<(), String> {
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
            'i' | 'o' => {
                "it applies to all jobs of a line; in a job file each section may have its \
                 io_size and start_offset, or run a line for each"
            }
            _ => "it applies to all jobs of a line; run a line for each",
        };
        let value = flag.value;
        return Err(format!("`-{letter} {value}` after `-{letter} {before}`: {advice}"));
    }
    Ok(())
}
