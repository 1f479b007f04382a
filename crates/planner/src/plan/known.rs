//! `--storage`: figures, a preset, or the measurements in a saved report of `stormlp gds`.

use super::parse::counted_devices;
use super::presets;
use super::storage::StorageModel;
use stormlp_core::failure::Failure;
use stormlp_core::units::parse_rate;
use stormlp_core::warning::Warning;

/// Storage and the source of its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownStorage {
    /// The storage.
    pub model: StorageModel,
    /// Where its figures are from.
    pub source: String,
    /// Number of hosts that measured it; `None` if it was not measured.
    pub hosts: Option<u32>,
    /// How far the measurement varied, as a share of its mean; 0 if it was not measured.
    pub spread: f64,
    /// The measurement's warnings about its rates.
    pub warnings: Vec<Warning>,
}

impl KnownStorage {
    /// The storage described by figures or a preset; `None` if `text` names a report. `exists` is
    /// whether there is a file or folder of that name.
    ///
    /// # Errors
    /// If figures are invalid or lack a name, a preset does not exist, or a report is combined with
    /// figures.
    pub fn described(text: &str, exists: bool) -> Result<Option<Self>, Failure> {
        let counted = counted_devices(text);
        let (count, rest) = (counted.map(|(count, ..)| count), counted.map_or(text, |all| all.2));
        let mut items = rest.split(',');
        let named = items.next().unwrap_or_default();
        if !exists && parse_rate(named).is_ok() {
            let meant = text.replacen(named, &format!("read={named}"), 1);
            return Err(Failure::usage(format!("--storage: `{named}` does not say what it is"))
                .with_help(format!("use --storage {meant}, with latency=80us if you know it")));
        }
        let is_figures = text.contains('=') || text.contains(',');
        let is_counted = count.is_some_and(|count| count.parse::<u32>().is_ok()) && !exists;
        let is_report = text.ends_with(".json") || text.contains('/') || exists;
        if is_report && !is_figures && !is_counted {
            return Ok(None);
        }
        let is_path = named.contains('/') && !named.contains('=');
        if is_path || named.ends_with(".json") {
            return Err(Failure::usage(format!(
                "--storage {text}: a report cannot be combined with a number of devices or other \
                 figures: use {named} alone"
            )));
        }
        let model = text.parse()?;
        let source = match named.trim() {
            figures if figures.contains('=') => "as given".to_string(),
            preset => {
                let source = presets::find(preset)?.source;
                let given: Vec<&str> =
                    items.filter_map(|item| Some(item.split_once('=')?.0.trim())).collect();
                match given.as_slice() {
                    [] => source,
                    given => format!("{} as given; the rest: {source}", given.join(", ")),
                }
            }
        };
        Ok(Some(Self { model, source, hosts: None, spread: 0.0, warnings: Vec::new() }))
    }
}
