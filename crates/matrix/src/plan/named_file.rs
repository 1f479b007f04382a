//! Decides on a file or block device that the user names, which may be their own.

use super::devices;
use super::files::{
    DEFAULT_FILE_BYTES, DEFAULT_TOTAL_BYTES, Decided, FileNeeds, FilesOfJob, PlannedFiles, lacking,
    nothing_to_compare, round_down,
};
use super::inventory::{FileFacts, FileKind};
use super::manifest::ContentState;
use super::request::{JobRequest, MatrixRequest};
use crate::plan::matrix_plan::{FileAction, FilePlan};
use stormlp_core::facts::Availability;
use stormlp_core::note::{Cause, Note};
use stormlp_core::units::ByteSize;

/// Decides on an explicitly named file or block device.
pub(super) fn named_file(
    request: &MatrixRequest,
    job: &JobRequest,
    facts: &FileFacts,
    threads: u32,
    table: &mut PlannedFiles,
) -> Decided<FilesOfJob> {
    let offset = job.offset_bytes;
    let path = facts.path.display();
    let needs = FileNeeds::of(request);
    check_access(request, facts, needs)?;
    let wanted = request.file_size_bytes;
    let (action, bytes, used) = match facts.kind {
        // gdsio reads what is there.
        FileKind::Missing if request.is_gdsio() && !needs.writes => {
            return Err(lacking(
                format!("{path} does not exist, and a read needs it"),
                "correct the name, or write the file first: the same line with -I 1",
            ));
        }
        FileKind::Missing => {
            let default = || needs.writes.then(|| default_shared(facts, threads));
            let used = wanted.or_else(default).ok_or_else(|| {
                let remedy = "correct the name, or set --file-size to create it";
                lacking(format!("{path} does not exist"), remedy)
            })?;
            let action = if needs.content { FileAction::Fill } else { FileAction::Allocate };
            (action, used.saturating_add(offset), used)
        }
        _ => {
            let there = facts.bytes.saturating_sub(offset);
            let used = wanted.unwrap_or(there);
            if used > there || used == 0 {
                return Err(lacking(
                    format!(
                        "{path} is too small: it has {}, {} are needed",
                        ByteSize(facts.bytes),
                        ByteSize(used.max(1).saturating_add(offset))
                    ),
                    "use a smaller --file-size or offset, or a larger file",
                ));
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
            created_by_stormlp: facts.kind == FileKind::Missing,
            file_system: facts.place.file_system.clone(),
            hole_bytes: facts.hole_bytes,
        });
        table.files.len() - 1
    });
    Ok((vec![index], used))
}

/// Checks that a named file permits the access that the request needs.
fn check_access(request: &MatrixRequest, facts: &FileFacts, needs: FileNeeds) -> Decided<()> {
    let path = facts.path.display();
    let refused = |fact: String, remedy: &str| Err(Note::new(Cause::Plan, fact, remedy));
    let holds_data = facts.kind == FileKind::Regular && facts.hole_bytes < facts.bytes;
    let ours = facts.marked || facts.holds_pattern == Some(true);
    if facts.kind == FileKind::Other {
        return refused(format!("{path} is not a file or block device"), "use --dir for a folder");
    }
    if needs.writes && facts.kind == FileKind::BlockDevice {
        devices::check(request, facts)?;
    }
    if needs.writes && holds_data && !ours && !request.overwrite_files {
        return refused(
            format!(
                "{path} holds data and is not known to be created by stormlp; writing would \
                 destroy it"
            ),
            "name a new file, or add --overwrite-files if its data may go",
        );
    }
    if request.verifies_existing_data() && facts.holds_pattern == Some(false) {
        return Err(nothing_to_compare(&facts.path, request.seed));
    }
    for (is_needed, access, verb) in
        [(true, &facts.readable, "read"), (needs.writes, &facts.place.writable, "written")]
    {
        if let (true, Availability::Unavailable { fact, remedy }) = (is_needed, access) {
            return Err(lacking(format!("{path} cannot be {verb}: {fact}"), remedy));
        }
    }
    Ok(())
}

/// Default size of a new file shared by several threads.
fn default_shared(facts: &FileFacts, threads: u32) -> u64 {
    let room = facts.place.free_bytes.map_or(u64::MAX, |free| free / 4).min(DEFAULT_TOTAL_BYTES);
    round_down(room.min(DEFAULT_FILE_BYTES * u64::from(threads)))
}
