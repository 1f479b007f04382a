//! Sizing: storage that may not exist yet, in figures, and what a run on it is predicted to be.
//!
//! The workload is a [`TrainPlan`](stormlp_training::plan::train_plan::TrainPlan), as a real run has it; only
//! storage and what lies between the hosts are described here.

pub mod answer;
pub mod assumptions;
pub mod checkpoint;
mod measured;
mod parse;
mod part;
pub mod prediction;
pub mod presets;
pub mod request;
pub mod scenario;
pub mod search;
pub mod storage;
mod surface;

pub use answer::{AtCount, AtDevices, SizingAnswer};
pub use checkpoint::{CheckpointTimes, Optimum};
pub use prediction::{LimitedBy, Prediction, StoragePart};
pub use request::{Case, Extent, SizingRequest};
pub use scenario::{Scenario, Shares};
pub use storage::{DeviceFigures, Link, StorageModel};
pub use surface::{Surface, SurfacePoint};
