//! `--storage`: figures, a preset, or a saved report of `stormlp gds`.

use std::path::Path;
use stormlp_core::failure::Problems;

use crate::any_report::AnyReport;
use stormlp_planner::plan::StorageModel;
use stormlp_planner::plan::presets;

use crate::commands::saved;
use crate::output;
use stormlp_core::failure::Failure;

/// Storage and the source of its figures.
pub(super) struct Given {
    pub(super) storage: StorageModel,
    pub(super) source: String,
    /// Number of hosts that measured it; `None` if it was not measured.
    pub(super) hosts: Option<u32>,
}

/// Parses `text`.
///
/// # Errors
/// With exit code 3 if figures are invalid or the report is from another command, 4 if it cannot be
/// read.
pub(super) fn storage(text: &str) -> Result<Given, Failure> {
    let path = Path::new(text);
    let is_figures = text.contains('=') || text.contains(',');
    let is_report = text.ends_with(".json") || text.contains('/') || path.exists();
    if is_report && !is_figures && !is_counted(text) {
        return measured(path, text);
    }
    let of_report =
        text.split_once("x:").map_or(text, |(_, rest)| rest).split(',').next().unwrap_or_default();
    let is_path = of_report.contains('/') && !of_report.contains('=');
    if is_path || of_report.ends_with(".json") {
        return Err(Failure::usage(format!(
            "--storage {text}: a report cannot be combined with a number of devices or other figures: \
             use {of_report} alone"
        )));
    }
    let storage: StorageModel = text.parse()?;
    let named = text
        .split_once("x:")
        .map_or(text, |(_, rest)| rest)
        .split(',')
        .next()
        .unwrap_or_default()
        .trim();
    let source =
        if named.contains('=') { "as given".to_string() } else { presets::find(named)?.source };
    Ok(Given { storage, source, hosts: None })
}

/// The storage measured by the report in `path`. An inconsistent report may still be useful, so it
/// is used with a warning.
fn measured(path: &Path, text: &str) -> Result<Given, Failure> {
    let report = match saved::any(path)? {
        AnyReport::Gds(report) => report,
        other @ (AnyReport::Train(_) | AnyReport::Checkpoint(_)) => {
            let mut problems = Problems::default();
            problems.plan(
                format!(
                    "--storage: {text} is a report of `stormlp {}`, which does not measure transfer \
                     sizes and depths",
                    other.head().kind.name()
                ),
                "use a report of `stormlp gds`, or figures such as read=14.5GB/s,latency=80us",
            );
            return Err(problems.into());
        }
    };
    let storage = StorageModel::measured(&report, text)?;
    let found = stormlp_show::contradictions(&report);
    for one in &found {
        output::say(format!("warning: {text}: {one}"));
    }
    let doubt = if found.is_empty() {
        ""
    } else {
        "; inconsistent figures: the report was damaged or modified"
    };
    let hosts = report.results.group.as_ref().map(|group| match group.machines.len() as u32 {
        0 => group.size,
        machines => machines,
    });
    let together = match hosts.filter(|hosts| *hosts > 1) {
        Some(hosts) => format!(" by {hosts} hosts together"),
        None => String::new(),
    };
    Ok(Given { storage, source: format!("measured{together}, {text}{doubt}"), hosts })
}

/// Whether `text` starts with a number of devices and is not the name of a file.
fn is_counted(text: &str) -> bool {
    let count = text.split_once("x:").map(|(count, _)| count);
    count.is_some_and(|count| count.parse::<u32>().is_ok()) && !Path::new(text).exists()
}
