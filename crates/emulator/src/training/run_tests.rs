//! Whole runs on null storage: how they end when something goes wrong between the phases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stormlp_model::event::Silent;
use stormlp_model::path::{EngineKind, MemoryKind, PathKind};
use stormlp_model::report::{Ending, FailureCause};
use stormlp_model::stop::StopToken;
use stormlp_transfer::HostStandIn;

use super::crew::CrewSpec;
use super::error::TrainError;
use super::machine::{Landed, Leftover, Pace, ReadRequest, Share, Unit, WorkersConfig};
use super::measured::{PhaseKind, PhaseMeasured, RunMeasured};
use super::run::run;
use super::source::{DataFile, Extent, Extents, ReadPlan, Reads, Source};
use super::spec::{
    CheckpointRules, EpochOrder, EvaluationRules, LoaderSpec, Order, PhaseRules, RunSpec,
};

const STEPS: u64 = 4;

/// One file that every sample is.
struct Nothing([DataFile; 1]);

impl Source for Nothing {
    fn files(&self) -> &[DataFile] {
        &self.0
    }

    fn plan(&self, _: &ReadRequest) -> Result<ReadPlan, TrainError> {
        Ok(ReadPlan {
            file: 0,
            reads: Reads::Known {
                extents: Extents::One(Extent {
                    offset: 0,
                    bytes: 1000,
                }),
                keep_open: false,
                landed: Landed {
                    samples: 1,
                    ..Landed::default()
                },
            },
            framing: None,
        })
    }
}

/// An order that is a fault of ours from epoch `panics_from` on.
struct Epochs {
    panics_from: u32,
}

impl Order for Epochs {
    fn epoch(&self, epoch: u32) -> EpochOrder {
        assert!(epoch < self.panics_from, "an epoch that should not be");
        EpochOrder {
            source: Arc::new(Nothing([DataFile {
                path: "nothing".into(),
                bytes: 1000,
            }])),
            shares: vec![
                Share {
                    batches: STEPS,
                    ..Share::default()
                };
                2
            ],
        }
    }
}

const SOUND: Epochs = Epochs {
    panics_from: u32::MAX,
};

fn loader() -> LoaderSpec {
    LoaderSpec::Workers(WorkersConfig {
        read_threads: 2,
        prefetch_size: 2,
        batch_size: 2,
        leftover: Leftover::Finish,
        group_window: 1,
    })
}

fn rules() -> PhaseRules {
    PhaseRules {
        steps: STEPS,
        barrier: true,
        fetch_after_last: true,
        exclude_start_steps: 1,
        exclude_end_steps: 0,
        checkpoint_steps: None,
        compute: Arc::new(|_| Pace::Constant(500_000)),
        preprocess: Arc::new(|_| Pace::Constant(0)),
    }
}

/// Three epochs of two accelerators.
fn spec() -> RunSpec {
    RunSpec {
        accelerators: 2,
        epochs: 3,
        loader: loader(),
        training: rules(),
        evaluation: None,
        checkpoint: None,
        prewarm: false,
        cold: false,
        keep_times: false,
        crew: CrewSpec {
            path: PathKind::Null,
            engine: EngineKind::Psync,
            accelerator: Arc::new(HostStandIn),
            memory: MemoryKind::Host,
            concurrent_reads: 4,
            streams: 0,
            threads: Some(2),
        },
        data_folder: None,
    }
}

fn evaluated(preprocess: u64) -> RunSpec {
    let slow = PhaseRules {
        preprocess: Arc::new(move |_| Pace::Constant(preprocess)),
        ..rules()
    };
    RunSpec {
        evaluation: Some(EvaluationRules {
            loader: loader(),
            phase: PhaseRules {
                barrier: false,
                ..slow.clone()
            },
            after_epoch: 1,
            epochs_between: 1,
        }),
        training: slow,
        ..spec()
    }
}

fn told(
    spec: &RunSpec,
    order: &Epochs,
    after: &dyn Fn(&PhaseMeasured),
    stop: &StopToken,
) -> RunMeasured {
    run(spec, order, Some(order), &Silent, after, stop).unwrap()
}

fn kinds(run: &RunMeasured) -> Vec<PhaseKind> {
    run.phases.iter().map(|phase| phase.kind).collect()
}

#[test]
fn a_panic_between_epochs_keeps_what_was_measured() {
    let run = told(
        &spec(),
        &Epochs { panics_from: 3 },
        &|_| {},
        &StopToken::new(),
    );
    let Ending::Failed { cause, message, .. } = &run.ending else {
        panic!("{:?}", run.ending);
    };
    assert_eq!(*cause, FailureCause::Internal);
    assert!(message.contains("an epoch that should not be"), "{message}");
    assert_eq!(run.phases.len(), 2);
    assert!(run.phases.iter().all(|phase| phase.blocks[0][0].complete));
}

/// Samples beyond the steps of an epoch, which cannot be read once the second epoch is prepared.
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
            // The failure comes before the epoch begins, or in it: nothing of it is whole.
            thread::sleep(Duration::from_millis(50));
        }
        EpochOrder {
            source: Arc::new(Leftovers {
                samples: Nothing([DataFile {
                    path: "nothing".into(),
                    bytes: 1000,
                }]),
                broken: Arc::clone(&self.0),
            }),
            ..SOUND.epoch(epoch)
        }
    }
}

#[test]
fn a_failure_between_epochs_does_not_report_the_last_one_twice() {
    let mut spec = spec();
    (spec.training.steps, spec.training.fetch_after_last) = (2, false);
    // Every worker may be held up without holding up the others.
    spec.crew.threads = Some(4);
    let order = FailingBetween(Arc::default());
    let run = run(&spec, &order, None, &Silent, &|_| {}, &StopToken::new()).unwrap();
    assert!(
        matches!(
            run.ending,
            Ending::Failed {
                cause: FailureCause::Dataset,
                ..
            }
        ),
        "{:?}",
        run.ending
    );
    assert!(run.phases[0].blocks[0][0].complete);
    for phase in &run.phases[1..] {
        assert!(!phase.blocks[0][0].complete, "{:?}", phase.blocks);
    }
}

#[test]
fn a_checkpoint_that_fails_ends_the_phase_at_its_step() {
    let folder = tempfile::tempdir().unwrap();
    // A folder lies where the second checkpoint is to be written.
    std::fs::create_dir(folder.path().join("model-1-4-0.pt")).unwrap();
    let spec = RunSpec {
        checkpoint: Some(CheckpointRules {
            folder: folder.path().into(),
            bytes: 10_000,
            after_epoch: None,
            epochs_between: 1,
        }),
        training: PhaseRules {
            steps: 6,
            checkpoint_steps: Some(2),
            ..rules()
        },
        ..spec()
    };
    let run = told(&spec, &SOUND, &|_| {}, &StopToken::new());
    assert!(
        matches!(
            run.ending,
            Ending::Failed {
                cause: FailureCause::Checkpoint,
                ..
            }
        ),
        "{:?}",
        run.ending
    );
    assert_eq!((run.phases.len(), run.checkpoints.len()), (1, 1));
    for blocks in &run.phases[0].blocks {
        let steps: Vec<u64> = blocks.iter().map(|block| block.steps).collect();
        assert_eq!(steps, [2, 2], "no step after the failure");
        assert!(blocks.iter().all(|block| block.complete));
    }
}

#[test]
fn evaluation_waits_for_samples_that_are_still_preprocessed() {
    let run = told(&evaluated(3_000_000), &SOUND, &|_| {}, &StopToken::new());
    assert!(matches!(run.ending, Ending::Complete), "{:?}", run.ending);
    let (train, eval) = (PhaseKind::Training, PhaseKind::Evaluation);
    assert_eq!(kinds(&run), [train, eval, train, eval, train, eval]);
    for phase in &run.phases {
        assert!(
            phase
                .blocks
                .iter()
                .flatten()
                .all(|block| block.steps == STEPS)
        );
    }
}

#[test]
fn a_stop_between_training_and_evaluation_begins_nothing_more() {
    let stop = StopToken::new();
    let pull = |_: &PhaseMeasured| stop.stop();
    let run = told(&evaluated(3_000_000), &SOUND, &pull, &stop);
    assert!(matches!(run.ending, Ending::Stopped), "{:?}", run.ending);
    assert_eq!(kinds(&run), [PhaseKind::Training]);
}
