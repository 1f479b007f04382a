//! cuFile, NVIDIA's interface to GPUDirect Storage, through a typed loader of our own.
//!
//! The library is opened at run time ([`Api`]), its driver once for the process ([`Driver`]);
//! files, buffers, batches and streams are registered with it by values that undo it when they
//! are dropped, each holding the driver open. `cuFileDriverOpen` may spin for ever on some
//! machines, so nobody opens it here before [`probe`] has done so in a child process.

mod batch;
mod buffer;
mod driver;
mod error;
mod handle;
mod loader;
mod log;
pub mod probe;
mod stats;
mod stream;
mod sys;
mod version;

pub(crate) use batch::{Batch, BatchEntry};
pub(crate) use buffer::Registration;
pub use driver::{Driver, Properties, Settings};
pub use error::{CuFileError, describe};
pub(crate) use handle::FileHandle;
pub use loader::{Api, LIBRARY_VARIABLE};
pub use log::{LogDestination, send_log_to};
pub use stats::{Counters, nvfs_driver_operations};
pub(crate) use stream::FileStream;
pub use version::LibraryVersion;
