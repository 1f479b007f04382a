//! Figures of one rank, epoch by epoch: AU and throughput from `N_output.json`, times from
//! `N_per_epoch_stats.json`.

use serde_json::Value;

use super::timestamp;
use crate::python_json;
use stormlp_core::stats::mean;

/// AU and throughput of an epoch of a rank; `None` where the file has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpochFigures {
    /// AU in percent, the mean of its blocks.
    pub au_percent: Option<f64>,
    /// Samples a second, the mean of its blocks.
    pub samples_per_second: Option<f64>,
    /// The steps of its blocks by name; empty where the file does not have their times.
    pub blocks: Vec<(String, StepSums)>,
}

/// The sums of a block's step times that AU needs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepSums {
    /// Steps.
    pub steps: usize,
    /// Seconds of compute of all steps but the first.
    pub compute_seconds: f64,
    /// Seconds of the first step, which does not count.
    pub first_seconds: f64,
}

impl EpochFigures {
    /// AU in percent by the times of the steps, where the blocks took as long as `times` has; by the
    /// formula of v2.0 and v3.0.
    pub(super) fn au_of_steps(&self, times: &EpochTimes) -> Option<f64> {
        let (mut weighted, mut steps) = (0.0, 0.0);
        for (name, sums) in &self.blocks {
            let (_, seconds) = times.blocks.iter().find(|(other, _)| other == name)?;
            let counted = seconds - sums.first_seconds;
            let au = (counted > 0.0).then(|| 100.0 * sums.compute_seconds / counted)?;
            weighted += au * sums.steps as f64;
            steps += sums.steps as f64;
        }
        (steps > 0.0).then(|| weighted / steps)
    }
}

/// Reads `N_output.json`.
///
/// # Errors
/// For invalid JSON, or a missing epoch.
pub(super) fn epoch_figures(text: &str) -> Result<Vec<EpochFigures>, String> {
    let file = python_json::parse(text).map_err(|error| error.to_string())?;
    let epochs = epochs_of(&file)?.into_iter().map(|epoch| EpochFigures {
        au_percent: mean_of_blocks(&epoch["au"]),
        samples_per_second: mean_of_blocks(&epoch["throughput"]),
        blocks: step_sums(epoch).unwrap_or_default(),
    });
    Ok(epochs.collect())
}

/// The steps of each block; `None` where one has no times.
fn step_sums(epoch: &Value) -> Option<Vec<(String, StepSums)>> {
    let blocks = epoch["compute"].as_object()?.iter();
    let blocks = blocks.filter(|(name, _)| name.starts_with("block"));
    let sums = blocks.map(|(name, compute)| {
        let compute: Vec<f64> = compute.as_array()?.iter().map(number).collect::<Option<_>>()?;
        let sums = StepSums {
            steps: compute.len(),
            compute_seconds: compute.iter().skip(1).sum(),
            first_seconds: number(epoch["proc"][name].get(0)?)?,
        };
        (compute.len() > 1).then(|| (name.clone(), sums))
    });
    sums.collect()
}

/// Times of an epoch of a rank, and of its checkpoints.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpochTimes {
    /// The time of each block by name, from its start to its end.
    pub blocks: Vec<(String, f64)>,
    /// Checkpoints written.
    pub saves: Vec<CheckpointTime>,
    /// Checkpoints read.
    pub loads: Vec<CheckpointTime>,
}

/// Times of one checkpoint of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckpointTime {
    /// Its duration.
    pub seconds: f64,
    /// Its rate; v1.0 has none.
    pub gib_per_second: Option<f64>,
}

/// Reads `N_per_epoch_stats.json`.
///
/// # Errors
/// For invalid JSON, a missing epoch, or times that are not numbers.
pub(super) fn epoch_times(text: &str) -> Result<Vec<EpochTimes>, String> {
    let file = python_json::parse(text).map_err(|error| error.to_string())?;
    let epochs: Vec<EpochTimes> =
        epochs_of(&file)?.into_iter().map(EpochTimes::of).collect::<Result<_, String>>()?;
    if epochs.is_empty() { Err("it has no epoch".to_string()) } else { Ok(epochs) }
}

impl EpochTimes {
    fn of(epoch: &Value) -> Result<Self, String> {
        let named = |start: &'static str| {
            let entries = epoch.as_object().into_iter().flatten();
            entries.filter(move |(name, _)| name.starts_with(start))
        };
        let checkpoints = |start| {
            let times = named(start).filter_map(|(name, entry)| {
                let seconds = optional_number(entry, name, "duration").transpose()?;
                Some(seconds.and_then(|seconds| {
                    let gib_per_second = optional_number(entry, name, "throughput")?;
                    Ok(CheckpointTime { seconds, gib_per_second })
                }))
            });
            times.collect::<Result<Vec<CheckpointTime>, String>>()
        };
        let spans = named("block").filter_map(|(name, block)| {
            let at = |key: &str| timestamp::seconds(block[key].as_str()?);
            Some((name.clone(), at("end")? - at("start")?))
        });
        Ok(Self {
            blocks: spans.collect(),
            saves: checkpoints("save_ckpt")?,
            loads: checkpoints("load_ckpt")?,
        })
    }
}

/// The epochs of a rank's file, numbered from 1.
fn epochs_of(file: &Value) -> Result<Vec<&Value>, String> {
    let Some(entries) = file.as_object() else {
        return Err("it is not a JSON object".to_string());
    };
    let numbered = entries.keys().filter(|key| key.parse::<u32>().is_ok());
    let epochs: Vec<&Value> =
        (1u32..).map_while(|number| entries.get(&number.to_string())).collect();
    if epochs.len() == numbered.count() {
        Ok(epochs)
    } else {
        Err(format!("epoch {} is missing", epochs.len() + 1))
    }
}

/// A number that may be missing.
fn optional_number(entry: &Value, name: &str, key: &str) -> Result<Option<f64>, String> {
    match (&entry[key], number(&entry[key])) {
        (Value::Null, _) => Ok(None),
        (_, Some(number)) => Ok(Some(number)),
        (other, None) => Err(format!("{key} of {name} is {other}, not a number")),
    }
}

/// The mean over the blocks of an entry, without evaluations.
fn mean_of_blocks(entry: &Value) -> Option<f64> {
    let entries = entry.as_object()?.iter();
    let blocks = entries.filter(|(name, _)| name.starts_with("block"));
    let values: Vec<f64> = blocks.filter_map(|(_, value)| number(value)).collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// A number; DLIO writes some as text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| number.is_finite())
}

/// A figure as digits, or in scientific notation where there would be too many.
pub(super) fn shown(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1e15 || size > 0.0 && size < 1e-4 => format!("{figure:e}"),
        _ => format!("{figure}"),
    }
}

/// The same with at most four decimal places.
pub(super) fn rounded(figure: f64) -> String {
    if figure.abs() < 1e15 { format!("{figure:.4}") } else { format!("{figure:.4e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_averaged_and_no_epoch_is_skipped() {
        let text = r#"{"hostname": "a", "1": {"au": {"block1": 90, "block2": "92", "eval": 1},
            "throughput": {"block1": 4.0}}, "2": {"au": {}, "throughput": {}}}"#;
        let figures = epoch_figures(text).unwrap();
        assert_eq!(figures.len(), 2);
        assert_eq!(figures[0].au_percent, Some(91.0));
        assert_eq!(figures[1], EpochFigures::default());
        assert!(epoch_figures(r#"{"1": {}, "3": {}}"#).is_err());
        assert!(epoch_figures("[]").is_err());
        assert!(epoch_figures("{").is_err());
        for other in ["[]", "{}", "{\"2\": {}}", "{"] {
            assert!(epoch_times(other).is_err(), "{other}");
        }
    }

    #[test]
    fn times_of_checkpoints_are_numbers() {
        let text = r#"{"1": {"start": "2026-06-01T10:00:00", "end": "2026-06-01T10:01:00",
            "duration": "60.00", "block1": {}, "save_ckpt1": {"duration": 2.0, "throughput": 4.5},
            "load_ckpt1": {"duration": 3}, "load_ckpt2": {}}}"#;
        let stats = epoch_times(text).unwrap();
        let epoch = &stats[0];
        assert_eq!(epoch.loads.len(), 1);
        assert_eq!(epoch.saves[0].gib_per_second, Some(4.5));
        let text = text.replace("4.5", "\"x\"");
        let why = epoch_times(&text).unwrap_err();
        assert_eq!(why, "throughput of save_ckpt1 is \"x\", not a number");
        assert_eq!(shown(1e300), "1e300");
    }
}
