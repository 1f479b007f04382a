//! Checkpoints of large language models: layout, request, plan and results.
//!
//! A workload file describes a model and its parallelism; [`Layout`] derives every file of every
//! rank from them. [`resolve`] turns a request and the facts of the host into a plan in which every
//! number is decided. Running the plan gives a [`CheckpointReport`](crate::report::CheckpointReport).
//!
//! ```
//! use stormlp_checkpoint::plan::builtin;
//! let workload = builtin::load("llama3-8b").expect("a built-in model");
//! let layout = workload.layout(workload.parallelism_of_all_ranks());
//! assert_eq!(layout.total_bytes(), 112_425_623_552);
//! ```

mod adopt;
mod architecture;
pub mod builtin;
pub mod checkpoint_plan;
pub mod choice;
mod client;
mod facts;
mod layout;
mod marker;
mod parallelism;
mod parse;
mod request;
pub mod resolve;
pub mod rules;
mod saved;
mod scale;
mod space;
mod torch;
mod transport;
mod warnings;
mod workload;

pub use crate::plan::checkpoint_plan::{CheckpointPlan, RankPlan, dealt_to, host_of};
pub use architecture::{Architecture, DataType};
pub use choice::{Arithmetic, CheckpointProfile, Container, FsyncPolicy, ScaleChoice};
pub use client::CheckpointClient;
pub use facts::{CheckpointFacts, SavedPart};
pub use layout::{CheckpointFile, Layout};
pub use marker::{
    ContentFacts, MARKER_NAME, MarkedFile, Marker, MarkerError, run_number, step_folder, step_of,
};
pub use parallelism::{Parallelism, Position, ZeroStage};
pub use parse::parse;
pub use request::CheckpointRequest;
pub use resolve::resolve;
pub use scale::Scaling;
pub use space::gib;
pub use torch::{FileFraming, FileTensors, TensorGroup};
pub use workload::{CheckpointWorkload, HOST_RANKS, Mode, Ranks};
