//! Dates as DLIO writes them: `2026-11-21T07:25:00.123456`, here in UTC.

use stormlp_model::date::DateTime;

/// Seconds since 1970 as DLIO's time stamp.
pub(super) fn iso(unix_seconds: f64) -> String {
    let micros = (unix_seconds.max(0.0) * 1e6).round() as u64;
    let second = DateTime::of_unix_seconds(micros / 1_000_000);
    format!("{second}.{:06}", micros % 1_000_000)
}

/// Seconds since 1970 as the name of a run's folder: `20261121_072500`.
pub(super) fn folder(unix_seconds: f64) -> String {
    DateTime::of_unix_seconds(unix_seconds.max(0.0) as u64).for_names('_')
}
