//! A whole run: epochs, what lies between them, and what is written down meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stormlp_model::event::{Event, Observer, Unit};
use stormlp_model::location::Location;
use stormlp_model::path::PathKind;
use stormlp_model::report::Ending;
use stormlp_model::stop::StopToken;
use stormlp_transfer::crew::guarded;
use stormlp_transfer::telemetry::{BlockDevices, CpuTimes};

use super::attribution::{self, Reading};
use super::cache::{self, Cached};
use super::checkpoint::Writer;
use super::crew::Crew;
use super::error::TrainError;
use super::machine::{Halt, Loader, Pace, PhaseSpec};
use super::measured::{CheckpointMeasured, PhaseKind, PhaseMeasured, RunMeasured, Waiting};
use super::spec::{EpochOrder, EvaluationRules, Order, PhaseRules, RunSpec};

/// How often the counters are looked at and progress is told.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a loader that is to be put away is looked at.
const DRAIN_POLL: Duration = Duration::from_millis(1);

/// What came of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Went {
    Through,
    Stopped,
    Failed,
}

/// Runs everything `spec` says over `order` and `evaluation`, telling `observer` as it
/// goes and `after_phase` what each phase came to.
/// A failure or a pulled `stop` ends the run with what was measured until then.
///
/// # Errors
/// When the run cannot begin: no threads, no buffers, a path this machine does not have.
pub fn run(
    spec: &RunSpec,
    order: &dyn Order,
    evaluation: Option<&dyn Order>,
    observer: &dyn Observer,
    after_phase: &dyn Fn(&PhaseMeasured),
    stop: &StopToken,
) -> Result<RunMeasured, TrainError> {
    let writer = spec.checkpoint.as_ref().map(Writer::new).transpose()?;
    let loaders = vec![spec.loader.build(); spec.accelerators];
    let crew = Crew::start(&spec.crew, loaders, spec.keep_times)?;
    let shared = Arc::clone(&crew.shared);
    let watched: Option<&Path> = spec.data_folder.as_ref().map(Location::folder);
    let mut runner = Runner {
        spec,
        observer,
        after_phase,
        stop,
        devices: BlockDevices::behind(watched),
        phases: Vec::new(),
        checkpoints: Vec::new(),
        writer,
        crew,
    };
    let cpu = CpuTimes::of_process();
    let went = guarded("main", || runner.epochs(order, evaluation));
    let went = went.map_err(TrainError::from).flatten();
    let elapsed_seconds = shared.now() as f64 / 1e9;
    let (layout, backing) = (runner.crew.layout, runner.crew.backing);
    let tally = runner.crew.stop();
    let ending = match (went, shared.take_failure()) {
        (_, Some(error)) | (Err(error), None) => Ending::Failed {
            cause: error.cause(),
            message: error.to_string(),
            remedy: String::new(),
        },
        (Ok(Went::Stopped), None) => Ending::Stopped,
        (Ok(_), None) => Ending::Complete,
    };
    Ok(RunMeasured {
        phases: runner.phases,
        checkpoints: runner.checkpoints,
        ending,
        evidence: tally.evidence,
        reads: tally.reads,
        bytes_read: tally.bytes,
        read_latency: tally.latency,
        layout,
        backing,
        devices: runner.devices.names(),
        cpu: CpuTimes::of_process().since(cpu),
        elapsed_seconds,
    })
}

struct Runner<'a> {
    spec: &'a RunSpec,
    observer: &'a dyn Observer,
    after_phase: &'a dyn Fn(&PhaseMeasured),
    stop: &'a StopToken,
    devices: BlockDevices,
    phases: Vec<PhaseMeasured>,
    checkpoints: Vec<CheckpointMeasured>,
    writer: Option<Writer>,
    crew: Crew,
}

impl Runner<'_> {
    fn epochs(
        &mut self,
        order: &dyn Order,
        evaluation: Option<&dyn Order>,
    ) -> Result<Went, TrainError> {
        let spec = self.spec;
        let mut next_checkpoint = spec.checkpoint.as_ref().and_then(|rules| rules.after_epoch);
        let mut next_evaluation = spec.evaluation.as_ref().map(|rules| rules.after_epoch);
        for epoch in 1..=spec.epochs {
            let went = self.training(epoch, order)?;
            if went != Went::Through {
                return Ok(went);
            }
            if next_checkpoint == Some(epoch)
                && let Some(rules) = &spec.checkpoint
            {
                let went = self.checkpoint(epoch, spec.training.steps)?;
                if went != Went::Through {
                    return Ok(went);
                }
                next_checkpoint = Some(epoch.saturating_add(rules.epochs_between.max(1)));
            }
            if next_evaluation.is_some_and(|next| epoch >= next)
                && let (Some(rules), Some(order)) = (&spec.evaluation, evaluation)
            {
                let pause = rules.epochs_between.max(1);
                next_evaluation = next_evaluation.map(|next| next.saturating_add(pause));
                let went = self.evaluation(epoch, rules, order)?;
                if went != Went::Through {
                    return Ok(went);
                }
            }
        }
        Ok(Went::Through)
    }

    /// One epoch's training, with what the profile does before it.
    fn training(&mut self, epoch: u32, order: &dyn Order) -> Result<Went, TrainError> {
        let spec = self.spec;
        if spec.prewarm {
            let went = self.prewarm(order.epoch(epoch))?;
            if went != Went::Through {
                return Ok(went);
            }
        }
        let order = order.epoch(epoch);
        let label = format!("epoch {epoch} of {}", spec.epochs);
        self.phase(epoch, PhaseKind::Training, &label, &spec.training, order)
    }

    /// One evaluation, with loaders of its own.
    fn evaluation(
        &mut self,
        epoch: u32,
        rules: &EvaluationRules,
        order: &dyn Order,
    ) -> Result<Went, TrainError> {
        let went = self.drain();
        if went != Went::Through {
            return Ok(went);
        }
        let loaders = vec![rules.loader.build(); self.spec.accelerators];
        let training = self.exchange_loaders(loaders);
        let (order, kind) = (order.epoch(epoch), PhaseKind::Evaluation);
        let label = format!("evaluation after epoch {epoch}");
        let went = self.phase(epoch, kind, &label, &rules.phase, order)?;
        if went != Went::Through {
            return Ok(went);
        }
        let went = self.drain();
        if went == Went::Through {
            self.exchange_loaders(training);
        }
        Ok(went)
    }

    /// Exchanges the loaders; only after a [`Self::drain`] that went through.
    fn exchange_loaders(&self, loaders: Vec<Loader>) -> Vec<Loader> {
        let shared = &self.crew.shared;
        shared.with(|machine, _| machine.exchange_loaders(loaders))
    }

    /// Waits until everything that the loaders have begun is over.
    fn drain(&self) -> Went {
        let shared = &self.crew.shared;
        while shared.with(|machine, _| machine.loaders_busy()) {
            if self.stop.is_stopped() {
                return self.abort();
            }
            if shared.failed() {
                return Went::Failed;
            }
            thread::sleep(DRAIN_POLL);
        }
        self.verdict()
    }

    /// Reads one batch for each accelerator and throws it away.
    fn prewarm(&mut self, order: EpochOrder) -> Result<Went, TrainError> {
        let phase = PhaseSpec {
            steps: 1,
            barrier: false,
            fetch_after_last: false,
            exclude_start_steps: 0,
            exclude_end_steps: 0,
            checkpoint_steps: None,
            compute: Pace::Constant(0),
            preprocess: Pace::Constant(0),
            shares: order.shares,
        };
        if !self.crew.shared.begin(order.source, phase) {
            return Ok(Went::Failed);
        }
        loop {
            match self.crew.shared.wait(LOOK_EVERY) {
                None if self.stop.is_stopped() => return Ok(self.abort()),
                None => {}
                Some(_) => break,
            }
        }
        // Shutting the workers down waits for what they are reading.
        Ok(self.drain())
    }

    /// One phase from its start to its end, with the checkpoints within it.
    fn phase(
        &mut self,
        epoch: u32,
        kind: PhaseKind,
        label: &str,
        rules: &PhaseRules,
        order: EpochOrder,
    ) -> Result<Went, TrainError> {
        let cached = self.prepare_cache(&order)?;
        if self.stop.is_stopped() {
            return Ok(Went::Stopped);
        }
        let phase = phase_spec(rules, epoch, &order);
        let first = self.reading();
        let first_bytes = self.crew.shared.bytes();
        // A read that was left over from the epoch before may have failed since.
        if !self.crew.shared.begin(Arc::clone(&order.source), phase) {
            return Ok(Went::Failed);
        }
        self.tell_start(label, rules.steps);
        let mut waiting = Waiting::default();
        let mut last = first;
        let mut went = Ok(Went::Through);
        loop {
            let halt = self.crew.shared.wait(LOOK_EVERY);
            let now = self.reading();
            waiting.add(&self.divide(&last, &now));
            last = now;
            match halt {
                Some(Halt::PhaseOver) => break,
                Some(Halt::Checkpoint) => {
                    let step = self.crew.shared.with(|machine, _| machine.steps_done());
                    went = self.checkpoint(epoch, step);
                    if matches!(went, Ok(Went::Through)) {
                        self.crew.shared.with(|machine, now| machine.resume(now));
                    } else {
                        // The phase ends here, but what it measured so far is kept.
                        self.abort();
                    }
                }
                None if self.stop.is_stopped() => went = Ok(self.abort()),
                None => self.tell_progress(),
            }
        }
        self.observer.event(&Event::PhaseFinished);
        // What null storage was asked for, nobody read.
        let bytes_read = match self.spec.crew.path {
            PathKind::Null => 0,
            _ => self.crew.shared.bytes() - first_bytes,
        };
        let measured = self.measured(epoch, kind, &first, &last, waiting, bytes_read, cached);
        (self.after_phase)(&measured);
        self.phases.push(measured);
        self.crew.close_streams();
        match went? {
            Went::Through => Ok(self.verdict()),
            cut_short => Ok(cut_short),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn measured(
        &self,
        epoch: u32,
        kind: PhaseKind,
        first: &Reading,
        last: &Reading,
        waiting: Waiting,
        bytes_read: u64,
        cached: Option<Cached>,
    ) -> PhaseMeasured {
        let shared = &self.crew.shared;
        let (blocks, step_times) =
            shared.with(|machine, _| (machine.blocks(), machine.step_times()));
        let (blamed, histograms, preread_samples) = shared.with(|machine, _| {
            let histograms = machine.histograms().clone();
            (machine.blamed_ns(), histograms, machine.preread_samples())
        });
        let device = match (first.device, last.device) {
            (Some(first), Some(last)) => Some(last.since(first)),
            _ => None,
        };
        PhaseMeasured {
            epoch,
            kind,
            started_seconds: first.now as f64 / 1e9,
            elapsed_seconds: (last.now - first.now) as f64 / 1e9,
            blocks,
            step_times,
            blamed_seconds: blamed.iter().map(|nanos| *nanos as f64 / 1e9).collect(),
            preread_samples,
            histograms,
            waiting,
            bytes_read,
            device,
            cpu: last.cpu.since(first.cpu),
            cached_share: cached.and_then(|cached| cached.share),
            cached_method: cached.and_then(|cached| cached.method),
        }
    }

    /// Drops the files from the page cache if the run is to be cold, and looks what is there.
    fn prepare_cache(&self, order: &EpochOrder) -> Result<Option<Cached>, TrainError> {
        if self.spec.crew.path == PathKind::Null {
            return Ok(None);
        }
        let files = order.source.files();
        if self.spec.cold {
            cache::drop_all(files)?;
        }
        cache::look(files).map(Some)
    }

    /// Writes a checkpoint, if the run has any.
    fn checkpoint(&mut self, epoch: u32, step: u64) -> Result<Went, TrainError> {
        let Some(writer) = &mut self.writer else {
            return Ok(Went::Through);
        };
        let started = self.crew.shared.now();
        let Some(bytes) = writer.write(epoch, step, self.stop)? else {
            return Ok(Went::Stopped);
        };
        self.checkpoints.push(CheckpointMeasured {
            epoch,
            step,
            bytes,
            started_seconds: started as f64 / 1e9,
            elapsed_seconds: (self.crew.shared.now() - started) as f64 / 1e9,
        });
        Ok(Went::Through)
    }

    fn reading(&self) -> Reading {
        let shared = &self.crew.shared;
        Reading {
            now: shared.now(),
            waits: shared.waits(),
            device: self.devices.counters(),
            cpu: CpuTimes::of_process(),
        }
    }

    fn divide(&self, before: &Reading, after: &Reading) -> Waiting {
        let moves_nothing = self.spec.crew.path == PathKind::Null;
        attribution::divide(before, after, self.crew.layout.threads, moves_nothing)
    }

    fn abort(&self) -> Went {
        self.crew.shared.with(|machine, now| machine.abort(now));
        Went::Stopped
    }

    fn verdict(&self) -> Went {
        if self.crew.shared.failed() {
            Went::Failed
        } else {
            Went::Through
        }
    }

    fn tell_start(&self, label: &str, steps: u64) {
        self.observer.event(&Event::PhaseStarted {
            label: label.to_string(),
            total: Some(steps),
            unit: Unit::Steps,
        });
    }

    fn tell_progress(&self) {
        let done = self.crew.shared.with(|machine, _| machine.steps_done());
        self.observer.event(&Event::Progress { done });
    }
}

fn phase_spec(rules: &PhaseRules, epoch: u32, order: &EpochOrder) -> PhaseSpec {
    PhaseSpec {
        steps: rules.steps,
        barrier: rules.barrier,
        fetch_after_last: rules.fetch_after_last,
        exclude_start_steps: rules.exclude_start_steps,
        exclude_end_steps: rules.exclude_end_steps,
        checkpoint_steps: rules.checkpoint_steps,
        compute: (rules.compute)(epoch),
        preprocess: (rules.preprocess)(epoch),
        shares: order.shares.clone(),
    }
}
