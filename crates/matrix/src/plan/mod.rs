//! The transfer matrix: request, plan and report.
//!
//! A [`MatrixRequest`] holds lists. [`resolve`] combines them with the facts of the host and of the
//! data folders into a [`MatrixPlan`] in which every number is decided. Running the plan gives a
//! [`MatrixReport`]. All three are plain data.

mod alike;
mod cells;
mod check;
pub mod choice;
mod devices;
mod files;
mod fit;
pub mod gdsio;
mod inventory;
pub mod knee;
mod manifest;
pub mod matrix_plan;
mod open_files;
mod plan_warnings;
mod preset;
mod reach;
mod request;
mod resolve;
mod result_warnings;
mod resume;
mod space;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use crate::plan::matrix_plan::{
    CellPlan, Crew, FileAction, FilePlan, FolderPlan, Layout, MatrixPlan, WorkerPlan,
};
pub use crate::report::{
    CellReport, CellStatus, HostCell, JobReport, MatrixReport, MatrixResults, Measurement,
    Mismatch, Verification,
};
pub use alike::{asked, decided, difference};
pub use choice::{BufferBacking, CacheState, Fill, Fsync, IoSize, PathChoice, Span};
pub use inventory::{FileFacts, FileKind, FolderFacts, OtherFile, TargetInventory};
pub use knee::{
    DEPTHS as KNEE_DEPTHS, FindKnee, Knee, KneePoint, REPEAT as KNEE_REPEAT,
    THREADS as KNEE_THREADS, find_knees, likely_left, next_cell,
};
pub use manifest::{ContentState, DataManifest, MANIFEST_NAME, ManifestError, ManifestFile};
pub use preset::{MatrixPreset, PresetError, preset_names};
pub use reach::Reach;
pub use request::{JobRequest, MatrixRequest, SharedFile, Target};
pub use resolve::{ASSUMED_BYTES_PER_SECOND, resolve};
pub use result_warnings::result_warnings;
pub use resume::{NotTaken, take_measured};
