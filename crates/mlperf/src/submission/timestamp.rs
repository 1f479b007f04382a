//! Times in a tree of results: DLIO's without a time zone, mlpstorage's in UTC, and folder names.

use chrono::{DateTime, NaiveDateTime};

/// Seconds since 1970 of `2026-06-01T10:00:00.5`, `…Z` or `…+02:00`. A time without a zone counts as
/// UTC, so only times of one clock compare.
pub(super) fn seconds(text: &str) -> Option<f64> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.timestamp_micros() as f64 / 1e6);
    }
    let naive = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    let mut parsed =
        (naive.iter()).filter_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    parsed.next().map(|at| at.and_utc().timestamp_micros() as f64 / 1e6)
}

/// The time in a folder name: `20260601_100000`.
pub(super) fn folder_time(name: &str) -> Option<f64> {
    let (date, time) = name.split_once('_')?;
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(date, 8) || !digits(time, 6) {
        return None;
    }
    let at = NaiveDateTime::parse_from_str(name, "%Y%m%d_%H%M%S").ok()?;
    Some(at.and_utc().timestamp() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_time_is_read() {
        let ten = Some(1_780_308_000.0);
        assert_eq!(seconds("2026-06-01T10:00:00"), ten);
        assert_eq!(seconds("2026-06-01 10:00:00"), ten);
        assert_eq!(seconds("2026-06-01T10:00:00Z"), ten);
        assert_eq!(seconds("2026-06-01T12:00:00+02:00"), ten);
        assert_eq!(seconds("2026-06-01T10:00:00.5"), Some(1_780_308_000.5));
        assert_eq!(folder_time("20260601_100000"), ten);
        for other in ["20261301_100000", "20260601-100000", "20260601_10000", "run1", "é_1"] {
            assert_eq!(folder_time(other), None, "{other}");
        }
        assert_eq!(seconds("yesterday"), None);
    }
}
