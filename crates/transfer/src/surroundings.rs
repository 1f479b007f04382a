//! What a run needs besides its plan.

use std::sync::Arc;

use crate::storage::Storage;
use chrono::{SecondsFormat, Utc};
use stormlp_core::event::{Event, Observer};
use stormlp_core::stop::StopToken;

/// Who hears of a run, and who may end it.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// What the data is on.
    pub storage: &'a Arc<dyn Storage>,
    /// Who hears of progress.
    pub observer: &'a dyn Observer,
    /// Pulled when the user wants to end.
    pub stop: &'a StopToken,
}

impl Surroundings<'_> {
    /// Tells the user something while the run goes on.
    pub fn note(&self, message: impl Into<String>) {
        let message = message.into();
        self.observer.event(&Event::Note { message });
    }
}

/// Seconds since 1970 in UTC.
pub fn unix_seconds() -> f64 {
    Utc::now().timestamp_micros() as f64 / 1e6
}

/// What time it is, RFC 3339 in UTC.
pub fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)
}
