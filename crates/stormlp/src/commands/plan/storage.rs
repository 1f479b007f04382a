//! `--storage`: figures, a drive by its name, or a saved report of `stormlp gds`.

use std::path::Path;

use stormlp_model::sizing::StorageModel;
use stormlp_model::sizing::presets;

use crate::commands::saved;
use crate::exit::Failure;

/// The storage that is meant by `text`, and where its figures are from.
///
/// # Errors
/// With exit code 3 when the figures are wrong or the report is of another kind, 4 when it cannot
/// be read.
pub(super) fn storage(text: &str) -> Result<(StorageModel, String), Failure> {
    let path = Path::new(text);
    let is_figures = text.contains('=') || text.contains(',');
    let is_report = text.ends_with(".json") || text.contains('/') || path.exists();
    if is_report && !is_figures && !is_counted(text) {
        let report = saved::any(path)?;
        let storage = StorageModel::measured(&report, text)?;
        return Ok((storage, format!("measured, {text}")));
    }
    let of_report = text.split_once("x:").map_or(text, |(_, rest)| rest);
    let of_report = of_report.split(',').next().unwrap_or_default();
    let is_path = of_report.contains('/') && !of_report.contains('=');
    if is_path || of_report.ends_with(".json") {
        return Err(Failure::usage(format!(
            "--storage {text}: a report is storage as it was measured, and takes no count and no \
             further figures: give {of_report} alone"
        )));
    }
    let storage: StorageModel = text.parse()?;
    let named = text.split_once("x:").map_or(text, |(_, rest)| rest);
    let named = named.split(',').next().unwrap_or_default().trim();
    let source = match named.contains('=') {
        true => "as given".to_string(),
        false => presets::find(named)?.source,
    };
    Ok((storage, source))
}

/// Whether a count of devices stands before `text`, and no file is called so.
fn is_counted(text: &str) -> bool {
    let count = text.split_once("x:").map(|(count, _)| count);
    count.is_some_and(|count| count.parse::<u32>().is_ok()) && !Path::new(text).exists()
}
