//! How bytes move between storage and an accelerator.
//!
//! A [`TransferPath`] is one way for bytes to travel between a file and a [`Slot`]; the [`Driver`]
//! that owns it keeps transfers in flight and takes the timestamps, so that every path is timed
//! alike. [`Storage`](storage) opens, preallocates, syncs and renames files; a path only moves
//! bytes. [`Accelerator`] is the memory transfers end in: GPU memory, or host memory that stands
//! in for it and is always called emulated.
//!
//! This is the only crate with `unsafe`, CUDA and cuFile. GPU libraries are opened at run time.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accelerator;
mod attached;
pub mod cuda;
pub mod cufile;
pub mod drive;
pub mod engine;
mod environment;
pub mod error;
pub mod evidence;
pub mod fallback;
pub mod limits;
pub mod object;
pub mod page_cache;
pub mod paths;
pub mod probe;
pub mod region;
pub mod run_context;
pub mod sampler;
pub mod signals;
pub mod stamp;
pub mod storage;
pub mod telemetry;
pub mod thread;
pub mod thread_group;
pub mod timer;
mod transfer;
pub mod watchdog;

pub use accelerator::{Accelerator, AcceleratorSet, HostStandIn, Regions};
pub use drive::{CompletedTransfer, Counted, Counters, Driver, DriverSet, InFlightStats};
pub use error::{DEVICE_HELP, TransferError, is_full, unread};
pub use paths::{PathBuffers, PathSpec, buffers_needed, build_path};
pub use region::{Backing, HostBuffer, Region};
pub use stamp::{Stamp, StampClock};
pub use transfer::{
    AcceleratorBuffer, Completion, FileId, FileRange, Rejected, Slot, Transfer, TransferPath,
};
