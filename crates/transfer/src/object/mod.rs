//! Object stores: a client of S3 over HTTP/1.1 on blocking sockets.
//!
//! [`Settings`] come from the environment and `~/.aws`, as in the AWS tools. A [`Client`] is
//! shared; each thread speaks through a [`Session`] with a separate connection, and counts
//! requests, retries, connections and bytes. Bodies are received straight into the caller's memory.
//! Addresses and XML come from `rusty-s3`, which does no I/O; requests are signed in a header.

mod checks;
mod checksum;
mod client;
mod document;
mod error;
mod get;
mod ini;
mod pool;
#[cfg(test)]
mod redirect_tests;
mod reply;
mod request;
mod retry;
mod session;
mod settings;
mod sign;
#[cfg(test)]
mod tests;
mod tls;
mod upload;
mod uploads;
mod wire;

pub(crate) use checksum::Checksum;
pub use client::Client;
pub use error::{ObjectError, ObjectFault};
pub use get::Get;
pub(crate) use pool::SessionPool;
pub use session::{Listed, ObjectFacts, Session, read_reply};
pub use settings::Settings;
pub use upload::{PART_BYTES, Upload};
pub use uploads::Pending;
