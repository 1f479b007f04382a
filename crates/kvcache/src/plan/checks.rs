//! What prevents a run: numbers, options that do not go together, rules, and what machine and folder
//! lack.

use std::path::PathBuf;

use stormlp_core::capacity::{check_memory, check_open_files};
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::failure::Problems;
use stormlp_core::printable::printable;
use stormlp_core::units::ByteSize;

use super::facts::KvcacheFacts;
use super::kvcache_plan::KvcachePlan;
use super::options::{CHUNK_BYTES, MOST_SECONDS, MOST_USERS, MOST_WORKERS, SECONDS};
use super::request::{End, KvcacheRequest, NamingClock};

/// Open files of a thread (a file, its duplicate, its ring), and of everything else.
const FILES_OF_WORKER: u64 = 3;
const OTHER_FILES: u64 = 96;
/// Memory of a thread besides its buffer, in bytes.
const WORKER_BYTES: u64 = 256 << 10;
/// The most trials of a plan.
const MOST_TRIALS: u32 = 1000;

/// Numbers of the request that are invalidly zero, or absurd.
pub(super) fn number_problems(request: &KvcacheRequest, problems: &mut Problems) {
    let mut must = |holds: bool, what: String, remedy: &str| {
        if !holds {
            problems.plan(what, remedy);
        }
    };
    let users = request.users.unwrap_or(1);
    must(
        (1..=MOST_USERS).contains(&users),
        format!("{users} users"),
        &format!("use --users 1 to {MOST_USERS}"),
    );
    let trials = request.trials.unwrap_or(1);
    must(
        (1..=MOST_TRIALS).contains(&trials),
        format!("{trials} trials"),
        &format!("use --trials 1 to {MOST_TRIALS}"),
    );
    let seconds = request.duration_seconds.unwrap_or(SECONDS);
    must(
        (0.1..=MOST_SECONDS).contains(&seconds),
        format!("a duration of {seconds} s"),
        "use --duration with 100ms to 168h",
    );
    let pause = request.pause_seconds.unwrap_or(0.0);
    must(
        (0.0..=86_400.0).contains(&pause),
        format!("a pause of {pause} s"),
        "use --pause with 0 to 24h",
    );
    must(
        request.concurrent_writes != Some(0),
        "0 objects written at a time".to_string(),
        "use --concurrent-writes with at least 1",
    );
    let threads = request.threads.unwrap_or(1);
    must(
        (1..=MOST_WORKERS).contains(&threads),
        format!("{threads} threads"),
        &format!("use --threads 1 to {MOST_WORKERS}"),
    );
    let chunk = request.chunk_bytes.unwrap_or(CHUNK_BYTES);
    must(
        chunk.is_multiple_of(4096) && (4096..=1 << 30).contains(&chunk),
        format!("calls of {}", ByteSize(chunk)),
        "use --chunk-size with a multiple of 4K, from 4K to 1G",
    );
}

/// Options that have no effect on this load.
pub(super) fn kept_apart(request: &KvcacheRequest, loads_prefixes: bool, problems: &mut Problems) {
    let is_bucket = request.own_folder().names_objects();
    if is_bucket && request.rank.is_some() {
        let what = "--dir names objects: KV caches in a bucket are those of one host";
        problems.plan(what, "start one process, or use --dir with a folder");
    }
    if !loads_prefixes {
        if is_bucket {
            let what = "--dir names objects: MLPerf's client keeps KV caches in files";
            problems.plan(what, "use --profile serving, or --dir with a folder");
        }
        if request.find_max {
            let what = "--find-max counts servers, which load prefixes";
            problems.plan(what, "use --profile serving");
        }
        if let Some(option) = request.serving.any() {
            let what = format!("{option} is of prompts that load prefixes");
            problems.plan(what, "use --profile serving, or a --trace of Mooncake");
        }
        if request.threads.is_some() && request.trace.is_none() {
            let what = "--threads: each user has one";
            problems.plan(what, "use --users, --profile serving, or a --trace");
        }
        return;
    }
    let others = [
        ("--option", request.option.is_some()),
        ("--users", request.users.is_some()),
        ("--memory", request.memory_bytes.is_some()),
        ("--concurrent-writes", request.concurrent_writes.is_some()),
        ("--no-conversations", request.no_conversations),
        ("--no-prompts", request.no_prompts),
        ("--end fixed", request.end == End::Fixed),
        ("--clock", request.clock != NamingClock::Real),
    ];
    for (option, _) in others.into_iter().filter(|(_, given)| *given) {
        let what =
            format!("{option} is of the users of mlperf-v3, not of prompts that load prefixes");
        problems.plan(what, "leave it out");
    }
}

/// Rules of a closed run that options of the results break.
pub(super) fn closed_problems(
    plan: &KvcachePlan,
    results_beside_data: &[PathBuf],
    problems: &mut Problems,
) {
    if !plan.request.closed {
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
    if plan.request.capacity_bytes.is_some() {
        problems.plan(
            "--closed: --capacity limits what the rules leave to the file system",
            "leave --capacity out",
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
            "a lower --depth or fewer --threads",
            "use a smaller --chunk-size or fewer --threads",
        ),
        None => (0, "fewer --users", "use a smaller --chunk-size or fewer --users"),
    };
    let files = workers * FILES_OF_WORKER + more_chunks + OTHER_FILES;
    check_open_files(&who, files, Some(fewer), host, problems);
    let memory = plan.buffer_bytes.saturating_add(workers * WORKER_BYTES);
    check_memory(&who, memory, smaller, host, problems);
}

/// A folder that cannot be used, or is too small.
pub(super) fn folder_problems(plan: &KvcachePlan, facts: &KvcacheFacts, problems: &mut Problems) {
    let folder = plan.request.own_folder();
    if let Availability::Unavailable { fact, remedy } = &facts.writable {
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
                    "the largest object of {} takes {}; {folder} may hold {} of objects",
                    pass.model.name,
                    ByteSize(pass.largest_object_bytes),
                    ByteSize(plan.capacity_bytes)
                ),
                "use a --dir with more space, a larger --capacity, or a smaller model",
            );
        }
    }
}
