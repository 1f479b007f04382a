//! `stormlp clean [DIR]`: removes only the files that a manifest lists as created by stormlp.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::IsTerminal as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use stormlp_checkpoint::plan::{MARKER_NAME as CHECKPOINT_NAME, run_number, step_of};
use stormlp_core::facts::Identity;
use stormlp_core::location::{folder_or_prefix, names_object};
use stormlp_core::printable::printable;
use stormlp_core::units::{ByteSize, counted};
use stormlp_dataset::generate::{removable, unlisted_objects};
use stormlp_dataset::manifest::{
    JOURNAL_NAME, ManifestError, ManifestFile, ManifestHead, Record, journals_beside,
};
use stormlp_kvcache::plan::MARKER_NAME as OBJECTS_NAME;
use stormlp_kvcache::run::{CleanedFolder, KvcacheError, clean as clean_objects};
use stormlp_matrix::plan::MANIFEST_NAME;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{
    Entry, Facts, FolderLock, Kind, LOCK_NAME, PUTS, RecordedState, Storage, StorageRouter,
    left_to_remove, other_owners, temporary_name,
};

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// The lists in a folder filled by stormlp: the manifest of test files or of a dataset, and the
/// marker of a checkpoint. Both list their files under `files`, with a `name`.
const LISTS: [&str; 2] = [MANIFEST_NAME, CHECKPOINT_NAME];

/// Folders of a dataset, which it has even if they are empty.
const HALVES: [&str; 5] = ["train", "valid", "index", "index/train", "index/valid"];

/// Arguments of `stormlp clean`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp clean --dry-run
  stormlp clean
  stormlp clean /mnt/nvme/data")]
pub(crate) struct Args {
    /// Data folder, a folder of data folders, or s3://bucket/prefix [default: stormlp-data]
    #[arg(value_name = "DIR", value_parser = folder_or_prefix)]
    folder: Option<PathBuf>,

    /// Show files that would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Removes the files and prints their number.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let storage = &StorageRouter::default();
    let folder = args.folder.as_deref().unwrap_or(Path::new("stormlp-data"));
    storage.hold(folder);
    let mut folders = Vec::new();
    data_folders(storage, folder, 0, &mut folders)?;
    if folders.is_empty() {
        return Err(Failure::machine(anyhow::anyhow!(
            "{}, so stormlp did not create any data there",
            without_list(storage, folder)?
        ))
        .with_help("name a data folder: stormlp clean DIR"));
    }
    let in_default = args.folder.is_none();
    let asks = in_default && !args.dry_run;
    if asks && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        let (would, _) = clean_all(storage, &folders, (in_default, true))?;
        output::say_page(&format!("{}\nremove them? y/N", would.join("\n")));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(Failure::machine)?;
        if !["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()) {
            return Err(Failure::stopped("nothing was removed"));
        }
    }
    let (lines, left) = clean_all(storage, &folders, (in_default, args.dry_run))?;
    let printed = output::print(&lines.join("\n"));
    for warning in storage.warnings() {
        output::say(format!("warning: {warning}"));
    }
    for path in left {
        output::say(format!("left {path}, which stormlp did not create"));
    }
    if args.dry_run {
        return printed;
    }
    output::or_warn(printed, "the files are removed");
    Ok(())
}

/// Cleans folders, which may be `in_default`, the folder that stormlp chooses, and says what was removed from
/// each, and what was left.
fn clean_all(
    storage: &dyn Storage,
    folders: &[PathBuf],
    (in_default, dry_run): (bool, bool),
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let (mut lines, mut left) = (Vec::new(), Vec::new());
    for folder in folders {
        let cleaned = clean(storage, folder, dry_run)?;
        if !dry_run && !names_object(folder) {
            remove_folders(storage, folder, in_default)?;
        }
        let verb = if dry_run { "would remove" } else { "removed" };
        let files = counted(cleaned.files, if names_object(folder) { "object" } else { "file" });
        let (bytes, place) = (ByteSize(cleaned.bytes), folder.display().to_string());
        lines.push(format!("{verb} {files}, {bytes}, from {}", printable(&place)));
        if cleaned.uploads > 0 {
            let verb = if dry_run { "would abort" } else { "aborted" };
            lines.push(format!("{verb} {}", counted(cleaned.uploads, "unfinished upload")));
        }
        left.extend(cleaned.left);
    }
    Ok((lines, left))
}

/// Folders with a manifest or a journal, a few levels deep (checkpoints are four levels below the default
/// folder); links are not followed.
fn data_folders(
    storage: &dyn Storage,
    folder: &Path,
    depth: u32,
    found: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    for name in LISTS.into_iter().chain([JOURNAL_NAME, OBJECTS_NAME]) {
        if is_file(storage, &folder.join(name))? {
            found.push(folder.to_path_buf());
            return Ok(());
        }
    }
    if depth == 4 {
        return Ok(());
    }
    let below = match storage.list(folder) {
        Err(error) if error.is_not_found() => return Ok(()),
        // A link in a held folder, which is not followed.
        Err(error) if error.was_not_asked() => return Ok(()),
        below => below?,
    };
    for entry in below.iter().filter(|e| e.is_folder() && !e.facts.link) {
        data_folders(storage, &folder.join(&entry.name), depth + 1, found)?;
    }
    Ok(())
}

/// Why a folder has no list: it is missing, or the name is taken by something else.
fn without_list(storage: &dyn Storage, folder: &Path) -> Result<String, Failure> {
    for path in LISTS.into_iter().chain([OBJECTS_NAME]).map(|name| folder.join(name)) {
        if let Some(found) = storage.look(&path)? {
            return Ok(format!("{} is {}, not a manifest", path.display(), found.what()));
        }
    }
    Ok(format!("{} contains no manifest", folder.display()))
}

fn is_file(storage: &dyn Storage, path: &Path) -> Result<bool, Failure> {
    match storage.look(path) {
        // Behind a link, which is not followed.
        Err(error) if error.was_not_asked() => Ok(false),
        found => Ok(found?.is_some_and(|found| found.kind == Kind::File)),
    }
}

/// Removes the files of a folder that are unchanged since their creation.
fn clean(storage: &dyn Storage, folder: &Path, dry_run: bool) -> Result<CleanedFolder, Failure> {
    if is_file(storage, &folder.join(OBJECTS_NAME))? {
        // No list names the objects of KV caches: they are known by their content.
        return clean_objects(storage, folder, dry_run).map_err(KvcacheError::not_started);
    }
    // A lock is a file; a dry run must not create one.
    let locks = if dry_run { Vec::new() } else { locks(storage, folder)? };
    let mut cleaned = CleanedFolder::default();
    let mut parents = BTreeSet::new();
    let (all, begun) = listed(storage, folder)?;
    let of_begun = |path: &Path| begun.as_ref().is_some_and(|head| head.is_of(folder, path));
    let ours = |path: &Path| all.contains_key(path) || of_begun(path);
    cleaned.uploads = storage.abort_uploads(folder, &ours, dry_run)?;
    let seen = seen_objects(storage, folder, &all)?;
    let owners = other_owners(storage, folder, &[MANIFEST_NAME, CHECKPOINT_NAME, JOURNAL_NAME]);
    let mut gone = Vec::new();
    // Listed files that are not removed.
    let mut kept = false;
    for (path, listed) in all {
        match listed.left((storage, folder), &owners, &path, seen.get(&path))? {
            RecordedState::Nothing => continue,
            RecordedState::Other(what) => {
                kept |= !matches!(listed, Listed::Unnamed(_));
                cleaned.left.push(format!("{}: it is {what}", path.display()));
                continue;
            }
            RecordedState::Same(found) => {
                cleaned.files += 1;
                cleaned.bytes = cleaned.bytes.saturating_add(found.bytes);
            }
        }
        parents.extend(path.parent().filter(|parent| *parent != folder).map(Path::to_path_buf));
        gone.push(path);
    }
    if !dry_run {
        storage.remove_all(&gone)?;
        parents.extend(HALVES.map(|half| folder.join(half)));
        for parent in parents.iter().rev() {
            remove_if_empty(storage, parent)?;
        }
        // The manifest goes last, so that an interrupted clean can be run again. It stays if files
        // it lists remain, and keeps other runs from them.
        if !kept {
            for name in journals_beside(storage, folder)? {
                storage.remove(&folder.join(name))?;
            }
            for name in LISTS.into_iter().chain([JOURNAL_NAME, LOCK_NAME]) {
                storage.remove(&folder.join(name))?;
            }
        }
    }
    drop(locks);
    Ok(cleaned)
}

/// Removes an empty data folder that stormlp created. With the last checkpoint of a run, the folder of
/// the run goes, and the directory of checkpoints if only its lock is left.
fn remove_folders(storage: &dyn Storage, folder: &Path, in_default: bool) -> Result<(), Failure> {
    // Somebody else's folder stays, even if empty, and so does `.`.
    let remove_ours = |folder: &Path| match in_default || storage.is_marked(folder)? {
        true if folder.file_name().is_some() => remove_if_empty(storage, folder),
        _ => Ok(()),
    };
    let name = |run: &Path| run_number(run.file_name()?.to_str()?);
    let Some(run) = folder.parent().filter(|run| name(run).is_some()) else {
        return remove_ours(folder);
    };
    remove_if_empty(storage, folder)?;
    // A kill came before the marker had its name.
    let entries = if storage.is_folder(run)? { storage.list(run)? } else { Vec::new() };
    for step in entries.iter().filter(|entry| entry.text().and_then(step_of).is_some()) {
        let step = run.join(&step.name);
        storage.discard(&temporary_name(&step.join(CHECKPOINT_NAME)));
        remove_if_empty(storage, &step)?;
    }
    remove_if_empty(storage, run)?;
    let directory = run.parent().unwrap_or(run);
    let is_lock = |entry: &Entry| entry.name == LOCK_NAME;
    if storage.is_folder(directory)? && storage.list(directory)?.iter().all(is_lock) {
        storage.remove(&directory.join(LOCK_NAME))?;
        remove_ours(directory)?;
    }
    Ok(())
}

/// Locks a folder while it is cleaned, and the directory above the run's folder, where a run over several
/// checkpoints has its lock.
fn locks(storage: &dyn Storage, folder: &Path) -> Result<Vec<FolderLock>, Failure> {
    // A relative path may have nothing above it.
    let whole = match names_object(folder) {
        true => folder.to_path_buf(),
        false => std::path::absolute(folder).map_err(Failure::machine)?,
    };
    let mut locked = vec![folder];
    for above in whole.ancestors().skip(1).take(2) {
        if is_file(storage, &above.join(LOCK_NAME))? {
            locked.push(above);
        }
    }
    (locked.into_iter().map(|folder| storage.lock(folder)))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::machine(anyhow::Error::new(error)))
}

/// The files that the lists of a folder name, and the dataset of a run that did not finish.
type Listing = (BTreeMap<PathBuf, Listed>, Option<ManifestHead>);

/// The record of a file in a list.
enum Listed {
    /// A complete file of this size, and its identity if recorded.
    Bytes(u64, Option<Identity>),
    /// A dataset file, and whether it has a name of its list's dataset.
    OfDataset(ManifestFile, bool),
    /// It was being written under a temporary name, and may have any size; its identity is the file's.
    Temporary(Option<Identity>),
    /// An object that no list names, but a run can have put: its description.
    Unnamed(RecordedState),
}

/// The objects of the folders with listed ones, from one list instead of a request for each. Files are
/// looked at one by one.
fn seen_objects(
    storage: &dyn Storage,
    folder: &Path,
    all: &BTreeMap<PathBuf, Listed>,
) -> Result<HashMap<PathBuf, Facts>, Failure> {
    let mut seen = HashMap::new();
    let parents: BTreeSet<&Path> = all.keys().filter_map(|path| path.parent()).collect();
    for parent in parents.into_iter().filter(|_| names_object(folder)) {
        let entries = storage.list(parent)?.into_iter();
        seen.extend(entries.map(|entry| (parent.join(&entry.name), entry.facts)));
    }
    Ok(seen)
}

impl Listed {
    /// The rest of the file; an object is known by the `seen` facts, if it is the one that was
    /// made.
    fn left(
        &self,
        (storage, folder): (&dyn Storage, &Path),
        owners: &[u32],
        path: &Path,
        seen: Option<&Facts>,
    ) -> Result<RecordedState, TransferError> {
        let made = match self {
            Self::Bytes(bytes, identity) => Some((*bytes, *identity)),
            Self::OfDataset(file, _) => Some((file.bytes, file.identity)),
            Self::Temporary(_) | Self::Unnamed(_) => None,
        };
        let is_made = |found: &&Facts| {
            found.kind == Kind::File && made == Some((found.bytes, Some(found.identity)))
        };
        if let Some(found) = seen.filter(is_made) {
            return Ok(RecordedState::Same(*found));
        }
        match self {
            Self::Unnamed(left) => Ok(left.clone()),
            // A link is not followed to check; its file is reported instead.
            Self::Temporary(_) if storage.look(path).is_err_and(|e| e.was_not_asked()) => {
                Ok(RecordedState::Nothing)
            }
            Self::Bytes(bytes, identity) => {
                left_to_remove(storage, owners, path, (Some(*bytes), *identity))
            }
            Self::Temporary(identity) => left_to_remove(storage, owners, path, (None, *identity)),
            Self::OfDataset(file, is_named) => {
                removable((storage, folder), owners, file, *is_named)
            }
        }
    }
}

/// The manifest of test files or of a dataset, or the marker of a checkpoint.
#[derive(Deserialize)]
struct List {
    files: Vec<FileOfList>,
}

/// An entry of a list.
#[derive(Deserialize)]
struct FileOfList {
    name: String,
    bytes: u64,
    identity: Option<Identity>,
    #[serde(default)]
    side_files: Vec<Self>,
}

/// The files named by the lists and the journal of a folder, and the remains of interrupted writes;
/// and the dataset of a run that did not finish putting objects.
fn listed(storage: &dyn Storage, folder: &Path) -> Result<Listing, Failure> {
    let mut all: Vec<(String, Listed)> = Vec::new();
    let mut begun = None;
    for path in LISTS.map(|name| folder.join(name)) {
        let text = storage.read_text(&path).map_err(|error| match error.was_not_asked() {
            false => error.into(),
            // It could be read but is not text.
            true => Failure::no_plan(error),
        })?;
        let Some(text) = text else { continue };
        let list: List = serde_json::from_str(&text)
            .with_context(|| format!("cannot read the manifest {}", path.display()))
            .map_err(Failure::no_plan)?;
        let files = list.files.into_iter().flat_map(|mut file| {
            let beside = std::mem::take(&mut file.side_files);
            beside.into_iter().chain([file])
        });
        all.extend(files.map(|file| (file.name, Listed::Bytes(file.bytes, file.identity))));
    }
    let has_journal = is_file(storage, &folder.join(JOURNAL_NAME))?;
    match Record::load(storage, folder) {
        Ok(None) => {}
        Ok(Some(Record { head, files, .. })) => {
            let files = files.into_values().flat_map(ManifestFile::with_side_files);
            all.extend(files.map(|file| {
                let is_named = head.names(&file.name);
                (file.name.clone(), Listed::OfDataset(file, is_named))
            }));
            begun = has_journal.then_some(head);
        }
        Err(ManifestError::File(error)) if !error.was_not_asked() => return Err(error.into()),
        // Of another command.
        Err(_) if !has_journal => {}
        Err(error) => return Err(Failure::no_plan(error)),
    }
    let mut paths = BTreeMap::new();
    for (name, listed) in all {
        let path = folder.join(inside(folder, &name)?);
        // Objects have their names from the start.
        if !names_object(folder) {
            let identity = match &listed {
                Listed::Bytes(_, identity) => *identity,
                Listed::OfDataset(file, _) => file.identity,
                Listed::Temporary(_) | Listed::Unnamed(_) => None,
            };
            paths.insert(temporary_name(&path), Listed::Temporary(identity));
        }
        paths.insert(path, listed);
    }
    paths.extend(being_written(storage, folder, begun.as_ref())?);
    begun = begun.filter(|_| names_object(folder));
    if let Some(head) = &begun {
        let listed = |name: &str| paths.contains_key(&folder.join(name));
        let unlisted = unlisted_objects(storage, folder, head, listed)?;
        let unlisted = unlisted.into_iter().map(|(name, left)| (folder.join(name), left));
        paths.extend(unlisted.map(|(path, left)| (path, Listed::Unnamed(left))));
    }
    if names_object(folder) {
        let puts = puts_beneath(storage, folder, &paths)?.into_iter();
        paths.extend(puts.map(|(path, left)| (path, Listed::Unnamed(left))));
    }
    Ok((paths, begun))
}

/// The files that a killed run was writing: it lists a file once it is whole.
fn being_written(
    storage: &dyn Storage,
    folder: &Path,
    begun: Option<&ManifestHead>,
) -> Result<Vec<(PathBuf, Listed)>, Failure> {
    // Objects have their names from the start.
    let Some(head) = begun.filter(|_| !names_object(folder)) else { return Ok(Vec::new()) };
    let owners = other_owners(storage, folder, &[JOURNAL_NAME]);
    let mut found = Vec::new();
    for part in HALVES.map(|part| folder.join(part)) {
        let entries = if storage.is_folder(&part)? { storage.list(&part)? } else { Vec::new() };
        for Entry { name, facts } in entries {
            let of = name.to_str().and_then(|n| n.strip_prefix('.')?.strip_suffix(".partial"));
            let is_ours = of.is_some_and(|of| head.is_of(folder, &part.join(of)))
                && owners.iter().all(|owner| *owner == facts.owner);
            if is_ours && facts.kind == Kind::File && !facts.link {
                found.push((part.join(name), Listed::Unnamed(RecordedState::Same(facts))));
            }
        }
    }
    Ok(found)
}

/// The objects that writes put for the listed ones of a folder.
fn puts_beneath(
    storage: &dyn Storage,
    folder: &Path,
    listed: &BTreeMap<PathBuf, Listed>,
) -> Result<Vec<(PathBuf, RecordedState)>, Failure> {
    let mut puts = Vec::new();
    for entry in storage.list(folder)?.iter().filter(|entry| entry.is_folder()) {
        let of = entry.text().and_then(|name| name.strip_suffix(PUTS.trim_end_matches('/')));
        if let Some(path) = of.map(|name| folder.join(name))
            && listed.contains_key(&path)
        {
            puts.extend(storage.puts(&path)?);
        }
    }
    Ok(puts)
}

/// A listed name as a path, if it stays inside the folder.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(name);
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !name.is_empty() && path.components().all(stays) {
        Ok(path)
    } else {
        Err(Failure::no_plan(anyhow::anyhow!(
            "the manifest of {} names `{name}`, which is outside the folder; no file was removed",
            folder.display()
        )))
    }
}

/// Removes a folder if empty; otherwise it contains other files.
fn remove_if_empty(storage: &dyn Storage, path: &Path) -> Result<(), Failure> {
    match storage.remove_folder(path) {
        Err(error) if !error.is_permission_denied() => Err(error.into()),
        _ => Ok(()),
    }
}
