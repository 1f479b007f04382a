//! What one rank's `N_output.json` comes to: its AU and throughput, epoch by epoch.

use serde_json::Value;

use crate::python_json;
use crate::stats::mean;

/// AU and throughput of a rank; the lists of its steps are not kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankFigures {
    /// Epoch by epoch.
    pub epochs: Vec<EpochFigures>,
}

/// An epoch of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpochFigures {
    /// AU in percent, the mean of its blocks.
    pub au_percent: f64,
    /// Samples a second, the mean of its blocks.
    pub samples_per_second: f64,
}

impl RankFigures {
    /// Reads `N_output.json`.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = python_json::parse(text).map_err(|error| error.to_string())?;
        if !file.is_object() {
            return Err("it holds no object".to_string());
        }
        let epochs = (1u32..).map_while(|number| file.get(number.to_string()));
        let epochs = epochs.filter_map(|epoch| {
            Some(EpochFigures {
                au_percent: of_blocks(&epoch["au"])?,
                samples_per_second: of_blocks(&epoch["throughput"])?,
            })
        });
        Ok(Self {
            epochs: epochs.collect(),
        })
    }
}

/// The mean over the blocks of an entry; evaluations are none.
fn of_blocks(entry: &Value) -> Option<f64> {
    let entries = entry.as_object()?.iter();
    let blocks = entries.filter(|(name, _)| name.starts_with("block"));
    let values: Vec<f64> = blocks.filter_map(|(_, value)| number(value)).collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// A number, which DLIO writes as text here and there.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_averaged_and_what_is_no_epoch_is_left_out() {
        let text = r#"{"hostname": "a", "1": {"au": {"block1": 90, "block2": "92", "eval": 1},
            "throughput": {"block1": 4.0}}, "2": {"au": {}, "throughput": {}}}"#;
        let figures = RankFigures::parse(text).unwrap();
        assert_eq!(figures.epochs.len(), 1);
        assert_eq!(figures.epochs[0].au_percent, 91.0);
        assert!(RankFigures::parse("[]").is_err());
        assert!(RankFigures::parse("{").is_err());
    }
}
