//! What a run needs besides its plan.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stormlp_model::date::DateTime;
use stormlp_model::event::{Event, Observer};
use stormlp_model::stop::StopToken;
use stormlp_transfer::storage::Storage;

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
    pub(crate) fn note(&self, message: impl Into<String>) {
        let message = message.into();
        self.observer.event(&Event::Note { message });
    }
}

/// Seconds since 1970 in UTC; 0 with a clock before that.
pub(crate) fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// What time it is, RFC 3339 in UTC.
pub(crate) fn now() -> String {
    format!("{}Z", DateTime::of_unix_seconds(unix_seconds() as u64))
}
