//! From a request to a plan: decides every number and collects every problem.

use crate::plan::matrix_plan::{
    ASSUMED_BYTES_PER_SECOND, CellPlan, MatrixPlan, ThreadGroupPlan, WorkerPlan, region_bytes,
};
use crate::report::MatrixResults;
use stormlp_core::capacity;
use stormlp_core::devices;
use stormlp_core::distinct::distinct;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::placement::{self, CpuList, HostNode, Placement};
use stormlp_core::transport::{self, DeviceId};
use stormlp_core::units::{MIB, counted};
use stormlp_core::warning::Warning;

use super::files::{self, PlannedFiles, largest_io_bytes};
use super::inventory::TargetInventory;
use super::knee::likely_left;
use super::request::{JobRequest, JobTarget, MatrixRequest, SharedFile};
use super::{cells, check, plan_warnings};

/// Decides every number of a matrix.
///
/// # Errors
/// All problems of the request on this machine, not just the first.
pub fn resolve(
    request: &MatrixRequest,
    facts: &HostFacts,
    inventory: &TargetInventory,
) -> Result<MatrixPlan, Problems> {
    let mut problems = Problems::default();
    check::options(request, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let engine = transport::engine(request.engine, facts, &mut problems);
    let devices = devices(request, facts, &mut problems);
    let thread_counts = thread_counts(request);
    check_shares(&request.jobs, &thread_counts, &mut problems);
    let most = thread_counts.iter().copied().max().unwrap_or(1);
    let threads_of = job_threads(&request.jobs, most);
    let table = files::decide(request, inventory, &threads_of, &mut problems);
    check::room(inventory, &table, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let threading = Threads::of(request, &devices, facts, &mut problems);
    let thread_groups: Vec<ThreadGroupPlan> = (thread_counts.iter())
        .map(|threads| thread_group(request, &table, &devices, &threading, *threads))
        .collect();
    let cells = cells::all(
        &cells::CellPlanner {
            request,
            facts,
            inventory,
            engine,
            table: &table,
            thread_groups: &thread_groups,
            placement: &threading.placement,
        },
        &mut problems,
    );
    let region_bytes = region_bytes(&cells, &thread_groups, |_| true);
    capacity::check_memory(
        &counted(most.into(), "thread"),
        region_bytes.saturating_add(u64::from(most) * THREAD_BYTES + LAYOUT_BYTES),
        "use fewer --threads, a smaller --queue-depth or a smaller --io-size, or raise the memory \
         limit (cgroup, ulimit -v)",
        facts,
        &mut problems,
    );
    check_open_files(&cells, &thread_groups, table.folders.len(), facts, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut plan = MatrixPlan {
        request: request.clone(),
        devices,
        placement: threading.placement,
        layout_bytes: table.layout_bytes(),
        folders: table.folders,
        files: table.files,
        engine,
        thread_groups,
        cells,
        region_bytes,
        // Summed once the cells likely to run are known.
        estimated_seconds: 0.0,
        warnings: Vec::new(),
    };
    plan.warnings = plan_warnings::all(&plan, facts);
    plan.warnings.extend(files::small_files(&plan, inventory));
    plan.warnings.extend(threading.warnings);
    let (_, seconds) = likely_left(&plan, &MatrixResults::default(), &[]);
    plan.estimated_seconds = seconds + plan.layout_bytes as f64 / ASSUMED_BYTES_PER_SECOND;
    Ok(plan)
}

/// The devices that workers use in turn, and the devices of jobs.
fn devices(request: &MatrixRequest, facts: &HostFacts, problems: &mut Problems) -> Vec<DeviceId> {
    let of_jobs = request.jobs.iter().filter_map(|job| job.device);
    let mut devices = devices::requested(request.devices.as_ref(), facts, problems);
    let jobs_have_all = request.jobs.iter().all(|job| job.device.is_some());
    if request.devices.is_none() && !jobs_have_all {
        devices.push(devices::first_device(facts, problems));
    }
    for device in of_jobs {
        if !devices.contains(&device) {
            devices::check_device(device, facts, problems);
            devices.push(device);
        }
    }
    devices
}

/// The thread counts of the matrix: as listed, or the sum over the jobs.
fn thread_counts(request: &MatrixRequest) -> Vec<u32> {
    let fixed: Option<u32> = request.jobs.iter().map(|job| job.threads).sum();
    if let Some(sum) = fixed {
        return vec![sum];
    }
    distinct(request.threads.iter().copied())
}

/// Threads of each job in a cell of `threads`: its number, or its round-robin share.
fn job_threads(jobs: &[JobRequest], threads: u32) -> Vec<u32> {
    let open = jobs.iter().filter(|job| job.threads.is_none()).count() as u32;
    let mut dealt = 0;
    (jobs.iter())
        .map(|job| {
            job.threads.unwrap_or_else(|| {
                let share = threads / open + u32::from(dealt < threads % open);
                dealt += 1;
                share
            })
        })
        .collect()
}

/// Checks that every job has a thread in every cell: an unused file must not be listed as measured.
fn check_shares(jobs: &[JobRequest], thread_counts: &[u32], problems: &mut Problems) {
    for threads in thread_counts {
        if job_threads(jobs, *threads).contains(&0) {
            let count = jobs.iter().filter(|job| job.threads.is_none()).count();
            problems.plan(
                format!("{count} files or folders need at least {count} threads, not {threads}"),
                format!("use --threads {count} or more, or name fewer files or folders"),
            );
        }
    }
}

/// The threads of a cell and their parts of the files.
fn thread_group(
    request: &MatrixRequest,
    table: &PlannedFiles,
    devices: &[DeviceId],
    threading: &Threads<'_>,
    threads: u32,
) -> ThreadGroupPlan {
    let mut workers = Vec::new();
    for (job_index, count) in job_threads(&request.jobs, threads).into_iter().enumerate() {
        let job = &request.jobs[job_index];
        let (files, used) = (&table.of_job[job_index], table.used_bytes[job_index]);
        for thread in 0..count {
            let split = matches!(job.target, JobTarget::File(_))
                && request.shared_file == SharedFile::Split;
            let (skip, length_bytes) = if split {
                part(used, count, thread, largest_io_bytes(request, job))
            } else {
                (0, used)
            };
            let device = job.device.unwrap_or_else(|| devices[workers.len() % devices.len()]);
            let (numa_node, cpus) = threading.of_worker(job, device);
            workers.push(WorkerPlan {
                job: job_index,
                file: files[thread as usize % files.len()],
                start_bytes: job.offset_bytes + skip,
                length_bytes,
                device,
                numa_node,
                cpus,
                io_size: job.io_size,
            });
        }
    }
    ThreadGroupPlan { workers }
}

/// Thread placement of a matrix: common, or near each thread's device.
struct Threads<'a> {
    placement: Placement,
    /// Placement for each device, if devices lie on different nodes.
    of_devices: Vec<(DeviceId, Placement)>,
    warnings: Vec<Warning>,
    nodes: &'a [HostNode],
}

impl<'a> Threads<'a> {
    /// Cells of different paths are compared, so all use the placement of the paths that end in an
    /// accelerator.
    fn of(
        request: &MatrixRequest,
        devices: &[DeviceId],
        facts: &'a HostFacts,
        problems: &mut Problems,
    ) -> Self {
        for node in request.jobs.iter().filter_map(|job| job.numa_node) {
            placement::check_node(node, facts, problems);
        }
        let paths = request.paths();
        let ends_there = paths.iter().any(|path| path.ends_in_accelerator());
        let near = if ends_there { devices } else { &[] };
        let (placement, each) =
            placement::decide_each(&request.tune.machine.threading, near, facts, problems);
        let of_each = each.iter().enumerate();
        let warnings = distinct(of_each.flat_map(|(at, placement)| {
            placement::warnings(placement, near.get(at).copied(), facts)
        }));
        let of_devices = near.iter().copied().zip(each).collect();
        Self { placement, of_devices, warnings, nodes: &facts.numa_nodes }
    }

    /// NUMA node and CPUs of a thread of `job`: its setting, otherwise the ones near its device.
    fn of_worker(&self, job: &JobRequest, device: DeviceId) -> (Option<u32>, Option<CpuList>) {
        if let Some(node) = job.numa_node {
            let found = self.nodes.iter().find(|other| other.node == node);
            return (Some(node), found.map(|node| node.cpus.clone()));
        }
        let mut of_devices = self.of_devices.iter();
        let own = of_devices.find(|(other, _)| *other == device);
        let placement = own.map_or(&self.placement, |(_, placement)| placement);
        (placement.node, placement.cpus.clone())
    }
}

/// Start and length of one thread's part of a shared file: whole transfers if possible, so that
/// parts stay aligned. The last threads get one remaining transfer each, so that at most a tail
/// shorter than a transfer is left out.
fn part(bytes: u64, threads: u32, thread: u32, io_bytes: u64) -> (u64, u64) {
    let even = bytes / u64::from(threads);
    let unit = if even >= io_bytes { io_bytes } else { 4096 }.max(1);
    let (threads, thread) = (u64::from(threads), u64::from(thread));
    let units = bytes / unit;
    let (each, left) = (units / threads, units % threads);
    let first_longer = threads - left;
    let before = each * thread + thread.saturating_sub(first_longer);
    let own = each + u64::from(thread >= first_longer);
    (before * unit, own * unit)
}

/// Maximum memory of a thread in addition to its buffers, and of file layout.
const THREAD_BYTES: u64 = MIB;
const LAYOUT_BYTES: u64 = 16 * MIB;

/// File descriptors of a folder: the folder and its lock.
const FILES_PER_FOLDER: u64 = 2;
/// Other file descriptors: standard streams, report, device counters.
const OTHER_FILES: u64 = 6;

/// Rejects cells with too many threads for the file descriptor limit: they would fail after their
/// files were laid out.
fn check_open_files(
    cells: &[CellPlan],
    thread_groups: &[ThreadGroupPlan],
    folders: usize,
    facts: &HostFacts,
    problems: &mut Problems,
) {
    let of_cell = |cell: &CellPlan| {
        let threads = thread_groups[cell.thread_group].workers.len() as u64;
        (threads * files_of_thread(cell), threads)
    };
    let runnable = cells.iter().filter(|cell| cell.availability.is_available());
    let Some((of_threads, threads)) = runnable.map(of_cell).max() else {
        return;
    };
    let files = of_threads + folders as u64 * FILES_PER_FOLDER + OTHER_FILES;
    capacity::check_open_files(
        &format!("{threads} threads"),
        files,
        Some("fewer --threads"),
        facts,
        problems,
    );
}

/// A thread's file, its duplicate for syncing, and its engine's descriptors or its connections.
fn files_of_thread(cell: &CellPlan) -> u64 {
    let engine = match cell.transport.engine {
        _ if cell.transport.path == PathKind::S3 => cell.transport.queue_depth as u64,
        _ if !cell.transport.path.has_engine() => 0,
        EngineKind::Psync => 0,
        EngineKind::Uring => 1,
        // The ring, and the descriptors its runtime waits with.
        EngineKind::TokioUring => 4,
    };
    1 + u64::from(cell.fsync) + engine
}
