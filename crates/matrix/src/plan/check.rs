//! Checks of options together that are invalid on any machine, and of the space for the files.

use std::collections::BTreeMap;
use std::path::Path;

use crate::plan::matrix_plan::FileAction;
use stormlp_core::failure::Problems;
use stormlp_core::location::{ObjectName, names_object};
use stormlp_core::operation::Operation;
use stormlp_core::path::PathKind;
use stormlp_core::transport;
use stormlp_core::units::{ByteSize, short_size};

use super::choice::CacheState;
use super::files::{PlannedFiles, round_down};
use super::inventory::TargetInventory;
use super::request::{JobTarget, MatrixRequest};

/// The largest object that an upload of parts of 16 MiB can make.
const LARGEST_OBJECT_BYTES: u64 = 10_000 * (16 << 20);

/// Reports options of a request that do not go together.
pub(super) fn options(request: &MatrixRequest, problems: &mut Problems) {
    objects(request, problems);
    if request.read_percent.is_none() {
        return;
    }
    if request.verify {
        problems.plan(
            "a mix of reads and writes is not verified",
            "leave out one of --verify and --read-percent",
        );
    }
    let alike =
        |a: &&Operation| request.ops.iter().any(|b| *a != b && a.is_random() == b.is_random());
    let alike: Vec<&str> = request.ops.iter().filter(alike).map(|op| op.name()).collect();
    if let [first, ..] = alike[..] {
        problems.plan(
            format!("with --read-percent, {} are the same mix", alike.join(" and ")),
            format!("name one of the two, as in --op {first}"),
        );
    }
}

/// Checks that objects are moved by the path to objects, and that the request needs no operation
/// that only files support.
fn objects(request: &MatrixRequest, problems: &mut Problems) {
    let paths = request.paths();
    for target in request.jobs.iter().map(|job| &job.target) {
        let shown = target.path().display();
        if !names_object(target.path()) {
            if paths.contains(&PathKind::S3) {
                problems.plan(
                    format!("path s3 moves objects, and {shown} is not a prefix of any"),
                    "use --dir s3://bucket/prefix, or another --path",
                );
            }
            continue;
        }
        match (ObjectName::of(target.path()), target) {
            (Err(reason), _) => problems.plan(reason, "use --dir s3://bucket/prefix"),
            (Ok(_), JobTarget::File(_)) => {
                problems.plan(format!("{shown} is not a file"), "use --dir s3://bucket/prefix");
            }
            (Ok(_), JobTarget::Folder(_)) => {}
        }
        let moves_files = |path: &&PathKind| !matches!(path, PathKind::S3 | PathKind::Null);
        if let Some(path) = paths.iter().find(moves_files) {
            problems.plan(
                format!("path {path} moves files, and {shown} names objects"),
                "use --path s3",
            );
        }
    }
    if !request.uses_objects() {
        let path = paths.first().copied().unwrap_or_default();
        transport::check_objects_only(path, request.checksum, problems);
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
    let offset = request.jobs.iter().map(|job| job.offset_bytes).max().unwrap_or_default();
    let bytes = request.file_size_bytes.unwrap_or_default().saturating_add(offset);
    if bytes > LARGEST_OBJECT_BYTES {
        problems.plan(
            format!("an object of {}", ByteSize(bytes)),
            format!("use up to {} for --file-size", ByteSize(LARGEST_OBJECT_BYTES)),
        );
    }
}

/// Space that files need on a file system.
#[derive(Default)]
struct SpaceNeed<'a> {
    free: u64,
    /// Bytes of files that are recreated, which first free their old space.
    replaced: u64,
    bytes: u64,
    files: u64,
    folder: Option<&'a Path>,
}

/// Compares the bytes to write with the free space of each file system.
pub(super) fn room(inventory: &TargetInventory, table: &PlannedFiles, problems: &mut Problems) {
    let mut needs: BTreeMap<u64, SpaceNeed<'_>> = BTreeMap::new();
    for file in table.files.iter().filter(|file| file.action != FileAction::Use) {
        // Storage that does not tell its space has none to run out of.
        let Some((place, free)) =
            inventory.place(file).and_then(|place| Some((place, place.free_bytes?)))
        else {
            continue;
        };
        let need = needs.entry(place.file_system_id).or_default();
        need.free = free;
        need.folder = need.folder.or(file.path.parent());
        need.bytes = need.bytes.saturating_add(file.bytes);
        need.replaced = need.replaced.saturating_add(inventory.old_bytes(file));
        need.files += 1;
    }
    for need in needs.values() {
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
                need.folder.unwrap_or(Path::new(".")).display(),
                ByteSize(need.free)
            ),
            match round_down(room / 10 * 9 / need.files) {
                0 => "free some space or use another --dir".to_string(),
                fits => format!("--file-size {} would fit", short_size(fits)),
            },
        );
    }
}
