//! Problems that prevent a run: options without effect, rules, and missing parts of machine and
//! folder.

use std::path::PathBuf;

use stormlp_core::capacity::{check_memory, check_open_files};
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::failure::Problems;
use stormlp_core::printable::printable;
use stormlp_core::units::ByteSize;

use super::facts::KvcacheFacts;
use super::kvcache_plan::KvcachePlan;
use super::request::KvcacheRequest;
use super::serving_request::{ChunkRequest, ChunkTune};

/// Open files of a thread (a file, its duplicate, its ring), and of everything else.
const FILES_OF_WORKER: u64 = 3;
const OTHER_FILES: u64 = 96;
/// Memory of a thread in addition to its buffer, in bytes.
const WORKER_BYTES: u64 = 256 << 10;

/// Options that have no effect on this load, of whole objects or not, and folders that it cannot use.
pub(super) fn idle_options(request: &KvcacheRequest, is_of_objects: bool, problems: &mut Problems) {
    let is_bucket = request.own_folder().names_objects();
    let of_chunks = request.chunks().is_some_and(|(chunks, tune)| {
        let threads = ChunkRequest { concurrency: chunks.concurrency, ..ChunkRequest::default() };
        let run = ChunkTune { run: tune.run.clone(), ..ChunkTune::default() };
        (chunks, tune) != (&threads, &run)
    });
    for (is_idle, fact, remedy) in [
        (
            is_bucket && request.rank.is_some(),
            "--dir names objects: only one process can use a bucket",
            "start one process, or use --dir with a folder",
        ),
        (
            is_bucket && is_of_objects,
            "--dir names objects: MLPerf's client keeps KV caches in files",
            "use `stormlp kvcache serving`, or --dir with a folder",
        ),
        (
            of_chunks && is_of_objects,
            "the options for prefixes and transfers apply only to traces of Mooncake",
            "leave them out, or replay such a trace",
        ),
    ] {
        if is_idle {
            problems.plan(fact, remedy);
        }
    }
}

/// Rules of a closed run that options of the results break.
pub(super) fn closed_problems(
    plan: &KvcachePlan,
    results_beside_data: &[PathBuf],
    problems: &mut Problems,
) {
    if !plan.request.is_closed() {
        return;
    }
    for folder in results_beside_data {
        let folder = folder.display().to_string();
        problems.plan(
            format!(
                "--closed: results go to {}, which is on the file system of the objects",
                printable(&folder)
            ),
            "use a --results-dir on another file system",
        );
    }
}

/// Open files and memory that this host lacks.
pub(super) fn machine_problems(plan: &KvcachePlan, host: &HostFacts, problems: &mut Problems) {
    let workers = u64::from(plan.most_workers());
    let who = format!("{workers} threads");
    let (more_chunks, fewer, smaller) = match &plan.serving {
        Some(load) => (
            // A thread that loads has each chunk open of which something is in flight.
            u64::from(load.loaders) * (plan.transport.streams as u64).saturating_sub(1),
            "a lower --queue-depth or --concurrency",
            "use a smaller --io-size or --concurrency",
        ),
        None => (0, "fewer --users", "use a smaller --io-size or fewer --users"),
    };
    let files = workers * FILES_OF_WORKER + more_chunks + OTHER_FILES;
    check_open_files(&who, files, Some(fewer), host, problems);
    let memory = plan.buffer_bytes.saturating_add(workers * WORKER_BYTES);
    check_memory(&who, memory, smaller, host, problems);
}

/// A folder that cannot be used, or is too small.
pub(super) fn folder_problems(plan: &KvcachePlan, facts: &KvcacheFacts, problems: &mut Problems) {
    let folder = plan.request.own_folder();
    if let Availability::Unavailable { fact, remedy } = &facts.folder.writable {
        problems.machine(format!("cannot write to {folder}: {fact}"), remedy.clone());
        return;
    }
    if let Some(name) = &facts.foreign {
        problems.machine(
            format!("{folder} contains {name}, which stormlp did not make"),
            "use another --dir, or move it away",
        );
        return;
    }
    let free = plan.free_bytes.unwrap_or(u64::MAX);
    if plan.capacity_bytes > free {
        problems.capacity(
            format!(
                "--capacity {}: {folder} has {} free",
                ByteSize(plan.capacity_bytes),
                ByteSize(free)
            ),
            "use a smaller --capacity, or free some space",
        );
    }
    for pass in &plan.passes {
        if pass.largest_object_bytes > plan.capacity_bytes {
            problems.capacity(
                format!(
                    "the largest object of {} needs {}, but objects in {folder} may use only {}",
                    pass.model.name,
                    ByteSize(pass.largest_object_bytes),
                    ByteSize(plan.capacity_bytes)
                ),
                "use a --dir with more space, a larger --capacity, or a smaller model",
            );
        }
    }
}
