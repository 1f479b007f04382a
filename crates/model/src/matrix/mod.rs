//! The transfer matrix: what was asked, what was decided, what came out.
//!
//! A [`MatrixRequest`] holds lists; [`resolve`] crosses them with the facts of the host and of
//! the data folders into a [`MatrixPlan`] in which every number is decided; running the plan
//! gives a [`MatrixReport`]. All three are plain data.

mod choice;
mod inventory;
mod manifest;
mod plan;
mod report;
mod request;

pub use choice::{
    BufferBacking, CacheState, DeviceId, EngineChoice, Fill, IoSize, PathChoice, Span,
};
pub use inventory::{FileFacts, FileKind, FolderFacts, FoundFile, Inventory};
pub use manifest::{Content, DataManifest, MANIFEST_NAME, ManifestError, ManifestFile};
pub use plan::{
    CellPlan, Crew, FileAction, FilePlan, FolderPlan, MatrixPlan, MemoryPlan, WorkerPlan,
};
pub use report::{
    CellReport, CellStatus, JobReport, MatrixReport, Measurement, Mismatch, Verification,
};
pub use request::{JobRequest, MatrixRequest, SharedFile, Target};
