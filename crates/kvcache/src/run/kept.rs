//! The chunks of a serving engine and the prompts that begin with them: of one trial, or of several
//! that go on where the one before has ended.

use std::path::Path;
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

    /// The chunks that are there when a trial begins: of the prefixes that prompts begin with by now.
    /// Those that an earlier trial has left are not written again.
    pub(super) fn first(&self) -> Vec<ChunkId> {
        let prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.has_first { prompts.first_chunks() } else { Vec::new() }
    }
}
