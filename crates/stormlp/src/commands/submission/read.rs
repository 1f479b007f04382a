//! Reads a tree of results: what lies where, and the text of the files that rules ask about.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use stormlp_model::submission::RankFigures;
use stormlp_model::submission::tree::{Content, Entry, Tree, join};

use crate::exit::Failure;

/// A tree of submissions of a whole round has fewer entries.
const MOST_ENTRIES: usize = 2_000_000;
/// And is no deeper.
const MOST_DEPTH: usize = 24;
/// Configuration, metadata and summaries are far smaller.
const MOST_TEXT_BYTES: u64 = 16 << 20;
/// Lists of every step of a long run are large.
const MOST_RANK_BYTES: u64 = 512 << 20;

/// The tree below `folder`. Links are named, not followed.
///
/// # Errors
/// With exit code 4 when the folder cannot be read, 3 when it is beyond all submissions.
pub(super) fn tree(folder: &Path) -> Result<Tree, Failure> {
    let unreadable = |error: io::Error| {
        Failure::machine(anyhow::anyhow!("cannot read {}: {error}", folder.display()))
            .with_help("name the folder that holds closed/ or open/, or a folder of results")
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
                tree.add(
                    join(&path, "summary.json"),
                    Entry::File { bytes: 0, content },
                );
                continue;
            }
        };
        for entry in entries.flatten() {
            count += 1;
            if count > MOST_ENTRIES {
                return Err(Failure::no_plan(anyhow::anyhow!(
                    "{} holds more than {MOST_ENTRIES} files: no submission does",
                    folder.display()
                )));
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
                let content = content(&entry.path(), &path, &name, bytes);
                tree.add(path, Entry::File { bytes, content });
            } else {
                tree.add(path, Entry::Other);
            }
        }
    }
    Ok(tree)
}

/// What is kept of a file.
fn content(place: &Path, path: &str, name: &str, bytes: u64) -> Content {
    // Images of source code hold files of every name.
    let in_image = path
        .split('/')
        .any(|part| part.starts_with("code-") || part == "code");
    if in_image && name != ".code-hash.json" {
        return Content::NotRead;
    }
    let is_rank = name
        .strip_suffix("_output.json")
        .is_some_and(|rank| rank.bytes().all(|byte| byte.is_ascii_digit()));
    let is_stats = name.ends_with("per_epoch_stats.json") || name.ends_with("timeseries.json");
    let is_text = [".json", ".yaml", ".yml"]
        .iter()
        .any(|end| name.ends_with(end))
        && !is_stats;
    if !is_rank && !is_text {
        return Content::NotRead;
    }
    let most = if is_rank {
        MOST_RANK_BYTES
    } else {
        MOST_TEXT_BYTES
    };
    if bytes > most {
        return Content::Unreadable(format!(
            "it has {bytes} bytes; none of its kind has so many"
        ));
    }
    let mut text = String::new();
    let read = File::open(place).and_then(|file| file.take(most).read_to_string(&mut text));
    match read {
        Err(error) => Content::Unreadable(error.to_string()),
        Ok(_) if is_rank => match RankFigures::parse(&text) {
            Ok(figures) => Content::Rank(figures),
            Err(why) => Content::Unreadable(why),
        },
        Ok(_) => Content::Text(text),
    }
}
