//! Folders of runs: saved files, their neighbours, and removals.

use super::*;

use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::storage::temporary_name;

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

fn runs(request: &CheckpointRequest) -> Vec<String> {
    let facts = scan(&Disk, &request.folders, ScanDepth::Only).unwrap();
    facts.runs().into_iter().map(String::from).collect()
}

/// A run that restores and checks checkpoint 1, and the run that saved it.
fn restored(request: &CheckpointRequest, run: Option<&str>) -> String {
    let mut restore = request.clone();
    (restore.saves, restore.restores, restore.keep_last) = (Some(0), Some(1), None);
    restore.run = run.map(String::from);
    let report = run_on(plan(&restore), Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    report.plan.run
}

#[test]
fn a_run_saves_beside_earlier_ones_and_then_removes_the_oldest() {
    let folder = folder();
    let mut request = request(folder.path());
    request.folders.push(folder.path().join("second").into());
    (request.saves, request.restores) = (Some(1), Some(1));
    request.keep_last = Some(2);
    for run in 1..=3 {
        request.tune.seed = Some(run);
        run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    }
    assert_eq!(runs(&request), ["run2", "run3"]);
    assert_eq!(restored(&request, None), "run3");
    assert_eq!(restored(&request, Some("run2")), "run2");
    request.keep_last = None;
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    assert_eq!(runs(&request), ["run4"]);
}

#[test]
fn a_save_that_fails_leaves_the_earlier_run_alone() {
    let folder = folder();
    let mut request = request(folder.path());
    (request.saves, request.restores) = (Some(1), Some(1));
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let before = everything(folder.path());
    let full = faulty(Faulty { full_from: Some(3), ..Faulty::default() });
    let report = run_on(plan(&request), full, &StopToken::new());
    assert!(error(&report).contains("no space left"), "{:?}", report.ending);
    assert!(everything(folder.path()) == before);
    assert_eq!(restored(&request, None), "run1");
}

#[test]
fn an_outdated_plan_writes_over_nothing() {
    let folder = folder();
    let request = request(folder.path());
    let outdated = plan(&request);
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let before = everything(folder.path());
    let report = run_on(outdated, Arc::new(Disk), &StopToken::new());
    assert!(error(&report).contains("global_epoch1_step1"), "{:?}", report.ending);
    assert!(everything(folder.path()) == before);
}

#[test]
fn what_stormlp_did_not_make_stays_when_its_run_is_removed() {
    let folder = folder();
    let mut request = request(folder.path());
    (request.saves, request.restores) = (Some(1), Some(0));
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    let step = step_path(folder.path(), 1);
    let file = step.join("zero_pp_rank_0_mp_rank_0_optim_states.pt");
    let bytes = fs::metadata(&file).unwrap().len() as usize;
    // Another file of the same size, which replaces the saved one.
    fs::write(step.join("new"), vec![1; bytes]).unwrap();
    fs::rename(step.join("new"), &file).unwrap();
    fs::write(step.join("notes.txt"), "mine").unwrap();
    fs::create_dir_all(folder.path().join("ckpt/run1/global_epoch1_step7/mine")).unwrap();
    fs::create_dir_all(folder.path().join("ckpt/global_epoch1_step1/mine")).unwrap();
    run_on(plan(&request), Arc::new(Disk), &StopToken::new());
    assert_eq!(fs::read(&file).unwrap(), vec![1; bytes]);
    let left: Vec<_> = fs::read_dir(&step).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(step.join("notes.txt").exists() && step.join(MARKER_NAME).exists());
    assert!(folder.path().join("ckpt/run1/global_epoch1_step7/mine").exists());
    assert!(folder.path().join("ckpt/global_epoch1_step1/mine").exists());
    // It is no checkpoint any more.
    assert_eq!(restored(&request, None), "run2");
}

#[test]
fn what_a_kill_leaves_is_gone_after_the_next_save() {
    let folder = folder();
    let request = request(folder.path());
    let directory = request.folders[0].folder();
    let run = directory.join("run1");
    fs::create_dir_all(run.join(step_folder(2))).unwrap();
    fs::create_dir_all(directory.join("run2")).unwrap();
    fs::write(directory.join(".stormlp-trial-1"), "x").unwrap();
    // A kill before the first marker has its name.
    let marker = run.join(step_folder(2)).join(MARKER_NAME);
    fs::write(temporary_name(&marker), "{").unwrap();
    let plan = plan(&request);
    assert_eq!(plan.run, "run3");
    // A kill in a save, and one while an earlier checkpoint was removed.
    let unfinished = plan.marker(0, false);
    fs::create_dir_all(run.join(step_folder(1))).unwrap();
    fs::write(run.join(step_folder(1)).join(MARKER_NAME), unfinished.to_json()).unwrap();
    let file = run.join(step_folder(1)).join(&unfinished.files[0].name);
    for made in [file.clone(), temporary_name(&file)] {
        Disk.create(&made, unfinished.files[0].bytes, false).unwrap();
    }
    let report = run_on(plan, Arc::new(Disk), &StopToken::new());
    assert_eq!(report.ending, Ending::Complete);
    assert_steps(folder.path(), 2);
}

#[test]
fn a_planted_marker_names_nobodys_files() {
    for complete in [true, false] {
        let folder = folder();
        let mut request = request(folder.path());
        (request.saves, request.restores) = (Some(1), Some(0));
        let planted = plan(&request).marker(0, complete);
        let step = step_path(folder.path(), 1);
        fs::create_dir_all(&step).unwrap();
        fs::write(step.join(MARKER_NAME), planted.to_json()).unwrap();
        let mine = step.join(&planted.files[0].name);
        fs::write(&mine, vec![7; planted.files[0].bytes as usize]).unwrap();
        fs::write(temporary_name(&mine), "mine").unwrap();
        let report = run_on(plan(&request), Arc::new(Disk), &StopToken::new());
        assert_eq!(report.ending, Ending::Complete);
        let left = |warning: &Warning| warning.kind == WarningKind::NotRemoved;
        assert!(report.warnings.iter().any(left), "{:?}", report.warnings);
        assert_eq!(fs::read(&mine).unwrap()[..2], [7; 2]);
        assert_eq!(fs::read_to_string(temporary_name(&mine)).unwrap(), "mine");
    }
}
