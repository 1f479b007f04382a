//! A trial of a serving engine: prefixes are written beforehand, then prompts load them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stormlp_core::event::{Event, Unit};
use stormlp_core::units::counted;
use stormlp_transfer::thread_group::Watch;

use super::chunk_files::{First, ServingState, WriteQueue};
use super::error::KvcacheError;
use super::loader::{Engine, Loader};
use super::requests::Source;
use super::tally::Tally;
use super::trial::{Measured, Stage, TrialId};
use crate::plan::{ServingPlan, WRITE_QUEUE};

/// How often the writing of the first prefixes is looked at.
const TICK: Duration = Duration::from_millis(100);

impl Stage<'_> {
    /// Runs a trial of prompts from an empty folder, or on what earlier ones have kept there.
    ///
    /// # Errors
    /// If it could not start, or its chunks cannot be removed.
    pub(super) fn serve(
        &self,
        id: TrialId,
        plan: &ServingPlan,
    ) -> Result<(Measured, Option<KvcacheError>), KvcacheError> {
        let pass = &self.plan.passes[id.pass];
        let of_trial;
        let state = match self.serving {
            Some(state) => state,
            None => {
                of_trial = ServingState::new((self.storage, self.folder), (self.plan, pass, plan));
                &of_trial
            }
        };
        let (files, first) = (&state.files, state.first());
        let source = Mutex::new(match self.replay(pass)? {
            Some(replay) => Source::Trace(Box::new(replay)),
            None => Source::Drawn(&state.prompts, None, 0),
        });
        let next = |now_ns| source.lock().unwrap_or_else(PoisonError::into_inner).next(now_ns);
        let queue = WriteQueue::new(WRITE_QUEUE);
        let engine = Engine {
            files,
            queue: &queue,
            first: &first,
            prompts: &state.prompts,
            loading: &AtomicU32::new(plan.loaders),
            next: &next,
        };
        let ran = self.measure(
            (id, self.plan.transport.threads),
            Tally::of_prompts(plan),
            |watch| self.watch_first(watch, &first, plan.chunk_bytes),
            |index, mover, start| {
                let mut loader = Loader { mover, engine: &engine };
                loader.prepare()?;
                loader.mover.start = start.wait();
                let work = match index < plan.loaders as usize {
                    true => loader.serve_prompts(),
                    false => loader.write_waiting(),
                };
                Ok(loader.mover.finish(work))
            },
        );
        let stays = self.serving.is_some() || (ran.is_ok() && id.keeps);
        let removed = if stays { Ok(()) } else { files.clear() };
        let (mut measured, failure) = ran?;
        measured.tally.prompts().waiting += queue.len();
        self.credit(source, &mut measured);
        Ok((measured, failure.or(removed.err().map(KvcacheError::from))))
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
