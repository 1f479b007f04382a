//! What a matrix has where its request leaves it out: that of a preset, of a search for knees, or
//! the defaults. Each is a line of options of `stormlp gds`, which those that are given replace.

use std::path::PathBuf;

use clap::{Args as _, FromArgMatches as _};

use super::request::{JobRequest, JobTarget, MatrixRequest};
use stormlp_core::printable::printable;

/// The default folder for test files.
const FOLDER: &str = "stormlp-data/gds";

/// The matrix of `stormlp gds` without options.
const PLAIN: &str = "--path auto --op read --io-size 1M --threads 8 --queue-depth 1 --duration 5s \
                     --repeat 1";
/// A search for knees.
const KNEE: &str = "--path auto --op read --io-size 1M --threads 1,2,3,4,6,8,12,16,24,32 \
                    --queue-depth 1,2,3,4,6,8,12,16,24,32,48,64 --duration 5s --repeat 3";

/// A matrix with a name.
struct Preset {
    name: &'static str,
    /// What it measures, as the list of presets says it.
    description: &'static str,
    options: &'static str,
}

const PRESETS: [Preset; 5] = [
    Preset {
        name: "quick",
        description: "small and large reads on the paths of this machine, in about a minute",
        options: "--path auto --op read,randread --io-size 4K,1M --threads 1,8 --queue-depth 1 \
                  --duration 3s --repeat 1",
    },
    // Reading and unpacking samples before training: the CPU is in between.
    Preset {
        name: "data-preparation",
        description: "128K to 512K reads by 1 and 4 threads over cpu-gpu and page-cache",
        options: "--path cpu-gpu,page-cache --op read,randread --io-size 128K,256K,512K \
                  --threads 1,4 --queue-depth 1 --duration 5s --repeat 1",
    },
    // Feeding a training loop: large reads, many threads, with and without GPUDirect Storage.
    Preset {
        name: "training",
        description: "1M to 16M reads by 4, 16 and 32 threads over gds and cpu-gpu",
        options: "--path gds,cpu-gpu --op read,randread --io-size 1M,4M,16M --threads 4,16,32 \
                  --queue-depth 1 --duration 5s --repeat 1",
    },
    // Loading weights (very large reads) and looking up single entries (4K).
    Preset {
        name: "inference",
        description: "4K and 16M to 128M reads by 1, 4 and 16 threads over gds and cpu-gpu",
        options: "--path gds,cpu-gpu --op read,randread --io-size 4K,16M,64M,128M \
                  --threads 1,4,16 --queue-depth 1 --duration 5s --repeat 1",
    },
    // Every combination of the study this matrix follows: 432 cells of 5 s are 36 minutes.
    Preset {
        name: "full",
        description: "all nine sizes from 4K to 128M, 1 to 32 threads, three paths, four operations",
        options: "--path gds,cpu-gpu,page-cache --op read,write,randread,randwrite \
                  --io-size 4K,128K,256K,512K,1M,4M,16M,64M,128M --threads 1,4,16,32 \
                  --queue-depth 1 --duration 5s --repeat 1",
    },
];

/// Parses the name of a preset.
pub(super) fn preset_name(name: &str) -> Result<String, String> {
    if PRESETS.iter().any(|preset| preset.name == name) {
        return Ok(name.to_string());
    }
    let line = |one: &Preset| format!("\n  {:<17} {}", one.name, one.description);
    let known: String = PRESETS.iter().map(line).collect();
    Err(format!("`{}` is not a preset: use one of{known}", printable(name)))
}

/// Whether a preset is one of the study whose tables its report shows.
pub(crate) fn is_of_study(preset: &str) -> bool {
    preset != "quick"
}

/// The names of all presets.
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

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
        if self.passes.is_none() {
            self.duration_seconds = self.duration_seconds.or(other.duration_seconds);
        }
        self.repeat = self.repeat.or(other.repeat);
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

    /// Options that name a preset and nothing that it has.
    fn without_matrix(preset: &str) -> Self {
        Self {
            preset: Some(preset.to_string()),
            paths: Vec::new(),
            ops: Vec::new(),
            io_sizes: Vec::new(),
            threads: Vec::new(),
            queue_depths: Vec::new(),
            duration_seconds: None,
            repeat: None,
            ..Self::plain(PathBuf::from("data"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choice::{IoSize, PathChoice};
    use stormlp_core::path::PathKind;
    use stormlp_core::units::MIB;

    #[test]
    fn every_preset_is_a_matrix() {
        for name in preset_names() {
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
    fn unknown_presets_are_refused_with_those_there_are() {
        let error = preset_name("fast").unwrap_err();
        let listed = error.contains("\n  quick             small and large");
        assert!(error.contains("`fast`") && listed, "{error}");
        assert_eq!(preset_name("full").as_deref(), Ok("full"));
    }

    #[test]
    fn options_override_a_preset() {
        let request = MatrixRequest {
            paths: PathChoice::each(&[PathKind::Cpu]),
            io_sizes: vec![IoSize::parse_sweep("1M:3M:1M").unwrap()],
            passes: Some(2),
            ..MatrixRequest::without_matrix("quick")
        };
        let request = request.complete();
        assert!(request.names_paths());
        assert_eq!((request.name.as_str(), request.threads), ("quick", vec![1, 8]));
        assert_eq!(request.io_sizes, [1, 2, 3].map(|mib| IoSize::fixed(mib * MIB)));
        assert_eq!((request.passes, request.duration_seconds), (Some(2), None));
    }
}
