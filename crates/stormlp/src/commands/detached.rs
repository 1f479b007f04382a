//! Hosts without a launcher: each starts by its own clock, and `stormlp report merge` combines
//! their saved reports.

use std::str::FromStr;

use chrono::{DateTime, NaiveTime, SecondsFormat, Utc};
use stormlp_core::report::Head;
use stormlp_core::report::PartOf;
use stormlp_hosts::company::Company;

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::party::boot_id;
use stormlp_hosts::session::Session;

/// Start time of hosts without a launcher.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct DetachedArgs {
    /// Without a launcher: start at this time (UTC), the same on every host: 14:30, 14:30:05,
    /// 2026-11-22T14:30:05Z or seconds since 1970
    #[arg(long, value_name = "TIME", requires = "run_id", conflicts_with = "find_knee")]
    start_at: Option<StartAt>,

    /// ID shared by all hosts' reports, for `stormlp report merge`
    #[arg(long, value_name = "ID", requires = "start_at", value_parser = parse_id)]
    run_id: Option<String>,
}

/// A start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StartAt(DateTime<Utc>);

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
            Some(Utc::now().date_naive().and_time(time).and_utc())
        };
        let whole = DateTime::parse_from_rfc3339(text).ok();
        let found = whole.map(|time| time.to_utc()).or_else(of_seconds).or_else(of_day);
        found.map(Self).ok_or_else(|| {
            "invalid time: use 14:30:05 (today, UTC), 2026-11-22T14:30:05Z or seconds since 1970"
                .to_string()
        })
    }
}

fn parse_id(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_string()) } else { Ok(text.to_string()) }
}

impl DetachedArgs {
    /// Rejects times that have passed, and hosts started by a launcher.
    ///
    /// # Errors
    /// With exit code 2.
    pub(crate) fn check(&self, session: &Session) -> Result<(), Failure> {
        let Some(StartAt(time)) = self.start_at else {
            return Ok(());
        };
        if !session.group.is_alone() {
            return Err(Failure::usage(
                "--start-at has no effect under a launcher, where hosts wait for each other: leave \
                 it out",
            ));
        }
        if time <= Utc::now() {
            let (time, now) = (words(time), words(Utc::now()));
            return Err(Failure::usage(format!("--start-at {time} has passed: it is {now} here"))
                .with_help("give every host a time that leaves it enough to prepare"));
        }
        Ok(())
    }

    /// The company in which this host measures, if no launcher started it with others.
    pub(crate) fn company(&self) -> Company<'static> {
        match self.start_at {
            None => Company::Alone,
            Some(StartAt(time)) => Company::From(time.timestamp_micros() as f64 / 1e6),
        }
    }

    /// Records the run ID and the host's part in the head of a report.
    pub(crate) fn mark(&self, head: &mut Head) {
        let (Some(StartAt(time)), Some(run_id)) = (self.start_at, &self.run_id) else {
            return;
        };
        head.part = Some(PartOf {
            run_id: run_id.clone(),
            host: head.host.hostname.clone(),
            boot_id: boot_id(),
            process: std::process::id(),
            rank: None,
            size: None,
            start_at: Some(words(time)),
        });
    }

    /// Prints the start time this host waits for.
    pub(crate) fn announce(&self, session: &Session) {
        if let Some(StartAt(time)) = self.start_at.filter(|_| !session.quiet) {
            output::say(format!("the measurement starts at {}", words(time)));
        }
    }
}

fn words(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let whole: StartAt = "2026-11-22T14:30:05Z".parse().unwrap();
        assert_eq!(words(whole.0), "2026-11-22T14:30:05Z");
        let zone: StartAt = "2026-11-22T15:30:05+01:00".parse().unwrap();
        assert_eq!(zone, whole);
        let seconds: StartAt = whole.0.timestamp().to_string().parse().unwrap();
        assert_eq!(seconds, whole);
        let today: StartAt = "14:30".parse().unwrap();
        assert!(words(today.0).ends_with("T14:30:00Z"));
        for wrong in ["", "soon", "25:00", "-"] {
            wrong.parse::<StartAt>().unwrap_err();
        }
    }
}
