//! Words that the parts of an answer share.

use crate::plan::request::MAX_ACCELERATORS;
use crate::plan::{AtCount, CheckpointTimes, LimitedBy, SizingAnswer, StoragePart};
use stormlp_core::units::{ByteSize, format_duration};

/// If training gets a smaller share of the time, no checkpoint interval is recommended.
pub(super) const LEAST_USEFUL_PERCENT: f64 = 25.0;

/// The parts that can be added: object stores, each with a bandwidth, or drives.
pub(super) fn unit(answer: &SizingAnswer) -> &'static str {
    if answer.storage_model.has_objects() { "store" } else { "drive" }
}

/// The times of a checkpoint in a line.
pub(super) fn times(checkpoint: &CheckpointTimes) -> String {
    let size = ByteSize(checkpoint.bytes);
    let restored = format_duration(checkpoint.restore_seconds);
    let saved = match checkpoint.save_seconds {
        Some(seconds) => format!("saved in {}", format_duration(seconds)),
        None => "time to save unknown (set write=)".to_string(),
    };
    let every = match &checkpoint.optimum {
        Some(optimum) if optimum.useful_percent >= LEAST_USEFUL_PERCENT => {
            format!("; best every {}", format_duration(optimum.daly_interval_seconds))
        }
        Some(_) => "; no useful interval".to_string(),
        None => String::new(),
    };
    format!("{}, {size}: {saved}, restored in {restored}{every}", checkpoint.what)
}

/// The limit of a row in a word.
pub(super) fn limited(answer: &SizingAnswer, at: &AtCount) -> String {
    match at.limited_by {
        LimitedBy::Client if at.accelerators >= MAX_ACCELERATORS => "-".to_string(),
        limit => limit_in_words(answer, limit, at.storage_part),
    }
}

/// A limit in a word, with the limiting part of storage unless that is the drives.
pub(super) fn limit_in_words(
    answer: &SizingAnswer,
    limit: LimitedBy,
    part: Option<StoragePart>,
) -> String {
    let name = match limit {
        LimitedBy::Storage => "storage",
        LimitedBy::Client if answer.client.is_some() => "client",
        LimitedBy::Client => "host",
        LimitedBy::Memory => "memory",
        LimitedBy::Barrier => "barrier",
        LimitedBy::Dataset => "dataset",
        LimitedBy::Nothing => "-",
    };
    match part.filter(|part| *part != StoragePart::Devices) {
        Some(part) => format!("{name} ({})", <&str>::from(part)),
        None => name.to_string(),
    }
}

/// Whether clearly fewer bytes are read than the record length implies; start-up causes small differences.
pub(super) fn reads_less(mib_per_second: f64, read_mib_per_second: f64) -> bool {
    read_mib_per_second < 0.8 * mib_per_second
}

/// A percentage without needless decimals.
pub(super) fn percent(value: f64) -> String {
    let text = format!("{value:.1}");
    format!("{} %", text.trim_end_matches(".0"))
}
