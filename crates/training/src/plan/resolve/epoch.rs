//! Steps per epoch, and whether they suffice to compute AU.

use super::Resolver;
use crate::plan::client::{Client, unknown_cost};
use crate::plan::steps::{StepInputs, steps};
use stormlp_core::profile::Profile;
use stormlp_core::units::counted;
use stormlp_dataset::section::DataFormat;

impl Resolver<'_> {
    pub(super) fn steps(&mut self, split: &StepInputs) -> u64 {
        let most = steps(split);
        let samples = split.files.saturating_mul(split.samples_per_file);
        let step = u64::from(split.batch_size) * u64::from(split.accelerators);
        if most == 0 {
            self.problems.plan(
                format!(
                    "{} in {}: less than one step of {} with batches of {}, {}",
                    counted(samples, "sample"),
                    counted(split.files, "file"),
                    counted(u64::from(split.accelerators), "accelerator"),
                    split.batch_size,
                    counted(step, "sample")
                ),
                "use more files (--files) or fewer accelerators (--accelerators)",
            );
            return 1;
        }
        let wanted = self.wanted_steps();
        if let Some(wanted) = wanted
            && wanted > most
        {
            self.problems.plan(
                format!(
                    "{} per epoch requested, but the dataset has {most}",
                    counted(wanted, "step")
                ),
                format!("set --steps {most}, or use more files"),
            );
        }
        let steps = wanted.unwrap_or(most).clamp(1, most);
        self.check_window(split.profile, steps);
        steps
    }

    /// Requested steps per epoch; if not set, the dataset decides.
    fn wanted_steps(&self) -> Option<u64> {
        let of_workload = self.workload.train.total_training_steps;
        self.request.length.steps.or(of_workload)
    }

    /// AU excludes steps at both ends of a block, and v2.0's throughput one more.
    fn check_window(&mut self, profile: Profile, steps: u64) {
        let metric = &self.workload.metric;
        let needed = metric.steps_needed(profile);
        let excluded = format!(
            "AU of edition {}, which excludes {}, needs {needed}",
            profile.edition(),
            metric.excluded_steps()
        );
        if steps < needed {
            self.problems.plan(
                format!("an epoch has {}, {excluded}", counted(steps, "step")),
                "use more --files or a higher --steps, or fewer accelerators",
            );
        } else if let Some(between) = self.steps_between_checkpoints()
            && between < needed
        {
            self.problems.plan(
                format!(
                    "a checkpoint after every {} cuts epochs into blocks of so many, {excluded}",
                    counted(between, "step")
                ),
                format!("set --params checkpoint.steps_between_checkpoints={needed} or more"),
            );
        }
    }

    /// `--client-overhead dlio` needs a cost that is known for `format`.
    pub(super) fn check_client(&mut self, format: DataFormat) {
        let why = unknown_cost(format).filter(|_| self.request.client_overhead == Client::Dlio);
        if let Some(why) = why {
            self.problems.plan(format!("--client-overhead dlio: {why}"), "leave it out");
        }
    }

    pub(super) fn steps_between_checkpoints(&self) -> Option<u64> {
        let between = self.workload.checkpoint.steps_between_checkpoints;
        between.filter(|steps| self.writes_checkpoints() && *steps > 0)
    }

    /// Null storage has no writes.
    pub(super) fn writes_checkpoints(&self) -> bool {
        self.workload.workflow.checkpoint && !self.request.is_null()
    }
}
