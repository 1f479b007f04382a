//! Treatment of existing folders: replaced, refused, removed.

use super::*;

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
    leave();
    let cleaned = clean(&Disk, directory).unwrap();
    assert_eq!((cleaned.checkpoints, cleaned.left), (2, Vec::new()));
    assert!(!directory.exists());
}
