//! What there is to see of a machine: how far its phase is, and what it measured.

use crate::plan::probe::StepMark;

use super::{BlockTally, Machine, Nanos, StepHistograms, StepTimes, Waits};

impl Machine {
    /// Marks the end of each step from now on.
    pub fn mark_steps(&mut self) {
        self.marks.get_or_insert_default();
    }

    /// The steps of this phase that are over, those before `from` left out.
    pub fn marks(&self, from: usize) -> &[StepMark] {
        let marks = self.marks.as_deref().unwrap_or_default();
        marks.get(from..).unwrap_or_default()
    }

    /// Steps that the slowest accelerator has computed in this phase.
    pub fn steps_done(&self) -> u64 {
        self.accelerators.iter().map(|a| a.step).min().unwrap_or(0)
    }

    /// Where the waiting of all accelerators went until now, over all phases.
    pub fn waits(&mut self, now: Nanos) -> Waits {
        let mut sum = Waits::default();
        for accelerator in &mut self.accelerators {
            accelerator.book(now);
            sum += accelerator.waits;
        }
        sum
    }

    /// The blocks of the phase, by accelerator.
    pub fn blocks(&self) -> Vec<Vec<BlockTally>> {
        self.accelerators.iter().map(|a| a.blocks.clone()).collect()
    }

    /// The times of the phase's steps, by accelerator; empty unless they are kept.
    pub fn step_times(&self) -> Vec<Vec<StepTimes>> {
        let times = self.accelerators.iter().filter_map(|a| a.times.clone());
        times.collect()
    }

    /// Samples that all accelerators had when AU's window began for each.
    pub fn preread_samples(&self) -> u64 {
        self.accelerators.iter().map(|a| a.preread).sum()
    }

    /// How long each accelerator kept the others waiting at barriers of the phase.
    pub fn blamed_ns(&self) -> Vec<u64> {
        self.accelerators.iter().map(|a| a.blamed_ns).collect()
    }

    /// The phase's histograms.
    pub fn histograms(&self) -> &StepHistograms {
        &self.histograms
    }
}
