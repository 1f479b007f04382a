//! Reads a tree of results: its entries, and the text of the files that rules refer to.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;

use super::image;
use super::tree::{self, Content, Entry, Tree, Wanted, join};

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
/// With exit code 4 if the folder cannot be read, 3 if it is larger than any submission.
pub fn tree(folder: &Path) -> Result<Tree, Failure> {
    let unreadable = |error: io::Error| {
        Failure::saying(Cause::Machine, format!("cannot read {}: {error}", folder.display()))
            .with_help("name the folder that contains closed/ or open/, or a folder of results")
    };
    let mut tree = Tree::default();
    let mut folders: Vec<(PathBuf, String, usize)> = vec![(folder.to_path_buf(), String::new(), 0)];
    let mut count = 0usize;
    while let Some((place, path, depth)) = folders.pop() {
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if path.is_empty() => return Err(unreadable(error)),
            Err(error) => {
                let content = Content::Unreadable(format!("the folder cannot be read: {error}"));
                tree.add(join(&path, "summary.json"), Entry::File { bytes: 0, content });
                continue;
            }
        };
        for entry in entries.flatten() {
            count += 1;
            if count > MOST_ENTRIES {
                return Err(Failure::saying(
                    Cause::Plan,
                    format!(
                        "{} contains more than {MOST_ENTRIES} files: no submission does",
                        folder.display()
                    ),
                ));
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = join(&path, &name);
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                tree.add(path.clone(), Entry::Folder);
                if depth < MOST_DEPTH && name != ".git" {
                    folders.push((entry.path(), path, depth + 1));
                }
            } else if kind.is_file() {
                let bytes = entry.metadata().map_or(0, |found| found.len());
                let content = content(&entry.path(), &path, bytes);
                tree.add(path, Entry::File { bytes, content });
            } else {
                tree.add(path, Entry::Other);
            }
        }
    }
    image::add_digests(folder, &mut tree);
    Ok(tree)
}

/// The content kept of a file.
fn content(place: &Path, path: &str, bytes: u64) -> Content {
    let (most, is_part) = match tree::wanted(path) {
        Wanted::Nothing => return Content::NotRead,
        Wanted::Head(most) => (most, true),
        Wanted::All => (MOST_TEXT_BYTES, false),
        Wanted::Figures => (MOST_RANK_BYTES, false),
    };
    if bytes > most && !is_part {
        return Content::Unreadable(format!("it is too large ({bytes} bytes)"));
    }
    let mut read = Vec::new();
    let taken = File::open(place).and_then(|file| file.take(most).read_to_end(&mut read));
    match (taken, String::from_utf8(read)) {
        (Err(error), _) => Content::Unreadable(error.to_string()),
        (Ok(_), Ok(text)) => Content::of(path, text),
        // Logs contain arbitrary output and may be cut within a character.
        (Ok(_), Err(error)) if is_part => {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Content::of(path, text)
        }
        (Ok(_), Err(error)) => Content::Unreadable(error.to_string()),
    }
}
