//! Checks of numbers that are invalid on any machine.

use std::collections::BTreeMap;
use std::path::Path;

use crate::plan::matrix_plan::FileAction;
use stormlp_core::failure::Problems;
use stormlp_core::location::{ObjectName, names_object};
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::transport;
use stormlp_core::units::{ByteSize, GIB, short_size};

use super::choice::{CacheState, CellSpan};
use super::files::{PlannedFiles, round_down};
use super::inventory::TargetInventory;
use super::request::{JobTarget, MatrixRequest};

/// More threads than this do not help in a single-host benchmark.
const MOST_THREADS: u32 = 1024;
/// The kernel limits a ring to 32,768 entries; this leaves room for batches.
const MOST_IN_FLIGHT: u32 = 4096;
/// Larger transfers do not fit the 32-bit lengths of the system calls.
const LARGEST_TRANSFER_BYTES: u64 = GIB;
/// A cell of more than a week is a typing error.
const LONGEST_SECONDS: f64 = 7.0 * 86_400.0;

/// Reports numbers of a request that are zero, absurd or out of range.
pub(super) fn numbers(request: &MatrixRequest, problems: &mut Problems) {
    lists(request, problems);
    objects(request, problems);
    let count = |what: &str, value: u32, most: u32, problems: &mut Problems| {
        if value == 0 || value > most {
            problems.plan(format!("{what} is {value}"), format!("use 1 to {most} for {what}"));
        }
    };
    for depth in &request.queue_depths {
        count("--queue-depth", *depth, MOST_IN_FLIGHT, problems);
    }
    count("--repeat", request.repeat(), 1000, problems);
    if let Some(batch) = request.submit_batch {
        count("--submit-batch", batch, MOST_IN_FLIGHT, problems);
    }
    match request.span() {
        CellSpan::Passes(passes) => count("--passes", passes, 1_000_000, problems),
        CellSpan::Seconds(seconds) => {
            if !(seconds > 0.0 && seconds <= LONGEST_SECONDS) {
                problems.plan(
                    format!("--duration is {seconds} s"),
                    "use more than zero and at most a week",
                );
            }
        }
    }
    if !(0.0..=LONGEST_SECONDS).contains(&request.warmup_seconds) {
        problems.plan(
            format!("--warmup is {} s", request.warmup_seconds),
            "use zero or more and at most a week",
        );
    }
    if request.file_size_bytes == Some(0) {
        problems.plan("--file-size is 0", "use a size above zero, such as 1G");
    }
    if request.random_alignment_bytes == 0 {
        problems.plan("the alignment of random offsets is 0", "use 4096");
    }
    if let Some(percent) = request.read_percent {
        mix(request, percent, problems);
    }
}

/// The largest object that an upload of parts of 16 MiB can make.
const LARGEST_OBJECT_BYTES: u64 = 10_000 * (16 << 20);

/// Checks that objects are moved by the path to objects, and that nothing is asked of them that
/// only files can do.
fn objects(request: &MatrixRequest, problems: &mut Problems) {
    for job in &request.jobs {
        let (path, shown) = (job.target.path(), job.target.path().display());
        if !names_object(path) {
            if request.paths().contains(&PathKind::S3) {
                problems.plan(
                    format!("path s3 moves objects, and {shown} is not a prefix of any"),
                    "use --dir s3://bucket/prefix, or another --path",
                );
            }
            continue;
        }
        if let Err(reason) = ObjectName::of(path) {
            problems.plan(reason, "use --dir s3://bucket/prefix");
        }
        if matches!(job.target, JobTarget::File(_)) {
            problems.plan(format!("{shown} is not a file"), "use --dir s3://bucket/prefix");
        }
        let of_files = |path: &&PathKind| !matches!(path, PathKind::S3 | PathKind::Null);
        if let Some(path) = request.paths().iter().find(of_files) {
            problems.plan(
                format!("path {path} moves files, and {shown} names objects"),
                "use --path s3",
            );
        }
    }
    if !request.uses_objects() {
        let path = request.paths().first().copied().unwrap_or_default();
        transport::check_objects_only(path, request.engine, request.verify, problems);
        return;
    }
    let files_only = [
        (request.read_percent.is_some(), "--read-percent"),
        (request.cache == CacheState::Warm, "--cache warm"),
        (request.find_knee, "--find-knee"),
    ];
    for (_, option) in files_only.iter().filter(|(asked, _)| *asked) {
        problems.plan(format!("{option} is not done with objects"), "leave it out");
    }
    let bytes = request.file_size_bytes.unwrap_or_default().saturating_add(request.offset_bytes);
    if bytes > LARGEST_OBJECT_BYTES {
        problems.plan(
            format!("an object of {}", ByteSize(bytes)),
            format!("use up to {} for --file-size", ByteSize(LARGEST_OBJECT_BYTES)),
        );
    }
}

/// Checks a mix of reads and writes: its operation only sets the order of offsets.
fn mix(request: &MatrixRequest, percent: u8, problems: &mut Problems) {
    if percent > 100 {
        problems.plan("a read share above 100 %", "use 0 to 100");
    }
    if request.verify.is_of_content() {
        problems.plan(
            "a mix of reads and writes is not verified",
            "leave out one of --verify and --read-percent",
        );
    }
    for [read, write] in
        [[Operation::Read, Operation::Write], [Operation::RandRead, Operation::RandWrite]]
    {
        if request.ops.contains(&read) && request.ops.contains(&write) {
            problems.plan(
                format!("with --read-percent, {read} and {write} are the same mix"),
                format!("name one of the two, as in --op {read}"),
            );
        }
    }
}

/// Checks the lists that span the matrix.
fn lists(request: &MatrixRequest, problems: &mut Problems) {
    let empty = [
        ("--path", request.paths().is_empty()),
        ("--op", request.ops.is_empty()),
        ("--io-size", request.io_sizes.is_empty()),
        ("--threads", request.threads.is_empty()),
        ("--queue-depth", request.queue_depths.is_empty()),
        ("the list of jobs", request.jobs.is_empty()),
    ];
    for (what, _) in empty.into_iter().filter(|(_, empty)| *empty) {
        problems.plan(format!("{what} is empty"), "name at least one");
    }
    let threads = request.threads.iter().copied();
    for threads in threads.chain(request.jobs.iter().filter_map(|job| job.threads)) {
        if threads == 0 || threads > MOST_THREADS {
            problems.plan(
                format!("a cell of {threads} threads"),
                format!("use 1 to {MOST_THREADS} threads"),
            );
        }
    }
    let own = request.jobs.iter().filter_map(|job| job.io_size);
    for size in request.io_sizes.iter().copied().chain(own) {
        if size.min_bytes == 0 || size.max_bytes > LARGEST_TRANSFER_BYTES {
            problems.plan(
                format!("an I/O size of {}", ByteSize(size.max_bytes)),
                format!("use 1 byte to {}", ByteSize(LARGEST_TRANSFER_BYTES)),
            );
        }
    }
}

/// Compares the bytes to write with the free space of each file system.
pub(super) fn room(inventory: &TargetInventory, table: &PlannedFiles, problems: &mut Problems) {
    struct SpaceNeed<'a> {
        free: u64,
        replaced: u64,
        bytes: u64,
        files: u64,
        at: &'a Path,
    }
    let mut needs: BTreeMap<u64, SpaceNeed<'_>> = BTreeMap::new();
    for file in &table.files {
        if file.action == FileAction::Use {
            continue;
        }
        let parent = file.path.parent().unwrap_or(Path::new("."));
        let (id, free, replaced) = match file.folder {
            Some(_) => match inventory.folder(parent) {
                Some(folder) => {
                    let name = file.path.file_name().unwrap_or_default();
                    let old = folder
                        .files
                        .iter()
                        .find(|f| name == f.name.as_str())
                        .map_or(0, |f| f.bytes);
                    (folder.file_system_id, folder.free_bytes, old)
                }
                None => continue,
            },
            None => match inventory.file(&file.path) {
                Some(facts) => (facts.file_system_id, facts.free_bytes, 0),
                None => continue,
            },
        };
        // What does not tell its space has none to run out of.
        let Some(free) = free else { continue };
        let need = needs.entry(id).or_insert(SpaceNeed {
            free,
            replaced: 0,
            bytes: 0,
            files: 0,
            at: parent,
        });
        need.bytes = need.bytes.saturating_add(file.bytes);
        need.replaced = need.replaced.saturating_add(replaced);
        need.files += 1;
    }
    for need in needs.values() {
        // Recreated files first free their old space.
        let room = need.free.saturating_add(need.replaced);
        if need.bytes <= room {
            continue;
        }
        let replaced = match need.replaced {
            0 => String::new(),
            bytes => format!(", and {} in files that would be replaced", ByteSize(bytes)),
        };
        problems.machine(
            format!(
                "the files need {} in {}, where {} are free{replaced}",
                ByteSize(need.bytes),
                need.at.display(),
                ByteSize(need.free)
            ),
            match round_down(room / 10 * 9 / need.files) {
                0 => "free some space or use another --dir".to_string(),
                fits => format!("--file-size {} would fit", short_size(fits)),
            },
        );
    }
}
