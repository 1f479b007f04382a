//! `stormlp clean [DIR]`: removes what a manifest says stormlp made, and nothing else.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use serde_json::Value;
use stormlp_dataset::manifest::{JOURNAL_NAME, Record};
use stormlp_model::matrix::MANIFEST_NAME;
use stormlp_model::units::ByteSize;
use stormlp_transfer::storage::{Disk, FolderLock, Kind, LOCK_NAME, Storage as _, temporary_name};

use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// What lies in a folder that stormlp filled: the manifest of test files or of a dataset, and the
/// marker of a checkpoint. Both list their files under `files`, with a `name`.
const LISTS: [&str; 2] = [MANIFEST_NAME, ".stormlp-checkpoint.json"];

/// Arguments of `stormlp clean`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp clean                       everything below ./stormlp-data
  stormlp clean /mnt/nvme/data        the data of one folder
  stormlp clean --dry-run             what would be removed")]
pub(crate) struct Args {
    /// A data folder, or a folder that holds data folders
    #[arg(value_name = "DIR", default_value = "stormlp-data")]
    folder: PathBuf,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

/// Removes the files and says how many there were.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let mut folders = Vec::new();
    data_folders(&args.folder, 0, &mut folders);
    if folders.is_empty() {
        return Err(Failure::machine(anyhow::anyhow!(
            "{} holds no manifest, so nothing says that stormlp made anything there",
            args.folder.display()
        ))
        .with_help("name a data folder: stormlp clean DIR"));
    }
    let mut lines = Vec::new();
    for folder in folders {
        let (files, bytes) = clean(&folder, args.dry_run)?;
        let verb = if args.dry_run {
            "would remove"
        } else {
            "removed"
        };
        lines.push(format!(
            "{verb} {files} files, {}, from {}",
            ByteSize(bytes),
            folder.display()
        ));
    }
    let printed = output::print(&lines.join("\n"));
    if args.dry_run {
        return printed;
    }
    output::or_warn(printed, "the files are removed");
    Ok(())
}

/// Folders with a manifest or a journal, a few levels deep; links are not followed.
fn data_folders(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let has = |name: &str| is_file(&folder.join(name));
    if LISTS.into_iter().any(has) || has(JOURNAL_NAME) {
        found.push(folder.to_path_buf());
        return;
    }
    if depth == 3 {
        return;
    }
    let below = Disk.list(folder).unwrap_or_default();
    for entry in below.iter().filter(|e| e.is_folder() && !e.facts.link) {
        data_folders(&folder.join(&entry.name), depth + 1, found);
    }
}

fn is_file(path: &Path) -> bool {
    Disk.regular_file(path).is_ok()
}

/// Removes the files of one folder; how many there were, and their bytes.
fn clean(folder: &Path, dry_run: bool) -> Result<(u64, u64), Failure> {
    // A lock is a file; looking alone makes none.
    let locks = if dry_run { Vec::new() } else { locks(folder)? };
    let names = names(folder)?;
    let (mut files, mut bytes) = (0, 0);
    let mut parents = BTreeSet::new();
    for name in &names {
        let path = folder.join(name);
        let Ok(Some(found)) = Disk.look(&path) else {
            continue;
        };
        if found.kind != Kind::File || found.link {
            continue;
        }
        if !dry_run {
            Disk.remove(&path).map_err(Failure::machine)?;
        }
        files += 1;
        bytes += found.bytes;
        parents.extend(
            path.parent()
                .filter(|parent| *parent != folder)
                .map(Path::to_path_buf),
        );
    }
    if !dry_run {
        // Datasets have both, whether anything lies there or not.
        parents.extend(["train", "valid"].map(|half| folder.join(half)));
        for parent in parents.iter().rev() {
            remove_if_empty(parent)?;
        }
        // The manifest goes last: a clean that is cut short can be run again.
        for name in LISTS.into_iter().chain([JOURNAL_NAME, LOCK_NAME]) {
            Disk.remove(&folder.join(name)).map_err(Failure::machine)?;
        }
        remove_if_empty(folder)?;
    }
    drop(locks);
    Ok((files, bytes))
}

/// Keeps runs out of a folder while it is cleaned, and out of the one above, where a run over
/// several checkpoints has its lock.
fn locks(folder: &Path) -> Result<Vec<FolderLock>, Failure> {
    let above = folder
        .parent()
        .filter(|above| is_file(&above.join(LOCK_NAME)));
    (std::iter::once(folder).chain(above))
        .map(FolderLock::take)
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::machine(anyhow::Error::new(error)))
}

/// The files that the lists and the journal of a folder name, and what is left of them when their
/// writing was cut short.
fn names(folder: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for path in LISTS.map(|name| folder.join(name)) {
        let text = Disk.read_text(&path).map_err(Failure::no_plan)?;
        let Some(text) = text else { continue };
        let list: Value = serde_json::from_str(&text)
            .with_context(|| format!("cannot read the manifest {}", path.display()))
            .map_err(Failure::no_plan)?;
        for file in list["files"].as_array().into_iter().flatten() {
            let beside = file["side_files"].as_array().into_iter().flatten();
            let all = std::iter::once(file).chain(beside);
            names.extend(all.filter_map(|f| f["name"].as_str()).map(str::to_string));
        }
    }
    if is_file(&folder.join(JOURNAL_NAME)) {
        let record =
            Record::load(&Disk, folder).map_err(|e| Failure::no_plan(anyhow::Error::new(e)))?;
        for file in record
            .into_iter()
            .flat_map(|record| record.files.into_values())
        {
            names.extend(file.side_files.into_iter().map(|side| side.name));
            names.push(file.name);
        }
    }
    let mut paths = BTreeSet::new();
    for name in names {
        let path = inside(folder, &name)?;
        paths.insert(temporary_name(&path));
        paths.insert(path);
    }
    Ok(paths)
}

/// A listed name as a path, if it stays in the folder.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(name);
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_));
    match !name.is_empty() && path.components().all(stays) {
        true => Ok(path),
        false => Err(Failure::no_plan(anyhow::anyhow!(
            "the manifest of {} names `{name}`, which leads out of the folder; nothing was removed",
            folder.display()
        ))),
    }
}

/// Removes a folder that is empty; one that is not holds what is not ours.
fn remove_if_empty(path: &Path) -> Result<(), Failure> {
    match Disk.remove_folder(path) {
        Err(error) if !error.is_permission_denied() => Err(Failure::machine(error)),
        _ => Ok(()),
    }
}
