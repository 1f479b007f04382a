//! The context of a run, apart from its plan.

use std::sync::Arc;
use std::time::SystemTime;

use crate::storage::Storage;
use chrono::{DateTime, SecondsFormat, Utc};
use stormlp_core::event::{Event, Observer};
use stormlp_core::stop::StopToken;

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

/// The current time. Unlike chrono's, it does not panic on a clock before 1970.
pub fn utc() -> DateTime<Utc> {
    SystemTime::now().into()
}

/// Seconds since 1970 in UTC.
pub fn unix_seconds() -> f64 {
    utc().timestamp_micros() as f64 / 1e6
}

/// The current time, RFC 3339 in UTC.
pub fn now() -> String {
    utc().to_rfc3339_opts(SecondsFormat::Secs, true)
}
