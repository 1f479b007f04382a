//! Reads a tree of results: its entries, and the text of the files that rules refer to.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_transfer::error::TransferError;
use stormlp_transfer::storage::{Disk, Storage as _};

use super::tree::{self, Entry, ReadDepth, Tree, join};

/// The submissions of a whole round have fewer entries.
const MOST_ENTRIES: usize = 2_000_000;
/// And are less deep.
const MOST_DEPTH: usize = 24;
/// Configuration, metadata and summaries are far smaller.
const MOST_TEXT_BYTES: u64 = 16 << 20;
/// Per-step lists of a long run are large.
const MOST_RANK_BYTES: u64 = 512 << 20;

/// The tree below `folder`. Links are listed, not followed.
///
/// # Errors
/// With exit code 4 if the folder cannot be read, 3 if it is larger than any submission, 5 if the
/// device fails: no rule is judged without its files.
pub fn tree(folder: &Path) -> Result<Tree, Failure> {
    let mut tree = Tree::named(&name_of(folder));
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(folder.to_path_buf(), String::new(), 0)];
    let mut count = 0usize;
    while let Some((place, path, depth)) = folders.pop() {
        let entries = match Disk.list(&place) {
            Ok(entries) => entries,
            Err(error) if error.is_device_failure() => return Err(error.into()),
            Err(error) if path.is_empty() => {
                let help = "name the folder that contains closed/ or open/, or a folder of results";
                let fact = format!("cannot read {}: {}", folder.display(), error.into_io());
                return Err(Failure::saying(Cause::Machine, fact).with_help(help));
            }
            Err(error) => {
                // The file that would be in it.
                tree.add(join(&path, "summary.json"), Entry::Unreadable(error.to_string()));
                continue;
            }
        };
        count += entries.len();
        if count > MOST_ENTRIES {
            let folder = folder.display();
            let fact =
                format!("{folder} contains more than {MOST_ENTRIES} files: no submission does");
            return Err(Failure::saying(Cause::Plan, fact));
        }
        for found in entries {
            let name = found.name.to_string_lossy();
            let (place, path) = (place.join(&found.name), join(&path, &name));
            if found.is_folder() && !found.facts.link {
                tree.add(path.clone(), Entry::Folder);
                if depth < MOST_DEPTH && name != ".git" {
                    folders.push((place, path, depth + 1));
                }
            } else if found.is_file() && !found.facts.link {
                let entry = file(&place, &path, found.facts.bytes)?;
                tree.add(path, entry);
            } else {
                tree.add(path, Entry::Other);
            }
        }
    }
    Ok(tree)
}

/// The name of a folder, which `.` has too.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    whole.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The part of a file that is kept.
fn file(place: &Path, path: &str, bytes: u64) -> Result<Entry, TransferError> {
    let (most, is_part) = match tree::wanted(path) {
        ReadDepth::Nothing => return Ok(Entry::NotRead),
        ReadDepth::Head(most) => (most, true),
        ReadDepth::All => (MOST_TEXT_BYTES, false),
        ReadDepth::Figures => (MOST_RANK_BYTES, false),
    };
    if bytes > most && !is_part {
        return Ok(Entry::Unreadable(format!("it is too large ({bytes} bytes)")));
    }
    let mut read = Vec::new();
    let taken = File::open(place).and_then(|file| file.take(most).read_to_end(&mut read));
    let taken = taken.map_err(|error| TransferError::file("read", place, error));
    Ok(match (taken, String::from_utf8(read)) {
        (Err(error), _) if error.is_device_failure() => return Err(error),
        (Err(error), _) => Entry::Unreadable(error.to_string()),
        (Ok(_), Ok(text)) => Entry::of(path, text),
        // Logs contain arbitrary output and may be cut within a character.
        (Ok(_), Err(error)) if is_part => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Entry::of(path, text)
        }
        (Ok(_), Err(error)) => Entry::Unreadable(error.to_string()),
    })
}
