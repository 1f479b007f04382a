//! How large a dataset must be, and whether it fits.

use serde::Serialize;
use stormlp_model::training::datasize::{Binding, DataSize, MEMORY_MULTIPLE, MIN_STEPS};
use stormlp_model::training::profile::Profile;
use stormlp_model::units::{ByteSize, counted, format_duration};

/// The answer of `stormlp datasize`; its JSON is these fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// The workload.
    pub workload: String,
    /// The accelerator.
    pub accelerator: String,
    /// Accelerators in all.
    pub accelerators: u64,
    /// Hosts.
    pub hosts: u64,
    /// Memory of one host in bytes.
    pub host_memory_bytes: u64,
    /// Whose rounding.
    pub profile: Profile,
    /// Files, bytes, subfolders, steps, binding.
    #[serde(flatten)]
    pub size: DataSize,
    /// Compute of one run in seconds: its shortest possible time.
    pub run_seconds: f64,
    /// The folder that was looked at.
    pub folder: String,
    /// Free bytes there; `None` when unknown.
    pub free_bytes: Option<u64>,
    /// Whether it fits there; `None` when unknown.
    pub fits: Option<bool>,
}

/// The answer for people.
#[must_use]
pub fn datasize_text(answer: &SizeAnswer) -> String {
    let size = &answer.size;
    let why = match size.binding {
        Binding::Memory => format!(
            "{MEMORY_MULTIPLE} times the memory of {} with {} (the steps alone would need {})",
            counted(answer.hosts, "host"),
            ByteSize(answer.host_memory_bytes),
            counted(size.files_for_steps, "file")
        ),
        Binding::Steps => format!(
            "{MIN_STEPS} steps an epoch (the memory alone would need {})",
            counted(size.files_for_memory, "file")
        ),
    };
    let subfolders = match size.subfolders {
        0 => "none needed".to_string(),
        count => format!("{count} advised (--params dataset.num_subfolders_train={count})"),
    };
    let fits = match (answer.free_bytes, answer.fits) {
        (Some(free), Some(true)) => format!("it fits: {} free", ByteSize(free)),
        (Some(free), _) => format!("it does not fit: {} free", ByteSize(free)),
        (None, _) => "free space unknown".to_string(),
    };
    format!(
        "{} on {} {} on {}, profile {} ({})\n\
         files       {}\n\
         bytes       {} ({})\n\
         decided by  {why}\n\
         subfolders  {subfolders}\n\
         steps       {} an epoch\n\
         run         at least {} of compute\n\
         folder      {}: {fits}\n",
        answer.workload,
        answer.accelerators,
        answer.accelerator,
        counted(answer.hosts, "host"),
        answer.profile,
        answer.profile.describe(),
        size.files,
        size.bytes,
        ByteSize(size.bytes),
        size.steps_per_epoch,
        format_duration(answer.run_seconds),
        answer.folder,
    )
}
