//! Checks before the first byte that everything a matrix writes fits on its file systems.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{PlannedFiles, round_down};
use super::inventory::TargetInventory;
use crate::plan::matrix_plan::FileAction;
use stormlp_core::failure::Problems;
use stormlp_core::units::{ByteSize, short_size};

/// Compares the bytes to write with the free space of each file system.
pub(super) fn check(inventory: &TargetInventory, table: &PlannedFiles, problems: &mut Problems) {
    struct Need<'a> {
        free: u64,
        replaced: u64,
        bytes: u64,
        files: u64,
        at: &'a Path,
    }
    let mut needs: BTreeMap<u64, Need<'_>> = BTreeMap::new();
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
        let need =
            needs.entry(id).or_insert(Need { free, replaced: 0, bytes: 0, files: 0, at: parent });
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
