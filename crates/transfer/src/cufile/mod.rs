//! cuFile, NVIDIA's interface to GPUDirect Storage, through a typed loader of our own.
//! It is laid out and named in `nvidia`.
//!
//! The library is opened at run time ([`Api`]), its driver once per process ([`Driver`]); files,
//! buffers, batches and streams are registered with it by values that undo it on drop, each
//! keeping the driver open. `cuFileDriverOpen` may spin forever on some machines, so it is never
//! called here before [`probe`] has done so in a child process.

mod batch;
mod buffer;
mod candidates;
mod config;
mod count;
mod driver;
mod error;
mod handle;
mod kernel;
mod loader;
mod log;
mod nvidia;
pub mod probe;
mod properties;
mod stats;
mod stream;
mod sys;
mod tally;
mod version;

pub(crate) use batch::{Batch, BatchEntry};
pub(crate) use buffer::Registration;
pub use count::Statistics;
pub(crate) use count::Transferred;
pub use driver::{Driver, Settings};
pub use error::CuFileError;
pub(crate) use handle::FileHandle;
pub(crate) use kernel::{NvfsCounts, NvidiaFsCounts, TO_ENABLE};
pub use loader::{Api, LIBRARY_VARIABLE};
pub use log::{forbid_compat_mode, send_log_to};
pub use properties::{POLL_MODE, Properties};
pub use stats::{RouteCounters, Routes};
pub(crate) use stream::FileStream;
pub(crate) use tally::{RouteCounting, Tally};
pub use version::LibraryVersion;
