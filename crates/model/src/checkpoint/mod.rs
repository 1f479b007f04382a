//! Checkpoints of large language models: who writes which bytes, what was asked, what was
//! decided, what came out.
//!
//! A workload file describes a model and its parallelism; [`Layout`] derives from them every file
//! of every rank. `resolve` turns a request and the facts of the host into a plan in which every
//! number is decided, and a run of it gives a report.
//!
//! ```
//! use stormlp_model::checkpoint::builtin;
//! let workload = builtin::load("llama3-8b").expect("a built-in model");
//! let layout = workload.layout(workload.parallelism_of_all_ranks());
//! assert_eq!(layout.total_bytes(), 112_425_623_552);
//! ```

mod architecture;
pub mod builtin;
mod layout;
mod parallelism;
mod workload;
mod yaml;

pub use architecture::{Architecture, DataType};
pub use layout::{CheckpointFile, Layout};
pub use parallelism::{Parallelism, Position, ZeroStage};
pub use workload::{CheckpointWorkload, Mode};
pub use yaml::{YamlError, parse};
