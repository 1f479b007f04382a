//! Parses a file into a [`Workload`], including values derived from several keys or from the file
//! name.

use super::edition;
use super::keys::KEYS;
use super::workload::Workload;
use stormlp_core::profile::Profile;
pub(super) use stormlp_core::workload_file::{Contents, WorkloadError};
use stormlp_dataset::section::DataFormat;

impl Workload {
    /// Parses the workload file `text`. `source_name` is used in error messages, and supplies model
    /// and accelerator (`unet3d_h100.yaml`) if the file itself does not. Each of `params` is a
    /// `key=value` that overrides the file.
    ///
    /// # Errors
    /// Lists every error in the file, by line.
    pub fn parse(text: &str, source_name: &str, params: &[String]) -> Result<Self, WorkloadError> {
        let mut workload = Self::default();
        let (name, accelerator) = names_of(source_name);
        workload.name = name;
        if let Some(accelerator) = accelerator {
            workload.accelerator = accelerator;
        }
        let contents = KEYS.read(text, source_name, params, &mut workload)?;
        if let Some(fault) = name_fault(&workload.name) {
            return Err(WorkloadError::new(source_name, vec![fault]));
        }
        workload.complete(&contents);
        Ok(workload)
    }

    /// Fills in values that depend on several keys.
    fn complete(&mut self, contents: &Contents) {
        self.edition_is_known = contents.has("stormlp.profile");
        if !self.edition_is_known {
            let found = edition::of_file(&self.accelerator, &contents.written, self.dataset.format);
            self.edition_is_known = found.is_some();
            self.edition = found.unwrap_or(Profile::Native);
        }
        self.describes_dataset = contents.has_section("dataset");
        self.without_effect = KEYS.without_effect(contents);
        // The sum of the columns, whatever the key says, as in v3.0's DLIO.
        let columns = self.dataset.parquet.columns.iter();
        let row = columns.fold(0, |sum: u64, column| sum.saturating_add(column.row_bytes()));
        if self.dataset.format == DataFormat::Parquet && row > 0 {
            self.dataset.record_length_bytes = row as f64;
        }
        self.train.total_training_steps = self.train.total_training_steps.filter(|n| *n > 0);
        if contents.has("model.model_size_bytes") {
            self.checkpoint.ignored_model_size_bytes = None;
        }
    }
}

/// The error in the model's name, which becomes part of folder names.
fn name_fault(name: &str) -> Option<String> {
    let is_one_word =
        !name.trim_matches('.').is_empty() && !name.contains(|c: char| c == '/' || c.is_control());
    (!is_one_word).then(|| {
        format!(
            "`model.name` is `{}`: it names folders of datasets and results, so write a word \
             without `/`",
            name.escape_debug()
        )
    })
}

/// Model and accelerator from `…/unet3d_h100.yaml` or `…/unet3d_h100_s3.yaml`.
fn names_of(source_name: &str) -> (String, Option<String>) {
    let base = source_name.rsplit('/').next().unwrap_or(source_name);
    let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
    let parts: Vec<&str> = stem.split('_').collect();
    match parts.iter().rposition(|part| Profile::of_accelerator(part).is_some()) {
        Some(at) if at > 0 => (parts[..at].join("_"), Some(parts[at].to_string())),
        _ => (stem.to_string(), None),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
