//! Whole runs on null storage: how they end when something fails between phases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::plan::catalog;
use crate::plan::distribution::Distribution;
use crate::plan::request::{RunLength, TrainRequest};
use crate::plan::train_plan::{BlockEnd, CheckpointPlan, LoaderPlan, TrainPlan};
use crate::report::AcceleratorEpoch;
use stormlp_core::event::Silent;
use stormlp_core::note::Cause;
use stormlp_core::path::PathKind;
use stormlp_core::report::Ending;
use stormlp_core::stop::StopToken;
use stormlp_core::transport::Transport;
use stormlp_dataset::format::Span;
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_transfer::storage::{Disk, Storage};
use stormlp_transfer::{Accelerator, HostStandIn};

use super::epochs::run;
use super::error::TrainError;
use super::machine::{ReadRequest, ReadResult, Share, Unit};
use super::measure::{Distributions, RunMeasured};
use super::prepare::{EpochOrder, Order};
use super::source::{DataFile, Extents, ReadPlan, Reads, Source};
use super::together::Others;
use stormlp_transfer::run_context::RunContext;

const STEPS: u64 = 4;

/// A single file used for every sample.
struct Nothing([DataFile; 1]);

impl Source for Nothing {
    fn files(&self) -> &[DataFile] {
        &self.0
    }

    fn plan(&self, _: &ReadRequest) -> Result<ReadPlan, TrainError> {
        Ok(ReadPlan {
            file: 0,
            reads: Reads::Known {
                extents: Extents::One(Span { offset: 0, bytes: 1000 }),
                keep_open: false,
                landed: ReadResult { samples: 1, ..ReadResult::default() },
            },
            framing: None,
        })
    }
}

/// An order that panics from epoch `panics_from` on.
struct Epochs {
    panics_from: u32,
}

impl Order for Epochs {
    fn epoch(&self, epoch: u32) -> EpochOrder {
        assert!(epoch < self.panics_from, "an epoch that should not be");
        EpochOrder {
            source: Arc::new(Nothing([DataFile { path: "nothing".into(), bytes: 1000 }])),
            shares: vec![Share { batches: STEPS, ..Share::default() }; 2],
        }
    }
}

const SOUND: Epochs = Epochs { panics_from: u32::MAX };

/// Three epochs of two accelerators, each with two workers that finish their dealt batches.
fn plan() -> TrainPlan {
    let mut workload = catalog::find("unet3d", Some("h100")).unwrap().workload(&[]).unwrap();
    workload.reader.batch_size = 2;
    let request = TrainRequest {
        accelerators: Some(2),
        length: RunLength { epochs: Some(3), steps: Some(STEPS) },
        compute: Some(Distribution::Constant { seconds: 0.0005 }),
        path: Some(PathKind::Null),
        ..TrainRequest::default()
    };
    let nothing = Inventory::default();
    let resolved = TrainPlan::resolve(&workload, &request, &stormlp_fixtures::host(), &nothing);
    TrainPlan {
        loader: LoaderPlan::Workers {
            read_threads: 2,
            prefetch_size: 2,
            batches_outstanding: 4,
            persistent: true,
            row_groups_in_flight: 1,
        },
        block_end: BlockEnd::AfterNextFetch,
        prewarm: false,
        ..resolved.unwrap().plan
    }
}

fn told(
    plan: &TrainPlan,
    order: impl Order,
    on_epoch: &mut dyn FnMut(),
    stop: &StopToken,
) -> RunMeasured {
    let host_memory: Arc<dyn Accelerator> = Arc::new(HostStandIn);
    let accelerators = host_memory.into();
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let surroundings = RunContext { storage: &storage, observer: &Silent, stop };
    let mut distributions = Distributions::default();
    let on_epoch = &mut |_: &mut RunMeasured, _: &Distributions, _| on_epoch();
    run(plan, &order, &accelerators, Others::default(), &surroundings, &mut distributions, on_epoch)
        .unwrap()
}

/// Steps per block, by epoch and accelerator.
fn steps(run: &RunMeasured) -> Vec<Vec<Vec<u64>>> {
    let of_epoch = |accelerators: &[AcceleratorEpoch]| {
        let blocks = accelerators.iter().map(|accelerator| &accelerator.blocks);
        blocks.map(|blocks| blocks.iter().map(|block| block.steps).collect()).collect()
    };
    let epochs = run.report.epochs.iter();
    epochs.map(|epoch| of_epoch(&epoch.accelerators)).collect()
}

#[test]
fn a_panic_between_epochs_keeps_what_was_measured() {
    let order = Epochs { panics_from: 3 };
    let run = told(&plan(), order, &mut || {}, &StopToken::new());
    let Ending::Failed(note) = &run.ending else {
        panic!("{:?}", run.ending);
    };
    assert_eq!(note.kind, Cause::Internal);
    assert!(note.fact.contains("an epoch that should not be"), "{}", note.fact);
    assert_eq!(steps(&run), vec![vec![vec![STEPS]; 2]; 2]);
}

/// Samples beyond the steps of an epoch, which become unreadable once the second epoch is prepared.
struct Leftovers {
    samples: Nothing,
    broken: Arc<AtomicBool>,
}

impl Source for Leftovers {
    fn files(&self) -> &[DataFile] {
        self.samples.files()
    }

    fn plan(&self, request: &ReadRequest) -> Result<ReadPlan, TrainError> {
        let Unit::Sample(0..4) = request.read.unit else {
            while !self.broken.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            return Err(TrainError::Length {
                path: "nothing".into(),
                expected_bytes: 1000,
                found_bytes: 1,
            });
        };
        self.samples.plan(request)
    }
}

struct FailingBetween(Arc<AtomicBool>);

impl Order for FailingBetween {
    fn epoch(&self, epoch: u32) -> EpochOrder {
        if epoch == 2 {
            self.0.store(true, Ordering::Relaxed);
            // The failure happens before or during the epoch: it is not complete.
            thread::sleep(Duration::from_millis(50));
        }
        EpochOrder {
            source: Arc::new(Leftovers {
                samples: Nothing([DataFile { path: "nothing".into(), bytes: 1000 }]),
                broken: Arc::clone(&self.0),
            }),
            ..SOUND.epoch(epoch)
        }
    }
}

#[test]
fn a_failure_between_epochs_does_not_report_the_last_one_twice() {
    let plan = TrainPlan {
        steps_per_epoch: 2,
        block_end: BlockEnd::AfterLastBarrier,
        // Each worker may be blocked without blocking the rest.
        transport: Transport { threads: 4, ..plan().transport },
        ..plan()
    };
    let order = FailingBetween(Arc::default());
    let run = told(&plan, order, &mut || {}, &StopToken::new());
    assert!(
        matches!(&run.ending, Ending::Failed(note) if note.kind == Cause::Dataset),
        "{:?}",
        run.ending
    );
    assert!(run.report.epochs[0].is_whole(&plan));
    for epoch in &run.report.epochs[1..] {
        assert!(!epoch.is_whole(&plan), "{:?}", epoch.accelerators);
    }
}

#[test]
fn a_checkpoint_that_fails_ends_the_phase_at_its_step() {
    let folder = tempfile::tempdir().unwrap();
    // A folder occupies the path of the second checkpoint.
    std::fs::create_dir(folder.path().join("model-1-4-0.pt")).unwrap();
    let plan = TrainPlan {
        checkpoint: Some(CheckpointPlan {
            folder: folder.path().into(),
            bytes: 10_000,
            after_epoch: None,
            epochs_between: 1,
            steps_between: Some(2),
        }),
        steps_per_epoch: 6,
        ..plan()
    };
    let run = told(&plan, SOUND, &mut || {}, &StopToken::new());
    assert!(
        matches!(&run.ending, Ending::Failed(note) if note.kind == Cause::Checkpoint),
        "{:?}",
        run.ending
    );
    assert_eq!(run.report.checkpoints.len(), 1);
    let of_epoch = &steps(&run)[0];
    assert_eq!(of_epoch[0], [2, 2], "no step after the failure");
    // The other one may have begun the step before its wait at the end.
    assert_eq!(of_epoch[1][..2], [2, 2]);
    assert!(of_epoch[1][2..].iter().all(|steps| *steps == 1));
}

#[test]
fn a_stop_between_epochs_begins_nothing_more() {
    let stop = StopToken::new();
    let run = told(&plan(), SOUND, &mut || stop.stop(), &stop);
    assert_eq!(run.ending, Ending::Stopped);
    assert_eq!(run.report.epochs.len(), 1);
}
