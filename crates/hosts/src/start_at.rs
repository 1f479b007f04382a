//! Hosts without a launcher: all of them start at the same time, each by its own clock.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveTime, SecondsFormat, Utc};
use stormlp_core::failure::Failure;
use stormlp_core::report::{Head, PartOf};
use stormlp_transfer::surroundings::utc;

use crate::company::Company;
use crate::group::Group;
use crate::party::boot_id;

/// The start time of hosts without a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAt(DateTime<Utc>);

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of_seconds = || {
            let seconds: i64 = text.parse().ok()?;
            DateTime::from_timestamp(seconds, 0)
        };
        let of_day = || {
            let formats = ["%H:%M:%S", "%H:%M"];
            let time =
                formats.iter().find_map(|format| NaiveTime::parse_from_str(text, format).ok())?;
            Some(utc().date_naive().and_time(time).and_utc())
        };
        let whole = DateTime::parse_from_rfc3339(text).ok();
        let found = whole.map(|time| time.to_utc()).or_else(of_seconds).or_else(of_day);
        found.map(Self).ok_or_else(|| {
            "invalid time: use 14:30:05 (today, UTC), 2026-11-22T14:30:05Z or seconds since 1970"
                .to_string()
        })
    }
}

/// As in reports: `2026-11-22T14:30:05Z`.
impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

impl StartAt {
    /// Rejects a time that has passed, and hosts started by a launcher.
    ///
    /// # Errors
    /// With exit code 2.
    pub fn check(self, group: &Group) -> Result<(), Failure> {
        if !group.is_alone() {
            return Err(Failure::usage(
                "--start-at has no effect under a launcher, where hosts wait for each other: leave \
                 it out",
            ));
        }
        let now = utc();
        if self.0 <= now {
            let now = Self(now);
            return Err(Failure::usage(format!("--start-at {self} has passed: it is {now} here"))
                .with_help("give every host a time that leaves it enough to prepare"));
        }
        Ok(())
    }

    /// The company in which this host measures.
    pub fn company(self) -> Company<'static> {
        Company::From(self.0.timestamp_micros() as f64 / 1e6)
    }

    /// The part of this host, whose report has this `head`, in the run called `run_id`.
    pub fn part(self, run_id: &str, head: &Head) -> PartOf {
        PartOf {
            run_id: run_id.to_string(),
            host: head.host.hostname.clone(),
            boot_id: boot_id(),
            process: std::process::id(),
            rank: None,
            size: None,
            start_at: Some(self.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let whole: StartAt = "2026-11-22T14:30:05Z".parse().unwrap();
        assert_eq!(whole.to_string(), "2026-11-22T14:30:05Z");
        let zone: StartAt = "2026-11-22T15:30:05+01:00".parse().unwrap();
        assert_eq!(zone, whole);
        let seconds: StartAt = whole.0.timestamp().to_string().parse().unwrap();
        assert_eq!(seconds, whole);
        let today: StartAt = "14:30".parse().unwrap();
        assert!(today.to_string().ends_with("T14:30:00Z"));
        for wrong in ["", "soon", "25:00", "-"] {
            wrong.parse::<StartAt>().unwrap_err();
        }
    }
}
