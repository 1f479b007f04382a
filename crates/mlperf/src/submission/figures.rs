//! What the files of one rank come to: AU and throughput of `N_output.json`, and times of
//! `N_per_epoch_stats.json`, epoch by epoch.

use serde_json::Value;

use super::moment;
use crate::python_json;
use stormlp_core::stats::mean;

/// AU and throughput of a rank; the lists of its steps are not kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankFigures {
    /// Epoch by epoch.
    pub epochs: Vec<EpochFigures>,
}

/// An epoch of a rank. Figures that the file does not have are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpochFigures {
    /// AU in percent, the mean of its blocks.
    pub au_percent: Option<f64>,
    /// Samples a second, the mean of its blocks.
    pub samples_per_second: Option<f64>,
}

impl RankFigures {
    /// Reads `N_output.json`.
    ///
    /// # Errors
    /// When it is no JSON, or skips an epoch.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = python_json::parse(text).map_err(|error| error.to_string())?;
        let epochs = epochs_of(&file)?.into_iter().map(|epoch| EpochFigures {
            au_percent: of_blocks(&epoch["au"]),
            samples_per_second: of_blocks(&epoch["throughput"]),
        });
        Ok(Self { epochs: epochs.collect() })
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
    /// How long its blocks of steps took together; `None` where one does not say.
    pub block_seconds: Option<f64>,
    /// Checkpoints that were written.
    pub saves: Vec<CheckpointTimes>,
    /// Checkpoints that were read.
    pub loads: Vec<CheckpointTimes>,
}

/// A checkpoint of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckpointTimes {
    /// When it began and ended, in seconds of the same clock.
    pub span: Option<(f64, f64)>,
    /// How long it took.
    pub seconds: f64,
    /// GiB a second; v1.0 has none.
    pub gib_per_second: Option<f64>,
}

impl EpochStats {
    /// Reads `N_per_epoch_stats.json`.
    ///
    /// # Errors
    /// When it is no JSON, skips an epoch or holds none, or when times are no numbers.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = python_json::parse(text).map_err(|error| error.to_string())?;
        let epochs = epochs_of(&file)?
            .into_iter()
            .map(EpochTimes::of)
            .collect::<Result<Vec<EpochTimes>, String>>()?;
        if epochs.is_empty() { Err("it holds no epoch".to_string()) } else { Ok(Self { epochs }) }
    }
}

impl EpochTimes {
    fn of(epoch: &Value) -> Result<Self, String> {
        let named = |start: &'static str| {
            let entries = epoch.as_object().into_iter().flatten();
            entries.filter(move |(name, _)| name.starts_with(start))
        };
        let checkpoints = |start| {
            let told = named(start).filter_map(|(name, entry)| {
                let seconds = told_number(entry, name, "duration").transpose()?;
                Some(seconds.and_then(|seconds| {
                    Ok(CheckpointTimes {
                        span: span_of(entry),
                        seconds,
                        gib_per_second: told_number(entry, name, "throughput")?,
                    })
                }))
            });
            told.collect::<Result<Vec<CheckpointTimes>, String>>()
        };
        let blocks: Option<Vec<f64>> =
            named("block").map(|(_, block)| number(&block["duration"])).collect();
        Ok(Self {
            span: span_of(epoch),
            seconds: number(&epoch["duration"]),
            block_seconds: blocks.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
            saves: checkpoints("save_ckpt")?,
            loads: checkpoints("load_ckpt")?,
        })
    }
}

/// The epochs of a file of a rank, which are numbered from 1.
fn epochs_of(file: &Value) -> Result<Vec<&Value>, String> {
    let Some(entries) = file.as_object() else {
        return Err("it holds no object".to_string());
    };
    let numbered = entries.keys().filter(|key| key.parse::<u32>().is_ok());
    let epochs: Vec<&Value> =
        (1u32..).map_while(|number| entries.get(&number.to_string())).collect();
    if epochs.len() == numbered.count() {
        Ok(epochs)
    } else {
        Err(format!("it has no epoch {}, and later ones", epochs.len() + 1))
    }
}

/// When something began and ended.
fn span_of(entry: &Value) -> Option<(f64, f64)> {
    let at = |key: &str| moment::seconds(entry[key].as_str()?);
    at("start").zip(at("end"))
}

/// A number that need not be there, but is one where it is.
fn told_number(entry: &Value, name: &str, key: &str) -> Result<Option<f64>, String> {
    match (&entry[key], number(&entry[key])) {
        (Value::Null, _) => Ok(None),
        (_, Some(number)) => Ok(Some(number)),
        (other, None) => Err(format!("{key} of {name} is {other}, which is no number")),
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

/// A figure for a line of text: as digits, but for what would fill the line with them.
pub(super) fn shown(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1e15 || size > 0.0 && size < 1e-4 => format!("{figure:e}"),
        _ => format!("{figure}"),
    }
}

/// The same with at most four digits behind the point.
pub(super) fn rounded(figure: f64) -> String {
    if figure.abs() < 1e15 { format!("{figure:.4}") } else { format!("{figure:.4e}") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_averaged_and_no_epoch_takes_the_place_of_another() {
        let text = r#"{"hostname": "a", "1": {"au": {"block1": 90, "block2": "92", "eval": 1},
            "throughput": {"block1": 4.0}}, "2": {"au": {}, "throughput": {}}}"#;
        let figures = RankFigures::parse(text).unwrap();
        assert_eq!(figures.epochs.len(), 2);
        assert_eq!(figures.epochs[0].au_percent, Some(91.0));
        assert_eq!(figures.epochs[1], EpochFigures::default());
        assert!(RankFigures::parse(r#"{"1": {}, "3": {}}"#).is_err());
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
        assert_eq!((epoch.block_seconds, epoch.loads.len()), (None, 1));
        assert_eq!(epoch.saves[0].gib_per_second, Some(4.5));
        let text =
            text.replace("4.5", "\"x\"").replace("\"block1\": {}", "\"block1\": {\"duration\": 9}");
        let why = EpochStats::parse(&text).unwrap_err();
        assert_eq!(why, "throughput of save_ckpt1 is \"x\", which is no number");
        let stats = EpochStats::parse(&text.replace("\"x\"", "1")).unwrap();
        assert_eq!(stats.epochs[0].block_seconds, Some(9.0));
        assert_eq!(shown(1e300), "1e300");
    }
}
