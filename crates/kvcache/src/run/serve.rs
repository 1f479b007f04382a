//! A trial of a serving engine: prefixes are written beforehand, then prompts load them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stormlp_core::event::{Event, Unit};
use stormlp_core::stop::{Ends, StopToken};
use stormlp_core::units::counted;
use stormlp_transfer::crew::{self, Watch};
use stormlp_transfer::{AcceleratorSet, Driver, DriverSet};

use super::error::KvcacheError;
use super::kept::{First, Kept};
use super::loader::{Engine, Loader, NextPrompt};
use super::shelf::WriteQueue;
use super::tally::Tally;
use super::together::Measured;
use super::trace::{NextEntry, Replay};
use super::trial::{Stage, TrialId, TrialOutcome};
use super::worker::WorkerResult;
use crate::plan::{Pass, Prompt, Prompts, ServingPlan, Traced};

/// How often the writing of the first prefixes is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Where prompts come from.
pub(super) enum PromptSource<'a> {
    Drawn { prompts: &'a Mutex<Prompts>, next: Option<Prompt>, sent: u64 },
    Trace(Box<Replay<'a>>),
}

impl PromptSource<'_> {
    /// Enters how many were begun.
    fn credit(self, tally: &mut Tally) {
        match self {
            Self::Drawn { sent, .. } => tally.prompts().begun = sent,
            Self::Trace(replay) => tally.replayed = tally.replayed.map(|done| replay.counted(done)),
        }
    }

    /// The next prompt, if it is sent by `now_ns`.
    fn next(&mut self, now_ns: u64) -> Result<NextPrompt, KvcacheError> {
        match self {
            Self::Drawn { prompts, next, sent } => {
                let draw = || prompts.lock().unwrap_or_else(PoisonError::into_inner).draw();
                let prompt = next.take().unwrap_or_else(draw);
                let sent_ns = prompt.sent_ns.unwrap_or(now_ns);
                if sent_ns > now_ns {
                    *next = Some(prompt);
                    return Ok(NextPrompt::At(sent_ns));
                }
                *sent += 1;
                Ok(NextPrompt::Serve(prompt, sent_ns))
            }
            Self::Trace(replay) => Ok(match replay.next_entry(now_ns)? {
                NextEntry::Due(Traced::Prompt { blocks, tokens }, sent_ns) => {
                    let prompt = Prompt { chunks: blocks, tokens, sent_ns: Some(sent_ns) };
                    NextPrompt::Serve(prompt, sent_ns)
                }
                NextEntry::At(due_ns) => NextPrompt::At(due_ns),
                // The format of a trace does not change.
                NextEntry::Due(..) | NextEntry::End => NextPrompt::Finished,
            }),
        }
    }
}

impl Stage<'_> {
    /// Runs a trial from an empty folder, or on what earlier ones have kept there.
    ///
    /// # Errors
    /// If it could not start, or its chunks cannot be removed.
    pub(super) fn serve(
        &self,
        id: TrialId,
        plan: &ServingPlan,
    ) -> Result<TrialOutcome, KvcacheError> {
        let pass = &self.plan.passes[id.pass];
        let transport = &self.plan.transport;
        let window = Duration::from_secs_f64(self.plan.duration_seconds);
        let of_trial;
        let kept = match self.kept {
            Some(kept) => kept,
            None => {
                let place = (self.storage, self.folder, self.noise);
                of_trial = Kept::new(place, (self.plan, pass, plan));
                &of_trial
            }
        };
        let (shelf, first) = (&kept.shelf, kept.first());
        let source = Mutex::new(self.prompts(pass, &kept.prompts)?);
        let next = |now_ns| source.lock().unwrap_or_else(PoisonError::into_inner).next(now_ns);
        let tally = Mutex::new(Tally::of_prompts(plan, self.plan.trace.is_some()));
        let (queue, failed) = (WriteQueue::new(plan.write_queue), StopToken::new());
        let engine = Engine {
            shelf,
            queue: &queue,
            first: &first,
            prompts: &kept.prompts,
            loading: &AtomicU32::new(plan.loaders),
            next: &next,
            piece_bytes: transport.chunk_bytes,
            window,
            verifies: self.plan.request.verify,
            ends: Ends { stop: self.stop, failed: &failed },
            tally: &tally,
        };
        let accelerators = AcceleratorSet::open(transport)?;
        let buffers = self.buffers(transport.threads, &accelerators)?;
        let drivers = DriverSet::counting_loads(transport.threads);
        let started_at_seconds = self.started.elapsed().as_secs_f64();
        let ran = crew::run(
            "loader",
            buffers.into_iter().enumerate(),
            &failed,
            |(index, buffers), start| {
                let prepared = self.path(buffers, &accelerators, index);
                let path = prepared.inspect_err(|_| failed.stop())?;
                let mut loader = Loader::new(Driver::new(path, &drivers, index), &engine);
                loader.prepare()?;
                let start = start.wait();
                Ok::<WorkerResult, KvcacheError>(match index < plan.loaders as usize {
                    true => loader.load_all(start),
                    false => loader.write_all(start),
                })
            },
            |watch| {
                self.watch_first(watch, &first, plan.chunk_bytes);
                self.watch(watch, &drivers, (id, window), &failed)
            },
        );
        let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let source = source.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stays = self.kept.is_some() || (ran.is_ok() && id.keeps);
        let removed = if stays { Ok(()) } else { shelf.clear() };
        let (loaders, watched) = ran?;
        let mut watched = watched?;
        watched.series.load = drivers.load();
        let (evidence, failure) = self.gather(loaders);
        tally.prompts().waiting += queue.len();
        source.credit(&mut tally);
        let failure = failure.or(removed.err().map(KvcacheError::from));
        let measured = Measured { seed: self.plan.seed, tally, watched, evidence };
        Ok(TrialOutcome { started_at_seconds, measured, failure })
    }

    /// The prompts of a trace, or those that are drawn.
    fn prompts<'p>(
        &'p self,
        pass: &Pass,
        prompts: &'p Mutex<Prompts>,
    ) -> Result<PromptSource<'p>, KvcacheError> {
        let drawn = PromptSource::Drawn { prompts, next: None, sent: 0 };
        Ok(self.replay(pass)?.map_or(drawn, |replay| PromptSource::Trace(Box::new(replay))))
    }

    /// Reports progress until the first prefixes are written.
    fn watch_first(&self, watch: &Watch<'_>, first: &First, chunk_bytes: u64) {
        let chunks = first.missing.len() as u64;
        if chunks == 0 {
            return;
        }
        let label = format!("writing {} of the first prefixes", counted(chunks, "chunk"));
        let total = Some(chunks * chunk_bytes);
        self.observer.event(&Event::PhaseStarted { label, total, unit: Unit::Bytes });
        while !watch.gather_for(TICK) {
            let taken = first.taken.load(Ordering::Relaxed) as u64;
            self.observer.event(&Event::Progress { done: taken.min(chunks) * chunk_bytes });
        }
        self.observer.event(&Event::PhaseFinished);
    }
}
