//! A trial of a serving engine: prefixes are written beforehand, then prompts load them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stormlp_core::event::{Event, Unit};
use stormlp_core::stop::{Ends, StopToken};
use stormlp_core::units::counted;
use stormlp_transfer::thread_group::Watch;

use super::chunk_files::WriteQueue;
use super::chunk_files::{First, ServingState};
use super::error::KvcacheError;
use super::loader::{Engine, Loader};
use super::requests::Next;
use super::tally::Tally;
use super::together::Measured;
use super::trace::Replay;
use super::trial::{Ran, Stage, TrialId, TrialOutcome};
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
    fn next(&mut self, now_ns: u64) -> Result<Next<Prompt>, KvcacheError> {
        match self {
            Self::Drawn { prompts, next, sent } => {
                let draw = || prompts.lock().unwrap_or_else(PoisonError::into_inner).draw();
                let prompt = next.take().unwrap_or_else(draw);
                let sent_ns = prompt.sent_ns.unwrap_or(now_ns);
                if sent_ns > now_ns {
                    *next = Some(prompt);
                    return Ok(Next::At(sent_ns));
                }
                *sent += 1;
                Ok(Next::Take(prompt, sent_ns))
            }
            Self::Trace(replay) => Ok(match replay.next(now_ns)? {
                Next::Take(Traced::Prompt { blocks, tokens }, sent_ns) => {
                    let prompt = Prompt { chunks: blocks, tokens, sent_ns: Some(sent_ns) };
                    Next::Take(prompt, sent_ns)
                }
                Next::At(due_ns) => Next::At(due_ns),
                // The format of a trace does not change.
                Next::Take(..) | Next::Finished => Next::Finished,
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
        let of_trial;
        let state = match self.serving {
            Some(state) => state,
            None => {
                let place = (self.storage, self.folder, self.noise);
                of_trial = ServingState::new(place, (self.plan, pass, plan));
                &of_trial
            }
        };
        let (files, first) = (&state.files, state.first());
        let source = Mutex::new(self.prompts(pass, &state.prompts)?);
        let next = |now_ns| source.lock().unwrap_or_else(PoisonError::into_inner).next(now_ns);
        let tally = Mutex::new(Tally::of_prompts(plan, self.plan.trace.is_some()));
        let (queue, failed) = (WriteQueue::new(plan.write_queue), StopToken::new());
        let engine = Engine {
            stage: self,
            files,
            queue: &queue,
            first: &first,
            prompts: &state.prompts,
            loading: &AtomicU32::new(plan.loaders),
            next: &next,
            ends: Ends { stop: self.stop, failed: &failed },
            tally: &tally,
        };
        let ran = self.measure(
            (id, self.plan.transport.threads),
            &failed,
            |watch| self.watch_first(watch, &first, plan.chunk_bytes),
            |index, driver, start| {
                let mut loader = Loader::new(driver, &engine);
                loader.prepare()?;
                let start = start.wait();
                Ok(match index < plan.loaders as usize {
                    true => loader.load_all(start),
                    false => loader.write_all(start),
                })
            },
        );
        let mut tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let source = source.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stays = self.serving.is_some() || (ran.is_ok() && id.keeps);
        let removed = if stays { Ok(()) } else { files.clear() };
        let Ran { started_at_seconds, watched, evidence, failure } = ran?;
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
