//! Sizing: describes storage that need not exist yet, and the prediction for a run on it.
//!
//! The workload is the same [`TrainPlan`](stormlp_training::plan::train_plan::TrainPlan) as in a real run;
//! only storage and the hosts' network are described here.

pub mod answer;
pub mod assumptions;
pub mod case;
pub mod checkpoint;
mod client;
mod known;
mod measured;
pub mod overhead;
mod parse;
mod part;
pub mod prediction;
pub mod presets;
pub mod request;
pub mod scenario;
pub mod search;
pub mod storage;
mod surface;
mod typed;
pub mod variants;

pub use answer::{AnswerRow, AtCount, Need, OtherAnswer, Range, RowKind, SizingAnswer};
pub use case::{Case, Sizing};
pub use checkpoint::{CheckpointTimes, Optimum};
pub use known::KnownStorage;
pub use overhead::Overhead;
pub use part::Extent;
pub use prediction::{LimitedBy, Prediction, StoragePart};
pub use request::SizingRequest;
pub use scenario::{Scenario, Shares};
pub use storage::{Connections, DeviceFigures, Link, StorageModel};
pub use surface::{Surface, SurfacePoint};
