//! Resolution of requests on hosts and directories of all kinds.

use super::*;
use crate::plan::choice::{CheckpointProfile, FsyncPolicy};
use crate::plan::facts::SavedPart;
use crate::plan::marker::{MarkedFile, Marker, MarkerError};
use crate::plan::{builtin, parse};
use stormlp_core::facts::{Availability, FolderFacts, FoundFile};
use stormlp_core::note::Cause;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::shell::CommandLine;
use stormlp_core::transport::DeviceId;
use stormlp_core::warning::{Warning, WarningKind};

#[path = "saved_tests.rs"]
mod saved;

const GIB: u64 = 1 << 30;

fn host() -> HostFacts {
    HostFacts { cpus: 8, memory_bytes: 24 * GIB, ..stormlp_fixtures::host() }
}

fn folder(path: &str, free_bytes: u64) -> FolderFacts {
    FolderFacts {
        path: path.into(),
        writable: Availability::Available,
        free_bytes: Some(free_bytes),
        file_system_id: 1,
        file_system: Some("xfs".to_string()),
        direct: Availability::Available,
    }
}

fn facts(free_bytes: u64) -> CheckpointFacts {
    CheckpointFacts {
        folders: vec![folder("ckpt", free_bytes)],
        saved: Vec::new(),
        last_run: 0,
        trial_bytes_per_second: Some(1e9),
    }
}

fn request(model: &str) -> CheckpointRequest {
    CheckpointRequest::plain(builtin::load(model).expect("built in"), "ckpt".into())
}

fn plan(request: &CheckpointRequest, facts: &CheckpointFacts) -> CheckpointPlan {
    let resolution = resolve(request, &host(), facts);
    assert_eq!(resolution.problems, Problems::default());
    resolution.plan.expect("no problem is a plan")
}

fn whats(request: &CheckpointRequest, facts: &CheckpointFacts) -> Vec<String> {
    let resolution = resolve(request, &host(), facts);
    resolution.problems.iter().map(|problem| problem.fact.clone()).collect()
}

#[test]
fn a_full_run_that_fits_is_mlperfs() {
    let plan = plan(&request("llama3-8b"), &facts(2_000 * GIB));
    assert!(!plan.is_scaled());
    assert_eq!((plan.writes, plan.restores.len(), plan.pause_seconds), (10, 10, 5.0));
    assert_eq!(plan.total_bytes, 112_425_623_552);
    assert_eq!(plan.peak_bytes, 10 * plan.total_bytes);
    assert!(plan.buffer_bytes < GIB);
}

#[test]
fn a_run_that_does_not_fit_is_scaled_to_half_of_the_space_and_a_minute() {
    let small = plan(&request("llama3-70b"), &facts(20 * GIB));
    assert!(small.is_scaled());
    assert_eq!((small.writes, small.restores.len(), small.pause_seconds), (2, 2, 0.0));
    assert!(small.peak_bytes <= 10 * GIB, "{}", small.peak_bytes);
    assert!(small.full_run.contains("stormlp checkpoint llama3-70b --scale 1"));
    let large = plan(&request("llama3-70b"), &facts(5_000 * GIB));
    assert!(4.0 * large.total_bytes as f64 / 1e9 <= 60.0, "{}", large.total_bytes);
}

#[test]
fn closed_and_scale_1_never_scale() {
    for change in [
        |request: &mut CheckpointRequest| request.closed = true,
        |request: &mut CheckpointRequest| request.scale = Some(ScaleChoice::Factor(1.0)),
    ] {
        let mut request = request("llama3-8b");
        change(&mut request);
        let problems = whats(&request, &facts(20 * GIB));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("it has 20.00 GiB free"), "{}", problems[0]);
        assert!(problems[0].contains("10 checkpoints of 104.70 GiB need"), "{}", problems[0]);
    }
}

#[test]
fn a_dry_run_shows_the_size_that_was_asked_for_whatever_is_lacking() {
    let mut dry = request("llama3-1t");
    dry.dry_run = true;
    let open = resolve(&dry, &host(), &facts(GIB)).plan.expect("a dry run has a plan");
    dry.dry_run = false;
    let run = resolve(&dry, &host(), &facts(GIB)).plan.expect("as a run has");
    assert_eq!(open.scaling, run.scaling);
    dry.dry_run = true;
    dry.scale = Some(ScaleChoice::Factor(1.0));
    let resolution = resolve(&dry, &host(), &facts(GIB));
    let plan = resolution.plan.expect("a dry run has a plan");
    assert_eq!((plan.scaling.factor, plan.ranks.len()), (1.0, 1024));
    assert_eq!(plan.total_bytes, 16_564_174_094_592);
    assert_eq!(resolution.problems.len(), 1);
    let unseen = resolve(&dry, &host(), &CheckpointFacts::default());
    assert_eq!(unseen.problems, Problems::default());
}

#[test]
fn all_problems_of_a_model_are_named_at_once() {
    let mut bad = request("llama3-8b");
    bad.workload.tensor = 64;
    bad.workload.pipeline = 33;
    bad.io_size = Some(1000);
    let problems = whats(&bad, &facts(GIB));
    for part in ["33 pipeline stages", "64 tensor-parallel", "1000 B"] {
        assert!(problems.iter().any(|what| what.contains(part)), "{part}: {problems:#?}");
    }
}

#[test]
fn ranks_must_be_a_multiple_in_default_mode_only() {
    let mut odd = request("llama3-70b");
    odd.ranks = Some(12.into());
    let problems = whats(&odd, &facts(GIB));
    assert!(problems[0].contains("12 ranks are not a multiple of tensor × pipeline = 8 × 1 = 8"));
    let of = |ranks: &str| Some(ranks.parse().expect("ranks"));
    odd.ranks = of("12/64");
    odd.dry_run = true;
    let subset = resolve(&odd, &host(), &CheckpointFacts::default());
    assert_eq!(subset.plan.expect("a plan").ranks.len(), 12);
    odd.ranks = of("65/64");
    assert!(whats(&odd, &facts(GIB))[0].contains("65 of 64 ranks"));
}

#[test]
fn a_subset_is_one_hosts_share_of_the_full_job() {
    let mut subset = request("llama3-405b");
    subset.ranks = Some("8/512".parse().expect("ranks"));
    subset.dry_run = true;
    let plan = plan(&subset, &CheckpointFacts::default());
    assert_eq!(plan.total_bytes, 8 * 13_226_441_600);
    assert_eq!(plan.layout.parallelism.ranks(), 512);
}

#[test]
fn limits_on_files_and_memory_are_said_before_the_start() {
    let mut tight = host();
    tight.open_files_limit = 1024;
    tight.memory_bytes = 64 << 20;
    let mut full = request("llama3-1t");
    full.scale = Some(ScaleChoice::Factor(1.0));
    let problems = resolve(&full, &tight, &facts(u64::MAX / 4)).problems;
    let all = format!("{problems:?}");
    assert!(all.contains("1024 ranks need") && all.contains("of memory"), "{all}");
    // A scaled run uses fewer ranks instead.
    let auto = resolve(
        &request("llama3-1t"),
        &HostFacts { memory_bytes: 24 * GIB, ..tight },
        &facts(100 * GIB),
    );
    assert_eq!(auto.problems, Problems::default());
}

#[test]
fn what_makes_it_fit_is_what_was_not_done_yet() {
    let remedy = |gib: u64, change: fn(&mut CheckpointRequest)| {
        let mut request = request("llama3-8b");
        request.scale = Some(ScaleChoice::Factor(1.0));
        change(&mut request);
        let problems = resolve(&request, &host(), &facts(gib * GIB)).problems;
        problems[0].remedy.clone()
    };
    let usual = remedy(300, |_| {});
    assert!(usual.contains("fewer --saves, or --keep 1, or --scale auto"), "{usual}");
    let few = remedy(150, |_| {});
    assert!(few.contains("fewer --saves, or --scale auto"), "{few}");
    let none = remedy(20, |_| {});
    assert_eq!(none, "use another --dir, or --scale auto for the largest part that fits");
    let single = remedy(100, |r| r.saves = Some(1));
    assert!(!single.contains("--saves") && !single.contains("--keep"), "{single}");
}

#[test]
fn the_smallest_part_is_saved_once_if_two_do_not_fit() {
    // One layer on the eight ranks that share its tensors.
    let asked = request("llama3-70b");
    let roomy = plan(&asked, &facts(100 * GIB));
    assert_eq!((roomy.writes, roomy.restores.len()), (2, 2));
    let tight = plan(&asked, &facts(8 * GIB));
    assert_eq!((tight.scaling.layers, tight.scaling.ranks), (1, 8));
    assert_eq!((tight.writes, tight.restores.len(), tight.copies()), (1, 1, 1));
    let problems = resolve(&asked, &host(), &facts(4 * GIB)).problems;
    assert_eq!(problems[0].remedy, "use another --dir", "{problems:?}");
    // Saves that were asked for are not reduced.
    let twice = CheckpointRequest { saves: Some(2), ..asked };
    let problems = resolve(&twice, &host(), &facts(8 * GIB)).problems;
    assert_eq!(problems[0].remedy, "use another --dir, or fewer --saves", "{problems:?}");
}

#[test]
fn a_factor_below_the_smallest_part_is_refused_with_one_that_works() {
    for model in builtin::names() {
        let mut tiny = request(model);
        tiny.scale = Some(ScaleChoice::Factor(1e-9));
        for dry_run in [false, true] {
            tiny.dry_run = dry_run;
            let resolution = resolve(&tiny, &host(), &facts(100_000 * GIB));
            assert!(resolution.shown().is_none(), "{model}");
            let remedy = &resolution.problems[0].remedy;
            let named = remedy.split_whitespace().nth(2).expect("a factor");
            let mut again = request(model);
            again.scale = Some(named.parse().expect(named));
            let smallest = plan(&again, &facts(100_000 * GIB));
            let group = smallest.layout.parallelism.tensor;
            let scaling = smallest.scaling;
            assert_eq!((scaling.layers, scaling.ranks), (1, group), "{model}");
        }
    }
}

#[test]
fn requested_ranks_are_kept_or_refused_with_the_numbers() {
    let mut asked = request("llama3-70b");
    asked.ranks = Some(128.into());
    let kept = plan(&asked, &facts(100 * GIB));
    assert_eq!((kept.scaling.ranks, kept.is_scaled()), (128, true));
    // Not even one layer of all ranks fits, but part of the ranks would.
    let problems = resolve(&asked, &host(), &facts(5 * GIB)).problems;
    assert!(problems[0].fact.contains("free"), "{problems:?}");
    assert!(problems[0].remedy.contains("--scale auto"), "{problems:?}");
    let auto = CheckpointRequest { scale: Some(ScaleChoice::Auto), ..asked };
    assert!(plan(&auto, &facts(5 * GIB)).scaling.ranks < 128);
    let mut absurd = request("llama3-8b");
    absurd.ranks = Some(1_000_000.into());
    let problems =
        resolve(&absurd, &HostFacts { open_files_limit: 20_000, ..host() }, &facts(100 * GIB))
            .problems;
    let all = format!("{problems:?}");
    assert!(all.contains("1000000 ranks need 2000096 open files"), "{all}");
    assert!(all.contains("of memory"), "{all}");
}

/// A checkpoint on storage as the plan would have saved it.
fn saved(plan: &CheckpointPlan, step: u32) -> SavedPart {
    let marker = plan.marker(0, true);
    let found = |file: &MarkedFile| FoundFile { name: file.name.clone(), bytes: file.bytes };
    SavedPart {
        run: plan.run.clone(),
        step,
        folder: 0,
        files: marker.files.iter().map(found).collect(),
        hole_bytes: 0,
        marker: Ok(marker),
    }
}

/// A folder that looks like a checkpoint's, without a marker.
fn unmarked(run: &str, step: u32) -> SavedPart {
    SavedPart {
        run: run.to_string(),
        step,
        folder: 0,
        marker: Err(MarkerError::Absent),
        files: Vec::new(),
        hole_bytes: 0,
    }
}

fn after_a_scaled_save() -> (CheckpointRequest, CheckpointFacts) {
    let mut request = request("llama3-8b");
    let empty = facts(20 * GIB);
    let plan = plan(&request, &empty);
    request.saves = Some(0);
    let saved = vec![saved(&plan, 1), saved(&plan, 2)];
    (request, CheckpointFacts { saved, ..empty })
}

#[test]
fn restoring_takes_the_scale_of_what_is_there() {
    let (request, facts) = after_a_scaled_save();
    let plan = plan(&request, &facts);
    assert!(plan.is_scaled());
    assert_eq!((&*plan.run, &plan.restores[..]), ("run1", &[1, 2][..]));
}

#[test]
fn more_restores_than_checkpoints_is_an_error() {
    let (mut request, facts) = after_a_scaled_save();
    request.restores = Some(3);
    let problems = whats(&request, &facts);
    assert!(problems[0].contains("3 restores requested; 2 checkpoints are available"));
    let mut facts = facts;
    facts.saved.push(unmarked("run1", 3));
    let problems = whats(&request, &facts);
    assert!(
        problems[0]
            .ends_with("; run1/global_epoch1_step3: it has no marker, so stormlp did not make it"),
        "{problems:?}"
    );
}

#[test]
fn incomplete_checkpoints_are_not_restored() {
    let (request, facts) = after_a_scaled_save();
    type Damage = fn(&mut SavedPart);
    let damages: [(Damage, &str); 3] = [
        (|part| part.files[0].bytes -= 1, "it must have"),
        (|part| drop(part.files.remove(0)), "is missing"),
        (
            |part| {
                part.marker.as_mut().expect("a marker").complete = false;
            },
            "is incomplete",
        ),
    ];
    for (damage, expected) in damages {
        let mut facts = facts.clone();
        damage(&mut facts.saved[0]);
        let problems = whats(&request, &facts);
        assert!(problems[0].contains(expected), "{expected}: {problems:?}");
        assert!(problems[0].contains("run1/global_epoch1_step1"), "{problems:?}");
    }
}

#[test]
fn checkpoints_of_another_model_or_number_of_ranks_are_refused() {
    let (mut other, facts) = after_a_scaled_save();
    other.workload.name = "mine".to_string();
    assert!(whats(&other, &facts)[0].contains("another model: llama3-8b, not mine"));
    let (mut other, facts) = after_a_scaled_save();
    other.ranks = Some(16.into());
    other.scale = Some(ScaleChoice::Factor(0.02));
    assert!(whats(&other, &facts)[0].contains("another number of ranks"));
}

#[test]
fn a_directory_that_cannot_be_used_is_named_without_its_free_space() {
    let mut facts = facts(0);
    facts.folders[0].writable = Availability::unavailable("Permission denied", "use another");
    let problems = whats(&request("llama3-8b"), &facts);
    assert_eq!(problems, ["cannot write to ckpt: Permission denied"]);
}

#[test]
fn direct_paths_need_a_file_system_with_o_direct() {
    let mut facts = facts(2_000 * GIB);
    facts.folders[0].direct = Availability::unavailable("EINVAL", "use buffered");
    let mut direct = request("llama3-8b");
    direct.path = PathKind::Cpu;
    assert!(whats(&direct, &facts)[0].contains("needs O_DIRECT"));
    assert_eq!(whats(&request("llama3-8b"), &facts), Vec::<String>::new());
}

#[test]
fn ranks_take_directories_in_turn_and_each_file_system_is_counted() {
    let mut spread = request("llama3-8b");
    spread.folders = vec!["a".into(), "b".into()];
    let mut facts = facts(600 * GIB);
    facts.folders.push(FolderFacts { file_system_id: 2, ..folder("b", 10 * GIB) });
    spread.scale = Some(ScaleChoice::Factor(1.0));
    let problems = whats(&spread, &facts);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("file system of b"), "{problems:?}");
    facts.folders[1].free_bytes = Some(600 * GIB);
    let plan = plan(&spread, &facts);
    assert_eq!(plan.ranks[3].folder, 1);
}

#[test]
fn keeping_few_checkpoints_needs_less_space_and_restores_the_newest() {
    let mut few = request("llama3-8b");
    few.keep = Some(1);
    let plan = plan(&few, &facts(250 * GIB));
    assert!(!plan.is_scaled());
    assert_eq!(plan.peak_bytes, 2 * plan.total_bytes);
    assert_eq!(plan.restores, [10]);
}

#[test]
fn saves_of_objects_end_with_their_uploads_in_every_profile() {
    let mut asked = request("llama3-8b");
    (asked.edition, asked.path) = (Some(CheckpointProfile::V2), PathKind::S3);
    let plan = resolve(&asked, &host(), &facts(2_000 * GIB)).plan.expect("a plan");
    assert_eq!((plan.made_durable_by(), plan.durable()), ("complete", "each upload"));
    let unsynced = |warning: &Warning| warning.kind == WarningKind::NotDurable;
    assert!(!plan.warnings.iter().any(unsynced), "{:?}", plan.warnings);
}

#[test]
fn without_io_uring_plain_calls_are_taken_and_named() {
    let mut old = host();
    old.io_uring = Availability::unavailable("EPERM", "allow it");
    let facts = facts(2_000 * GIB);
    let plan = resolve(&request("llama3-8b"), &old, &facts).plan.expect("a plan");
    assert_eq!(plan.restore.engine, EngineKind::Psync);
    let mut insists = request("llama3-8b");
    insists.engine = stormlp_core::transport::EngineChoice::Uring;
    let problems = resolve(&insists, &old, &facts).problems;
    assert!(problems[0].fact.contains("engine uring cannot run here"));
}

#[test]
fn what_is_not_here_makes_no_plan_even_for_a_dry_run() {
    let mut dry = request("llama3-8b");
    dry.dry_run = true;
    (dry.path, dry.device) = (PathKind::Gds, Some(DeviceId::nvidia(9).into()));
    let resolution = resolve(&dry, &host(), &CheckpointFacts::default());
    assert!(resolution.plan.is_none());
    assert_eq!(resolution.problems.cause(), Cause::Machine);
    let messages: Vec<&str> = (resolution.problems.iter().map(|p| p.fact.as_str())).collect();
    assert!(messages[0].starts_with("path gds cannot run here: "), "{messages:?}");
    assert!(messages[1].starts_with("there is no cuda:9"), "{messages:?}");
}

#[test]
fn a_workload_file_gives_the_number_of_ranks_to_the_command_line() {
    let text = "model:\n  name: mine\n  type: transformer\n  num_layers: 8\n  parallelism: \
                {tensor: 2, pipeline: 4, zero_stage: 2}\n";
    let workload = parse(text, "my.yaml").expect("a workload");
    let mut mine = CheckpointRequest::plain(workload, "ckpt".into());
    mine.ranks = Some(16.into());
    mine.model = "my.yaml".to_string();
    mine.command = CommandLine::new(["stormlp", "checkpoint", "my.yaml", "--ranks", "16"]);
    let plan = plan(&mine, &facts(5_000 * GIB));
    assert_eq!(plan.layout.parallelism.data, 2);
    assert!(plan.dlio_counted_bytes > plan.total_bytes);
    assert_eq!(plan.full_run, "stormlp checkpoint my.yaml --ranks 16 --scale 1");
}

#[path = "rules_tests.rs"]
mod rules;

#[path = "spread_tests.rs"]
mod spread;
