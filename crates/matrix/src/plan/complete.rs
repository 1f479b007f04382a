//! Values for options that a request leaves out: from a preset, a search for knees, or the
//! defaults.

use std::path::PathBuf;

use clap::{Args as _, FromArgMatches as _};

use super::preset::PRESETS;
use super::request::{JobRequest, JobTarget, MatrixRequest};

/// The default folder for test files.
const FOLDER: &str = "stormlp-data/gds";

/// The matrix of `stormlp gds` without options.
const PLAIN: &str = "--path auto --op read --io-size 1M --threads 8 --queue-depth 1 --duration 5s \
                     --runs 1";
/// A search for knees.
const KNEE: &str = "--path auto --op read --io-size 1M --threads 1,2,3,4,6,8,12,16,24,32 \
                    --queue-depth 1,2,3,4,6,8,12,16,24,32,48,64 --duration 5s --runs 3";

impl MatrixRequest {
    /// The request of these options alone.
    fn of_options(options: &str) -> Self {
        let command = Self::augment_args(clap::Command::new("gds").no_binary_name(true));
        let matches = command.try_get_matches_from(options.split_whitespace());
        matches.and_then(|it| Self::from_arg_matches(&it)).expect("these options are valid")
    }

    /// The default request of `stormlp gds`.
    pub fn plain(folder: PathBuf) -> Self {
        Self { folders: vec![folder], ..Self::of_options("") }.complete()
    }

    /// The request with all that was left out, and with one job for each folder and file.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.name_jobs();
        let preset = PRESETS.iter().find(|preset| self.preset.as_deref() == Some(preset.name));
        let (name, options) = match preset {
            Some(preset) => (preset.name, preset.options),
            None if self.find_knee => ("knee", KNEE),
            None => ("matrix", PLAIN),
        };
        let mut other = Self::of_options(options);
        if self.find_knee {
            // Each file or folder needs at least one thread.
            let jobs = self.jobs.iter().filter(|job| job.threads.is_none()).count() as u32;
            other.threads.retain(|threads| *threads >= jobs);
            or_else(&mut other.threads, vec![jobs]);
        }
        self.name = name.to_string();
        self.optional_paths = self.paths.is_empty();
        or_else(&mut self.paths, other.paths);
        or_else(&mut self.ops, other.ops);
        or_else(&mut self.io_sizes, other.io_sizes);
        self.io_sizes = self.io_sizes.into_iter().flat_map(|size| size.sizes()).collect();
        or_else(&mut self.threads, other.threads);
        or_else(&mut self.queue_depths, other.queue_depths);
        self.duration = self.duration.or(other.duration);
        self.runs = self.runs.or(other.runs);
        self
    }

    /// Makes the folders and files jobs, and gives the jobs names.
    fn name_jobs(&mut self) {
        let folders = std::mem::take(&mut self.folders).into_iter().map(JobTarget::Folder);
        let files = std::mem::take(&mut self.files).into_iter().map(JobTarget::File);
        self.jobs.extend(folders.chain(files).map(|target| JobRequest::on("", target)));
        if self.jobs.is_empty() {
            self.jobs.push(JobRequest::on("", JobTarget::Folder(PathBuf::from(FOLDER))));
        }
        for (index, job) in self.jobs.iter_mut().enumerate() {
            if job.name.is_empty() {
                job.name = format!("job{index}");
            }
        }
    }
}

fn or_else<T>(given: &mut Vec<T>, other: Vec<T>) {
    if given.is_empty() {
        *given = other;
    }
}

#[cfg(test)]
impl MatrixRequest {
    /// A preset's request, complete.
    pub(super) fn of_preset(name: &str) -> Self {
        Self::without_matrix(name).complete()
    }

    /// Options that name a preset, without its values.
    fn without_matrix(preset: &str) -> Self {
        Self {
            preset: Some(preset.to_string()),
            paths: Vec::new(),
            ops: Vec::new(),
            io_sizes: Vec::new(),
            threads: Vec::new(),
            queue_depths: Vec::new(),
            duration: None,
            runs: None,
            ..Self::plain(PathBuf::from("data"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choice::{CellSpan, IoSize, PathChoice};
    use stormlp_core::path::PathKind;
    use stormlp_core::units::MIB;

    #[test]
    fn every_preset_is_a_matrix() {
        for name in PRESETS.map(|preset| preset.name) {
            let request = MatrixRequest::of_preset(name);
            assert_eq!(request.name, name);
            assert!(!request.io_sizes.is_empty() && !request.threads.is_empty());
            assert!(!request.names_paths(), "{name}");
        }
        let full = MatrixRequest::of_preset("full");
        assert_eq!(full.paths(), [PathKind::Gds, PathKind::CpuGpu, PathKind::PageCache]);
        let cells = full.ops.len() * full.io_sizes.len() * full.threads.len() * 3;
        assert_eq!(cells, 432);
    }

    #[test]
    fn options_override_a_preset() {
        let request = MatrixRequest {
            paths: PathChoice::each(&[PathKind::Cpu]),
            io_sizes: vec![IoSize::parse_sweep("1M:3M:1M").unwrap()],
            duration: Some(CellSpan::Passes(2)),
            ..MatrixRequest::without_matrix("quick")
        };
        let request = request.complete();
        assert!(request.names_paths());
        assert_eq!((request.name.as_str(), request.threads), ("quick", vec![1, 8]));
        assert_eq!(request.io_sizes, [1, 2, 3].map(|mib| IoSize::fixed(mib * MIB)));
        assert_eq!(request.duration, Some(CellSpan::Passes(2)));
    }
}
