//! Treatment of existing checkpoints.

use super::*;
use crate::plan::facts::{Leftover, OtherFile};
use stormlp_core::warning::WarningKind;

/// Storage with checkpoints of request `there` under steps 1 to `steps`.
fn with_saved(there: &CheckpointRequest, steps: u32) -> CheckpointFacts {
    let empty = facts(2_000 * GIB);
    let plan = plan(there, &empty);
    CheckpointFacts { saved: (1..=steps).map(|step| saved(&plan, step)).collect(), ..empty }
}

#[test]
fn a_save_replaces_the_same_model_at_any_scale_and_reports_it() {
    let mut small = request("llama3-8b");
    small.scale = Some(ScaleChoice::Factor(0.02));
    small.writes = Some(3);
    let facts = with_saved(&small, 5);
    small.scale = None;
    let plan = plan(&small, &facts);
    let said = plan
        .warnings
        .iter()
        .find(|note| note.kind == WarningKind::EarlierCheckpoints)
        .expect("a note");
    assert_eq!(said.fact, "checkpoints 1 to 3 of an earlier run in ckpt are replaced");
}

#[test]
fn replaced_checkpoints_are_reported_per_directory() {
    let mut mine = request("llama3-8b");
    mine.writes = Some(1);
    let mut facts = with_saved(&mine, 1);
    facts.folders.push(folder("empty", 2_000 * GIB));
    mine.folders.push("empty".into());
    let warnings = plan(&mine, &facts).warnings;
    let said = warnings.iter().find(|note| note.kind == WarningKind::EarlierCheckpoints);
    assert_eq!(said.expect("a note").fact, "checkpoint 1 of an earlier run in ckpt is replaced");
}

#[test]
fn a_save_replaces_no_checkpoint_of_another_model_or_parallelism() {
    let mut mine = request("llama3-8b");
    mine.writes = Some(2);
    let facts = with_saved(&mine, 5);
    let resolution =
        resolve(&CheckpointRequest { ranks: Some(16), ..mine.clone() }, &host(), &facts);
    assert!(!resolution.has_no_valid_plan(), "it is the directory's fault");
    let [problem] = &resolution.problems[..] else { panic!("{:?}", resolution.problems) };
    assert_eq!(
        problem.fact,
        "checkpoints 1 to 2 in ckpt are of another number of ranks: 8 of 8, not 16 of 16; a save \
         would replace them"
    );
    assert!(problem.remedy.contains("`stormlp clean ckpt`") && problem.remedy.contains("--dir"));
    mine.workload.name = "mine".to_string();
    assert!(whats(&mine, &facts)[0].contains("another model: llama3-8b, not mine"));
    let mut other = request("llama3-8b");
    other.workload.architecture.hidden_size *= 2;
    other.writes = Some(1);
    assert!(whats(&other, &facts)[0].contains("checkpoint 1 in ckpt is of another shape"));
}

#[test]
fn a_run_that_saves_never_restores_an_older_runs() {
    let mut mine = request("llama3-8b");
    let facts = with_saved(&mine, 5);
    mine.writes = Some(1);
    mine.reads = Some(2);
    let problems = whats(&mine, &facts);
    assert!(
        problems[0].contains("2 restores requested; 1 checkpoint is available"),
        "{problems:?}"
    );
    mine.reads = None;
    let steps: Vec<u32> = plan(&mine, &facts).restores.iter().map(|r| r.step).collect();
    assert_eq!(steps, [1]);
}

#[test]
fn restoring_skips_checkpoints_of_another_scale_and_reports_it() {
    let (mut request, mut facts) = after_a_scaled_save();
    let mut full = request.clone();
    full.scale = Some(ScaleChoice::Factor(0.02));
    full.writes = Some(4);
    facts.saved.push(saved(&plan(&full, &self::facts(20 * GIB)), 3));
    let mixed = plan(&request, &facts);
    assert_eq!(mixed.restores.len(), 2);
    let note = mixed.warnings.iter().find(|note| note.fact.contains("not restored"));
    let fact = &note.expect("a note").fact;
    assert!(
        fact.starts_with("not restored: checkpoint 3 in ckpt (checkpoint 3 is of another scale"),
        "{fact}"
    );
    request.reads = Some(3);
    assert!(whats(&request, &facts)[0].contains("3 restores requested"));
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
    let marker = facts.saved[1].marker.as_mut().and_then(|m| m.as_mut().ok());
    marker.expect("a marker").crash_safe = false;
    let plan = plan(&request, &facts);
    let note =
        plan.warnings.iter().find(|note| note.kind == WarningKind::NotDurable).expect("a note");
    assert!(
        note.fact.starts_with("checkpoint 2 was saved with --fsync none: not crash-safe"),
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
fn parts_of_two_saves_with_the_same_files_are_refused_with_both_folders() {
    let (mut request, mut facts) = after_a_scaled_save();
    request.folders.push("b".into());
    facts.folders.push(folder("b", 20 * GIB));
    facts.saved.clear();
    request.writes = Some(1);
    let plan = plan(&request, &facts);
    for index in 0..2 {
        let mut part = saved(&plan, 1);
        part.folder = index;
        let marker = part.marker.as_mut().and_then(|m| m.as_mut().ok());
        let marker = marker.expect("a marker");
        let here = |rank: u64| rank % 2 == index as u64;
        marker.files.retain(|file| here(file.rank));
        marker.content.seed = index as u64;
        facts.saved.push(part);
    }
    request.writes = Some(0);
    let resolution = resolve(&request, &host(), &facts);
    assert!(!resolution.has_no_valid_plan(), "it is what lies there");
    let [problem] = &resolution.problems[..] else { panic!("{:?}", resolution.problems) };
    assert_eq!(
        problem.fact,
        "checkpoint 1 does not come from one save: ckpt/global_epoch1_step1 and \
         b/global_epoch1_step1 were saved by different runs"
    );
    // With the content of one run, the same two parts are a checkpoint.
    for part in &mut facts.saved {
        if let Some(Ok(marker)) = &mut part.marker {
            marker.content.seed = 7;
        }
    }
    assert_eq!(resolve(&request, &host(), &facts).problems, Problems::default());
}

#[test]
fn a_marker_cannot_add_layers_to_its_model() {
    let (request, mut facts) = after_a_scaled_save();
    for part in &mut facts.saved {
        if let Some(Ok(marker)) = &mut part.marker {
            marker.layout.architecture.num_layers = u64::from(u32::MAX);
            marker.full_layers = u64::from(u32::MAX);
        }
    }
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("another shape of"), "{problems:?}");
}

#[test]
fn no_restore_is_cold_from_files_that_are_in_memory() {
    let mut cold = request("llama3-8b");
    cold.cold = true;
    let mut facts = facts(2_000 * GIB);
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
    facts.folders[0].file_system = Some("tmpfs".to_string());
    for path in [PathKind::Buffered, PathKind::Cpu] {
        cold.path = path;
        let resolution = resolve(&cold, &host(), &facts);
        assert!(!resolution.has_no_valid_plan(), "it is the directory's fault");
        assert_eq!(
            resolution.problems[0].fact,
            "--cold: ckpt is on tmpfs, which keeps its files in memory: restores from it cannot \
             be cold"
        );
    }
    cold.reads = Some(0);
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
    cold.reads = None;
    cold.cold = false;
    assert_eq!(whats(&cold, &facts), Vec::<String>::new());
}

#[test]
fn what_stormlp_did_not_make_inside_its_own_is_in_the_way_too() {
    let mut mine = request("llama3-8b");
    mine.writes = Some(1);
    let mut facts = with_saved(&mine, 1);
    for (what, told) in [
        (None, "global_epoch1_step1/notes.txt is in the way"),
        (
            Some("a link".to_string()),
            "global_epoch1_step1/notes.txt is a link, which stormlp did not create",
        ),
    ] {
        let name = "notes.txt".to_string();
        facts.saved[0].foreign = Some(OtherFile { name, what });
        let problems = whats(&mine, &facts);
        assert!(problems[0].contains(told), "{problems:?}");
    }
}

#[test]
fn checkpoints_a_scaled_run_keeps_are_not_free_space() {
    // Ten checkpoints fill the storage; a scaled run replaces two of them.
    let mut ten = request("llama3-8b");
    ten.scale = Some(ScaleChoice::Factor(0.1));
    ten.writes = Some(10);
    let mut facts = with_saved(&ten, 10);
    let one = plan(&ten, &facts).total_bytes;
    facts.folders[0].free_bytes = Some(5 * GIB);
    let again = plan(&request("llama3-8b"), &facts);
    assert!(again.is_scaled() && again.writes == 2);
    assert!(again.peak_bytes <= (5 * GIB + 2 * one) / 2, "{}", again.peak_bytes);
}

#[test]
fn an_earlier_checkpoint_needs_room_beside_its_replacement_unless_it_is_overwritten() {
    let mut mine = request("llama3-8b");
    mine.scale = Some(ScaleChoice::Factor(0.1));
    mine.writes = Some(2);
    let mut facts = with_saved(&mine, 2);
    let one = plan(&mine, &facts).total_bytes;
    facts.folders[0].free_bytes = Some(one / 2);
    let resolution = resolve(&mine, &host(), &facts);
    let [problem] = &resolution.problems[..] else { panic!("{:?}", resolution.problems) };
    assert!(
        problem
            .fact
            .contains("on top of the earlier ones, each of which stays until its replacement"),
        "{problem}"
    );
    assert!(problem.remedy.contains("--overwrite"), "{problem}");
    mine.overwrite = true;
    facts.folders[0].free_bytes = Some(16 << 20);
    let said = plan(&mine, &facts).warnings;
    let said = said.iter().find(|note| note.kind == WarningKind::EarlierCheckpoints);
    let fact = &said.expect("a note").fact;
    assert_eq!(fact, "checkpoints 1 to 2 of an earlier run in ckpt are overwritten");
    facts.folders[0].free_bytes = Some((16 << 20) - 1);
    let problems = whats(&mine, &facts);
    assert!(problems[0].contains("on top of what they overwrite"), "{problems:?}");
}

#[test]
fn what_a_killed_run_left_is_named_and_its_space_is_counted() {
    let mut mine = request("llama3-8b");
    mine.scale = Some(ScaleChoice::Factor(0.1));
    mine.writes = Some(1);
    let mut facts = facts(2_000 * GIB);
    let one = plan(&mine, &facts).total_bytes;
    facts.folders[0].free_bytes = Some(16 << 20);
    assert!(!whats(&mine, &facts).is_empty());
    facts.leftovers.push(Leftover {
        folder: 0,
        step: 7,
        name: ".global_epoch1_step7.partial".to_string(),
        bytes: one,
        foreign: None,
    });
    let warnings = plan(&mine, &facts).warnings;
    let said = warnings.iter().find(|note| note.kind == WarningKind::EarlierCheckpoints);
    let said = &said.expect("a note").fact;
    assert!(
        said.contains(".global_epoch1_step7.partial (") && said.ends_with("in ckpt is removed")
    );
    facts.leftovers[0].foreign = Some(".global_epoch1_step7.partial/mine".to_string());
    facts.leftovers[0].step = 1;
    let problems = whats(&mine, &facts);
    assert!(problems[0].contains("step7.partial/mine is in the way"), "{problems:?}");
}
