//! Calendar dates of Unix times, in UTC.

use std::fmt;

/// A moment in UTC, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime {
    /// Year, month and day, from 1.
    date: [u64; 3],
    /// Hour, minute and second, from 0.
    time: [u64; 3],
}

impl DateTime {
    /// The moment `seconds` after the beginning of 1970.
    ///
    /// The date is Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day
    /// is the last of its year and months have lengths that a linear formula gives.
    pub fn of_unix_seconds(seconds: u64) -> Self {
        let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
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
        Self {
            date: [year, month, day],
            time: [second / 3_600, second / 60 % 60, second % 60],
        }
    }

    /// The moment as part of a name, with `between` date and time: `20261121-072500`.
    pub fn for_names(self, between: char) -> String {
        let ([year, month, day], [hour, minute, second]) = (self.date, self.time);
        format!("{year:04}{month:02}{day:02}{between}{hour:02}{minute:02}{second:02}")
    }
}

impl fmt::Display for DateTime {
    /// As ISO 8601 without a zone: `2026-11-21T07:25:00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([year, month, day], [hour, minute, second]) = (self.date, self.time);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::DateTime;

    #[test]
    fn dates_are_right_around_leap_days() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_709_251_200, "2024-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(DateTime::of_unix_seconds(seconds).to_string(), shown);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let day = |days: u64| DateTime::of_unix_seconds(days * 86_400).date;
        for days in 1..200_000 {
            let ([year, month, date], next) = (day(days - 1), day(days));
            let follows = next == [year, month, date + 1]
                || next == [year, month + 1, 1]
                || (next == [year + 1, 1, 1] && [month, date] == [12, 31]);
            assert!(follows, "{next:?} after {year}-{month}-{date}");
        }
    }

    #[test]
    fn names_sort_as_the_moments_do() {
        let moment = DateTime::of_unix_seconds(1_795_245_900);
        assert_eq!(moment.for_names('-'), "20261121-072500");
        assert_eq!(moment.for_names('_'), "20261121_072500");
    }
}
