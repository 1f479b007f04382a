//! The request for a dataset: the options of `stormlp datagen`, not validated yet.

use std::path::{Path, PathBuf};

use stormlp_core::location::Location;
use stormlp_core::numbers::whole;
use stormlp_core::profile::Profile;
use stormlp_core::verify::Verify;
use stormlp_core::workload_file::sets;
use stormlp_dataset::dataset::Recipe;
use stormlp_dataset::generate::Existing;
use stormlp_dataset::spec::{self, DatasetDefaults};

use super::workload::Workload;

/// Options of a generation. `None` falls back to the workload, then to the default.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct GenerateRequest {
    /// Built-in workload (see `stormlp workloads`), or a YAML file
    #[arg(value_name = "WORKLOAD")]
    pub workload: String,

    /// Dataset folder, or s3://bucket/prefix [default: ./stormlp-data/WORKLOAD]
    #[arg(short = 'd', long, value_name = "DIR", value_parser = Location::anywhere)]
    pub dir: Option<Location>,

    /// Number of training files [default: the workload's]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub files: Option<u64>,

    /// MLPerf Storage edition [default: the workload's]
    #[arg(long = "edition", value_name = "1.0|2.0|3.0|native", value_parser = Profile::of_edition)]
    pub profile: Option<Profile>,

    /// Values that a workload does not specify.
    #[command(flatten)]
    pub making: DatasetDefaults,

    /// Writer threads [default: 2 per CPU, at most 16]
    #[arg(short = 't', long, value_name = "N", value_parser = whole::<u16>(1..=512))]
    pub threads: Option<u16>,

    /// Set a key of the workload, such as dataset.num_files_eval=10; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub params: Vec<String>,

    /// Checks of objects: none, size, crc
    #[arg(long, value_name = "HOW", default_value = "size", value_parser = Verify::of_objects)]
    pub checksum: Verify,

    /// What to do, where it is not to fill an empty folder.
    #[command(flatten)]
    pub mode: GenerateMode,
}

/// What to do, where it is not to fill an empty folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::Args)]
#[group(multiple = false)]
pub struct GenerateMode {
    /// Read all files, without writing; exit code 5 if any is bad
    #[arg(long)]
    pub check: bool,

    /// Continue a stopped run, and rewrite bad files
    #[arg(long)]
    pub resume: bool,

    /// Remove an existing dataset first
    #[arg(long)]
    pub overwrite: bool,

    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
}

impl GenerateMode {
    /// The treatment of the folder's contents.
    pub fn existing(self) -> Existing {
        match self {
            Self { resume: true, .. } => Existing::Resume,
            Self { overwrite: true, .. } => Existing::Overwrite,
            _ => Existing::Refuse,
        }
    }
}

impl GenerateRequest {
    /// Whether files are written.
    pub fn writes(&self) -> bool {
        !self.mode.check && !self.mode.dry_run
    }

    /// The dataset of `workload`, with the options that override it.
    pub fn recipe(&self, workload: &Workload) -> Recipe {
        let mut dataset = workload.dataset.clone();
        dataset.num_files_train = self.files.unwrap_or(dataset.num_files_train);
        spec::recipe(&dataset, workload.profile(self.profile), &self.making)
    }

    /// The folder of the dataset. A folder named in a workload file counts only if a parameter sets
    /// it.
    pub fn folder(&self, workload: &Workload) -> PathBuf {
        let is_set = sets(&self.params, "dataset.data_folder");
        let named = workload.dataset.data_folder.as_ref().filter(|_| is_set);
        match (&self.dir, named) {
            (Some(folder), _) => folder.folder().to_path_buf(),
            (None, Some(folder)) => PathBuf::from(folder),
            (None, None) => default_folder(workload),
        }
    }
}

/// The folder of a workload's dataset, unless another is named.
pub fn default_folder(workload: &Workload) -> PathBuf {
    Path::new("stormlp-data").join(&workload.name)
}
