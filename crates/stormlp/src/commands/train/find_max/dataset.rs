//! The dataset of a search: it grows where it is stormlp's own, and else is what may end the search.

use std::time::Instant;

use stormlp_core::problem::{ProblemKind, Problems};
use stormlp_core::shell::shell_word;
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_training::plan::find_max::Limit;
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::resolve::Resolved;
use stormlp_training::plan::train_plan::TrainPlan;

use super::super::{data, is_null, lock};
use super::Hunt;
use crate::exit::Failure;

/// Epochs with fewer steps say little: a starter set is made larger before.
const FEW_STEPS: u64 = 24;

impl Hunt<'_> {
    /// The plan of `count` accelerators, for which the dataset grows where it is too small and the
    /// tool's own. `None` when there is no such plan: the search has a limit then.
    pub(super) fn plan(&mut self, count: u32) -> Result<Option<TrainPlan>, Failure> {
        let mut resolved = self.resolve(count);
        let short = match &resolved {
            Ok(resolved) => resolved.plan.steps_per_epoch < FEW_STEPS,
            Err(problems) => problems.kind() == ProblemKind::Plan,
        };
        if short && !is_null(&self.request) && self.grow(count)? {
            resolved = self.resolve(count);
        }
        match resolved {
            Ok(Resolved { plan, warnings }) => {
                for warning in warnings {
                    if !self.warnings.contains(&warning) {
                        self.warnings.push(warning);
                    }
                }
                Ok(Some(plan))
            }
            // Nothing at all can be run.
            Err(problems) if count <= 1 => Err(problems.into()),
            Err(problems) => {
                self.limit(count, &problems);
                Ok(None)
            }
        }
    }

    /// Makes a larger starter set for `count` accelerators; whether there is one now.
    fn grow(&mut self, count: u32) -> Result<bool, Failure> {
        let request = TrainRequest { accelerators: Some(count), ..self.request.clone() };
        let (mut workload, session) = (self.as_asked.clone(), self.session);
        // For twice as many, so that the next counts do not make it anew each. The files that the
        // workload has by its configuration are no bound: they are those of few accelerators.
        let files = &mut workload.dataset.num_files_train;
        *files = self.files_for(count.saturating_mul(2), self.enough_steps()).max(*files);
        let larger = data::larger(&workload, &request, self.args, self.name, session)?;
        let Some(larger) = larger else {
            return Ok(false);
        };
        let Some(dataset) = &larger.to_make else {
            return Ok(false);
        };
        let begun = Instant::now();
        self.lock = None;
        self.inventory = dataset.make(&larger.inventory, session)?;
        self.workload.dataset = larger.spec;
        if let Some(plan) = self.plan_as_it_is(1)? {
            self.lock = lock(&plan)?;
        }
        self.begun += begun.elapsed();
        Ok(true)
    }

    /// Books that there is no plan for `count`, and looks for the largest count that has one.
    fn limit(&mut self, count: u32, problems: &Problems) {
        let (mut has, mut has_not) = (self.search.bracket().passing.max(1), count);
        while has_not - has > 1 {
            let middle = has + (has_not - has) / 2;
            match self.resolve(middle) {
                Ok(_) => has = middle,
                Err(_) => has_not = middle,
            }
        }
        self.search.limit(has);
        let problems = self.resolve(has_not).err().unwrap_or_else(|| problems.clone());
        let (limit, help) = match problems.kind() {
            ProblemKind::Plan => (Limit::Dataset, self.what_it_needs(has_not)),
            ProblemKind::Capacity => (Limit::Memory, String::new()),
            ProblemKind::Machine if problems.to_string().contains("memory") => {
                (Limit::Memory, "; raise --memory-limit where there is more".to_string())
            }
            ProblemKind::Machine => (Limit::Client, String::new()),
        };
        let said = format!(
            "no more than {} can be tried: {problems}{help}",
            counted(u64::from(has), "accelerator")
        );
        self.say(&said);
        self.find.limited_by = Some(limit);
        self.find.limit = Some(said);
    }

    /// Says that the answer rests on what was read ahead, or was ended by it, and what would not.
    pub(super) fn tell_of_read_ahead(&mut self) {
        let (Some(count), None) = (self.find.least_on_read_ahead(), &self.find.limit) else {
            return;
        };
        if self.find.limited_by != Some(Limit::Dataset) && count > self.find.largest_accelerators {
            return;
        }
        let said = format!(
            "the epoch of {} is too short to distinguish storage from prefetched samples{}",
            counted(u64::from(count), "accelerator"),
            self.what_it_needs(count)
        );
        self.say(format_args!("warning: {said}"));
        self.warnings.push(Warning::new(
            WarningKind::TooShort,
            said.clone(),
            "use a larger dataset",
        ));
        if self.find.limited_by == Some(Limit::Nothing) {
            self.find.limited_by = Some(Limit::Dataset);
        }
        self.find.limit = Some(said);
    }

    /// The command that makes a dataset for `count` accelerators.
    fn what_it_needs(&self, count: u32) -> String {
        let folder = self.request.data_dir.as_ref().unwrap_or(&self.inventory.folder);
        let ahead = self.resolve(1).map_or(0, |resolved| resolved.plan.batches_ahead());
        // Then what is read ahead is a tenth, which AU is no longer made of.
        let steps = self.enough_steps().max(10 * ahead);
        format!(
            "; {} {steps} steps with `stormlp datagen {} --data-dir {} --files {} --overwrite{}`, which \
             replaces the dataset that is there",
            match count {
                1 => "1 accelerator has".to_string(),
                count => format!("{count} accelerators have"),
            },
            shell_word(self.name),
            shell_word(&folder.to_string()),
            self.files_for(count, steps),
            self.datagen_options
        )
    }

    /// Steps of an epoch that tell enough.
    fn enough_steps(&self) -> u64 {
        FEW_STEPS.max(self.request.steps.unwrap_or(0))
    }

    /// Files with which `count` accelerators have so many steps.
    fn files_for(&self, count: u32, steps: u64) -> u64 {
        let spec = &self.workload.dataset;
        let batch = self.request.batch_size.unwrap_or(self.workload.reader.batch_size);
        let step_samples = u64::from(batch) * u64::from(count);
        let samples = step_samples.saturating_mul(steps);
        samples.div_ceil(spec.num_samples_per_file.max(1))
    }
}
