//! Treatment of existing folders: replaced, refused, removed.

use super::*;
use std::collections::VecDeque;

use crate::plan::{CheckpointFacts, SavedPart, beside_of, replaced_folder, unfinished_folder};

#[test]
fn clean_removes_only_files_of_stormlp() {
    let folder = folder();
    let request = request(folder.path());
    let plan = plan(&request);
    let total_bytes = plan.total_bytes;
    run_on(plan, Arc::new(Disk), &StopToken::new());
    let directory = request.folders[0].folder();
    let foreign = directory.join(step_folder(2)).join("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    fs::create_dir(directory.join(step_folder(7))).unwrap();
    let made = [1, 2].map(|step| files(folder.path(), step).len() as u64);
    let cleaned = clean(&Disk, directory).unwrap();
    assert_eq!(cleaned.checkpoints, 1);
    assert_eq!(cleaned.files, made[0] + made[1] - 1, "all but the notes");
    assert_eq!(cleaned.bytes, 2 * total_bytes);
    assert_eq!(cleaned.left, [foreign.clone(), directory.join(step_folder(7))]);
    assert!(foreign.exists() && directory.join(step_folder(7)).exists());
    assert_eq!(files(folder.path(), 2), ["notes.txt"]);
    fs::remove_file(foreign).unwrap();
    fs::remove_dir(directory.join(step_folder(7))).unwrap();
    clean(&Disk, directory).unwrap();
    assert!(!directory.exists());
}

/// Every file below a folder, with its content.
fn everything(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path))
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()))
        }
    }
    all.sort();
    all
}

#[test]
fn a_save_that_may_not_replace_what_is_there_touches_none_of_it() {
    let folder = folder();
    let mut request = request(folder.path());
    request.folders.push(folder.path().join("second").into());
    let plan_before = plan(&request);
    let mut other = request.clone();
    other.workload.name = "other".to_string();
    let other_before = plan(&other);
    run_on(plan_before.clone(), Arc::new(Disk), &StopToken::new());
    // The plans were made while the folders were empty; later changes are detected by a second
    // check.
    let saved = everything(folder.path());
    let report = run_on(other_before, Arc::new(Disk), &StopToken::new());
    assert!(error(&report).contains("is of another model: tiny, not other"));
    assert!(everything(folder.path()) == saved);
    // In the second directory, so that the first must not be emptied before it is found.
    let foreign = request.folders[1].join(step_folder(1)).join("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    let saved = everything(folder.path());
    let report = run_on(plan_before, Arc::new(Disk), &StopToken::new());
    assert!(error(&report).contains("notes.txt is in the way"));
    assert!(everything(folder.path()) == saved);
    let facts = scan(&Disk, &request.folders, Look::Only).unwrap();
    let problems = resolve(&request, &probe::host_facts(), &facts).problems;
    assert!(problems[0].fact.contains("notes.txt is in the way"), "{problems:?}");
}

#[test]
fn leftovers_of_a_killed_rename_block_nothing() {
    let folder = folder();
    let request = request(folder.path());
    let directory = request.folders[0].folder();
    let plan = plan(&request);
    let leave = || {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(".stormlp-trial-1"), "x").unwrap();
        for (step, marker) in [(1, true), (2, false)] {
            let unfinished =
                stormlp_transfer::storage::temporary_name(&directory.join(step_folder(step)));
            fs::create_dir_all(&unfinished).unwrap();
            if marker {
                fs::write(unfinished.join(MARKER_NAME), "{").unwrap();
            }
        }
    };
    leave();
    let report = run_on(plan, Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_steps(folder.path(), 2);
    leave();
    let cleaned = clean(&Disk, directory).unwrap();
    assert_eq!((cleaned.checkpoints, cleaned.left), (2, Vec::new()));
    assert!(!directory.exists());
}

/// Rejects the renames of the folders in which checkpoints are saved, the first of them with the
/// first of these errors.
struct NoExchange(Mutex<VecDeque<Option<i32>>>);

impl Gate for NoExchange {
    fn admit(&self, request: &Request<'_>, now: Duration) -> std::io::Result<Grant> {
        let name = request.path.and_then(Path::file_name).unwrap_or_default();
        let is_folder = beside_of(&name.to_string_lossy()).is_some();
        let next = |queue: &Mutex<VecDeque<Option<i32>>>| queue.lock().unwrap().pop_front();
        match (is_folder && request.operation == StorageOperation::Rename).then(|| next(&self.0)) {
            Some(Some(Some(errno))) => Err(std::io::Error::from_raw_os_error(errno)),
            _ => Ok(Grant { bytes: request.bytes, not_before: now }),
        }
    }
}

fn no_exchange(errors: &[Option<i32>]) -> Arc<Gated<NoExchange>> {
    let errors = NoExchange(Mutex::new(errors.iter().copied().collect()));
    Arc::new(Gated::new(Arc::new(Disk), errors))
}

/// A run that restores and checks checkpoint 1.
fn assert_restores(request: &CheckpointRequest) {
    let mut restore = request.clone();
    (restore.writes, restore.reads, restore.overwrite) = (Some(0), Some(1), false);
    let report = run_on(plan(&restore), Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
}

const EINVAL: i32 = 22;
const EIO: i32 = 5;

#[test]
fn folders_change_places_by_two_renames_where_they_cannot_be_exchanged() {
    let folder = folder();
    let mut request = request(folder.path());
    (request.writes, request.reads) = (Some(1), Some(1));
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let first = marker(folder.path(), 1).files;
    let report = run_on(plan(&request), no_exchange(&[Some(EINVAL)]), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_ne!(marker(folder.path(), 1).files, first, "they are other files");
    assert_steps(folder.path(), 1);
    // The second rename fails: the earlier one is back.
    let second = marker(folder.path(), 1).files;
    let storage = no_exchange(&[Some(EINVAL), Some(EIO)]);
    let report = run_on(plan(&request), storage, &StopToken::new());
    assert!(error(&report).contains("Input/output error"), "{:?}", report.ending);
    assert_eq!(marker(folder.path(), 1).files, second);
    assert_restores(&request);
}

#[test]
fn a_kill_between_the_steps_of_an_exchange_is_settled_by_the_next_run() {
    let folder = folder();
    let mut request = request(folder.path());
    request.folders.push(folder.path().join("second").into());
    (request.writes, request.reads) = (Some(1), Some(1));
    for seed in [1, 2] {
        request.seed = Some(seed);
        // The second save is exchanged in the first directory alone.
        let storage = no_exchange(&[None, Some(EIO)][..if seed == 2 { 2 } else { 0 }]);
        run_on(plan(&request), storage, &StopToken::new());
    }
    let mixed = scan(&Disk, &request.folders, Look::Only).unwrap();
    let seeds = |facts: &CheckpointFacts| {
        let markers = facts.saved.iter().filter_map(SavedPart::readable_marker);
        markers.map(|marker| marker.content.seed).collect::<Vec<_>>()
    };
    assert_eq!((seeds(&mixed), mixed.leftovers.len()), (vec![2, 1], 2));
    settle(&Disk, &request.folders).unwrap();
    let settled = scan(&Disk, &request.folders, Look::Only).unwrap();
    assert_eq!(seeds(&settled), [2, 2]);
    assert_restores(&request);
    // Of two renames, only the first was made.
    let second = request.folders[1].folder();
    fs::rename(second.join(step_folder(1)), second.join(unfinished_folder(1))).unwrap_err();
    fs::rename(second.join(unfinished_folder(1)), second.join(replaced_folder(1))).unwrap();
    fs::rename(second.join(step_folder(1)), second.join(unfinished_folder(1))).unwrap();
    settle(&Disk, &request.folders).unwrap();
    assert_restores(&request);
    // What they replaced is named, and gone once the next save begins.
    let named = plan(&request).warnings;
    assert!(named.iter().any(|note| note.fact.contains(&replaced_folder(1))), "{named:?}");
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    assert_steps(folder.path(), 1);
    assert_eq!(scan(&Disk, &request.folders, Look::Only).unwrap().leftovers, []);
}

#[test]
fn an_earlier_checkpoint_is_removed_first_only_if_that_was_asked_for() {
    let folder = folder();
    let mut request = request(folder.path());
    (request.writes, request.reads) = (Some(1), Some(1));
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let full = || faulty(Faulty { full_from: Some(3), ..Faulty::default() });
    let report = run_on(plan(&request), full(), &StopToken::new());
    assert!(error(&report).contains("no space left"), "{:?}", report.ending);
    assert_restores(&request);
    request.overwrite = true;
    let report = run_on(plan(&request), full(), &StopToken::new());
    assert!(error(&report).contains("no space left"), "{:?}", report.ending);
    assert_steps(folder.path(), 0);
}
