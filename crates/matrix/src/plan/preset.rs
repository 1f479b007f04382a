//! What a matrix has where its request leaves it out: that of a preset, of a search for knees, or
//! the defaults.
//!
//! Presets are YAML, in `configs/matrix/` and embedded in the program. The keys are option names of
//! `stormlp gds`; options on the command line override a preset's entries.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use super::choice::{IoSize, PathChoice};
use super::knee;
use super::request::{DURATION_SECONDS, JobRequest, JobTarget, MatrixRequest};
use stormlp_core::operation::Operation;
use stormlp_core::printable::printable;
use stormlp_core::units::{MIB, parse_seconds};

/// The default folder for test files.
const FOLDER: &str = "stormlp-data/gds";

const PRESETS: [(&str, &str); 5] = [
    ("quick", include_str!("../../../../configs/matrix/quick.yaml")),
    ("data-preparation", include_str!("../../../../configs/matrix/data-preparation.yaml")),
    ("training", include_str!("../../../../configs/matrix/training.yaml")),
    ("inference", include_str!("../../../../configs/matrix/inference.yaml")),
    ("full", include_str!("../../../../configs/matrix/full.yaml")),
];

/// Why a preset cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("`{0}` is not a preset: use one of{list}", list = described())]
    Unknown(String),
    /// Its YAML is invalid.
    #[error("the preset `{name}` cannot be read: {fault}")]
    Malformed {
        /// Its name.
        name: String,
        /// What is wrong with it.
        fault: String,
    },
}

/// A matrix without its files and its way of transfer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MatrixPreset {
    description: String,
    path: Vec<PathChoice>,
    op: Vec<Operation>,
    #[serde(deserialize_with = "sizes")]
    io_size: Vec<IoSize>,
    threads: Vec<u32>,
    #[serde(default = "one")]
    queue_depth: Vec<u32>,
    #[serde(default, deserialize_with = "seconds")]
    duration: Option<f64>,
    passes: Option<u32>,
    repeat: Option<u32>,
}

fn one() -> Vec<u32> {
    vec![1]
}

fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IoSize>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| IoSize::parse_sweep(text).map_err(de::Error::custom)).collect()
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_seconds(&text).map(Some).map_err(de::Error::custom)
}

impl MatrixPreset {
    /// Reads the YAML `text` of a preset called `name`.
    ///
    /// # Errors
    /// If the text is not a valid preset.
    pub fn parse(name: &str, text: &str) -> Result<Self, PresetError> {
        stormlp_core::yaml::read(text).map_err(|error| PresetError::Malformed {
            name: name.to_string(),
            fault: error.to_string(),
        })
    }

    fn named(name: &str) -> Result<Self, PresetError> {
        let (_, text) = (PRESETS.iter())
            .find(|(known, _)| *known == name)
            .ok_or_else(|| PresetError::Unknown(printable(name).into_owned()))?;
        Self::parse(name, text)
    }

    /// The matrix of `stormlp gds` without options.
    fn plain() -> Self {
        Self {
            description: String::new(),
            path: vec![PathChoice::Auto],
            op: vec![Operation::Read],
            io_size: vec![IoSize::fixed(MIB)],
            threads: vec![8],
            queue_depth: one(),
            duration: None,
            passes: None,
            repeat: None,
        }
    }

    /// A search for knees over `jobs` files or folders, each of which needs at least one thread.
    fn search(jobs: u32) -> Self {
        Self {
            threads: knee::THREADS.into_iter().filter(|threads| *threads >= jobs).collect(),
            queue_depth: knee::DEPTHS.to_vec(),
            repeat: Some(knee::REPEAT),
            ..Self::plain()
        }
    }
}

impl MatrixRequest {
    /// The request with all that was left out, and with one job for each folder and file.
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn complete(mut self) -> Result<Self, PresetError> {
        self.name_jobs();
        let open_jobs = self.jobs.iter().filter(|job| job.threads.is_none()).count() as u32;
        let (name, preset) = match &self.preset {
            Some(name) => (name.as_str(), MatrixPreset::named(name)?),
            None if self.find_knee => ("knee", MatrixPreset::search(open_jobs)),
            None => ("matrix", MatrixPreset::plain()),
        };
        self.name = name.to_string();
        self.optional_paths = self.paths.is_empty();
        or_else(&mut self.paths, preset.path);
        or_else(&mut self.ops, preset.op);
        or_else(&mut self.io_sizes, preset.io_size);
        self.io_sizes = self.io_sizes.into_iter().flat_map(IoSize::sizes).collect();
        or_else(&mut self.threads, preset.threads);
        or_else(&mut self.queue_depths, preset.queue_depth);
        if self.duration_seconds.is_none() && self.passes.is_none() {
            self.passes = preset.passes;
            self.duration_seconds = match preset.passes {
                Some(_) => None,
                None => preset.duration.or(Some(DURATION_SECONDS)),
            };
        }
        self.repeat = self.repeat.or(preset.repeat).or(Some(1));
        Ok(self)
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

/// The names of all presets.
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// The presets and what each measures, one per line.
fn described() -> String {
    let line = |(name, text): &(&str, &str)| {
        let description = MatrixPreset::parse(name, text).map(|preset| preset.description);
        format!("\n  {name:<17} {}", description.unwrap_or_default())
    };
    PRESETS.iter().map(line).collect()
}

#[cfg(test)]
impl MatrixRequest {
    /// A preset's request, complete.
    pub(super) fn of_preset(name: &str) -> Self {
        Self::without_matrix(name).complete().unwrap()
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
            ..Self::plain(PathBuf::from("data"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stormlp_core::path::PathKind;

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
    fn unknown_presets_and_keys_are_refused_by_name() {
        let error = MatrixRequest::without_matrix("fast").complete().unwrap_err().to_string();
        assert!(
            error.contains("`fast`") && error.contains("\n  quick             small and large"),
            "{error}"
        );
        let text =
            "description: x\npath: [cpu]\nop: [read]\nio-size: [1M]\nthreads: [1]\nthread: 1\n";
        let error = MatrixPreset::parse("mine", text).unwrap_err().to_string();
        assert!(error.contains("thread"), "{error}");
    }

    #[test]
    fn options_override_a_preset() {
        let request = MatrixRequest {
            paths: PathChoice::each(&[PathKind::Cpu]),
            io_sizes: vec![IoSize::parse_sweep("1M:3M:1M").unwrap()],
            passes: Some(2),
            ..MatrixRequest::without_matrix("quick")
        };
        let request = request.complete().unwrap();
        assert!(request.names_paths());
        assert_eq!((request.name.as_str(), request.threads), ("quick", vec![1, 8]));
        assert_eq!(request.io_sizes, [1, 2, 3].map(|mib| IoSize::fixed(mib * MIB)));
        assert_eq!((request.passes, request.duration_seconds), (Some(2), None));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = MatrixPreset::parse("x", &text);
        }
    }
}
