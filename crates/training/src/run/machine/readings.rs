//! Readings of a machine: the progress of its phase, and its measurements.

use crate::plan::probe::StepMark;

use super::Machine;
use super::queue::Nanos;
use super::tally::{BlockTally, StepHistograms, Waits};

impl Machine {
    /// Number of accelerators.
    pub fn accelerator_count(&self) -> usize {
        self.accelerators.len()
    }

    /// Records the end of each step from now on.
    pub fn mark_steps(&mut self) {
        self.marks.get_or_insert_default();
    }

    /// The finished steps of this phase, starting at `from`.
    pub fn marks(&self, from: usize) -> &[StepMark] {
        let marks = self.marks.as_deref().unwrap_or_default();
        marks.get(from..).unwrap_or_default()
    }

    /// Steps completed by the slowest accelerator in this phase.
    pub fn steps_done(&self) -> u64 {
        self.accelerators.iter().map(|a| a.step).min().unwrap_or(0)
    }

    /// Waiting time of all accelerators so far by cause, over all phases.
    pub fn waits(&mut self, now: Nanos) -> Waits {
        let mut sum = Waits::default();
        for accelerator in &mut self.accelerators {
            accelerator.book(now);
            sum = sum.plus(&accelerator.waits);
        }
        sum
    }

    /// The blocks of the phase, by accelerator.
    pub fn blocks(&self) -> Vec<Vec<BlockTally>> {
        self.accelerators.iter().map(|a| a.blocks.clone()).collect()
    }

    /// Fetch wait and compute of each step in seconds, by accelerator; empty unless they are kept.
    pub fn step_times(&self) -> Vec<Vec<(f32, f32)>> {
        let times = self.accelerators.iter().filter_map(|a| a.times.clone());
        times.collect()
    }

    /// Samples received by each accelerator before its AU window began, summed.
    pub fn preread_samples(&self) -> u64 {
        self.accelerators.iter().map(|a| a.preread).sum()
    }

    /// How long the rest waited for each accelerator at the barriers of this phase.
    pub fn delayed_others_ns(&self) -> Vec<Nanos> {
        self.accelerators.iter().map(|a| a.delayed_others_ns).collect()
    }

    /// The phase's histograms.
    pub fn histograms(&self) -> &StepHistograms {
        &self.histograms
    }
}
