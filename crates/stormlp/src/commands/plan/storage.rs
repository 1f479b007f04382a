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
    if is_report && !is_figures {
        let report = saved::any(path)?;
        let storage = StorageModel::measured(&report, text)?;
        return Ok((storage, format!("measured, {text}")));
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
