//! Required dataset size, and whether it fits.

use crate::plan::datasize::{
    self, Binding, DataSize, MEMORY_MULTIPLE, MIN_STEPS, SizeError, SizeOptions, SizeRequest,
};
use crate::plan::workload::Workload;
use serde::Serialize;
use stormlp_core::units::{ByteSize, counted, format_duration};

use stormlp_show::document::Document;
use stormlp_show::numbers::thousands;

/// The answer of `stormlp datasize`; these fields are its JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeAnswer {
    /// The workload.
    pub workload: String,
    /// The accelerator.
    pub accelerator: String,
    /// Accelerators, hosts and their memory, batch, samples, profile.
    #[serde(flatten)]
    pub request: SizeRequest,
    /// Whether the memory is this host's, and was not given for all of them.
    pub host_memory_assumed: bool,
    /// Files, bytes, subfolders, steps, binding.
    #[serde(flatten)]
    pub size: DataSize,
    /// Compute time of one run in seconds: the minimum run time.
    pub run_seconds: f64,
    /// The folder that was checked.
    pub folder: String,
    /// Free bytes there; `None` when unknown.
    pub free_bytes: Option<u64>,
    /// Whether it fits there; `None` when unknown.
    pub fits: Option<bool>,
}

impl SizeAnswer {
    /// The answer for `workload` on hosts with this much memory, and a folder with `free_bytes`, if
    /// known.
    ///
    /// # Errors
    /// When a count is zero or the numbers exceed any possible storage.
    pub fn of(
        asked: &SizeOptions,
        workload: &Workload,
        host_memory_bytes: u64,
        free_bytes: Option<u64>,
    ) -> Result<Self, SizeError> {
        let request = asked.request(workload, host_memory_bytes);
        let size = datasize::datasize(&request)?;
        let steps = size.steps_per_epoch as f64 * f64::from(workload.train.epochs);
        Ok(Self {
            workload: workload.name.clone(),
            accelerator: workload.accelerator.clone(),
            request,
            host_memory_assumed: asked.host.is_none(),
            size,
            run_seconds: steps * workload.train.computation_time.mean_seconds(),
            folder: asked.folder(workload).display().to_string(),
            free_bytes,
            fits: free_bytes.map(|free| size.bytes <= free),
        })
    }
}

/// Renders the answer as a document.
pub fn datasize(answer: &SizeAnswer) -> Document {
    let SizeAnswer { request, size, .. } = answer;
    let memory = ByteSize(request.host_memory_bytes);
    let assumed =
        if answer.host_memory_assumed { ", assumed as on this host (--host memory=)" } else { "" };
    let each =
        if request.hosts > 1 { format!(" with {memory} each{assumed}") } else { String::new() };
    let mut document = Document::new(format!(
        "{} files, {} for {} on {} {}, on {}{each}",
        thousands(size.files),
        ByteSize(size.bytes),
        answer.workload,
        request.accelerators,
        answer.accelerator,
        counted(request.hosts, "host"),
    ));
    let facts = &mut document.brief;
    facts.add("edition", format!("{} ({})", request.profile.edition(), request.profile.describe()));
    facts.add("memory", format!("{memory} per host{assumed}"));
    facts.add("bytes", thousands(size.bytes));
    facts.add(
        "decided by",
        match size.binding {
            Binding::Memory => format!(
                "{MEMORY_MULTIPLE} times the memory of all hosts (the steps alone need {})",
                counted(size.files_for_steps, "file")
            ),
            Binding::Steps => format!(
                "{MIN_STEPS} steps per epoch (the memory alone needs {})",
                counted(size.files_for_memory, "file")
            ),
        },
    );
    facts.add(
        "subfolders",
        match size.subfolders {
            0 => "none needed".to_string(),
            count => format!("{count} advised (--params dataset.num_subfolders_train={count})"),
        },
    );
    facts.add("steps", format!("{} per epoch", size.steps_per_epoch));
    let run = format_duration(answer.run_seconds);
    facts.add("run", format!("at least {run} of compute"));
    let fits = match (answer.free_bytes, answer.fits) {
        (Some(free), Some(true)) => format!("it fits: {} free", ByteSize(free)),
        (Some(free), _) => format!("it does not fit: {} free", ByteSize(free)),
        (None, _) => "free space unknown".to_string(),
    };
    facts.add("folder", format!("{}: {fits}", answer.folder));
    document
}
