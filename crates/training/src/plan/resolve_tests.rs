//! Plans of the built-in workloads, and every input that is rejected.

use super::*;
use strum::VariantArray as _;

use crate::plan::catalog;
use crate::plan::client::Client;
use crate::plan::request::{RequestedHosts, RunLength};
use crate::plan::train_plan::BlockEnd;
use stormlp_core::facts::FoundFile;
use stormlp_core::note::Cause;
use stormlp_core::units::GIB;

fn host(memory_bytes: u64) -> HostFacts {
    HostFacts { memory_bytes, ..stormlp_fixtures::host() }
}

fn folder(files: u64, bytes: u64) -> Inventory {
    Inventory {
        folder: "/data/set".into(),
        train: (0..files)
            .map(|index| FoundFile { name: format!("train/img_{index}_of_{files}.npz"), bytes })
            .collect(),
        ..Inventory::default()
    }
}

fn workload(name: &str, accelerator: &str) -> Workload {
    catalog::find(name, Some(accelerator)).unwrap().workload(&[]).unwrap()
}

fn resolve(
    workload: &Workload,
    request: &TrainRequest,
    inventory: &Inventory,
) -> Result<Resolved, Problems> {
    TrainPlan::resolve(workload, request, &host(64 * GIB), inventory)
}

fn warning_lines(resolved: &Resolved) -> String {
    let lines: Vec<String> = resolved.warnings.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn unet3d_on_h100_is_v2s_run() {
    let unet3d = workload("unet3d", "h100");
    let got = resolve(&unet3d, &TrainRequest::default(), &folder(168, 146_600_628)).unwrap();
    let plan = &got.plan;
    assert_eq!((plan.steps_per_epoch, plan.epochs, plan.batch_size), (24, 5, 7));
    assert_eq!(plan.profile, Profile::V2);
    assert_eq!(plan.transport.path, PathKind::Buffered);
    assert_eq!(plan.reads, ReadPattern::NumpyLoad);
    assert_eq!(
        plan.loader,
        LoaderPlan::Workers {
            read_threads: 4,
            prefetch_size: 2,
            batches_outstanding: 4,
            persistent: true,
            row_groups_in_flight: 1,
        }
    );
    assert_eq!(plan.checkpoint.as_ref().unwrap().bytes, 10_240);
    insta::assert_snapshot!(warning_lines(&got), @r"
    the dataset (22.94 GiB) fits in this host's memory (64 GiB): not comparable with published results; use --generate=full for a comparable dataset; `stormlp datasize` shows its size
    an epoch has 24 steps, MLPerf requires 500; use more files
    ");
}

#[test]
fn each_edition_keeps_its_decisions() {
    let unet3d = workload("unet3d", "b200");
    let data = folder(7200, 146_600_628);
    let plan = resolve(&unet3d, &TrainRequest::default(), &data).unwrap().plan;
    assert_eq!(plan.reads, ReadPattern::WholeFile);
    assert!(plan.prewarm && plan.checkpoint.is_none());
    let request = TrainRequest {
        profile: Some(Profile::Native),
        path: Some(PathKind::Cpu),
        ..TrainRequest::default()
    };
    let h100 = workload("unet3d", "h100");
    let plan = resolve(&h100, &request, &data).unwrap().plan;
    assert_eq!((plan.transport.path, &plan.reads), (PathKind::Cpu, &ReadPattern::WholeFile));
    assert_eq!(plan.checkpoint.unwrap().bytes, 499_153_191);
}

#[test]
fn files_are_read_as_each_editions_libraries_read_them() {
    use stormlp_dataset::section::DataFormat::{Jpeg, Npy, Npz, Png};
    let of = |profile, path| [Npz, Npy, Jpeg, Png].map(|format| file_reads(profile, format, path));
    let (numpy, array) = (ReadPattern::NumpyLoad, ReadPattern::NumpyArray);
    let decoded = [numpy, array, ReadPattern::PillowJpeg, ReadPattern::PillowPng];
    assert_eq!(of(Profile::V1, PathKind::Buffered), decoded);
    assert_eq!(of(Profile::V2, PathKind::PageCache), decoded);
    let whole = [(); 4].map(|()| ReadPattern::WholeFile);
    assert_eq!(of(Profile::V3, PathKind::Buffered), whole);
    assert_eq!(of(Profile::V2, PathKind::Cpu), whole);
    let pieces = [(); 4].map(|()| ReadPattern::Pieces);
    assert_eq!(of(Profile::Native, PathKind::Buffered), pieces);
}

#[test]
fn hdf5_and_tables_are_read_as_each_editions_libraries_read_them() {
    use stormlp_dataset::section::DataFormat::{Csv, Hdf5};
    let of = |profile, path| [Hdf5, Csv].map(|format| file_reads(profile, format, path));
    let (sample, whole) = (ReadPattern::IndexedSample, ReadPattern::WholeFile);
    let (h5py, pandas) = (ReadPattern::H5py, ReadPattern::PandasCsv);
    assert_eq!(of(Profile::V1, PathKind::Buffered), [h5py.clone(), pandas.clone()]);
    assert_eq!(of(Profile::V2, PathKind::PageCache), [h5py, pandas.clone()]);
    assert_eq!(of(Profile::V3, PathKind::Buffered), [whole.clone(), pandas]);
    assert_eq!(of(Profile::V3, PathKind::Cpu), [whole.clone(), whole.clone()]);
    assert_eq!(of(Profile::V2, PathKind::Cpu), [sample.clone(), whole]);
    assert_eq!(of(Profile::Native, PathKind::Buffered), [sample, ReadPattern::Pieces]);
}

#[test]
fn only_v3s_block_waits_for_one_more_fetch() {
    let ends = Profile::VARIANTS.iter().map(|profile| BlockEnd::of(*profile));
    let barrier = BlockEnd::AfterLastBarrier;
    let expected = [barrier, barrier, BlockEnd::AfterNextFetch, barrier];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[test]
fn more_files_than_the_workload_names_are_left_out() {
    let unet3d = workload("unet3d", "h100");
    let got = resolve(&unet3d, &TrainRequest::default(), &folder(200, 146_600_628)).unwrap();
    assert_eq!(got.plan.data.files, 168);
    // The folder scan already reported it.
    assert!(!warning_lines(&got).contains("200"));
}

#[test]
fn resnet50_goes_through_the_interleave() {
    let resnet50 = workload("resnet50", "h100");
    let request =
        TrainRequest { accelerators: Some(4), files: Some(24), ..TrainRequest::default() };
    let plan = resolve(&resnet50, &request, &folder(24, 143_439_747)).unwrap().plan;
    assert_eq!(plan.steps_per_epoch, 24 * 1251 / 400 / 4);
    assert_eq!(plan.reads, ReadPattern::Records { transfer_size: 262_144 });
    let direct = TrainRequest { path: Some(PathKind::Cpu), ..request.clone() };
    let direct = resolve(&resnet50, &direct, &folder(24, 143_439_747)).unwrap();
    let transfer_size = 1 << 20;
    assert_eq!(direct.plan.reads, ReadPattern::Records { transfer_size });
    let LoaderPlan::Interleave { keep_every, shuffle_records, .. } = plan.loader else {
        panic!("{:?}", plan.loader);
    };
    assert_eq!((keep_every, shuffle_records), (1, 0));
}

#[test]
fn null_storage_needs_no_files() {
    let request = TrainRequest {
        path: Some(PathKind::Null),
        length: RunLength { steps: Some(100), ..RunLength::default() },
        accelerators: Some(16),
        ..TrainRequest::default()
    };
    for entry in catalog::CATALOG {
        let workload = entry.workload(&[]).unwrap();
        let got = resolve(&workload, &request, &Inventory::default()).unwrap();
        assert_eq!(got.plan.steps_per_epoch, 100, "{}", entry.full_name());
        assert_eq!((got.plan.transport.path, got.plan.data.folder.clone()), (PathKind::Null, None));
    }
}

#[test]
fn a_random_shuffle_has_a_seed_of_its_own_in_the_plan() {
    let mut unet3d = workload("unet3d", "b200");
    let request = TrainRequest { drawn_seed: 77, ..TrainRequest::default() };
    let data = folder(7200, 146_600_628);
    let mut seeds = |shuffle| {
        unet3d.reader.file_shuffle = shuffle;
        let shuffle = resolve(&unet3d, &request, &data).unwrap().plan.shuffle;
        (shuffle.seed, shuffle.file_seed)
    };
    let (seed, of_files) = seeds(Shuffle::Seed);
    assert_eq!(of_files, seed);
    assert_eq!(seeds(Shuffle::Random), (seed, 77 ^ seed));
}

#[test]
fn a_file_system_without_direct_reads_is_found_before_the_run() {
    let unet3d = workload("unet3d", "h100");
    let mut data = folder(168, 146_600_628);
    data.direct = Availability::unavailable("open with O_DIRECT: EINVAL", "");
    let request = |path| TrainRequest { path: Some(path), ..TrainRequest::default() };
    let messages = only(resolve(&unet3d, &request(PathKind::Cpu), &data));
    assert!(
        messages.contains("/data/set does not support O_DIRECT, which path cpu requires"),
        "{messages}"
    );
    assert!(resolve(&unet3d, &request(PathKind::Buffered), &data).is_ok());
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut unet3d = workload("unet3d", "h100");
    unet3d.dataset.num_samples_per_file = 4;
    let request = TrainRequest {
        files: Some(12),
        path: Some(PathKind::GdsCompat),
        compute: Some(Distribution::constant(-1.0)),
        ..TrainRequest::default()
    };
    let mut inventory = folder(10, 146_600_628);
    inventory.samples_per_file = Some(1);
    let problems = TrainPlan::resolve(&unet3d, &request, &host(1 << 20), &inventory).unwrap_err();
    assert_eq!(problems.cause(), Cause::Plan);
    insta::assert_snapshot!(problems, @r"
    5 problems:
      - path gds-compat is not for training
        help: use --path buffered, cpu, page-cache, cpu-gpu, cpu-async-gpu, gds, gds-async, gds-batch or null
      - the files in /data/set have 1 sample each, but the workload has 4
        help: set --params dataset.num_samples_per_file=1
      - /data/set has 10 training files, but the workload has 12
        help: set --files 10, or make more with `stormlp datagen`
      - --compute-time: value is -1, it must be 0 or more
      - the run needs about 25.26 MiB of memory, 1 MiB may be used
        help: use fewer accelerators, files or steps, or raise the memory limit (cgroup, ulimit -v)
    ");
}

/// The only problem, with its help text.
fn only(resolved: Result<Resolved, Problems>) -> String {
    let problems = resolved.unwrap_err();
    assert_eq!(problems.len(), 1, "{problems}");
    format!("{}; {}", problems[0].fact, problems[0].remedy)
}

#[test]
fn an_empty_folder_names_the_command() {
    let unet3d = workload("unet3d", "h100");
    let request = TrainRequest { workload: "unet3d".to_string(), ..TrainRequest::default() };
    let resolved = resolve(&unet3d, &request, &folder(0, 0));
    insta::assert_snapshot!(only(resolved), @"/data/set has no npz files in train/; make them with `stormlp datagen unet3d --dir /data/set`");
}

#[test]
fn too_many_accelerators_and_too_few_steps_are_reported_with_their_numbers() {
    let unet3d = workload("unet3d", "h100");
    let data = folder(168, 146_600_628);
    let ask = |accelerators, steps| TrainRequest {
        accelerators: Some(accelerators),
        length: RunLength { steps, ..RunLength::default() },
        ..TrainRequest::default()
    };
    insta::assert_snapshot!(only(resolve(&unet3d, &ask(100, None), &data)), @"168 samples in 168 files: less than one step of 100 accelerators with batches of 7, 700 samples; use more files (--files) or fewer accelerators (--accelerators)");
    insta::assert_snapshot!(only(resolve(&unet3d, &ask(12, None), &data)), @"an epoch has 2 steps, AU of edition 2.0, which excludes 1, needs 3; use more --files or a higher --steps, or fewer accelerators");
    insta::assert_snapshot!(only(resolve(&unet3d, &ask(1, Some(25)), &data)), @"25 steps per epoch requested, but the dataset has 24; set --steps 24, or use more files");
}

#[test]
fn an_unknown_edition_causes_a_warning() {
    let text = "model: {name: mine}\ndataset: {format: npz, num_files_train: 5000}\n";
    let mine = Workload::parse(text, "my.yaml", &[]).unwrap();
    let null = TrainRequest { path: Some(PathKind::Null), ..TrainRequest::default() };
    let got = resolve(&mine, &null, &Inventory::default()).unwrap();
    insta::assert_snapshot!(warning_lines(&got), @"no edition is given: native is assumed, stormlp's corrected definitions; choose one with --edition, or name it in the file (stormlp.profile)");
    let named = TrainRequest { profile: Some(Profile::V2), ..null };
    let got = resolve(&mine, &named, &Inventory::default()).unwrap();
    assert!(!warning_lines(&got).contains("edition"));
}

#[test]
fn too_few_steps_name_what_decided_them() {
    let unet3d = workload("unet3d", "h100");
    let few = |request: TrainRequest| {
        let got = resolve(&unet3d, &request, &folder(168, 146_600_628)).unwrap();
        let few = got.warnings.iter().find(|w| w.fact.contains("MLPerf requires"));
        few.unwrap().remedy.clone()
    };
    let length = RunLength { steps: Some(10), ..RunLength::default() };
    let null = TrainRequest { path: Some(PathKind::Null), ..TrainRequest::default() };
    assert_eq!(few(TrainRequest::default()), "use more files");
    assert_eq!(few(null.clone()), "set --steps");
    assert_eq!(few(TrainRequest { length, ..null }), "raise --steps");
}

#[test]
fn a_ring_in_place_of_blocking_readers_is_told() {
    let unet3d = workload("unet3d", "h100");
    for (accelerators, told) in [(112, false), (113, true)] {
        let request = TrainRequest {
            accelerators: Some(accelerators),
            files: Some(7200),
            ..TrainRequest::default()
        };
        let got = resolve(&unet3d, &request, &folder(7200, 146_600_628)).unwrap();
        assert_eq!(warning_lines(&got).contains("a ring reads"), told, "{accelerators}");
    }
}

#[test]
fn memory_grows_with_what_is_kept() {
    let unet3d = workload("unet3d", "h100");
    let of = |unet3d: &Workload, request: TrainRequest| {
        let request = TrainRequest { path: Some(PathKind::Null), ..request };
        let got = resolve(unet3d, &request, &Inventory::default()).unwrap();
        got.plan.memory_bytes
    };
    let bytes = |request: TrainRequest| of(&unet3d, request);
    let base = bytes(TrainRequest::default());
    let (mut readers, mut ahead) = (unet3d.clone(), unet3d.clone());
    readers.reader.read_threads = 1024;
    ahead.reader.prefetch_size = 65_536;
    assert!(of(&readers, TrainRequest::default()) > base);
    assert!(of(&ahead, TrainRequest::default()) > base);
    for more in [
        TrainRequest {
            length: RunLength { epochs: Some(1_000_000), ..RunLength::default() },
            ..TrainRequest::default()
        },
        TrainRequest { keep_step_times: true, ..TrainRequest::default() },
    ] {
        assert!(bytes(more.clone()) > base, "{more:?}");
    }
}

#[test]
fn checkpoints_may_not_cut_an_epoch_into_blocks_without_au() {
    let mut unet3d = workload("unet3d", "h100");
    let mut planned = |between, steps| {
        unet3d.checkpoint.steps_between_checkpoints = Some(between);
        let request = TrainRequest {
            length: RunLength { steps: Some(steps), ..RunLength::default() },
            ..TrainRequest::default()
        };
        resolve(&unet3d, &request, &folder(168, 146_600_628))
    };
    let refused = planned(2, 12).unwrap_err().to_string();
    assert!(refused.contains("needs 3"), "{refused}");
    assert!(!warning_lines(&planned(4, 12).unwrap()).contains("after its last checkpoint"));
    let short = warning_lines(&planned(5, 12).unwrap());
    assert!(short.contains("after its last checkpoint, has 2 steps"), "{short}");
}

#[test]
fn files_of_tensorflows_generators_are_shuffled_in_each_epoch_up_to_v2() {
    let mut unet3d = workload("unet3d", "h100");
    let by_generators = |unet3d: &Workload, profile| {
        let request = TrainRequest { profile: Some(profile), ..TrainRequest::default() };
        let got = resolve(unet3d, &request, &folder(168, 146_600_628)).unwrap();
        got.plan.shuffle.by_generators
    };
    assert!(!by_generators(&unet3d, Profile::V2));
    unet3d.reader.data_loader = DataLoader::Tensorflow;
    for (profile, wanted) in [(Profile::V1, true), (Profile::V2, true), (Profile::V3, false)] {
        assert_eq!(by_generators(&unet3d, profile), wanted, "{profile}");
    }
}

#[test]
fn processes_of_one_host_share_its_cpus() {
    let unet3d = workload("unet3d", "h100");
    let cpus = |hosts| {
        let request = TrainRequest {
            client_overhead: Client::Dlio,
            accelerators: Some(4),
            hosts: Some(RequestedHosts {
                accelerators: vec![1; 4],
                hosts,
                ..RequestedHosts::default()
            }),
            ..TrainRequest::default()
        };
        let resolved = resolve(&unet3d, &request, &folder(168, 146_600_628));
        resolved.unwrap().plan.client.unwrap().cpus
    };
    let all = host(64 * GIB).cpus as usize;
    assert_eq!((cpus(4), cpus(2)), (all, all / 2));
}

#[test]
fn null_storage_imagines_enough_files_for_every_kind_of_loader() {
    for (name, accelerator) in [("flux", "b200"), ("unet3d", "h100"), ("cosmoflow", "h100")] {
        for (batch_size, accelerators, steps) in [(300, 2, 5), (7, 3, 11), (1, 1, 3)] {
            let request = TrainRequest {
                path: Some(PathKind::Null),
                length: RunLength { steps: Some(steps), ..RunLength::default() },
                accelerators: Some(accelerators),
                ..TrainRequest::default()
            };
            let mut workload = workload(name, accelerator);
            workload.reader.batch_size = batch_size;
            let got = resolve(&workload, &request, &Inventory::default());
            assert_eq!(got.unwrap().plan.steps_per_epoch, steps, "{name}");
        }
    }
    let endless = TrainRequest {
        path: Some(PathKind::Null),
        accelerators: Some(2),
        length: RunLength { steps: Some(u64::MAX), ..RunLength::default() },
        ..TrainRequest::default()
    };
    let refused = resolve(&workload("unet3d", "h100"), &endless, &Inventory::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("of memory"), "{refused}");
}
