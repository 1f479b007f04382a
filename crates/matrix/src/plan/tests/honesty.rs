//! Facts that a plan must report or refuse so that no figure is misleading.

use super::*;
use stormlp_core::warning::Warning;

#[test]
fn checking_and_generating_content_is_said_to_be_within_the_throughput() {
    let facts_of = |request: &MatrixRequest| -> Vec<String> {
        let plan = solve(request, &folder(100 * GIB));
        let of_content = |w: &&Warning| w.fact.starts_with("throughput includes");
        plan.warnings.iter().filter(of_content).map(|w| w.fact.clone()).collect()
    };
    assert!(facts_of(&plain()).is_empty());
    let mut verify = plain();
    verify.verify = true;
    assert_eq!(facts_of(&verify), ["throughput includes checking the pattern"]);
    let mut fill = plain();
    fill.tune.regenerate = true;
    assert!(facts_of(&fill).is_empty(), "nothing is written");
    fill.ops = vec![Operation::Write];
    assert_eq!(facts_of(&fill), ["throughput includes generating the content"]);
}

#[test]
fn files_in_memory_are_named_and_no_advice_about_a_cold_cache_is_given() {
    let mut inventory = folder(100 * GIB);
    inventory.folders[0].place.file_system = Some("tmpfs".to_string());
    let plan = solve(&plain(), &inventory);
    let found: Vec<_> =
        (plan.warnings.iter()).filter(|w| w.kind == WarningKind::FitsInMemory).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].fact.contains("these files live in memory (tmpfs"), "{found:?}");
    assert!(!found[0].remedy.contains("--duration"), "{found:?}");
}

#[test]
fn a_named_file_in_memory_is_reported_as_well() {
    let mut inventory = given(FileKind::Regular, 8 * GIB);
    let told = |inventory: &TargetInventory| {
        let plan = solve(&on_file(), inventory);
        let mut facts = plan.warnings.into_iter().map(|warning| warning.fact);
        facts.any(|fact| fact.contains("live in memory (tmpfs, given)"))
    };
    assert!(!told(&inventory));
    inventory.files[0].place.file_system = Some("tmpfs".to_string());
    assert!(told(&inventory));
}

#[test]
fn a_queue_depth_that_blocking_calls_cannot_use_is_reported_for_every_path_of_psync() {
    for path in [PathKind::Cpu, PathKind::CpuGpu, PathKind::CpuAsyncGpu] {
        let mut request = plain();
        request.paths = PathChoice::each(&[path]);
        request.queue_depths = vec![4];
        let told = |request: &MatrixRequest| {
            (solve(request, &folder(100 * GIB)).warnings.iter())
                .any(|w| w.kind == WarningKind::NoEffect && w.fact.contains(path.name()))
        };
        assert!(!told(&request), "{path} with uring");
        request.engine = EngineChoice::Psync;
        assert!(told(&request), "{path} with psync");
    }
}

/// gdsio's request for the files of `laid_out`, under gdsio's names.
fn gdsio_on(content: ContentState) -> (MatrixRequest, TargetInventory) {
    let mut request = plain();
    request.file_stem = "gdsio".to_string();
    request.threads = vec![1];
    request.file_size_bytes = Some(GIB);
    request.verify = true;
    let mut inventory = laid_out(1, GIB, content);
    inventory.folders[0].files[0].name = "gdsio.0".to_string();
    inventory.folders[0].manifest.as_mut().unwrap().files[0].name = "gdsio.0".to_string();
    (request, inventory)
}

#[test]
fn gdsio_never_replaces_files_to_read_and_verify() {
    for content in [ContentState::Other, ContentState::Pattern { seed: 9 }, ContentState::Unwritten]
    {
        let (mut request, mut inventory) = gdsio_on(content);
        let found = problems(&request, &inventory);
        assert_eq!(found.cause(), Cause::Machine);
        assert!(found.to_string().contains("cannot be verified"), "{found}");
        request.ops = vec![Operation::Write, Operation::Read];
        let plan = solve(&request, &inventory);
        assert_eq!(plan.files[0].action, FileAction::Fill, "it is written anyway");
        // Replaced by a file of another size since the manifest was written.
        request.ops = vec![Operation::Read];
        inventory.folders[0].files[0].bytes = 2 * GIB;
        request.verify = false;
        let plan = solve(&request, &inventory);
        assert_eq!(plan.files[0].action, FileAction::Use);
        assert!(!plan.files[0].created_by_stormlp);
        inventory.folders[0].files[0].bytes = MIB;
        assert!(problems(&request, &inventory).to_string().contains("too small"));
    }
    let (request, inventory) = gdsio_on(ContentState::Pattern { seed: 0 });
    assert_eq!(solve(&request, &inventory).files[0].action, FileAction::Use);
    let (mut request, inventory) = gdsio_on(ContentState::Unwritten);
    request.verify = false;
    let found = problems(&request, &inventory);
    assert!(found.to_string().contains("never written"), "{found}");
}

#[test]
fn a_manifest_of_no_use_is_always_the_reason_that_is_given() {
    let mut inventory = laid_out(8, GIB, ContentState::Other);
    inventory.folders[0].manifest = None;
    inventory.folders[0].manifest_problem = Some("the manifest cannot be read: eof".to_string());
    let found = problems(&plain(), &inventory);
    assert!(found.to_string().contains("cannot be read: eof"), "{found}");
    assert_eq!(found.cause(), Cause::Machine);
}

#[test]
fn every_file_or_folder_gets_a_thread_or_the_plan_is_refused() {
    let mut request = plain();
    let second = JobTarget::Folder(PathBuf::from("more"));
    request.jobs.push(JobRequest::on("job1", second));
    request.threads = vec![4, 1];
    let mut inventory = folder(100 * GIB);
    let mut more = inventory.folders[0].clone();
    more.path = PathBuf::from("more");
    inventory.folders.push(more);
    let found = problems(&request, &inventory);
    assert_eq!(found.cause(), Cause::Plan);
    let text = found.to_string();
    assert!(text.contains("2 files or folders need at least 2 threads"), "{text}");
    request.threads = vec![2];
    assert_eq!(solve(&request, &inventory).thread_groups[0].workers.len(), 2);
}

#[test]
fn transfers_that_do_not_divide_go_to_the_last_threads() {
    let mut request = on_file();
    request.threads = vec![3];
    let plan = solve(&request, &given(FileKind::Regular, 17 * MIB));
    let parts: Vec<_> = (plan.thread_groups[0].workers.iter())
        .map(|w| (w.start_bytes / MIB, w.length_bytes / MIB))
        .collect();
    assert_eq!(parts, [(0, 5), (5, 6), (11, 6)]);
    assert_eq!(plan.cells[0].requested_bytes, 17 * MIB);
}

#[test]
fn warnings_about_space_never_name_a_size_of_zero_and_count_what_is_replaced() {
    let mut request = plain();
    request.file_size_bytes = Some(GIB);
    let found = problems(&request, &folder(KIB));
    assert_eq!(found[0].remedy, "free some space or use another --dir");
    let mut inventory = laid_out(8, GIB / 2, ContentState::Other);
    inventory.folders[0].place.free_bytes = Some(GIB);
    let found = problems(&request, &inventory);
    assert!(found.to_string().contains("4 GiB in files that would be replaced"), "{found}");
    assert_eq!(found[0].remedy, "--file-size 576M would fit");
    inventory.folders[0].place.free_bytes = Some(4 * GIB);
    assert!(resolve(&request, &laptop(), &inventory).is_ok());
}

#[test]
fn files_that_are_small_for_lack_of_space_are_named() {
    let mut request = plain();
    let told = |request: &MatrixRequest, free_bytes: u64| {
        let plan = solve(request, &folder(free_bytes));
        let told = plan.warnings.iter().find(|one| one.kind == WarningKind::Scaled);
        told.map(|one| one.fact.clone())
    };
    let threads = u64::from(request.threads[0]);
    assert_eq!(told(&request, 100 * GIB), None);
    let short = told(&request, 4 * threads * 100 * MIB).unwrap();
    assert!(short.starts_with("files of 100 MiB, not 1 GiB: a quarter"), "{short}");
    request.file_size_bytes = Some(100 * MIB);
    assert_eq!(told(&request, 4 * threads * 100 * MIB), None);
}

#[test]
fn writes_through_the_page_cache_end_with_a_sync_unless_it_is_declined() {
    let synced = |fsync: Fsync, op: Operation| -> Vec<bool> {
        let mut request = plain();
        request.paths = PathChoice::each(&[PathKind::Buffered, PathKind::Cpu, PathKind::Null]);
        request.ops = vec![op];
        request.fsync = fsync;
        let plan = solve(&request, &folder(100 * GIB));
        plan.cells.iter().map(|cell| cell.fsync).collect()
    };
    let write = Operation::Write;
    assert_eq!(synced(Fsync::Auto, write), [true, false, false]);
    assert_eq!(synced(Fsync::None, write), [false, false, false]);
    assert_eq!(synced(Fsync::End, write), [true, true, false]);
    assert_eq!(synced(Fsync::End, Operation::Read), [false, false, false]);
    let mut refused = plain();
    refused.paths = PathChoice::each(&[PathKind::Cpu]);
    refused.ops = vec![write];
    let mut inventory = folder(100 * GIB);
    inventory.folders[0].place.direct = Availability::unavailable("EINVAL", "use xfs");
    let cell = &solve(&refused, &inventory).cells[0];
    assert!(cell.fsync && !cell.direct, "without O_DIRECT it is the page cache as well");
}

#[test]
fn how_often_a_cell_goes_over_its_files_counts_shared_bytes_once() {
    let mut request = on_file();
    request.threads = vec![4];
    let inventory = given(FileKind::Regular, GIB);
    for (shared, offset) in
        [(SharedFile::Split, 0), (SharedFile::Whole, 0), (SharedFile::Whole, MIB)]
    {
        request.shared_file = shared;
        request.jobs[0].offset_bytes = offset;
        let plan = solve(&request, &inventory);
        assert_eq!(plan.covered_bytes(&plan.cells[0]), GIB - offset, "{shared:?}");
    }
    let numbers = Measurement {
        bytes: 4 * GIB,
        device_read_bytes: Some(GIB),
        ..crate::show::fixtures::measurement()
    };
    request.jobs[0].offset_bytes = 0;
    let plan = solve(&request, &inventory);
    let reach = plan.reach(&plan.cells[0], &numbers, 1).unwrap();
    assert_eq!((reach.rounds, reach.device_share), (4.0, Some(0.25)));
    assert!(reach.is_again() && reach.is_mostly_memory());
    assert_eq!(reach.of_memory, Some("mostly read from memory"));
    let memory = |device_bytes| {
        let numbers = Measurement { device_read_bytes: Some(device_bytes), ..numbers.clone() };
        plan.reach(&plan.cells[0], &numbers, 1).unwrap().of_memory.map(str::to_string)
    };
    let through_cache = !plan.cells[0].direct;
    let partly = through_cache.then(|| "partly read from memory".to_string());
    assert_eq!((memory(3 * GIB), memory(4 * GIB)), (partly, None));
    // The bytes of four hosts are compared with the files of four.
    let of_four = plan.reach(&plan.cells[0], &numbers, 4).unwrap();
    assert!(!of_four.is_again());
}
