//! Sessions that no thread uses at the moment: whoever needs one for a request gets one with an
//! open connection.

use std::sync::{Arc, Mutex, PoisonError};

use stormlp_core::evidence::ObjectStore;

use super::client::Client;
use super::session::Session;
use crate::error::TransferError;

/// The idle sessions of a client, each with its bucket.
#[derive(Debug)]
pub(crate) struct SessionPool {
    client: Arc<Client>,
    idle: Mutex<Vec<(String, Session)>>,
}

impl SessionPool {
    /// A pool without sessions.
    pub(crate) fn of(client: Arc<Client>) -> Arc<Self> {
        Arc::new(Self { client, idle: Mutex::default() })
    }

    /// The client of its sessions.
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The traffic of all sessions that are idle now.
    pub(crate) fn evidence(&self) -> Option<ObjectStore> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().map(|(_, session)| session.evidence()).reduce(|sum, one| sum.plus(&one))
    }

    /// Does something in a session with `bucket`, which is free again afterwards.
    pub(crate) fn within<T>(
        &self,
        bucket: &str,
        act: impl FnOnce(&mut Session) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut idle = idle();
            let at = idle.iter().position(|(name, _)| name == bucket);
            at.map(|at| idle.swap_remove(at).1)
        };
        let mut session = found.map_or_else(|| self.client.session(bucket), Ok)?;
        let done = act(&mut session);
        idle().push((bucket.to_string(), session));
        done
    }
}
