//! Before the first byte: what the folder holds, what of it stays, and whether the rest fits.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use stormlp_transfer::storage::Storage;

use super::error::GenerateError;
use super::verify::{check_side_files, checksum_of};
use super::{Existing, GeneratePlan, room};
use crate::content::BLOCK_BYTES;
use crate::manifest::{
    JOURNAL_NAME, MANIFEST_NAME, ManifestError, ManifestFile, ManifestHead, Record, crc64_text,
};
use crate::names::Split;

/// What is to be done.
pub(super) struct Survey {
    /// Files that stay, by index.
    pub(super) kept: HashMap<u64, ManifestFile>,
    /// Files to be made, by index.
    pub(super) to_make: Vec<u64>,
    /// Files that were there but are no longer what they were.
    pub(super) damaged: Vec<String>,
}

impl Survey {
    /// The survey of an empty folder: everything is to be made.
    pub(super) fn of_nothing(plan: &GeneratePlan) -> Self {
        Self {
            kept: HashMap::new(),
            to_make: (0..plan.dataset.files()).collect(),
            damaged: Vec::new(),
        }
    }
}

/// Looks at the folder and decides, by what the plan allows, what to make.
pub(super) fn survey(plan: &GeneratePlan, head: &ManifestHead) -> Result<Survey, GenerateError> {
    let record = match Record::load(&*plan.storage, &plan.folder) {
        // A list that cannot be read goes with the set that it listed.
        Err(ManifestError::Malformed { .. }) if plan.existing == Existing::Overwrite => None,
        loaded => loaded?,
    };
    match plan.existing {
        Existing::Refuse => refuse_occupied(plan, head, record.as_ref())?,
        Existing::Overwrite => remove_dataset(plan, record.as_ref())?,
        Existing::Resume => match record {
            Some(record) => return resume(plan, head, &record),
            None => refuse_unknown(plan)?,
        },
    }
    Ok(Survey::of_nothing(plan))
}

fn refuse_occupied(
    plan: &GeneratePlan,
    head: &ManifestHead,
    record: Option<&Record>,
) -> Result<(), GenerateError> {
    let Some(record) = record else {
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
    Err(GenerateError::Occupied {
        folder: plan.folder.clone(),
        what,
        resumable: same,
    })
}

/// Files that no manifest answers for are never taken for a dataset of stormlp's.
fn refuse_unknown(plan: &GeneratePlan) -> Result<(), GenerateError> {
    for split in [Split::Train, Split::Valid] {
        if let Some(name) = first_file(&*plan.storage, &plan.folder.join(split.folder())) {
            return Err(GenerateError::Occupied {
                folder: plan.folder.clone(),
                what: format!(
                    "files without a manifest, such as {}/{name}",
                    split.folder()
                ),
                resumable: false,
            });
        }
    }
    Ok(())
}

/// The name of some file in a folder or its subfolders.
fn first_file(storage: &dyn Storage, folder: &Path) -> Option<String> {
    let mut subfolders = Vec::new();
    for entry in storage.list(folder).ok()? {
        let name = entry.name.to_string_lossy().into_owned();
        if entry.is_folder() {
            subfolders.push(name);
        } else if !name.starts_with('.') {
            return Some(name);
        }
    }
    subfolders.into_iter().find_map(|subfolder| {
        first_file(storage, &folder.join(&subfolder)).map(|file| format!("{subfolder}/{file}"))
    })
}

/// Removes what the manifest or journal lists, and files that bear the dataset's names.
fn remove_dataset(plan: &GeneratePlan, record: Option<&Record>) -> Result<(), GenerateError> {
    // The journal and manifest go last: a removal that was cut short can be repeated.
    if let Some(record) = record {
        for file in record.files.values() {
            remove(plan, &file.name)?;
            for side in &file.side_files {
                remove(plan, &side.name)?;
            }
        }
    }
    for split in [Split::Train, Split::Valid] {
        for folder in [
            split.folder().to_string(),
            format!("index/{}", split.folder()),
        ] {
            remove_named(plan, &folder)?;
        }
    }
    remove(plan, JOURNAL_NAME)?;
    remove(plan, MANIFEST_NAME)
}

fn remove(plan: &GeneratePlan, name: &str) -> Result<(), GenerateError> {
    plan.storage.remove(&plan.folder.join(name))?;
    Ok(())
}

/// Removes `{prefix}_…_of_….{suffix}…` from a folder and its subfolders.
fn remove_named(plan: &GeneratePlan, folder: &str) -> Result<(), GenerateError> {
    let recipe = plan.dataset.recipe();
    let start = format!("{}_", recipe.prefix);
    let suffix = format!(".{}", recipe.format.name());
    let Ok(entries) = plan.storage.list(&plan.folder.join(folder)) else {
        return Ok(());
    };
    for entry in entries {
        let name = entry.name.to_string_lossy();
        let path = format!("{folder}/{name}");
        if entry.is_folder() && !entry.facts.link {
            remove_named(plan, &path)?;
        } else if name.trim_start_matches('.').starts_with(&start)
            && name.contains("_of_")
            && name.contains(&suffix)
        {
            remove(plan, &path)?;
        }
    }
    Ok(())
}

/// Keeps the files that are as the record says.
fn resume(
    plan: &GeneratePlan,
    head: &ManifestHead,
    record: &Record,
) -> Result<Survey, GenerateError> {
    if record.head.recipe != head.recipe {
        return Err(another(plan, &record.head));
    }
    let kept = Mutex::new(HashMap::new());
    let damaged = Mutex::new(Vec::new());
    let next = AtomicU64::new(0);
    let check = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= plan.dataset.files() {
                break;
            }
            let Some(file) = record.files.get(&plan.dataset.path(index)) else {
                continue;
            };
            match still_whole(&*plan.storage, &plan.folder, file) {
                Some(file) => {
                    lock(&kept).insert(index, file);
                }
                None => lock(&damaged).push(file.name.clone()),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.thread_count() {
            scope.spawn(check);
        }
    });
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut damaged = damaged.into_inner().unwrap_or_else(PoisonError::into_inner);
    damaged.sort_unstable();
    Ok(Survey {
        to_make: (0..plan.dataset.files())
            .filter(|index| !kept.contains_key(index))
            .collect(),
        kept,
        damaged,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file as it stands now when it has its recorded bytes. Size and time of change suffice;
/// where the time is another (a copied folder), the checksum decides.
fn still_whole(storage: &dyn Storage, folder: &Path, file: &ManifestFile) -> Option<ManifestFile> {
    let path = folder.join(&file.name);
    let found = storage.look(&path).ok()??;
    if found.bytes != file.bytes {
        return None;
    }
    check_side_files(storage, folder, file).ok()?;
    let changed_ns = found.changed_ns;
    if changed_ns != file.changed_ns {
        let crc = checksum_of(storage, &path).ok()?;
        if crc64_text(crc) != file.crc64 {
            return None;
        }
    }
    Some(ManifestFile {
        changed_ns,
        ..file.clone()
    })
}

/// The error about a folder that holds another dataset than the plan's.
pub(super) fn another(plan: &GeneratePlan, head: &ManifestHead) -> GenerateError {
    let (theirs, ours) = differences(head, &plan.manifest_head());
    GenerateError::Another {
        folder: plan.folder.clone(),
        theirs,
        ours,
    }
}

/// What two heads differ in, in the words of the command line.
fn differences(theirs: &ManifestHead, ours: &ManifestHead) -> (String, String) {
    let fields = |head: &ManifestHead| {
        [
            format!("workload {}", head.workload),
            format!("format {}", head.format),
            format!("{} training files", head.train_files),
            format!("{} evaluation files", head.valid_files),
            format!("{} samples per file", head.samples_per_file),
            format!("content {}", head.content),
            format!("seed {}", head.seed),
            format!("profile {}", head.profile),
        ]
    };
    let differing: Vec<(String, String)> = fields(theirs)
        .into_iter()
        .zip(fields(ours))
        .filter(|(theirs, ours)| theirs != ours)
        .collect();
    if differing.is_empty() {
        return (
            "other sample sizes or names".to_string(),
            "those of the plan".to_string(),
        );
    }
    let (theirs, ours): (Vec<_>, Vec<_>) = differing.into_iter().unzip();
    (theirs.join(", "), ours.join(", "))
}

/// Fails when the files to be made do not fit beside what stays.
pub(super) fn check_space(plan: &GeneratePlan, survey: &Survey) -> Result<(), GenerateError> {
    let space = room(&*plan.storage, &plan.folder)?;
    let replaced: u64 = survey
        .damaged
        .iter()
        .filter_map(|name| plan.storage.look(&plan.folder.join(name)).ok()?)
        .map(|found| found.bytes)
        .sum();
    let needed: u64 = survey
        .to_make
        .iter()
        .map(|index| {
            plan.dataset
                .expected_bytes(*index)
                .next_multiple_of(BLOCK_BYTES as u64)
        })
        .sum();
    if needed > space.free_bytes.saturating_add(replaced) {
        return Err(GenerateError::Space {
            folder: plan.folder.clone(),
            free_bytes: space.free_bytes,
            needed_bytes: needed,
        });
    }
    Ok(())
}
