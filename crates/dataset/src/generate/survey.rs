//! The survey before the first byte: the contents of the folder, the files to keep, and whether the
//! rest fits.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use stormlp_core::event::Silent;
use stormlp_core::location::names_object;
use stormlp_core::stop::StopToken;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Entry, RecordedState, Storage, other_owners};

use super::error::GenerateError;
use super::plan::{Existing, GeneratePlan, room};
use super::thread_group;
use super::verify::{FileState, check_framing, check_side_files, removable, state_of};
use crate::content::BLOCK_BYTES;
use crate::dataset::Recipe;
use crate::manifest::{
    JOURNAL_NAME, MANIFEST_NAME, ManifestFile, ManifestHead, Record, journals_beside,
};
use crate::names::Split;

/// The description of an object that no killed run of stormlp put.
const UNMARKED: &str = "an object that no journal lists and that has no mark of stormlp's";

/// The work to be done.
#[derive(Default)]
pub(super) struct Survey {
    /// Files that are kept, by index.
    pub(super) kept: HashMap<u64, ManifestFile>,
    /// Files to be made, by index.
    pub(super) to_make: Vec<u64>,
    /// Existing files that are no longer as they were made.
    pub(super) damaged: Vec<String>,
}

impl Survey {
    /// The survey of an empty folder: everything is to be made.
    pub(super) fn of_nothing(plan: &GeneratePlan) -> Self {
        Self { to_make: (0..plan.dataset.files()).collect(), ..Self::default() }
    }
}

/// The work left after the files listed in the journal of the first process, which has just
/// surveyed the folder.
pub(super) fn of_journal(plan: &GeneratePlan) -> Result<Survey, GenerateError> {
    let record = Record::load(&*plan.storage, &plan.folder)?;
    let listed = |index: &u64| {
        let name = plan.dataset.path(*index);
        record.as_ref().is_some_and(|record| record.files.contains_key(&name))
    };
    let to_make = (0..plan.dataset.files()).filter(|index| !listed(index)).collect();
    Ok(Survey { to_make, ..Survey::default() })
}

/// Surveys the folder and decides, as the plan allows, what to make.
pub(super) fn survey(plan: &GeneratePlan, head: &ManifestHead) -> Result<Survey, GenerateError> {
    let (storage, folder) = (&*plan.storage, plan.folder.as_path());
    match plan.existing {
        Existing::Overwrite => remove_dataset(plan, Record::load(storage, folder)?)?,
        Existing::Refuse => check_empty(plan, head)?,
        Existing::Resume => match Record::load(storage, folder)? {
            Some(record) => return resume(plan, head, &record),
            None => refuse_unknown(plan)?,
        },
    }
    Ok(Survey::of_nothing(plan))
}

/// Refuses a folder that has a dataset, or files that may be one.
pub(super) fn check_empty(plan: &GeneratePlan, head: &ManifestHead) -> Result<(), GenerateError> {
    let Some(record) = Record::load(&*plan.storage, &plan.folder)? else {
        return refuse_unknown(plan);
    };
    let same = record.head.recipe == head.recipe;
    let what = match (same, record.finished) {
        (true, true) => "this dataset already".to_string(),
        (true, false) => format!(
            "this dataset, unfinished: {} of {} files",
            record.files.len(),
            plan.dataset.files()
        ),
        (false, _) => format!("another dataset, of workload {}", record.head.workload),
    };
    Err(GenerateError::Occupied { folder: plan.folder.clone(), what, resumable: same })
}

/// Files without a manifest are never taken for a dataset of stormlp's.
fn refuse_unknown(plan: &GeneratePlan) -> Result<(), GenerateError> {
    for split in [Split::Train, Split::Valid] {
        if let Some(name) = first_file(plan, split.folder())? {
            return Err(GenerateError::Occupied {
                folder: plan.folder.clone(),
                what: format!("files without a manifest, such as {name}"),
                resumable: false,
            });
        }
    }
    Ok(())
}

/// The name of any file in a folder or its subfolders, apart from dotfiles.
fn first_file(plan: &GeneratePlan, below: &str) -> Result<Option<String>, TransferError> {
    let mut found = None;
    walk(&*plan.storage, &plan.folder, &[below], &mut |name, entry| {
        if !entry.name.to_string_lossy().starts_with('.') {
            found = Some(name);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Calls `each` with every entry `below` these folders that is not a folder, until it returns false.
fn walk(
    storage: &dyn Storage,
    folder: &Path,
    below: &[&str],
    each: &mut dyn FnMut(String, &Entry) -> Result<bool, TransferError>,
) -> Result<(), TransferError> {
    let mut below: Vec<String> = below.iter().map(ToString::to_string).collect();
    while let Some(parent) = below.pop() {
        let entries = match storage.list(&folder.join(&parent)) {
            Err(error) if error.is_not_found() => continue,
            entries => entries?,
        };
        for entry in entries {
            let name = format!("{parent}/{}", entry.name.to_string_lossy());
            if entry.is_folder() {
                below.push(name);
            } else if !each(name, &entry)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Removes the files that the manifest or journal lists, and temporary files that a killed run
/// left. If any entry was changed, no file is removed. A killed run that had `begun` may have put
/// objects without listing them: those have its names, and stormlp's mark.
fn remove_dataset(plan: &GeneratePlan, record: Option<Record>) -> Result<(), GenerateError> {
    let (storage, folder) = (&*plan.storage, plan.folder.as_path());
    let (mut ours, mut others, mut listed) = (Vec::new(), Vec::new(), HashSet::new());
    let mut begun = None;
    if let Some(Record { head, files, finished }) = record {
        let owners = other_owners(storage, folder, &[MANIFEST_NAME, JOURNAL_NAME]);
        for file in files.into_values().flat_map(ManifestFile::with_side_files) {
            match removable((storage, folder), &owners, &file, head.names(&file.name))? {
                RecordedState::Nothing => {}
                RecordedState::Same(_) => ours.push(file.name.clone()),
                RecordedState::Other(what) => others.push((file.name.clone(), what)),
            }
            listed.insert(file.name);
        }
        begun = (!finished && names_object(folder)).then_some(head);
    }
    let begun = begun.as_ref();
    unlisted(plan, &listed, begun, &mut ours, &mut others)?;
    refuse_changed(plan, others)?;
    if let Some(head) = begun {
        storage.abort_uploads(folder, &|path| head.is_of(folder, path), false)?;
    }
    let ours: Vec<_> = ours.iter().map(|name| folder.join(name)).collect();
    storage.remove_all(&ours)?;
    // The journal and manifest go last: an interrupted removal can be repeated.
    for list in journals_beside(storage, folder)? {
        storage.remove(&folder.join(list))?;
    }
    for list in [JOURNAL_NAME, MANIFEST_NAME] {
        storage.remove(&folder.join(list))?;
    }
    Ok(())
}

/// Fails if files no longer match their list.
fn refuse_changed(
    plan: &GeneratePlan,
    mut others: Vec<(String, String)>,
) -> Result<(), GenerateError> {
    others.sort_unstable();
    let more = others.len().saturating_sub(1);
    match others.into_iter().next() {
        None => Ok(()),
        Some((name, found)) => {
            let path = plan.folder.join(name);
            let others = match more {
                0 => String::new(),
                more => format!(" (and {more} more like it)"),
            };
            let what = format!(
                "{} is {found}, not the file that stormlp made{others}; it was left alone, and \
                 no file was removed",
                path.display()
            );
            let help = "move it away if it is yours, or remove it; then run the command again";
            Err(GenerateError::machine(what, help))
        }
    }
}

/// The folders that have the files of a dataset.
const FOLDERS: [&str; 4] = ["train", "valid", "index/train", "index/valid"];

/// Unlisted entries with one of the dataset's names. Those with a temporary name were left by a
/// killed run, and so were marked objects with the names of the run that had `begun`; for the rest
/// it is unknown whether stormlp made them.
fn unlisted(
    plan: &GeneratePlan,
    listed: &HashSet<String>,
    begun: Option<&ManifestHead>,
    ours: &mut Vec<String>,
    others: &mut Vec<(String, String)>,
) -> Result<(), TransferError> {
    let (storage, recipe) = (&*plan.storage, plan.dataset.recipe());
    walk(storage, &plan.folder, &FOLDERS, &mut |path, entry| {
        let name = entry.name.to_string_lossy();
        let temporary = name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial"));
        if entry.is_file() && temporary.is_some_and(|name| is_named(recipe, name)) {
            ours.push(path);
        } else if listed.contains(&path) {
        } else if begun.is_some_and(|head| head.names(&path)) {
            match storage.is_marked(&plan.folder.join(&path))? {
                true => ours.push(path),
                false => others.push((path, UNMARKED.to_string())),
            }
        } else if is_named(recipe, &name) {
            others.push((path, format!("{} that no manifest lists", entry.facts.what())));
        }
        Ok(true)
    })
}

/// Whether a file's name is one of those that the dataset's files have.
fn is_named(recipe: &Recipe, name: &str) -> bool {
    let suffix = format!(".{}", recipe.format.name());
    let rest = name.strip_prefix(&recipe.prefix).and_then(|rest| rest.strip_prefix('_'));
    let Some((numbers, more)) = rest.and_then(|rest| rest.split_once(&suffix)) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_one = |(index, of): (&str, &str)| is_number(index) && is_number(of);
    numbers.split_once("_of_").is_some_and(is_one) && (more.is_empty() || more.starts_with('.'))
}

/// The objects that have the names of a dataset that a killed run had begun, and are not `listed`: by
/// their marks the run put them, unless they are [`RecordedState::Other`].
///
/// # Errors
/// When they cannot be listed or looked at.
pub fn unlisted_objects(
    storage: &dyn Storage,
    folder: &Path,
    head: &ManifestHead,
    listed: impl Fn(&str) -> bool,
) -> Result<Vec<(String, RecordedState)>, TransferError> {
    let mut found = Vec::new();
    walk(storage, folder, &FOLDERS, &mut |name, entry| {
        if head.names(&name) && !listed(&name) {
            let left = match storage.is_marked(&folder.join(&name))? {
                true => RecordedState::Same(entry.facts),
                false => RecordedState::Other(UNMARKED.to_string()),
            };
            found.push((name, left));
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Keeps the files that match the record.
fn resume(
    plan: &GeneratePlan,
    head: &ManifestHead,
    record: &Record,
) -> Result<Survey, GenerateError> {
    if record.head.recipe != head.recipe {
        return Err(plan.another(&record.head));
    }
    let looked = look_at_all(plan, record)?;
    refuse_changed(plan, looked.foreign)?;
    let Surveyed { kept, mut damaged, .. } = looked;
    damaged.sort_unstable();
    for name in &damaged {
        // Made by stormlp and of no use to anyone: removed before it is made again.
        plan.storage.remove(&plan.folder.join(name))?;
    }
    Ok(Survey {
        to_make: (0..plan.dataset.files()).filter(|index| !kept.contains_key(index)).collect(),
        kept,
        damaged,
    })
}

/// The result of checking every file of a dataset.
#[derive(Default)]
struct Surveyed {
    kept: HashMap<u64, ManifestFile>,
    damaged: Vec<String>,
    foreign: Vec<(String, String)>,
    failed: Option<TransferError>,
}

/// Checks every file of the dataset on several threads, since some must be read.
fn look_at_all(plan: &GeneratePlan, record: &Record) -> Result<Surveyed, GenerateError> {
    let looked = Mutex::new(Surveyed::default());
    let failed = StopToken::new();
    thread_group::each_file(plan, &Silent, &failed, |index| {
        let name = plan.dataset.path(index);
        let state = state_of_index(plan, record, index, &name);
        let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Ok(FileState::Whole(file)) => drop(looked.kept.insert(index, file)),
            Ok(FileState::Gone) => {}
            Ok(FileState::Empty | FileState::Damaged(_)) => looked.damaged.push(name),
            Ok(FileState::Foreign(what)) => looked.foreign.push((name, what)),
            Err(error) => {
                looked.failed = Some(error);
                failed.stop();
            }
        }
    })?;
    let mut looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    match looked.failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(looked),
    }
}

/// A complete file, if its side files are complete too.
fn with_side_files(
    storage: &dyn Storage,
    folder: &Path,
    file: ManifestFile,
) -> Result<FileState, TransferError> {
    for side in &file.side_files {
        if let RecordedState::Other(what) = storage.left(&folder.join(&side.name), None, None)? {
            let beside = format!("next to its index {}, which is {what}", side.name);
            return Ok(FileState::Foreign(beside));
        }
    }
    Ok(match check_side_files(storage, folder, &file) {
        Ok(()) => FileState::Whole(file),
        Err(fault) => FileState::Damaged(fault.to_string()),
    })
}

/// State of a file of the dataset.
fn state_of_index(
    plan: &GeneratePlan,
    record: &Record,
    index: u64,
    name: &str,
) -> Result<FileState, TransferError> {
    let (storage, folder) = (&*plan.storage, plan.folder.as_path());
    match record.files.get(name) {
        Some(file) => match state_of(storage, folder, file)? {
            // It was complete once; a file that was only about to get its name never was.
            FileState::Gone if file.changed_ns > 0 => Ok(FileState::Damaged("gone".to_string())),
            FileState::Whole(file) => with_side_files(storage, folder, file),
            state => Ok(state),
        },
        None => Ok(match storage.left(&folder.join(name), None, None)? {
            RecordedState::Nothing => FileState::Gone,
            // Objects are listed after they were put.
            RecordedState::Same(_) if names_object(folder) && !record.finished => {
                match storage.is_marked(&folder.join(name))? {
                    true => FileState::Damaged("not listed".to_string()),
                    false => FileState::Foreign(UNMARKED.to_string()),
                }
            }
            RecordedState::Same(found) if found.bytes == 0 => FileState::Empty,
            // A machine that lost its power may have lost the line of a file that it made.
            RecordedState::Same(found) => match check_framing(plan, index, name, found.bytes) {
                Ok(_) => FileState::Gone,
                Err(_) => FileState::Foreign("a file that no manifest lists".to_string()),
            },
            RecordedState::Other(what) => FileState::Foreign(what),
        }),
    }
}

/// Fails if the files to be made do not fit next to those that are kept.
pub(super) fn check_space(plan: &GeneratePlan, survey: &Survey) -> Result<(), GenerateError> {
    let Some(space) = room(&*plan.storage, &plan.folder)? else { return Ok(()) };
    let mut replaced = 0;
    for name in &survey.damaged {
        let found = plan.storage.look(&plan.folder.join(name))?;
        replaced += found.map_or(0, |found| found.bytes);
    }
    let needed: u64 = survey
        .to_make
        .iter()
        .map(|index| plan.dataset.expected_bytes(*index).next_multiple_of(BLOCK_BYTES as u64))
        .sum();
    if needed > space.free_bytes.saturating_add(replaced) {
        return Err(GenerateError::space(&plan.folder, space.free_bytes, needed));
    }
    Ok(())
}
