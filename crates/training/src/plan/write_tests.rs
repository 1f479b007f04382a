//! Round trips: written files can be read back, and a run's file yields the same plan.

use proptest::prelude::*;

use super::*;
use crate::plan::catalog::CATALOG;
use crate::plan::distribution::Distribution;
use crate::plan::request::{RunLength, TrainRequest};
use crate::plan::workload::Shuffle;
use stormlp_core::facts::FoundFile;
use stormlp_core::facts::HostFacts;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::units::GIB;
use stormlp_dataset::inventory::facts::Inventory;

fn built_in() -> Vec<Workload> {
    let entries = CATALOG.iter();
    entries.map(|entry| entry.workload(&[]).unwrap()).collect()
}

/// The workload parsed from its file.
fn again(workload: &Workload) -> Workload {
    Workload::parse(&workload.to_yaml(), "config.yaml", &[]).unwrap()
}

/// Drops the parts that a file cannot keep: how its edition was determined, and keys without
/// effect.
fn essence(workload: &Workload) -> Workload {
    Workload {
        edition_is_known: true,
        describes_dataset: true,
        without_effect: Vec::new(),
        ..workload.clone()
    }
}

fn host() -> HostFacts {
    HostFacts { memory_bytes: 1024 * GIB, ..stormlp_fixtures::host() }
}

/// A folder with the files that `workload` requires, or with `files` training files.
fn folder(workload: &Workload, files: Option<u64>) -> Inventory {
    let some = |part: &str, count: u64| {
        let one = |index| FoundFile { name: format!("{part}/img_{index}_of_{count}"), bytes: 1000 };
        (0..count).map(one).collect()
    };
    let dataset = &workload.dataset;
    Inventory {
        folder: "/data/a set".into(),
        train: some("train", files.unwrap_or(dataset.num_files_train).min(2000)),
        ..Inventory::default()
    }
}

#[test]
fn the_whole_workload_is_written() {
    let h100 = built_in()
        .into_iter()
        .find(|workload| workload.name == "unet3d" && workload.accelerator == "h100");
    insta::assert_snapshot!("unet3d_h100", h100.unwrap().to_yaml());
}

#[test]
fn built_in_workloads_are_read_as_they_were_written() {
    for workload in built_in() {
        assert_eq!(essence(&again(&workload)), essence(&workload));
    }
}

#[test]
fn the_file_of_a_run_makes_the_same_plan() {
    let changed = TrainRequest {
        accelerators: Some(2),
        length: RunLength { epochs: Some(4), steps: Some(6) },
        compute: Some(Distribution::Uniform { min: 0.25, max: 0.75 }),
        profile: Some(Profile::Native),
        ..TrainRequest::default()
    };
    for mut workload in built_in() {
        workload.workflow.checkpoint = true;
        for (path, files) in [(Some(PathKind::Null), None), (None, Some(600))] {
            for request in [&changed, &TrainRequest::default()] {
                let first = TrainRequest { accelerators: Some(2), path, files, ..request.clone() };
                let inventory = folder(&workload, files);
                let plan = TrainPlan::resolve(&workload, &first, &host(), &inventory).unwrap().plan;
                let second =
                    TrainRequest { accelerators: Some(2), path, ..TrainRequest::default() };
                let written = again(&workload.as_planned(&plan));
                let planned_again = TrainPlan::resolve(&written, &second, &host(), &inventory);
                let planned_again =
                    TrainPlan { request: plan.request.clone(), ..planned_again.unwrap().plan };
                assert_eq!(planned_again, plan, "{}", workload.name);
            }
        }
    }
}

#[test]
fn direct_reads_are_kept_and_steps_only_if_requested() {
    let workload = &built_in()[2];
    let inventory = folder(workload, Some(70));
    let plan = |path| {
        let request = TrainRequest { files: Some(70), path, ..TrainRequest::default() };
        let resolved = TrainPlan::resolve(workload, &request, &host(), &inventory);
        workload.as_planned(&resolved.unwrap().plan)
    };
    let direct = plan(Some(PathKind::Cpu));
    assert!(direct.reader.odirect);
    assert!(!plan(None).reader.odirect);
    assert_eq!(direct.train.total_training_steps, None);
    assert_eq!(direct.dataset.data_folder.as_deref(), Some("/data/a set"));
}

#[test]
fn only_what_differs_is_listed() {
    let workload = &built_in()[2];
    assert_eq!(workload.differing_keys(workload), []);
    let mut other = workload.clone();
    other.edition = Profile::V3;
    other.reader.batch_size = 8;
    other.train.computation_time = Distribution::Normal { mean: 0.5, stdev: 0.125 };
    other.dataset.data_folder = Some("/data/a set".to_string());
    other.train.total_training_steps = Some(9);
    let lines: Vec<String> = other
        .differing_keys(workload)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    dataset.data_folder=/data/a set
    reader.batch_size=8
    train.total_training_steps=9
    train.computation_time={"type":"normal","mean":0.5,"stdev":0.125}
    "#);
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(2.0), 1e-9..100.0]
}

fn times() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        seconds().prop_map(Distribution::constant),
        (seconds(), seconds()).prop_map(|(mean, stdev)| Distribution::Normal { mean, stdev }),
        (seconds(), seconds())
            .prop_map(|(min, more)| Distribution::Uniform { min, max: min + more }),
        (seconds(), seconds()).prop_map(|(shape, scale)| Distribution::Gamma { shape, scale }),
        seconds().prop_map(|scale| Distribution::Exponential { scale }),
        seconds().prop_map(|lam| Distribution::Poisson { lam }),
    ]
}

fn shuffles() -> impl Strategy<Value = Shuffle> {
    prop_oneof![Just(Shuffle::Off), Just(Shuffle::Seed), Just(Shuffle::Random)]
}

proptest! {
    #[test]
    fn any_workload_is_read_as_it_was_written(
        index in 0..CATALOG.len(),
        name in "[a-z][a-z0-9 .:#'\"~-]{0,12}",
        words in prop::collection::vec("[a-z/][a-z0-9 .:#'\"~/-]{0,12}", 2),
        compute in times(),
        preprocess in times(),
        shuffle in (shuffles(), shuffles()),
        counts in prop::collection::vec(1u64..1_000_000, 8),
        record_bytes in prop_oneof![1.0..1e12, Just(114_660.07), Just(4096.0)],
        flags in prop::collection::vec(any::<bool>(), 6),
        dims in prop::collection::vec(1u64..10_000, 0..4),
    ) {
        let mut workload = essence(&CATALOG[index].workload(&[]).unwrap());
        workload.name = name;
        workload.dataset.data_folder = flags[0].then(|| words[0].clone());
        workload.checkpoint.checkpoint_folder.clone_from(&words[1]);
        workload.train.computation_time = compute;
        workload.reader.preprocess_time = preprocess;
        (workload.reader.file_shuffle, workload.reader.sample_shuffle) = shuffle;
        workload.dataset.num_subfolders_train = counts[0];
        if workload.dataset.format != DataFormat::Parquet {
            workload.dataset.record_length_bytes = record_bytes;
        }
        workload.dataset.record_dims = dims;
        workload.reader.shuffle_size = counts[1];
        workload.reader.transfer_size = flags[1].then_some(counts[2]);
        workload.train.total_training_steps = flags[2].then_some(counts[3]);
        workload.train.seed_change_epoch = flags[3];
        workload.checkpoint.steps_between_checkpoints = flags[4].then_some(counts[4]);
        workload.checkpoint.ignored_model_size_bytes = flags[5].then_some(counts[5]);
        workload.checkpoint.model_size_bytes = if flags[5] {
            crate::plan::workload::DEFAULT_MODEL_BYTES
        } else {
            counts[6]
        };
        workload.metric.exclude_end_steps = counts[7];
        prop_assert_eq!(essence(&again(&workload)), workload);
    }
}
