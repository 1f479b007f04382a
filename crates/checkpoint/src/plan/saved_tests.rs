//! Treatment of existing checkpoints.

use super::*;
use crate::plan::gib;
use stormlp_core::cache::CacheChoice;
use stormlp_core::warning::WarningKind;

/// Storage with `steps` checkpoints of request `there` in each of so many runs.
fn with_saved(there: &CheckpointRequest, runs: u32, steps: u32) -> CheckpointFacts {
    let mut facts = facts(2_000 * GIB);
    for _ in 0..runs {
        let plan = plan(there, &facts);
        facts.saved.extend((1..=steps).map(|step| saved(&plan, step)));
        facts.last_run += 1;
    }
    facts
}

/// The plan's warning about earlier checkpoints.
fn told(plan: &CheckpointPlan) -> &str {
    let mut warnings = plan.warnings.iter();
    let told = warnings.find(|note| note.kind == WarningKind::EarlierCheckpoints);
    told.map_or("", |note| &note.fact)
}

fn set_marker(part: &mut SavedPart, change: impl FnOnce(&mut Marker)) {
    change(part.marker.as_mut().expect("a marker"));
}

#[test]
fn a_save_removes_earlier_runs_of_the_model_at_any_scale_and_reports_it() {
    let mut small = request("llama3-8b");
    small.scale = Some(ScaleChoice::Factor(0.02));
    small.saves = Some(3);
    let facts = with_saved(&small, 2, 3);
    let mut next = request("llama3-8b");
    let plan = |request: &CheckpointRequest| plan(request, &facts);
    assert_eq!(
        told(&plan(&next)),
        "once this run has a whole checkpoint, the checkpoints of run1, run2 in ckpt are removed"
    );
    assert_eq!(plan(&next).run, "run3");
    next.keep_last = Some(2);
    assert_eq!(plan(&next).removed_runs, ["run1"]);
    next.keep_last = Some(3);
    assert_eq!((plan(&next).removed_runs, told(&plan(&next))), (Vec::new(), ""));
    // Another model's stay.
    next.keep_last = None;
    next.workload.name = "mine".to_string();
    assert_eq!((plan(&next).removed_runs, told(&plan(&next))), (Vec::new(), ""));
}

#[test]
fn a_run_without_a_whole_checkpoint_does_not_count_as_one_of_the_last() {
    let mut mine = request("llama3-8b");
    mine.saves = Some(1);
    let mut facts = with_saved(&mine, 3, 1);
    facts.saved[2].files.clear();
    mine.keep_last = Some(2);
    assert_eq!(plan(&mine, &facts).removed_runs, ["run1", "run3"]);
}

#[test]
fn the_newest_whole_run_is_restored_or_the_one_that_is_named() {
    let (mut mine, _) = after_a_scaled_save();
    mine.saves = Some(2);
    mine.scale = Some(ScaleChoice::Factor(0.02));
    let mut facts = with_saved(&mine, 3, 2);
    mine.saves = Some(0);
    assert_eq!(plan(&mine, &facts).run, "run3");
    for part in &mut facts.saved[4..] {
        set_marker(part, |marker| marker.complete = false);
    }
    let second = plan(&mine, &facts);
    assert_eq!((&*second.run, &second.restores[..]), ("run2", &[1, 2][..]));
    assert!(
        told(&second).starts_with(
            "an earlier save did not finish: run3/global_epoch1_step1, run3/global_epoch1_step2 ("
        ),
        "{}",
        told(&second)
    );
    mine.run = Some("run1".to_string());
    assert_eq!(plan(&mine, &facts).run, "run1");
    mine.run = Some("first".to_string());
    assert_eq!(
        whats(&mine, &facts),
        ["--run first: ckpt has no such run; there are run1, run2, run3"]
    );
}

#[test]
fn a_checkpoint_of_another_model_parallelism_or_shape_is_not_restored() {
    let mut mine = request("llama3-8b");
    mine.saves = Some(2);
    let facts = with_saved(&mine, 1, 2);
    mine.saves = Some(0);
    let more = CheckpointRequest { ranks: Some(16.into()), ..mine.clone() };
    assert!(whats(&more, &facts)[0].contains("another number of ranks: 8 of 8, not 16 of 16"));
    let mut other = mine.clone();
    other.workload.architecture.hidden_size *= 2;
    assert!(whats(&other, &facts)[0].contains("run1/global_epoch1_step1 is of another shape of"));
    mine.workload.name = "mine".to_string();
    assert!(whats(&mine, &facts)[0].contains("another model: llama3-8b, not mine"));
}

#[test]
fn a_run_that_saves_never_restores_an_older_runs() {
    let mut mine = request("llama3-8b");
    let facts = with_saved(&mine, 1, 5);
    mine.saves = Some(1);
    mine.restores = Some(2);
    let problems = whats(&mine, &facts);
    assert!(
        problems[0].contains("2 restores requested; 1 checkpoint is available"),
        "{problems:?}"
    );
    mine.restores = None;
    assert_eq!(plan(&mine, &facts).restores, [1]);
}

#[test]
fn restoring_refuses_another_scale_than_was_saved() {
    let (mut request, facts) = after_a_scaled_save();
    request.scale = Some(ScaleChoice::Factor(0.02));
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("is of another scale"), "{problems:?}");
}

#[test]
fn damaged_checkpoints_are_left_out_by_name() {
    let (request, mut facts) = after_a_scaled_save();
    facts.saved[1].files[0].bytes -= 1;
    let plan = plan(&request, &facts);
    assert_eq!(plan.restores, [1]);
    let fact = told(&plan);
    assert!(
        fact.starts_with("not restored: checkpoint 2 in ckpt (run1/global_epoch1_step2/"),
        "{fact}"
    );
}

#[test]
fn an_incomplete_checkpoint_is_named_even_if_it_is_the_only_one() {
    let (request, mut facts) = after_a_scaled_save();
    facts.saved.truncate(1);
    facts.saved[0].files.clear();
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("is missing"), "{problems:?}");
}

#[test]
fn a_checkpoint_that_was_not_synced_is_restored_with_a_warning() {
    let (request, mut facts) = after_a_scaled_save();
    for part in &mut facts.saved {
        set_marker(part, |marker| marker.crash_safe = false);
    }
    let plan = plan(&request, &facts);
    let note =
        plan.warnings.iter().find(|note| note.kind == WarningKind::NotDurable).expect("a note");
    assert!(
        note.fact.starts_with("checkpoints 1 to 2 were saved with --fsync none: not crash-safe"),
        "{}",
        note.fact
    );
}

#[test]
fn parts_of_different_saves_make_no_checkpoint() {
    // Saved to one directory but requested from two, the other of which has a part of another save.
    let (mut request, mut facts) = after_a_scaled_save();
    request.folders.push("b".into());
    facts.folders.push(folder("b", 20 * GIB));
    let other = SavedPart { folder: 1, ..facts.saved[0].clone() };
    facts.saved.push(other);
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("contains the files of other ranks"), "{problems:?}");
}

#[test]
fn parts_of_two_saves_with_the_same_files_are_refused() {
    let (mut request, mut facts) = after_a_scaled_save();
    request.folders.push("b".into());
    facts.folders.push(folder("b", 20 * GIB));
    facts.saved.clear();
    request.saves = Some(1);
    let plan = plan(&request, &facts);
    for index in 0..2 {
        let mut part = saved(&plan, 1);
        part.folder = index;
        let marker = plan.marker(index, true);
        let found = |file: &MarkedFile| FoundFile { name: file.name.clone(), bytes: file.bytes };
        part.files = marker.files.iter().map(found).collect();
        part.marker = Ok(marker);
        set_marker(&mut part, |marker| marker.content.seed = index as u64);
        facts.saved.push(part);
    }
    request.saves = Some(0);
    assert_eq!(
        whats(&request, &facts),
        [
            "checkpoint b/run1/global_epoch1_step1 is of another save than that in the first directory"
        ]
    );
    // With the content of one run, the same two parts are a checkpoint.
    for part in &mut facts.saved {
        set_marker(part, |marker| marker.content.seed = 7);
    }
    assert_eq!(resolve(&request, &host(), &facts).problems, Problems::default());
}

#[test]
fn a_marker_cannot_add_layers_to_its_model() {
    let (request, mut facts) = after_a_scaled_save();
    for part in &mut facts.saved {
        set_marker(part, |marker| {
            marker.layout.architecture.num_layers = u64::from(u32::MAX);
            marker.full_layers = u64::from(u32::MAX);
        });
    }
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("another shape of"), "{problems:?}");
}

#[test]
fn no_restore_is_cold_from_files_that_are_in_memory() {
    let mut cold = request("llama3-8b");
    let mut facts = facts(2_000 * GIB);
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
    facts.folders[0].file_system = Some("tmpfs".to_string());
    for path in [PathKind::Buffered, PathKind::Cpu] {
        cold.path = path;
        let resolution = resolve(&cold, &host(), &facts);
        assert!(resolution.shown().is_some(), "it is the directory's fault");
        assert_eq!(
            resolution.problems[0].fact,
            "ckpt is on tmpfs, which keeps its files in memory: restores cannot come from storage"
        );
    }
    cold.restores = Some(0);
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
    cold.restores = None;
    cold.cache = Some(CacheChoice::AsIs);
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
}

#[test]
fn earlier_runs_make_room_once_the_first_checkpoint_is_whole() {
    let mut ten = request("llama3-8b");
    ten.scale = Some(ScaleChoice::Factor(0.1));
    ten.saves = Some(10);
    let mut facts = with_saved(&ten, 1, 10);
    let one = plan(&ten, &facts).total_bytes;
    facts.folders[0].free_bytes = Some(one + (16 << 20));
    assert_eq!(whats(&ten, &facts), Vec::<String>::new());
    // The first one needs room in addition to them.
    facts.folders[0].free_bytes = Some(one + (16 << 20) - 1);
    let resolution = resolve(&ten, &host(), &facts);
    let [problem] = &resolution.problems[..] else { panic!("{:?}", resolution.problems) };
    assert!(
        problem.fact.contains(&format!("beside the {} of earlier", gib(10 * one))),
        "{problem}"
    );
    assert!(
        problem.remedy.contains(&format!("`stormlp clean ckpt`, which frees {}", gib(10 * one))),
        "{problem}"
    );
    // Kept ones make none.
    facts.folders[0].free_bytes = Some(9 * one);
    ten.keep_last = Some(2);
    let resolution = resolve(&ten, &host(), &facts);
    let remedy = &resolution.problems[0].remedy;
    assert!(
        remedy.contains(&format!("--keep-last 1, which removes {} of", gib(10 * one))),
        "{remedy}"
    );
    // A scaled run uses half of the free space.
    let again = plan(&request("llama3-8b"), &facts);
    assert!(again.is_scaled() && again.writes == 2);
    assert!(again.total_bytes <= 9 * one / 2, "{}", again.peak_bytes);
}

#[test]
fn what_a_killed_run_left_is_named_and_its_space_is_counted() {
    let mut mine = request("llama3-8b");
    mine.scale = Some(ScaleChoice::Factor(0.1));
    mine.saves = Some(1);
    let mut facts = with_saved(&mine, 1, 1);
    facts.folders[0].free_bytes = Some(16 << 20);
    assert!(!whats(&mine, &facts).is_empty());
    set_marker(&mut facts.saved[0], |marker| marker.complete = false);
    let plan = plan(&mine, &facts);
    let warnings = plan.warnings.iter().map(|warning| warning.fact.as_str());
    let mut unfinished = warnings.filter(|fact| fact.contains("did not finish"));
    let fact = unfinished.next().expect("a warning");
    assert!(
        fact.contains("run1/global_epoch1_step1 (") && fact.ends_with("in ckpt, removed first"),
        "{fact}"
    );
}
