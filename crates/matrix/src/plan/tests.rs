//! Tests of request resolution on fictitious machines.

mod devices;
mod engines;
mod honesty;
mod knee;
mod placement;

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use stormlp_core::facts::{AcceleratorFacts, Availability, FoundFile, HostFacts, PathSupport};
use stormlp_core::failure::Problems;
use stormlp_core::machine::DeviceContent;
use stormlp_core::note::Cause;
use stormlp_core::operation::Operation;
use stormlp_core::path::{EngineKind, MemoryKind, PathKind};
use stormlp_core::transport::{DeviceId, EngineChoice, Requirement};
use stormlp_core::units::{GIB, KIB, MIB};
use stormlp_core::warning::WarningKind;

fn laptop() -> HostFacts {
    let paths = PathKind::ALL.map(|path| PathSupport {
        path,
        availability: if path.needs_cufile() {
            Availability::unavailable("no libcufile", "install CUDA")
        } else {
            Availability::Available
        },
    });
    HostFacts {
        hostname: "laptop".to_string(),
        cpus: 8,
        memory_bytes: 16 * GIB,
        paths: paths.to_vec(),
        ..stormlp_fixtures::host()
    }
}

/// A machine with one GPU on which every path runs.
fn gpu_server() -> HostFacts {
    let mut facts = laptop();
    facts.accelerators = vec![AcceleratorFacts {
        index: 0,
        name: "H200".to_string(),
        pci_address: None,
        numa_node: Some(0),
        pcie_link: None,
        memory_bytes: None,
        bar1_bytes: None,
        free_memory_bytes: None,
        part: None,
    }];
    for support in &mut facts.paths {
        support.availability = Availability::Available;
    }
    facts
}

fn place(free_bytes: u64) -> TargetPlace {
    TargetPlace {
        writable: Availability::Available,
        free_bytes: Some(free_bytes),
        file_system_id: 1,
        file_system: Some("xfs".to_string()),
        direct: Availability::Available,
        direct_alignment_bytes: 512,
    }
}

/// An empty folder `data` with this much free space.
fn folder(free_bytes: u64) -> TargetInventory {
    TargetInventory {
        folders: vec![TargetFolder::empty(PathBuf::from("data"), true, place(free_bytes))],
        files: Vec::new(),
    }
}

/// The file `given` of this size.
fn given(kind: FileKind, bytes: u64) -> TargetInventory {
    TargetInventory {
        folders: Vec::new(),
        files: vec![FileFacts {
            path: PathBuf::from("given"),
            kind,
            bytes,
            hole_bytes: 0,
            marked: true,
            readable: Availability::Available,
            place: place(100 * GIB),
            holds_pattern: None,
            device: (kind == FileKind::BlockDevice).then(|| DeviceContent::Carries(Vec::new())),
        }],
    }
}

/// A folder with `count` existing files laid out by stormlp.
fn laid_out(count: u32, bytes: u64, content: ContentState) -> TargetInventory {
    let mut inventory = folder(100 * GIB);
    let mut manifest = DataManifest::default();
    for index in 0..count {
        let name = format!("stormlp.{index}");
        inventory.folders[0].files.push(FoundFile { name: name.clone(), bytes });
        manifest.set(ListedFile { name, bytes, content, identity: None });
    }
    inventory.folders[0].manifest = Some(manifest);
    inventory
}

fn plain() -> MatrixRequest {
    MatrixRequest::plain(PathBuf::from("data"))
}

fn on_file() -> MatrixRequest {
    let mut request = plain();
    let target = JobTarget::File(PathBuf::from("given"));
    request.jobs = vec![JobRequest::on("job0", target)];
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request
}

fn solve(request: &MatrixRequest, inventory: &TargetInventory) -> MatrixPlan {
    resolve(request, &laptop(), inventory).unwrap()
}

fn problems(request: &MatrixRequest, inventory: &TargetInventory) -> Problems {
    resolve(request, &laptop(), inventory).unwrap_err()
}

#[test]
fn the_plain_request_lays_out_a_gib_for_each_of_eight_threads() {
    let plan = solve(&plain(), &folder(100 * GIB));
    assert_eq!(plan.files.len(), 8);
    assert!(plan.files.iter().all(|file| file.bytes == GIB && file.action == FileAction::Fill));
    assert_eq!(plan.layout_bytes, 8 * GIB);
    let paths: Vec<_> = plan.cells.iter().map(|cell| cell.transport.path).collect();
    assert_eq!(paths, PathKind::AUTO);
    assert_eq!(plan.runnable_cells(), 2);
    assert!(plan.cells.iter().any(|cell| cell.transport.emulated));
    assert_eq!(plan.engine, EngineKind::Uring);
    // Bounce buffer and stand-in for each of eight threads.
    assert_eq!(plan.region_bytes, 2 * 8 * MIB);
    assert!(plan.warnings.iter().any(|w| w.kind == WarningKind::Emulated));
}

#[test]
fn all_files_together_take_at_most_a_quarter_of_the_free_space() {
    let plan = solve(&plain(), &folder(4 * GIB));
    assert_eq!(plan.layout_bytes, GIB);
    let mut many = plain();
    many.threads = vec![4, 32];
    let plan = solve(&many, &folder(100 * GIB));
    assert_eq!((plan.files.len(), plan.layout_bytes), (32, 8 * GIB));
}

#[test]
fn no_room_for_a_single_transfer_is_the_machines_problem() {
    let found = problems(&plain(), &folder(20 * MIB));
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found[0].remedy.contains("--file-size 1M"), "{found}");
    let mut large = plain();
    large.file_size_bytes = Some(GIB);
    let found = problems(&large, &folder(4 * GIB));
    assert!(found.to_string().contains("8 GiB"), "{found}");
    assert!(found[0].remedy.contains("--file-size 460M would fit"), "{}", found[0].remedy);
}

#[test]
fn files_of_an_earlier_run_are_used_again_as_they_are() {
    let inventory = laid_out(8, 256 * MIB, ContentState::Pattern { seed: 0 });
    let plan = solve(&plain(), &inventory);
    assert_eq!(plan.layout_bytes, 0);
    assert!(plan.files.iter().all(|f| f.action == FileAction::Use && f.created_by_stormlp));
    assert!(plan.thread_groups[0].workers.iter().all(|w| w.length_bytes == 256 * MIB));
}

#[test]
fn unsuitable_content_is_rewritten() {
    let mut verify = plain();
    verify.verify = true;
    for content in [ContentState::Pattern { seed: 9 }, ContentState::Other, ContentState::Unwritten]
    {
        let plan = solve(&verify, &laid_out(8, GIB, content));
        assert!(plan.files.iter().all(|f| f.action == FileAction::Fill), "{content:?}");
    }
    let mut write = plain();
    write.ops = vec![Operation::Write];
    let plan = solve(&write, &folder(100 * GIB));
    assert!(plan.files.iter().all(|f| f.action == FileAction::Allocate));
}

#[test]
fn a_truncated_file_of_ours_is_recreated_and_a_foreign_file_is_left_alone() {
    let mut inventory = laid_out(8, GIB, ContentState::Other);
    inventory.folders[0].files[3].bytes = 5;
    let plan = solve(&plain(), &inventory);
    let actions: Vec<_> = plan.files.iter().map(|f| f.action == FileAction::Fill).collect();
    assert_eq!(actions.iter().filter(|fill| **fill).count(), 1);
    inventory.folders[0].manifest = None;
    let found = problems(&plain(), &inventory);
    assert!(found.to_string().contains("data/stormlp.0 exists"), "{found}");
}

#[test]
fn threads_split_a_shared_file_or_go_over_all_of_it_as_gdsio_does() {
    let mut request = on_file();
    request.threads = vec![4];
    let inventory = given(FileKind::Regular, 100 * MIB);
    let plan = solve(&request, &inventory);
    let parts: Vec<_> =
        plan.thread_groups[0].workers.iter().map(|w| (w.start_bytes, w.length_bytes)).collect();
    let quarter = 25 * MIB;
    assert_eq!(
        parts,
        [(0, quarter), (quarter, quarter), (2 * quarter, quarter), (3 * quarter, quarter)]
    );
    assert_eq!(plan.cells[0].requested_bytes, 100 * MIB);
    request.shared_file = SharedFile::Whole;
    let plan = solve(&request, &inventory);
    assert_eq!(plan.cells[0].requested_bytes, 400 * MIB);
    request.jobs[0].offset_bytes = 60 * MIB;
    let plan = solve(&request, &inventory);
    assert_eq!(plan.thread_groups[0].workers[3].start_bytes, 60 * MIB);
    assert_eq!(plan.thread_groups[0].workers[3].length_bytes, 40 * MIB);
}

#[test]
fn block_devices_are_written_only_with_the_flag_that_names_the_danger() {
    let mut request = on_file();
    request.ops = vec![Operation::Write];
    let inventory = given(FileKind::BlockDevice, 100 * GIB);
    let found = problems(&request, &inventory);
    assert!(found[0].remedy.contains("--destroy-data"), "{found}");
    request.destroy_data = Some(Vec::new());
    assert_eq!(solve(&request, &inventory).files[0].action, FileAction::Use);
}

#[test]
fn a_file_that_is_missing_or_too_small_is_named_with_its_size() {
    let found = problems(&on_file(), &given(FileKind::Missing, 0));
    assert!(found.to_string().contains("given does not exist"), "{found}");
    let mut request = on_file();
    request.file_size_bytes = Some(GIB);
    let found = problems(&request, &given(FileKind::Regular, MIB));
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found.to_string().contains("has 1 MiB, 1 GiB are needed"), "{found}");
}

#[test]
fn a_transfer_larger_than_its_part_of_the_file_is_refused() {
    let mut request = on_file();
    request.io_sizes = vec![IoSize::fixed(64 * MIB)];
    let found = problems(&request, &given(FileKind::Regular, 100 * MIB));
    assert_eq!(found.cause(), Cause::Plan);
    assert!(found.to_string().contains("64 MiB is larger"), "{found}");
}

#[test]
fn misaligned_sizes_are_refused_where_o_direct_needs_them_aligned() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.io_sizes = vec![IoSize::fixed(1000)];
    let found = problems(&request, &folder(100 * GIB));
    assert!(found.to_string().contains("1000 bytes is not a multiple of 512"), "{found}");
    request.paths = PathChoice::each(&[PathKind::PageCache]);
    assert!(resolve(&request, &laptop(), &folder(100 * GIB)).is_ok());
}

#[test]
fn paths_that_cannot_run_give_a_reason() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Gds, PathKind::GdsBatch]);
    let found = problems(&request, &folder(100 * GIB));
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found.to_string().contains("gds: no libcufile; gds-batch: no libcufile"), "{found}");
    let mut request = plain();
    request.require = vec![Requirement::Gds];
    assert!(problems(&request, &folder(100 * GIB)).to_string().contains("--require gds"));
    (request.buffer_memory, request.paths) = (MemoryKind::Host, PathChoice::each(&[PathKind::Gds]));
    let found = resolve(&request, &gpu_server(), &folder(100 * GIB)).unwrap_err();
    assert!(found.to_string().contains("no direct route to host memory"), "{found}");
}

#[test]
fn cufile_without_a_gpu_needs_host_memory() {
    let mut facts = gpu_server();
    facts.accelerators.clear();
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Gds]);
    let found = resolve(&request, &facts, &folder(100 * GIB)).unwrap_err();
    assert!(found[0].remedy.contains("--buffer-memory host"), "{found}");
    request.buffer_memory = MemoryKind::Host;
    let plan = resolve(&request, &facts, &folder(100 * GIB)).unwrap();
    assert_eq!(plan.runnable_cells(), 1);
}

#[test]
fn workers_take_devices_in_turn_and_jobs_keep_their_own() {
    let mut facts = gpu_server();
    facts.accelerators.push(AcceleratorFacts { index: 1, ..facts.accelerators[0].clone() });
    let mut request = plain();
    request.threads = vec![3];
    request.devices = Some("cuda:0,1".parse().unwrap());
    let plan = resolve(&request, &facts, &folder(100 * GIB)).unwrap();
    let devices: Vec<_> = plan.thread_groups[0].workers.iter().map(|w| w.device).collect();
    assert_eq!(devices, [DeviceId::nvidia(0), DeviceId::nvidia(1), DeviceId::nvidia(0)]);
    // Device memory is not part of the region: only the bounce buffers are.
    assert_eq!(plan.region_bytes, 3 * MIB);
    request.devices = Some(DeviceId::nvidia(7).into());
    let found = resolve(&request, &facts, &folder(100 * GIB)).unwrap_err();
    assert!(found.to_string().contains("there is no cuda:7"), "{found}");
}

#[test]
fn every_combination_is_a_cell_and_paths_take_turns_within_repetitions() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu, PathKind::Buffered]);
    request.ops = vec![Operation::Read, Operation::RandRead];
    request.io_sizes = vec![IoSize::fixed(4 * KIB), IoSize::fixed(MIB), IoSize::fixed(4 * KIB)];
    request.threads = vec![1, 4];
    request.runs = Some(3);
    let plan = solve(&request, &folder(100 * GIB));
    assert_eq!(plan.cells.len(), 2 * 2 * 2 * 2 * 3);
    let order: Vec<_> = plan.cells[..4].iter().map(|c| (c.transport.path, c.repeat)).collect();
    let (cpu, buffered) = (PathKind::Cpu, PathKind::Buffered);
    assert_eq!(order, [(cpu, 1), (buffered, 1), (cpu, 2), (buffered, 2)]);
}

#[test]
fn all_problems_are_found_and_not_only_the_first() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.io_sizes = [1000, 2000].map(IoSize::fixed).to_vec();
    let found = problems(&request, &folder(100 * GIB));
    assert_eq!(found.iter().count(), 2, "{found}");
    assert_eq!(found.cause(), Cause::Plan);
}

#[test]
fn buffers_beyond_the_memory_are_refused() {
    let mut request = plain();
    request.queue_depths = vec![1, 2048];
    let found = problems(&request, &folder(100 * GIB));
    assert_eq!(found.cause(), Cause::Capacity);
    assert!(found.to_string().contains("its buffers and 8 threads need 32"), "{found}");
}

#[test]
fn more_threads_than_open_files_are_refused_with_the_limit_they_need() {
    let mut facts = laptop();
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.threads = vec![4, 32];
    let resolved = |facts: &HostFacts| resolve(&request, facts, &folder(100 * GIB));
    facts.open_files_limit = 20;
    let found = resolved(&facts).unwrap_err();
    assert_eq!(found.cause(), Cause::Capacity);
    assert!(found.to_string().contains("32 threads need 72 open files"), "{found}");
    assert!(found[0].remedy.contains("ulimit -n 72"), "{found}");
    facts.open_files_limit = 72;
    assert!(resolved(&facts).is_ok());
}

proptest! {
    #[test]
    fn plans_never_leave_their_files_and_resolving_never_panics(
        threads in prop::collection::vec(1u32..40, 1..3),
        size_kib in 1u64..5000,
        file_size in prop::option::of(1u64..u64::MAX / 2),
        offset in prop_oneof![Just(0u64), 0u64..u64::MAX / 2],
        free in 0u64..(1 << 45),
        shared in any::<bool>(),
        passes in 1u32..5,
    ) {
        let mut request = if shared { on_file() } else { plain() };
        request.threads = threads;
        request.io_sizes = vec![IoSize::fixed(size_kib * KIB)];
        request.file_size_bytes = file_size;
        request.jobs[0].offset_bytes = offset;
        request.duration = Some(CellSpan::Passes(passes));
        let inventory = if shared { given(FileKind::Regular, free) } else { folder(free) };
        if let Ok(plan) = resolve(&request, &laptop(), &inventory) {
            for cell in plan.cells.iter().filter(|cell| cell.availability.is_available()) {
                for worker in &plan.thread_groups[cell.thread_group].workers {
                    let end = worker.start_bytes + worker.length_bytes;
                    prop_assert!(end <= plan.files[worker.file].bytes);
                    prop_assert!(cell.io_size.max_bytes <= worker.length_bytes);
                    prop_assert!(cell.io_size.max_bytes <= cell.transport.chunk_bytes);
                }
            }
            let text = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(serde_json::from_str::<MatrixPlan>(&text).unwrap(), plan);
        }
    }
}

#[test]
fn depths_are_a_dimension_of_the_matrix() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu, PathKind::Buffered]);
    request.queue_depths = vec![1, 8, 8];
    let plan = solve(&request, &folder(100 * GIB));
    let depths: Vec<usize> = (plan.cells.iter()).map(|cell| cell.transport.queue_depth).collect();
    assert_eq!(depths, [1, 1, 8, 8]);
    // The buffers are sized for the deepest cell.
    assert_eq!(plan.region_bytes, 8 * 8 * MIB);
}

#[test]
fn every_path_takes_a_mix_of_reads_and_writes() {
    let mut request = plain();
    request.read_percent = Some(70);
    request.paths = vec![PathChoice::All];
    let plan = resolve(&request, &gpu_server(), &folder(100 * GIB)).unwrap();
    assert_eq!(plan.request.read_percent, Some(70));
    request.ops = vec![Operation::RandRead, Operation::RandWrite];
    let text = problems(&request, &folder(100 * GIB)).to_string();
    assert!(text.contains("randread and randwrite are the same mix"), "{text}");
    request.ops = vec![Operation::Read];
    request.verify = true;
    let text = problems(&request, &folder(100 * GIB)).to_string();
    assert!(text.contains("not verified"), "{text}");
}

#[test]
fn what_is_in_flight_when_time_is_up_is_in_the_estimate() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.io_sizes = vec![IoSize::fixed(128 * MIB)];
    request.threads = vec![32];
    let plan = solve(&request, &folder(100 * GIB));
    // 5 s, and 4 GiB at 1 GiB/s.
    assert!((plan.cells[0].estimated_seconds - 9.05).abs() < 1e-6);
}

#[test]
fn presets_run_without_cufile_and_keep_the_cells_that_cannot() {
    for name in preset_names() {
        let request = MatrixRequest::of_preset(name);
        let plan = solve(&request, &folder(1000 * GIB));
        assert!(plan.runnable_cells() > 0, "{name}");
        let wants_cufile = request.paths().contains(&PathKind::Gds);
        assert_eq!(plan.runnable_cells() < plan.cells.len(), wants_cufile, "{name}");
    }
}
