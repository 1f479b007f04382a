//! The state that all sessions with an object store share.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use rustls::ClientConfig;
use stormlp_core::evidence::ObjectStore;
use stormlp_core::verify::Verify;
use url::Url;

use super::error::{ObjectError, ObjectFault};
use super::settings::{Settings, host};
use super::sign;
use super::tls;
use crate::error::TransferError;

/// An object store as one user sees it.
#[derive(Debug)]
pub struct Client {
    pub(super) settings: Settings,
    /// How objects are verified.
    pub(super) verify: Verify,
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The endpoints of the settings, with the facts known of each.
    pub(super) endpoints: Vec<Endpoint>,
    /// The versions of HTTP and of TLS, if there is any, of the first reply.
    pub(super) seen: OnceLock<(String, Option<String>)>,
    /// The first header `Server`: a proxy that refuses before the server may send none.
    pub(super) server: OnceLock<String>,
    pub(super) sessions: AtomicU64,
    /// Held while a session chooses its endpoint, so that two do not choose the same.
    pub(super) choosing: Mutex<()>,
}

/// One address of the store.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// Whether it has ever answered: until then no request is retried, so that a wrong address is
    /// reported at once.
    pub(super) answered: AtomicBool,
    /// Sessions with it now, each of which has one connection.
    pub(super) sessions: AtomicU64,
}

impl Client {
    /// A client of the endpoint in `settings` that verifies objects as `verify` says; does not
    /// connect yet.
    ///
    /// # Errors
    /// When the endpoint needs TLS and there are no certificates to trust.
    pub fn new(settings: Settings, verify: Verify) -> Result<Arc<Self>, TransferError> {
        let secure = settings.endpoints.iter().any(|url| url.scheme() == "https");
        let endpoint = |url: &Url| Endpoint {
            url: url.clone(),
            answered: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
        };
        let tls = secure.then(|| tls::config(settings.ca_bundle.as_deref())).transpose()?;
        Ok(Arc::new(Self {
            endpoints: settings.endpoints.iter().map(endpoint).collect(),
            settings,
            verify,
            tls,
            seen: OnceLock::new(),
            server: OnceLock::new(),
            sessions: AtomicU64::new(1),
            choosing: Mutex::new(()),
        }))
    }

    /// The settings in use.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The evidence of a session with endpoint `at` that counted this much.
    pub(super) fn evidence(&self, at: usize, counts: ObjectStore) -> ObjectStore {
        let (http, tls) = self.seen.get().cloned().unzip();
        ObjectStore {
            endpoint: host(&self.endpoints[at].url),
            addressing: self.settings.addressing().to_string(),
            server: self.server.get().cloned(),
            http,
            tls: tls.flatten(),
            ..counts
        }
    }

    /// A text that quotes the endpoint, without the user's credentials, should it repeat them, and
    /// without words longer than `longest`.
    pub(super) fn conceal(&self, longest: usize, text: &str) -> String {
        sign::conceal(&self.settings.credentials, longest, text)
    }

    /// A fault that may quote the endpoint, without the user's credentials.
    pub(super) fn concealed(&self, fault: ObjectFault) -> ObjectFault {
        match fault {
            ObjectFault::Answer(what) => ObjectFault::Answer(self.conceal(usize::MAX, &what)),
            ObjectFault::Data(what) => ObjectFault::Data(self.conceal(usize::MAX, &what)),
            fault => fault,
        }
    }
}

impl From<ObjectError> for TransferError {
    fn from(error: ObjectError) -> Self {
        Self::Object(Box::new(error))
    }
}
