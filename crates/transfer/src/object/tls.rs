//! TLS for endpoints that ask for it: which certificates are trusted.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::error::TransferError;

/// The settings of all connections: the certificates of `bundle`, otherwise this machine's.
pub(super) fn config(bundle: Option<&Path>) -> Result<Arc<ClientConfig>, TransferError> {
    let mut roots = RootCertStore::empty();
    match bundle {
        Some(path) => {
            let unusable = |error: &dyn std::fmt::Display| {
                lacks(format!("AWS_CA_BUNDLE, {}: {error}", path.display()))
            };
            let found = CertificateDer::pem_file_iter(path).map_err(|e| unusable(&e))?;
            for certificate in found {
                let certificate = certificate.map_err(|e| unusable(&e))?;
                roots.add(certificate).map_err(|e| unusable(&e))?;
            }
            if roots.is_empty() {
                return Err(unusable(&"it contains no certificate"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(lacks("this machine has no list of certificate authorities".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| lacks(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn lacks(reason: String) -> TransferError {
    TransferError::Unavailable {
        what: "TLS to the object store".to_string(),
        reason,
        remedy: "name a file of certificates (PEM) in AWS_CA_BUNDLE".to_string(),
    }
}
