//! The chunks of a serving engine and the prompts that begin with them: of one trial, or of several
//! that go on where the one before has ended.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use stormlp_transfer::storage::Storage;

use super::shelf::Shelf;
use crate::plan::{ChunkId, KvcachePlan, Noise, Pass, Prompts, ServingPlan};

/// See the [module's description](self).
pub(super) struct Kept<'a> {
    pub(super) shelf: Shelf<'a>,
    pub(super) prompts: Mutex<Prompts>,
    /// The chunks of the first prefixes, until a trial has taken them to write them.
    first: Vec<ChunkId>,
    is_taken: AtomicBool,
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
        let prompts = Prompts::new(serving, plan.seed);
        let first = if serving.prefixes > 0 { prompts.first_chunks() } else { Vec::new() };
        Self { shelf, prompts: Mutex::new(prompts), first, is_taken: AtomicBool::new(false) }
    }

    /// The chunks to write before a trial: none if an earlier one has.
    pub(super) fn first(&self) -> &[ChunkId] {
        match self.is_taken.swap(true, Ordering::Relaxed) {
            true => &[],
            false => &self.first,
        }
    }
}
