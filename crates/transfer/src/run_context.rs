//! The context of a run, apart from its plan.

use std::sync::{Arc, LazyLock};
use std::time::{Instant, SystemTime};

use crate::storage::Storage;
use chrono::{DateTime, SecondsFormat, Utc};
use stormlp_core::event::{Event, Observer};
use stormlp_core::stop::StopToken;
use stormlp_core::warning::{Warning, WarningKind};

/// The storage, the observer and the stop token of a run.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// The storage that holds the data.
    pub storage: &'a Arc<dyn Storage>,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Set when the user wants to stop.
    pub stop: &'a StopToken,
}

impl RunContext<'_> {
    /// Notifies the user during the run.
    pub fn note(&self, message: impl Into<String>) {
        let message = message.into();
        self.observer.event(&Event::Note { message });
    }
}

/// The clock of the machine when it was first asked, and the monotonic one then.
static BEGUN: LazyLock<(SystemTime, Instant)> =
    LazyLock::new(|| (SystemTime::now(), Instant::now()));

/// The current time: of the start of the program, plus the time that passed, whatever happens to the
/// clock. Unlike chrono's, it does not panic on a clock before 1970.
pub fn utc() -> DateTime<Utc> {
    (BEGUN.0 + BEGUN.1.elapsed()).into()
}

/// A warning if the clock was set while the program ran.
pub fn clock_step() -> Option<Warning> {
    step(SystemTime::now().into(), utc())
}

/// The same for the clock's time and the expected one.
fn step(clock: DateTime<Utc>, expected: DateTime<Utc>) -> Option<Warning> {
    let seconds = (clock - expected).num_milliseconds() as f64 / 1e3;
    let way = if seconds < 0.0 { "back" } else { "forward" };
    let fact = format!("the clock was set {way} by {:.0} s during the run", seconds.abs());
    let remedy = "times in the report continue from its start; durations are not affected";
    (seconds.abs() >= 1.0).then(|| Warning::new(WarningKind::KnownIssue, fact, remedy))
}

/// Seconds since 1970 in UTC.
pub fn unix_seconds() -> f64 {
    utc().timestamp_micros() as f64 / 1e6
}

/// The current time, RFC 3339 in UTC.
pub fn now() -> String {
    utc().to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_step_of_the_clock_is_named_and_time_goes_on() {
        let told = |seconds| {
            let expected = utc();
            step(expected + TimeDelta::seconds(seconds), expected).map(|warning| warning.fact)
        };
        assert_eq!(told(0), None);
        let fact = |words: &str| Some(format!("the clock was set {words} s during the run"));
        assert_eq!(told(-3600), fact("back by 3600"));
        assert_eq!(told(90), fact("forward by 90"));
        let before = utc();
        assert!(utc() >= before && clock_step().is_none());
    }
}
