//! gdsio's job files: one `[global]` section, any number of jobs, `$NAME` in values.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use stormlp_core::location::folder_or_prefix;

use super::run::{GdsioRun, io_size, size};
use crate::plan::request::JobTarget;

/// Keys of `[global]`, with the flag of the same meaning.
const GLOBAL: [(&str, char); 15] = [
    ("xfer_type", 'x'),
    ("rw", 'I'),
    ("bs", 'i'),
    ("size", 's'),
    ("runtime", 'T'),
    ("start_offset", 'o'),
    ("do_verify", 'V'),
    ("skip_bufregister", 'b'),
    ("enable_nvlinks", 'p'),
    ("random_seed", 'k'),
    ("fill_random", 'R'),
    ("refill_buffer", 'F'),
    ("unaligned_random", 'U'),
    ("mem_type", 'm'),
    ("batch_size", 'B'),
];

/// Keys of a job's section that have a flag.
const OF_JOB: [(&str, char); 4] =
    [("numa_node", 'n'), ("gpu_dev_id", 'd'), ("num_threads", 'w'), ("rdma_url", 'P')];

/// Parses a job file; `environment` resolves the variables in its values.
///
/// # Errors
/// Names the line, the unknown or unsupported key, the invalid value, or the unset variable.
pub fn parse_job_file(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<GdsioRun, String> {
    let mut run = GdsioRun::default();
    let mut section: Option<String> = None;
    let mut given: HashMap<(usize, String), String> = HashMap::new();
    for (index, raw) in text.lines().enumerate() {
        let content = raw.split('#').next().unwrap_or_default().trim();
        let at_line = |fault: String| format!("line {}: {fault}", index + 1);
        if let Some(name) = content.strip_prefix('[').and_then(|c| c.strip_suffix(']')) {
            if name != "global" {
                run.add_job(name.to_string(), JobTarget::Folder(PathBuf::new()));
            }
            section = Some(name.to_string());
        } else if !content.is_empty() {
            let (key, value) = content.split_once('=').ok_or_else(|| {
                at_line(format!("`{content}` is neither a section, nor key=value, nor a comment"))
            })?;
            let key = key.trim();
            let value = expand(value.trim(), environment).map_err(at_line)?;
            let section = section
                .as_deref()
                .ok_or_else(|| at_line(format!("`{key}` comes before any section")))?;
            let nth = if section == "global" { 0 } else { run.request.jobs.len() };
            let before = given.insert((nth, key.to_string()), value.clone());
            if let Some(before) = before.filter(|before| *before != value) {
                return Err(at_line(format!(
                    "`{key}={value}` after `{key}={before}` in the same section"
                )));
            }
            match section {
                "global" => set_global(&mut run, key, &value),
                job => set_of_job(&mut run, job, key, &value),
            }
            .map_err(at_line)?;
        }
    }
    match run.request.jobs.iter().find(|job| job.target.path() == Path::new("")) {
        Some(job) => Err(format!("[{}] has neither directory nor filename", job.name)),
        None => Ok(run),
    }
}

fn set_global(run: &mut GdsioRun, key: &str, value: &str) -> Result<(), String> {
    if key == "name" {
        run.request.name = value.to_string();
        return Ok(());
    }
    match GLOBAL.iter().find(|(known, _)| *known == key) {
        Some((_, letter)) => run.set(*letter, key, value),
        None => Err(format!("gdsio has no key `{key}` in [global]")),
    }
}

fn set_of_job(run: &mut GdsioRun, job: &str, key: &str, value: &str) -> Result<(), String> {
    if let Some((_, letter)) = OF_JOB.iter().find(|(known, _)| *known == key) {
        return run.set(*letter, key, value);
    }
    let Some(last) = run.request.jobs.last_mut() else { return Ok(()) };
    match key {
        "start_offset" => last.offset_bytes = size(key, value)?,
        "io_size" => last.io_size = Some(io_size(key, value)?),
        "directory" | "filename" if last.target.path() != Path::new("") => {
            return Err(format!("[{job}] has more than one directory or filename"));
        }
        "directory" => last.target = JobTarget::Folder(folder_or_prefix(value)?),
        "filename" => last.target = JobTarget::File(folder_or_prefix(value)?),
        _ if key == "name" || GLOBAL.iter().any(|(known, _)| *known == key) => {
            let or = if key == "bs" { ", or use io_size here" } else { "" };
            return Err(format!(
                "`{key}` applies to all jobs, so it belongs in [global] and not in [{job}]; run a \
                 job file for each {key}{or}"
            ));
        }
        _ => return Err(format!("gdsio has no key `{key}` in [{job}]")),
    }
    Ok(())
}

/// Expands `$NAME` and `${NAME}`.
fn expand(value: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
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
        let found = environment(name)
            .ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
        text.push_str(&found);
        rest = left;
    }
    text.push_str(rest);
    Ok(text)
}
