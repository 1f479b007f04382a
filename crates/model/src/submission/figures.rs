//! What the files of one rank come to: AU and throughput of `N_output.json`, and times of
//! `N_per_epoch_stats.json`, epoch by epoch.

use serde_json::Value;

use super::moment;
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

/// When the epochs of a rank were, and its checkpoints.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpochStats {
    /// Epoch by epoch.
    pub epochs: Vec<EpochTimes>,
}

/// An epoch of a rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpochTimes {
    /// When it began and ended, in seconds of the same clock.
    pub span: Option<(f64, f64)>,
    /// How long it says that it took.
    pub seconds: Option<f64>,
    /// Blocks of steps.
    pub blocks: usize,
    /// Checkpoints that were written.
    pub saves: Vec<CheckpointTimes>,
    /// Checkpoints that were read.
    pub loads: Vec<CheckpointTimes>,
}

/// A checkpoint of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckpointTimes {
    /// How long it took.
    pub seconds: f64,
    /// GiB a second; v1.0 has none.
    pub gib_per_second: Option<f64>,
}

impl EpochStats {
    /// Reads `N_per_epoch_stats.json`.
    ///
    /// # Errors
    /// When it is no JSON, or holds no epoch.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = python_json::parse(text).map_err(|error| error.to_string())?;
        if !file.is_object() {
            return Err("it holds no object".to_string());
        }
        let epochs = (1u32..).map_while(|number| file.get(number.to_string()));
        let epochs: Vec<EpochTimes> = epochs.map(EpochTimes::of).collect();
        match epochs.is_empty() {
            true => Err("it holds no epoch".to_string()),
            false => Ok(Self { epochs }),
        }
    }
}

impl EpochTimes {
    fn of(epoch: &Value) -> Self {
        let named = |start: &'static str| {
            let entries = epoch.as_object().into_iter().flatten();
            entries.filter(move |(name, _)| name.starts_with(start))
        };
        let checkpoints = |start| {
            let told = named(start).filter_map(|(_, entry)| {
                Some(CheckpointTimes {
                    seconds: number(&entry["duration"])?,
                    gib_per_second: number(&entry["throughput"]),
                })
            });
            told.collect()
        };
        let at = |key: &str| moment::seconds(epoch[key].as_str()?);
        Self {
            span: at("start").zip(at("end")),
            seconds: number(&epoch["duration"]),
            blocks: named("block").count(),
            saves: checkpoints("save_ckpt"),
            loads: checkpoints("load_ckpt"),
        }
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
        for other in ["[]", "{}", "{\"2\": {}}", "{"] {
            assert!(EpochStats::parse(other).is_err(), "{other}");
        }
    }

    #[test]
    fn times_of_epochs_are_text_and_those_of_checkpoints_numbers() {
        let text = r#"{"1": {"start": "2026-06-01T10:00:00", "end": "2026-06-01T10:01:00",
            "duration": "60.00", "block1": {}, "save_ckpt1": {"duration": 2.0, "throughput": 4.5},
            "load_ckpt1": {"duration": 3}, "load_ckpt2": {}}}"#;
        let stats = EpochStats::parse(text).unwrap();
        let epoch = &stats.epochs[0];
        let (start, end) = epoch.span.unwrap();
        assert_eq!((end - start, epoch.seconds), (60.0, Some(60.0)));
        assert_eq!((epoch.blocks, epoch.loads.len()), (1, 1));
        assert_eq!(epoch.saves[0].gib_per_second, Some(4.5));
    }
}
