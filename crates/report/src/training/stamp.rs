//! Dates as DLIO writes them: `2026-11-21T07:25:00.123456`, here in UTC.

/// Seconds since 1970 as DLIO's time stamp.
pub(super) fn iso(unix_seconds: f64) -> String {
    let micros = (unix_seconds.max(0.0) * 1e6).round() as u64;
    let ([year, month, day], [hour, minute, second]) = civil(micros / 1_000_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}",
        micros % 1_000_000
    )
}

/// Seconds since 1970 as the name of a run's folder: `20261121_072500`.
pub(super) fn folder(unix_seconds: f64) -> String {
    let ([year, month, day], [hour, minute, second]) = civil(unix_seconds.max(0.0) as u64);
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}

/// Year, month, day and hour, minute, second (Howard Hinnant's `civil_from_days`).
fn civil(unix_seconds: u64) -> ([u64; 3], [u64; 3]) {
    let (days, second) = (unix_seconds / 86_400 + 719_468, unix_seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (
        [year, month, day],
        [second / 3_600, second / 60 % 60, second % 60],
    )
}
