//! The dataset of a run: its place, its contents, and a starter set if it is missing.

mod starter;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::plan::datasize::{SizeRequest, datasize};
use crate::plan::generate::default_folder;
use crate::plan::request::TrainRequest;
use crate::plan::workload::Workload;
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::location::names_object;
use stormlp_core::machine::Fact;
use stormlp_core::path::PathKind;
use stormlp_core::profile::Profile;
use stormlp_core::shell::shell_word;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_dataset::dataset::Dataset;
use stormlp_dataset::generate::{self, Existing, GenerateError, GeneratePlan};
use stormlp_dataset::inventory::facts::Inventory;
use stormlp_dataset::inventory::{self, FoundDataset, ScanError};
use stormlp_dataset::manifest::{ManifestError, ManifestHead};
use stormlp_dataset::section::DatasetSpec;
use stormlp_dataset::spec::{self, DatasetDefaults};
use stormlp_transfer::probe;
use stormlp_transfer::storage::{Disk, Storage};

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_hosts::session::Session;

pub use starter::larger;

/// Assumed write rate of a disk, for the estimate before anything is measured.
const WRITE_BYTES_PER_SECOND: f64 = 1e9;
/// Additional time per file for creating, syncing and listing it.
const FILE_SECONDS: f64 = 1e-4;

/// A dataset that was found or will be generated.
pub struct Data {
    /// Its files.
    pub inventory: Inventory,
    /// Its parameters, in the workload's terms.
    pub spec: DatasetSpec,
    /// Differences from the workload that do not prevent a run.
    pub warnings: Vec<Warning>,
    /// The dataset to generate before the inventory exists.
    pub to_make: Option<MissingDataset>,
}

impl Data {
    /// The dataset of null storage, which has no files.
    pub fn none(workload: &Workload) -> Self {
        Self {
            inventory: Inventory::default(),
            spec: workload.dataset.clone(),
            warnings: Vec::new(),
            to_make: None,
        }
    }
}

/// A dataset to generate or complete.
pub struct MissingDataset {
    plan: GeneratePlan,
    /// The present state; the words before the bytes to write, and before the files.
    words: [&'static str; 3],
}

/// The location of the dataset, and whether stormlp may generate one there without being asked.
struct DataPlace {
    folder: PathBuf,
    is_default: bool,
    /// A folder named in a workload file that has no dataset.
    unused: Option<Warning>,
}

impl DataPlace {
    /// The command that generates the dataset of workload `name` here.
    fn datagen(&self, name: &str) -> String {
        let folder = self.folder.to_string_lossy();
        format!("stormlp datagen {} --dir {}", shell_word(name), shell_word(&folder))
    }
}

/// Lets `workload` describe the dataset to make in `folder`: the rest of the one that was `begun`
/// there, a full one, or a starter set. Returns whether it is a starter set, and the words of
/// [`MissingDataset`].
fn to_begin(
    workload: &mut Workload,
    request: &TrainRequest,
    facts: &HostFacts,
    (begun, folder): (Option<&ManifestHead>, &Path),
) -> Result<(bool, [&'static str; 3]), Failure> {
    let (files, starter, words) = if let Some(head) = begun {
        (head.train_files, head.starter, ["an unfinished dataset", "at most ", ""])
    } else if request.is_full() {
        (full_files(workload, request, facts)?, false, ["no dataset", "", "full dataset, "])
    } else {
        let files = request.files.map_or_else(|| starter::files(workload, request, folder), Ok)?;
        starter::shape(workload, files);
        (files, true, ["no dataset", "", "starter dataset, "])
    };
    workload.dataset.num_files_train = files;
    Ok((starter, words))
}

/// Finds the dataset, or chooses a starter set, and checks it against the workload. No file is
/// written: a plan comes first.
///
/// # Errors
/// With exit code 4 if there is no dataset, 5 if it is damaged, 3 if it does not fit the workload.
pub fn find(
    as_asked: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
    session: &Session,
) -> Result<Data, Failure> {
    let place = place(as_asked, request, &*session.storage)?;
    let profile = as_asked.profile(request.profile);
    let workload = &mut as_asked.clone();
    let datagen = place.datagen(&request.workload);
    let found = scan(&*session.storage, &place.folder, workload)?;
    let may_generate = place.is_default || request.generate.is_some();
    let begun =
        found.as_ref().and_then(|found| found.record.as_ref()).map(|record| record.head.clone());
    let direct = direct_support(workload, request, &place.folder, found.as_ref());
    if let Some(head) = begun.as_ref().filter(|head| head.starter) {
        starter::shape(workload, head.train_files);
    }
    if request.is_full() {
        refuse_smaller(workload, request, facts, &place.folder, found.as_ref())?;
    }
    let whole = found
        .filter(|found| !(found.train.files.is_empty() || found.is_unfinished() && may_generate));
    let Some(found) = whole else {
        if !may_generate {
            return Err(nothing_there(&place.folder, workload, &datagen, request.closed));
        }
        let (starter, words) = to_begin(workload, request, facts, (begun.as_ref(), &place.folder))?;
        // Before anything is written to another folder.
        if let Some(warning) = place.unused.as_ref().filter(|_| !session.quiet) {
            session.say(format!("warning: {warning}"));
        }
        let mut data =
            to_make(workload, (Existing::Resume, starter, words), profile, place.folder, session)?;
        data.inventory.direct = direct;
        data.warnings.extend(place.unused);
        return Ok(data);
    };
    let datagen = datagen + &begun.map_or_else(String::new, |head| made_with(&head, request));
    let files = take_what_is_there(workload, request, &found, may_generate);
    // Only training files are read.
    let as_read = DatasetSpec { num_files_eval: 0, ..workload.dataset.clone() };
    let dataset = dataset(&as_read, profile)?;
    let mut warnings = Vec::from_iter(place.unused);
    for finding in inventory::check(&*session.storage, &found, &dataset, &datagen) {
        warnings.push(finding.map_err(|problem| {
            let fact = format!("the dataset in {}: {}", place.folder.display(), problem.fact);
            Failure::saying(problem.kind, fact).with_help(problem.remedy)
        })?);
    }
    let inventory = found.for_plan(&*session.storage, &dataset);
    Ok(Data {
        inventory: Inventory { files: files.or(inventory.files), direct, ..inventory },
        spec: workload.dataset.clone(),
        warnings,
        to_make: None,
    })
}

/// The dataset that the workload now describes, to be generated if it fits in `folder`.
fn to_make(
    workload: &Workload,
    (existing, starter, words): (Existing, bool, [&'static str; 3]),
    profile: Profile,
    folder: PathBuf,
    session: &Session,
) -> Result<Data, Failure> {
    let recipe = spec::recipe(&workload.dataset, profile, &DatasetDefaults::default());
    generate::check_room(&*session.storage, &folder, &recipe).map_err(generation)?;
    let dataset = Dataset::new(recipe)?;
    Ok(Data {
        inventory: Inventory { starter, ..inventory::planned(&folder, &dataset) },
        spec: workload.dataset.clone(),
        warnings: Vec::new(),
        to_make: Some(MissingDataset {
            plan: GeneratePlan {
                existing,
                starter,
                storage: Arc::clone(&session.storage),
                ..GeneratePlan::new(folder, &workload.name, profile.edition(), dataset)
            },
            words,
        }),
    })
}

impl MissingDataset {
    /// Generates the dataset, or completes an interrupted one, and returns its files.
    ///
    /// # Errors
    /// With exit code 4 if it does not fit, 5 if storage fails, 130 if the user stops it.
    pub fn make(&self, session: &Session) -> Result<Inventory, Failure> {
        self.announce("writing", session);
        let GeneratePlan { folder, dataset, .. } = &self.plan;
        generate::run(&self.plan, &session.progress(), &session.stop).map_err(generation)?;
        let made = inventory::scan(&*session.storage, folder, dataset.recipe().format.name())
            .map_err(Failure::storage)?;
        Ok(made.for_plan(&*session.storage, dataset))
    }

    /// Fails as [`Self::make`] would if it does not fit. Does not write.
    ///
    /// # Errors
    /// With exit code 4 if it does not fit.
    pub fn check_space(&self) -> Result<(), Failure> {
        generate::check_space(&self.plan).map_err(generation)
    }

    /// Prints the bytes that `verb` applies to, number of files and estimated time.
    pub fn announce(&self, verb: &str, session: &Session) {
        if session.quiet {
            return;
        }
        let bytes = self.plan.dataset.total_bytes();
        let files = self.plan.dataset.files();
        let seconds = bytes as f64 / WRITE_BYTES_PER_SECOND + files as f64 * FILE_SECONDS;
        let [there, most, kind] = self.words;
        session.say(format!(
            "{there} in {}: {verb} {most}{} ({kind}{}), about {}",
            self.plan.folder.display(),
            ByteSize(bytes),
            counted(files, "file"),
            format_duration(seconds.max(1.0))
        ));
    }
}

/// The options with which `stormlp datagen` continues the dataset of `head`: this run's parameters of
/// datasets, and the manifest's numbers.
fn made_with(head: &ManifestHead, request: &TrainRequest) -> String {
    let asked = request.params.iter().filter(|param| param.starts_with("dataset."));
    let asked: String = asked.map(|param| format!("--params {} ", shell_word(param))).collect();
    format!(
        " --files {} --tune seed={} --edition {} {asked}--params dataset.num_samples_per_file={} \
         --params dataset.num_files_eval={}",
        head.train_files, head.seed, head.profile, head.samples_per_file, head.valid_files
    )
}

/// Sets the workload's number of files to that the run will use, and returns the number of
/// training files unless the workload sets it. A dataset generated by stormlp is used completely,
/// whatever the workload file says, so that a missing file is detected.
fn take_what_is_there(
    workload: &mut Workload,
    request: &TrainRequest,
    found: &FoundDataset,
    may_generate: bool,
) -> Option<u64> {
    let spec = &mut workload.dataset;
    let made = found.record.as_ref().map(|record| &record.head);
    if let Some(files) = request.files {
        spec.num_files_train = files;
        return None;
    }
    let there = found.train.files.len() as u64;
    let files = made.map_or(there, |head| head.train_files.max(there));
    if made.is_some() || may_generate && files >= spec.num_files_train {
        spec.num_files_train = files;
        return Some(files);
    }
    None
}

/// Whether files in `folder` support O_DIRECT: tested on the first of them, or in its future
/// folder, if the run uses direct reads. Other errors are left to the run.
fn direct_support(
    workload: &Workload,
    request: &TrainRequest,
    folder: &Path,
    found: Option<&FoundDataset>,
) -> Availability {
    let wants_direct = request.path.map_or(workload.reader.odirect, PathKind::wants_direct);
    if !wants_direct || names_object(folder) {
        return Availability::Available;
    }
    let first = found.and_then(|found| found.train.files.first());
    let tried = match first {
        Some(first) => folder.join(&first.name),
        // The run says why a folder cannot be looked at.
        None => Disk.nearest(folder).unwrap_or_else(|_| folder.to_path_buf()),
    };
    match probe::direct_io(&tried) {
        Fact::Known(support) if !support.honoured => {
            Availability::unavailable(support.tried, "use --path buffered")
        }
        Fact::Known(_) | Fact::Unknown(_) => Availability::Available,
    }
}

fn place(
    workload: &Workload,
    request: &TrainRequest,
    storage: &dyn Storage,
) -> Result<DataPlace, Failure> {
    if let Some(folder) = &request.dir {
        return Ok(DataPlace {
            folder: folder.folder().to_path_buf(),
            is_default: false,
            unused: None,
        });
    }
    // A workload file that names an existing folder refers to it.
    let named = workload.dataset.data_folder.as_ref().map(PathBuf::from);
    if let Some(folder) = &named
        && storage.is_folder(&folder.join("train"))?
    {
        return Ok(DataPlace { folder: folder.clone(), is_default: false, unused: None });
    }
    let folder = default_folder(workload);
    let name = &request.workload;
    // The folder of built-in workloads is MLPerf's.
    let unused = named.filter(|named| name.contains(['/', '.']) && *named != folder).map(|named| {
        Warning::new(
            WarningKind::Dataset,
            format!(
                "dataset.data_folder of {name} is {}, which contains no dataset: {} is used",
                named.display(),
                folder.display()
            ),
            "name the dataset's folder with --dir",
        )
    });
    Ok(DataPlace { folder, is_default: true, unused })
}

fn scan(
    storage: &dyn Storage,
    folder: &Path,
    workload: &Workload,
) -> Result<Option<FoundDataset>, Failure> {
    match inventory::scan(storage, folder, workload.dataset.format.name()) {
        Ok(found) => Ok(Some(found)),
        Err(ScanError::Missing(_)) => Ok(None),
        Err(ScanError::Manifest(error @ ManifestError::Unusable { .. })) => {
            Err(Failure::machine(error)
                .with_help("choose another --dir, or remove the folder yourself"))
        }
        Err(ScanError::Unreadable(error) | ScanError::Manifest(ManifestError::File(error)))
            if error.is_device_failure() || error.object_remedy().is_some() =>
        {
            Err(error.into())
        }
        Err(error) => {
            Err(Failure::machine(error)
                .with_help("give a dataset folder that you may read: --dir DIR"))
        }
    }
}

fn nothing_there(folder: &Path, workload: &Workload, datagen: &str, closed: bool) -> Failure {
    if folder.is_file() {
        let fact = format!("{} is a file, not a dataset's folder", folder.display());
        return Failure::saying(Cause::Machine, fact)
            .with_help("give the folder that has train/ in it: --dir DIR");
    }
    let generate = if closed { "--generate=full" } else { "--generate for a starter dataset" };
    Failure::saying(
        Cause::Machine,
        format!("{} contains no {} files of a dataset", folder.display(), workload.dataset.format),
    )
    .with_help(format!("make one with `{datagen}`, or add {generate}"))
}

/// The dataset described by `spec`.
fn dataset(spec: &DatasetSpec, profile: Profile) -> Result<Dataset, Failure> {
    Ok(Dataset::new(spec::recipe(spec, profile, &DatasetDefaults::default()))?)
}

/// `--generate=full` requests a set whose folder may contain a smaller one.
fn refuse_smaller(
    workload: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
    folder: &Path,
    found: Option<&FoundDataset>,
) -> Result<(), Failure> {
    let Some(found) = found else {
        return Ok(());
    };
    let there = match &found.record {
        Some(record) => record.head.train_files,
        None => found.train.files.len() as u64,
    };
    let wanted = full_files(workload, request, facts)?;
    if there == 0 || there >= wanted {
        return Ok(());
    }
    let fact = format!(
        "{} contains a dataset of {}, --generate=full requires {wanted}",
        folder.display(),
        counted(there, "training file")
    );
    Err(Failure::saying(Cause::Machine, fact).with_help(format!(
        "remove it with `stormlp clean {}`, or name another folder with --dir",
        shell_word(&folder.to_string_lossy())
    )))
}

fn generation(error: GenerateError) -> Failure {
    match error {
        GenerateError::Another { .. } => Failure::machine(error)
            .with_help("choose another --dir, or remove it with `stormlp clean`"),
        error => error.failure(&Session::command_line().to_string(), "stormlp datagen --overwrite"),
    }
}

/// Number of files that MLPerf's rules require on this host.
fn full_files(
    workload: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
) -> Result<u64, Failure> {
    let profile = workload.profile(request.profile);
    let accelerators = u64::from(request.accelerators.unwrap_or(1));
    let mut size = SizeRequest::of(workload, profile, accelerators);
    size.host_memory_bytes = facts.usable_memory_bytes();
    datasize(&size).map(|size| size.files).map_err(Failure::no_plan)
}
