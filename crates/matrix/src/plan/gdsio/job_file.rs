//! gdsio's job files: one `[global]` section, any number of jobs, `$NAME` in values.

use std::collections::HashMap;
use std::path::PathBuf;

use super::args;
use super::run::{GdsioError, GdsioJob, GdsioRun, io_size, number, seconds, size, switch};
use crate::plan::request::JobTarget;

/// A partially parsed job; complete once its target is known.
struct Draft {
    job: GdsioJob,
    has_target: bool,
    line: usize,
}

/// Parses a job file; `environment` resolves the variables in its values.
///
/// # Errors
/// Names the line, the unknown or unsupported key, the invalid value, or the unset variable.
pub fn parse_job_file(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(String, GdsioRun), GdsioError> {
    let mut run = GdsioRun::default();
    let mut name = "gdsio".to_string();
    let mut drafts: Vec<Draft> = Vec::new();
    let mut in_global = None;
    let mut given: HashMap<(usize, String), String> = HashMap::new();
    let mut section = 0;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let content = raw.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        if let Some(name_of_section) = content.strip_prefix('[').and_then(|c| c.strip_suffix(']')) {
            in_global = Some(name_of_section == "global");
            if name_of_section != "global" {
                section += 1;
                let target = JobTarget::Folder(PathBuf::new());
                drafts.push(Draft {
                    job: GdsioJob::new(name_of_section.to_string(), target),
                    has_target: false,
                    line,
                });
            }
            continue;
        }
        let (key, value) = content.split_once('=').ok_or_else(|| GdsioError::Line {
            line,
            fault: format!("`{content}` is neither a section, nor key=value, nor a comment"),
        })?;
        let (key, value) = (key.trim(), expand(value.trim(), environment, line)?);
        let of = if in_global == Some(true) { 0 } else { section };
        let before = given.insert((of, key.to_string()), value.clone());
        let misplaced = match (in_global, drafts.last()) {
            (Some(false), Some(draft)) => not_of_a_job(key, &draft.job.name),
            _ => None,
        };
        if let Some(fault) = repeated(key, &value, before.as_deref()).or(misplaced) {
            return Err(GdsioError::Line { line, fault });
        }
        match (in_global, drafts.last_mut()) {
            (Some(true), _) if key == "name" => name = value,
            (Some(true), _) => set_global(&mut run, key, &value)?,
            (Some(false), Some(draft)) => set_job(draft, key, &value)?,
            _ => {
                return Err(GdsioError::Line {
                    line,
                    fault: format!("`{key}` comes before any section"),
                });
            }
        }
    }
    for draft in drafts {
        if !draft.has_target {
            return Err(GdsioError::Line {
                line: draft.line,
                fault: format!("[{}] has neither directory nor filename", draft.job.name),
            });
        }
        run.jobs.push(draft.job);
    }
    Ok((name, run))
}

/// The error for a key repeated in its section with a different value.
fn repeated(key: &str, value: &str, before: Option<&str>) -> Option<String> {
    let before = before.filter(|before| *before != value)?;
    Some(format!("`{key}={value}` after `{key}={before}` in the same section"))
}

/// The error for a `[global]` key in a job's section.
fn not_of_a_job(key: &str, job: &str) -> Option<String> {
    const KEYS: [&str; 15] = [
        "name",
        "xfer_type",
        "rw",
        "bs",
        "size",
        "runtime",
        "do_verify",
        "skip_bufregister",
        "enable_nvlinks",
        "random_seed",
        "fill_random",
        "refill_buffer",
        "unaligned_random",
        "mem_type",
        "batch_size",
    ];
    let or = if key == "bs" { ", or use io_size here" } else { "" };
    KEYS.contains(&key).then(|| {
        format!(
            "`{key}` applies to all jobs, so it belongs in [global] and not in [{job}]; run a job \
             file for each {key}{or}"
        )
    })
}

fn set_global(run: &mut GdsioRun, key: &str, value: &str) -> Result<(), GdsioError> {
    match key {
        "xfer_type" => run.transfer_type = number(key, value)?,
        "rw" => {
            run.op = match value.parse() {
                Ok(op) => op,
                Err(_) => args::operation(key, value)?,
            }
        }
        "bs" => run.io_size = io_size(key, value)?,
        "size" => run.size_bytes = Some(size(key, value)?),
        "runtime" => run.seconds = Some(seconds(key, value)?),
        "start_offset" => run.offset_bytes = size(key, value)?,
        "do_verify" => run.verify = switch(key, value)?,
        "skip_bufregister" => run.skip_register = switch(key, value)?,
        "enable_nvlinks" => run.nvlinks = switch(key, value)?,
        "random_seed" => run.seed = number(key, value)?,
        // Write buffers always have random content.
        "fill_random" => drop(switch(key, value)?),
        "refill_buffer" => run.refill = switch(key, value)?,
        "unaligned_random" => run.unaligned = switch(key, value)?,
        "mem_type" => run.memory = number(key, value)?,
        "batch_size" => run.batch = Some(number(key, value)?),
        _ => return Err(GdsioError::UnknownFlag(format!("{key} (in [global])"))),
    }
    Ok(())
}

fn set_job(draft: &mut Draft, key: &str, value: &str) -> Result<(), GdsioError> {
    let job = &mut draft.job;
    match key {
        "numa_node" => job.numa_node = Some(number(key, value)?),
        "gpu_dev_id" => job.gpu = Some(number(key, value)?),
        "num_threads" => job.workers = number(key, value)?,
        "start_offset" => job.offset_bytes = Some(size(key, value)?),
        "io_size" => job.io_size = Some(io_size(key, value)?),
        "directory" | "filename" => {
            if draft.has_target {
                return Err(GdsioError::Contradiction(format!(
                    "[{}] has more than one directory or filename",
                    job.name
                )));
            }
            job.target = match key {
                "directory" => JobTarget::Folder(PathBuf::from(value)),
                _ => JobTarget::File(PathBuf::from(value)),
            };
            draft.has_target = true;
        }
        "rdma_url" => {
            return Err(GdsioError::Refused {
                name: key.to_string(),
                reason: "stormlp has no transfers over RDMA sockets".to_string(),
            });
        }
        _ => {
            return Err(GdsioError::UnknownFlag(format!("{key} (in [{}])", job.name)));
        }
    }
    Ok(())
}

/// Expands `$NAME` and `${NAME}`.
fn expand(
    value: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    line: usize,
) -> Result<String, GdsioError> {
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, left) = match after.strip_prefix('{').and_then(|b| b.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let found = environment(name).ok_or_else(|| GdsioError::Line {
            line,
            fault: format!("the environment variable `{name}` is not set"),
        })?;
        text.push_str(&found);
        rest = left;
    }
    text.push_str(rest);
    Ok(text)
}
