//! Decides on a file or block device that the user names, which may be their own.

use super::devices;
use super::files::{
    DEFAULT_FILE_BYTES, DEFAULT_TOTAL_BYTES, Decided, FileNeeds, PlannedFiles, nothing_to_compare,
    round_down,
};
use super::inventory::{FileFacts, FileKind};
use super::manifest::ContentState;
use super::request::{JobRequest, MatrixRequest};
use crate::plan::matrix_plan::{FileAction, FilePlan};
use stormlp_core::facts::Availability;
use stormlp_core::failure::Problems;
use stormlp_core::units::ByteSize;

/// Decides on an explicitly named file or block device.
pub(super) fn named_file(
    request: &MatrixRequest,
    job: &JobRequest,
    facts: &FileFacts,
    threads: u32,
    table: &mut PlannedFiles,
    problems: &mut Problems,
) -> Decided {
    let offset = job.offset_bytes.unwrap_or(request.offset_bytes);
    let path = facts.path.display();
    let needs = FileNeeds::of(request);
    check_access(request, facts, needs, problems)?;
    let wanted = request.file_size_bytes;
    let (action, bytes, used) = match facts.kind {
        // gdsio reads what is there.
        FileKind::Missing if request.is_gdsio() && !needs.writes => {
            problems.machine(
                format!("{path} does not exist, and a read needs it"),
                "correct the name, or write the file first: the same line with -I 1",
            );
            return None;
        }
        FileKind::Missing => {
            let Some(used) =
                wanted.or_else(|| needs.writes.then(|| default_shared(facts, threads)))
            else {
                problems.machine(
                    format!("{path} does not exist"),
                    "correct the name, or set --file-size to create it",
                );
                return None;
            };
            let action = if needs.content { FileAction::Fill } else { FileAction::Allocate };
            (action, used.saturating_add(offset), used)
        }
        _ => {
            let there = facts.bytes.saturating_sub(offset);
            let used = wanted.unwrap_or(there);
            if used > there || used == 0 {
                problems.machine(
                    format!(
                        "{path} is too small: it has {}, {} are needed",
                        ByteSize(facts.bytes),
                        ByteSize(used.max(1).saturating_add(offset))
                    ),
                    "use a smaller --file-size or --offset, or a larger file",
                );
                return None;
            }
            (FileAction::Use, facts.bytes, used)
        }
    };
    let known = table.files.iter().position(|file| file.path == facts.path);
    let index = known.unwrap_or_else(|| {
        table.files.push(FilePlan {
            path: facts.path.clone(),
            bytes,
            action,
            content: match action {
                FileAction::Use => None,
                FileAction::Allocate => Some(ContentState::Unwritten),
                FileAction::Fill => Some(ContentState::Pattern { seed: request.seed }),
            },
            folder: None,
            made_here: facts.kind == FileKind::Missing,
            block_device: facts.kind == FileKind::BlockDevice,
            file_system: facts.file_system.clone(),
            hole_bytes: facts.hole_bytes,
        });
        table.files.len() - 1
    });
    Some((vec![index], used))
}

/// Whether a named file permits the access that the request needs.
fn check_access(
    request: &MatrixRequest,
    facts: &FileFacts,
    needs: FileNeeds,
    problems: &mut Problems,
) -> Option<()> {
    let path = facts.path.display();
    let before = problems.iter().count();
    if facts.kind == FileKind::Other {
        problems.plan(format!("{path} is not a file or block device"), "use --dir for a folder");
        return None;
    }
    if needs.writes {
        match facts.kind {
            FileKind::BlockDevice => devices::check(request, facts, problems),
            FileKind::Regular if devices::in_use(facts, problems) => {}
            FileKind::Regular => check_ours(request, facts, problems),
            FileKind::Missing | FileKind::Other => {}
        }
    }
    if request.compares_what_was_there() && facts.holds_pattern == Some(false) {
        nothing_to_compare(&facts.path, request.seed, problems);
    }
    for (wanted, access, verb) in
        [(true, &facts.readable, "read"), (needs.writes, &facts.writable, "written")]
    {
        if let (true, Availability::Unavailable { fact, remedy }) = (wanted, access) {
            problems.machine(format!("{path} cannot be {verb}: {fact}"), remedy);
        }
    }
    (problems.iter().count() == before).then_some(())
}

/// Refuses to write over a file that may hold the user's data.
fn check_ours(request: &MatrixRequest, facts: &FileFacts, problems: &mut Problems) {
    let holds_data = facts.hole_bytes < facts.bytes;
    let ours = facts.marked || facts.holds_pattern == Some(true);
    if holds_data && !ours && !request.overwrite_files {
        problems.plan(
            format!(
                "{} holds data and is not known to be created by stormlp; writing would destroy it",
                facts.path.display()
            ),
            "name a new file, or add --overwrite-files if its data may go",
        );
    }
}

/// Default size of a new file shared by several threads.
fn default_shared(facts: &FileFacts, threads: u32) -> u64 {
    let room = facts.free_bytes.map_or(u64::MAX, |free| free / 4).min(DEFAULT_TOTAL_BYTES);
    round_down(room.min(DEFAULT_FILE_BYTES * u64::from(threads)))
}
