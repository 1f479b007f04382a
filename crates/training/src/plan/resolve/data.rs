//! Selects the files of a run: those found, or imagined ones with null storage.

use super::Resolver;
use crate::plan::steps::{StepInputs, steps};
use crate::plan::train_plan::DataPlan;
use stormlp_core::path::PathKind;
use stormlp_core::shell::shell_word;
use stormlp_core::units::counted;
use stormlp_dataset::section::DataFormat;

impl Resolver<'_> {
    /// Resolves the dataset; `split` is complete except for the number of files.
    pub(super) fn data(&mut self, path: PathKind, split: &StepInputs) -> DataPlan {
        let spec = &self.workload.dataset;
        let samples_per_file = split.samples_per_file;
        let files = match path {
            PathKind::Null => self.imagined_files(split),
            _ => self.found_files(samples_per_file),
        };
        let sample_bytes = spec.record_length_bytes;
        let columns = &spec.parquet.columns;
        let read: u64 = columns.iter().filter(|c| c.read).map(|c| c.row_bytes()).sum();
        let parquet = spec.format == DataFormat::Parquet;
        let mut data = DataPlan {
            folder: (path != PathKind::Null).then(|| self.inventory.folder.clone()),
            format: spec.format,
            files,
            samples_per_file,
            sample_bytes,
            read_sample_bytes: if parquet && read > 0 { read as f64 } else { sample_bytes },
            bytes: (files as f64 * samples_per_file as f64 * sample_bytes) as u64,
            columns: columns.to_vec(),
            row_group_rows: if parquet { spec.parquet.row_group_size.max(1) } else { 0 },
        };
        data.take_sizes(self.inventory);
        if spec.format == DataFormat::Csv {
            // Numbers as text; every sample reads the whole file.
            data.read_sample_bytes = data.mean_file_bytes();
        }
        data
    }

    /// Number of files for a run without a dataset, from `--steps`.
    fn imagined_files(&self, split: &StepInputs) -> u64 {
        if let Some(files) = self.request.files {
            return files;
        }
        let accelerators = u64::from(split.accelerators);
        let step = accelerators * u64::from(split.batch_size);
        let samples = self.request.length.steps.unwrap_or(1).saturating_mul(step);
        // Where files are dealt, every accelerator gets whole files.
        let dealt = samples.div_ceil(split.samples_per_file).div_ceil(accelerators);
        let mut files = dealt.saturating_mul(accelerators);
        if self.request.length.steps.is_none() {
            files = files.max(self.workload.dataset.num_files_train);
        }
        // Workers of some loaders drop samples that do not fill a batch.
        let too_few =
            |files| steps(&StepInputs { files, ..*split }) < self.request.length.steps.unwrap_or(1);
        while too_few(files) && files < u64::MAX {
            files = files.saturating_mul(2);
        }
        files
    }

    fn found_files(&mut self, samples_per_file: u64) -> u64 {
        let inventory = self.inventory;
        let folder = &inventory.folder;
        let found = inventory.train.len() as u64;
        let format = self.workload.dataset.format;
        if found == 0 {
            let foreign = match inventory.foreign.first() {
                Some(name) => format!(" (but other files, such as {name})"),
                None => String::new(),
            };
            self.problems.machine(
                format!("{folder} has no {format} files in train/{foreign}"),
                format!(
                    "make them with `stormlp datagen {} --dir {folder}`",
                    shell_word(&self.request.workload)
                ),
            );
            // Returns a valid count to prevent follow-up problems.
            return self.request.files.unwrap_or(self.workload.dataset.num_files_train).max(1);
        }
        if inventory.unfinished {
            self.problems.machine(
                format!("the dataset in {folder} is unfinished"),
                format!(
                    "continue with `stormlp datagen {} --dir {folder} --resume`",
                    shell_word(&self.request.workload)
                ),
            );
        }
        if let Some(in_file) = inventory.samples_per_file
            && in_file != samples_per_file
        {
            self.problems.plan(
                format!(
                    "the files in {folder} have {} each, but the workload has {samples_per_file}",
                    counted(in_file, "sample")
                ),
                format!("set --params dataset.num_samples_per_file={in_file}"),
            );
        }
        let wanted =
            self.request.files.or(inventory.files).unwrap_or(self.workload.dataset.num_files_train);
        if wanted == 0 {
            self.problems.plan("dataset.num_files_train is 0", "use --files with 1 or more");
        }
        if wanted > found {
            self.problems.plan(
                format!(
                    "{folder} has {}, but the workload has {wanted}",
                    counted(found, "training file")
                ),
                format!("set --files {found}, or make more with `stormlp datagen`"),
            );
        }
        wanted.max(1)
    }
}
