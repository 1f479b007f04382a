//! The chunks of a serving engine and the prompts that begin with them: of one trial, or of several
//! that go on where the one before has ended.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use stormlp_transfer::storage::Storage;

use super::shelf::Shelf;
use crate::plan::{ChunkId, KvcachePlan, Noise, Pass, Prompts, ServingPlan};

/// See the [module's description](self).
pub(super) struct Kept<'a> {
    pub(super) shelf: Shelf<'a>,
    pub(super) prompts: Mutex<Prompts>,
    /// Whether prompts begin with prefixes that are there beforehand; those of a trace do not.
    has_first: bool,
}

impl<'a> Kept<'a> {
    /// Nothing on storage yet, of what a `plan` does in one of its passes.
    pub(super) fn new(
        (storage, folder, noise): (&'a dyn Storage, &'a Path, &'a Noise),
        (plan, pass, serving): (&KvcachePlan, &'a Pass, &'a ServingPlan),
    ) -> Self {
        let is_direct = plan.transport.path.wants_direct();
        let shelf = Shelf::new(
            (storage, folder),
            (serving, is_direct),
            (&pass.model, noise, plan.seed.into()),
        );
        let prompts = Mutex::new(Prompts::new(serving, plan.seed));
        Self { shelf, prompts, has_first: serving.prefixes > 0 }
    }

    /// The chunks that are there when a trial begins: of the prefixes that prompts begin with by now, as
    /// far as there is room for them. Only those are written that no earlier trial has left.
    pub(super) fn first(&self) -> First {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        prompts.begin_anew();
        let mut all = if self.has_first { prompts.first_chunks() } else { Vec::new() };
        all.truncate(usize::try_from(self.shelf.plan.most_chunks).unwrap_or(usize::MAX));
        First {
            sample: all.first().copied(),
            missing: self.shelf.missing(&all),
            taken: AtomicUsize::new(0),
        }
    }
}

/// What is made sure of before a trial.
pub(super) struct First {
    /// A chunk to read, which shows the route.
    pub(super) sample: Option<ChunkId>,
    /// Chunks to write.
    pub(super) missing: Vec<ChunkId>,
    /// How many of these threads have taken.
    pub(super) taken: AtomicUsize,
}
