//! The transfer matrix: request, plan and report.
//!
//! A [`MatrixRequest`] holds lists. [`resolve`] combines them with the facts of the host and of the
//! data folders into a [`MatrixPlan`] in which every number is decided. Running the plan gives a
//! [`MatrixReport`]. All three are plain data.

mod cells;
mod check;
pub mod choice;
pub(crate) mod compared;
mod complete;
mod devices;
mod files;
pub mod gdsio;
mod inventory;
pub mod knee;
mod manifest;
pub mod matrix_plan;
mod plan_warnings;
pub(crate) mod preset;
mod reach;
mod request;
mod resolve;
mod resume;
#[cfg(test)]
mod tests;

pub use crate::plan::matrix_plan::{
    ASSUMED_BYTES_PER_SECOND, CellPlan, FileAction, FilePlan, LayoutSummary, MatrixPlan,
    ThreadGroupPlan, WorkerPlan,
};
pub use crate::report::{
    CellReport, CellStatus, CellVerification, FileMismatch, FindKnee, HostCell, JobReport, Knee,
    KneePoint, MatrixReport, MatrixResults, Measurement, MixedParts, Transfers,
};
pub use choice::{CacheState, CellSpan, Fill, Fsync, IoSize, PathChoice};
pub use compared::{asked, decided};
pub use inventory::{FileFacts, FileKind, TargetFolder, TargetInventory, TargetPlace};
pub use knee::{find_knees, likely_left, next_cell};
pub use manifest::{ContentState, DataManifest, ListedFile, MANIFEST_NAME};
pub use preset::preset_names;
pub use reach::Reach;
pub use request::{JobRequest, JobTarget, MatrixRequest, MatrixTune, SharedFile};
pub use resolve::resolve;
pub use resume::{check_hosts, resumed};
