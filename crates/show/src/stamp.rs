//! Dates in DLIO's format: `2026-11-21T07:25:00.123456`, here in UTC.

use chrono::{DateTime, TimeDelta, Utc};

/// Seconds since 1970 as a DLIO timestamp.
pub fn iso(unix_seconds: f64) -> String {
    shown(moment(unix_seconds))
}

/// Seconds since 1970 as a date and time.
pub fn moment(unix_seconds: f64) -> DateTime<Utc> {
    let micros = (unix_seconds.max(0.0) * 1e6).round() as i64;
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// An RFC 3339 time as seconds since 1970; 0 for invalid text.
pub fn unix_seconds(moment: &str) -> f64 {
    let parsed = moment.parse::<DateTime<Utc>>();
    parsed.map_or(0.0, |at| at.timestamp_micros() as f64 / 1e6)
}

/// The time `seconds` after an RFC 3339 time, as a DLIO timestamp. Invalid text is returned
/// unchanged.
pub fn iso_after(started: &str, seconds: f64) -> String {
    let passed = TimeDelta::microseconds((seconds.max(0.0) * 1e6) as i64);
    let started_at = started.parse::<DateTime<Utc>>().ok();
    let moment = started_at.and_then(|at| at.checked_add_signed(passed));
    moment.map_or_else(|| started.to_string(), shown)
}

fn shown(moment: DateTime<Utc>) -> String {
    moment.format("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_advance_over_days_and_leap_days() {
        for (started, seconds, moment) in [
            ("2026-11-21T07:25:00Z", 0.5, "2026-11-21T07:25:00.500000"),
            ("2024-02-28T23:59:59Z", 1.0, "2024-02-29T00:00:00.000000"),
            ("2026-12-31T23:59:59Z", 2.25, "2027-01-01T00:00:01.250000"),
            ("yesterday", 2.0, "yesterday"),
            ("2026-11-21T07:25:00Z", 1e300, "2026-11-21T07:25:00Z"),
        ] {
            assert_eq!(iso_after(started, seconds), moment);
        }
    }

    #[test]
    fn seconds_since_1970_are_moments() {
        assert_eq!(iso(951_782_399.25), "2000-02-28T23:59:59.250000");
        assert_eq!(iso(-1.0), "1970-01-01T00:00:00.000000");
        assert_eq!(moment(1e300), DateTime::<Utc>::MAX_UTC);
    }
}
