//! The dataset of a run: where it lies, what is there, and a starter set where nothing is.

use std::path::{Path, PathBuf};

use stormlp_dataset::dataset::Dataset;
use stormlp_dataset::generate::{self, Existing, GenerateError, GeneratePlan};
use stormlp_dataset::inventory::{self, Finding, FindingKind, Inventory, ScanError};
use stormlp_dataset::spec::{self, Making};
use stormlp_model::facts::HostFacts;
use stormlp_model::training::datasize::{SizeRequest, datasize};
use stormlp_model::training::inventory::Inventory as PlanInventory;
use stormlp_model::training::profile::Profile;
use stormlp_model::training::request::TrainRequest;
use stormlp_model::training::workload::Workload;
use stormlp_model::units::{ByteSize, counted, format_duration};
use stormlp_model::warning::{Warning, WarningKind};
use stormlp_transfer::storage;

use super::args::DataArgs;
use crate::exit::Failure;
use crate::session::Session;

/// A starter set is never larger.
const STARTER_BYTES: f64 = 10.0 * (1u64 << 30) as f64;
/// A run over a starter set computes about so long.
const STARTER_SECONDS: f64 = 55.0;
/// v2.0's formulas need three steps, the others two.
const LEAST_STEPS: f64 = 3.0;
/// What a disk may be expected to write, for the estimate before anything is known of it.
const WRITE_BYTES_PER_SECOND: f64 = 1e9;

/// The dataset as the plan and the report want it.
pub(crate) struct Data {
    pub(crate) inventory: PlanInventory,
    pub(crate) warnings: Vec<Warning>,
}

/// Where the dataset lies, and whether stormlp may make one there unasked.
struct Place {
    folder: PathBuf,
    is_default: bool,
}

/// Finds the dataset, or makes a starter set, and holds it against the workload, whose number of
/// files becomes what the run will use. With `only_look` a set that would be made is planned
/// with, not made.
///
/// # Errors
/// With exit code 4 when there is no dataset, 5 when it is damaged, 3 when it does not fit the
/// workload.
pub(crate) fn find(
    workload: &mut Workload,
    request: &mut TrainRequest,
    args: &DataArgs,
    facts: &HostFacts,
    only_look: bool,
    session: &Session,
) -> Result<Data, Failure> {
    let place = place(workload, args);
    let profile = request.profile.unwrap_or(workload.edition);
    if let Some(samples) = request.samples_per_file {
        workload.dataset.num_samples_per_file = samples;
    }
    let mut found = scan(&place.folder, workload)?;
    let may_generate = place.is_default || args.generate || args.full;
    let incomplete = found.as_ref().is_none_or(|found| {
        found.train.files.is_empty() || (found.is_unfinished() && may_generate)
    });
    let mut warnings = Vec::new();
    if incomplete {
        if !may_generate {
            return Err(nothing_there(&place.folder, workload));
        }
        let begun = found.as_ref().and_then(|found| found.record.as_ref());
        let files = match begun {
            Some(record) => record.head.train_files,
            None => files_to_make(workload, request, args, facts, &place.folder)?,
        };
        workload.dataset.num_files_train = files;
        if !args.full && begun.is_none() {
            make_starter_of(workload, files);
        }
        let dataset = dataset_to_make(workload, profile, &place.folder, session)?;
        announce(&dataset, &place.folder, args.full, only_look, session);
        if only_look {
            request.files = Some(files);
            let inventory = inventory::planned(&place.folder, &dataset);
            request.data_dir = Some(place.folder);
            return Ok(Data {
                inventory,
                warnings,
            });
        }
        make(workload, profile, dataset, &place.folder, session)?;
        found = scan(&place.folder, workload)?;
    }
    let Some(found) = found else {
        return Err(nothing_there(&place.folder, workload));
    };
    let there = found.train.files.len() as u64;
    if let Some(files) = request.files {
        workload.dataset.num_files_train = files;
    } else if may_generate || there < workload.dataset.num_files_train && found.record.is_some() {
        // What stormlp made is the dataset, whatever number the workload's file has.
        workload.dataset.num_files_train = there;
        request.files = Some(there);
    }
    let dataset = dataset(workload, profile)?;
    for finding in inventory::check(&found, &dataset) {
        if finding.fatal {
            return Err(refused(&finding, &place.folder));
        }
        warnings.push(Warning::new(
            WarningKind::Dataset,
            finding.fact,
            finding.advice,
        ));
    }
    request.data_dir = Some(place.folder);
    Ok(Data {
        inventory: found.for_plan(&dataset),
        warnings,
    })
}

fn place(workload: &Workload, args: &DataArgs) -> Place {
    if let Some(folder) = &args.data_dir {
        return Place {
            folder: folder.clone(),
            is_default: false,
        };
    }
    // A workload file that names a folder which is there means it.
    let named = workload.dataset.data_folder.as_ref().map(PathBuf::from);
    if let Some(folder) = named.filter(|folder| folder.join("train").is_dir()) {
        return Place {
            folder,
            is_default: false,
        };
    }
    Place {
        folder: Path::new("stormlp-data").join(&workload.name),
        is_default: true,
    }
}

fn scan(folder: &Path, workload: &Workload) -> Result<Option<Inventory>, Failure> {
    match inventory::scan(folder, workload.dataset.format.name()) {
        Ok(found) => Ok(Some(found)),
        Err(ScanError::Missing(_)) => Ok(None),
        Err(error) => Err(Failure::machine(error)
            .with_help("give a dataset folder that you may read: --data-dir DIR")),
    }
}

fn nothing_there(folder: &Path, workload: &Workload) -> Failure {
    let name = &workload.name;
    Failure::machine(anyhow::anyhow!(
        "{} holds no {} files of a dataset",
        folder.display(),
        workload.dataset.format
    ))
    .with_help(format!(
        "make one with `stormlp datagen {name} --data-dir {}`, or let this run make a starter \
         set with --generate",
        folder.display()
    ))
}

fn refused(finding: &Finding, folder: &Path) -> Failure {
    let error = anyhow::anyhow!("the dataset in {}: {}", folder.display(), finding.fact);
    let failure = match finding.kind {
        FindingKind::Corrupt | FindingKind::WrongSize => Failure::storage(error),
        FindingKind::SamplesPerFile | FindingKind::SampleSize => Failure::no_plan(error),
        FindingKind::Empty
        | FindingKind::Unfinished
        | FindingKind::Missing
        | FindingKind::Extra
        | FindingKind::Foreign => Failure::machine(error),
    };
    failure.with_help(finding.advice.clone())
}

fn dataset(workload: &Workload, profile: Profile) -> Result<Dataset, Failure> {
    let recipe = spec::recipe(&workload.dataset, Making::of(profile));
    Dataset::new(recipe).map_err(Failure::no_plan)
}

/// Training files of the set that is to be made.
fn files_to_make(
    workload: &Workload,
    request: &TrainRequest,
    args: &DataArgs,
    facts: &HostFacts,
    folder: &Path,
) -> Result<u64, Failure> {
    match request.files {
        _ if args.full => full_files(workload, request, facts),
        Some(files) => Ok(files),
        None => starter_files(workload, request, folder),
    }
}

/// A starter set has no subfolders and as many files for evaluation as it can spare.
fn make_starter_of(workload: &mut Workload, files: u64) {
    let evaluated = workload.dataset.num_files_eval;
    workload.dataset.num_files_eval = evaluated.min(files.div_ceil(8));
    workload.dataset.num_subfolders_train = 0;
    workload.dataset.num_subfolders_eval = 0;
}

/// The dataset that the workload describes by now, if `folder` has room for it.
fn dataset_to_make(
    workload: &Workload,
    profile: Profile,
    folder: &Path,
    session: &Session,
) -> Result<Dataset, Failure> {
    let recipe = spec::recipe(&workload.dataset, Making::of(profile));
    generate::check_room(&recipe, folder, Existing::Resume)
        .map_err(|error| generation(error, session))?;
    dataset(workload, profile)
}

fn announce(dataset: &Dataset, folder: &Path, full: bool, only_look: bool, session: &Session) {
    if session.quiet {
        return;
    }
    let bytes = dataset.total_bytes();
    eprintln!(
        "no dataset in {}: {} {} one of {}, {}, in about {}",
        folder.display(),
        if only_look {
            "a run would first make"
        } else {
            "making"
        },
        if full { "the full" } else { "a starter" },
        counted(dataset.recipe().train_files, "file"),
        ByteSize(bytes),
        format_duration((bytes as f64 / WRITE_BYTES_PER_SECOND).max(1.0))
    );
}

/// Makes a dataset, or goes on with one that was cut short.
fn make(
    workload: &Workload,
    profile: Profile,
    dataset: Dataset,
    folder: &Path,
    session: &Session,
) -> Result<(), Failure> {
    let plan = GeneratePlan {
        existing: Existing::Resume,
        ..GeneratePlan::new(
            folder.to_path_buf(),
            &workload.name,
            profile.name(),
            dataset,
        )
    };
    generate::run(&plan, &session.progress(), &session.stop)
        .map(|_| ())
        .map_err(|error| generation(error, session))
}

fn generation(error: GenerateError, session: &Session) -> Failure {
    let again = format!("`{}` goes on with it", session.command_line());
    let full = error.is_full();
    match error {
        GenerateError::Stopped { .. } => Failure::stopped(error).with_help(again),
        GenerateError::Space { .. } | GenerateError::TooLarge { .. } => Failure::machine(error)
            .with_help("free some space, choose another --data-dir, or use fewer --files"),
        GenerateError::Format(_) => Failure::no_plan(error),
        GenerateError::File { .. } if full => Failure::storage(error)
            .with_help("free some space, or choose another --data-dir with --generate"),
        GenerateError::File { .. } | GenerateError::Manifest(_) => {
            Failure::storage(error).with_help(again)
        }
        GenerateError::Another { .. } => Failure::machine(error)
            .with_help("choose another --data-dir, or remove it with `stormlp clean`"),
        other => Failure::machine(other),
    }
}

/// Files of a starter set: enough for about a minute of compute, within 10 GiB and half of the
/// free space, and never too few for three steps.
fn starter_files(
    workload: &Workload,
    request: &TrainRequest,
    folder: &Path,
) -> Result<u64, Failure> {
    let spec = &workload.dataset;
    let samples_per_file = spec.num_samples_per_file.max(1) as f64;
    let file_bytes = spec.record_length_bytes * samples_per_file;
    let batch = f64::from(request.batch_size.unwrap_or(workload.reader.batch_size));
    let accelerators = f64::from(request.accelerators.unwrap_or(1));
    let compute = request.compute.unwrap_or(workload.train.computation_time);
    let epochs = f64::from(request.epochs.unwrap_or(workload.train.epochs));
    let free = storage::space(&existing(folder)).map_err(Failure::machine)?;
    let most_bytes = STARTER_BYTES.min(free.free_bytes as f64 / 2.0);
    let step = compute.mean_seconds().max(1e-4);
    let steps = match request.steps {
        // One more than asked for, so that the fetch after the last step finds something.
        Some(steps) => steps as f64 + 1.0,
        None => (STARTER_SECONDS / epochs / step).max(LEAST_STEPS),
    };
    let files_of = |steps: f64| (steps * batch * accelerators / samples_per_file).ceil();
    let within = (most_bytes / file_bytes).floor();
    let least = files_of(LEAST_STEPS).max(1.0);
    if within < least {
        return Err(Failure::machine(anyhow::anyhow!(
            "three steps need {least} files of {}, {} together, and a starter set may have {} here",
            ByteSize(file_bytes as u64),
            ByteSize((least * file_bytes) as u64),
            ByteSize(most_bytes as u64)
        ))
        .with_help("give the number of files with --files N, or use fewer --accelerators"));
    }
    let accelerators = accelerators as u64;
    let files = files_of(steps).min(within) as u64;
    // As many files for each accelerator, so that all have the same number of steps.
    Ok(if files >= accelerators {
        files / accelerators * accelerators
    } else {
        files
    })
}

/// The nearest folder that is there, for asking its file system.
fn existing(folder: &Path) -> PathBuf {
    let mut at = folder;
    loop {
        if at.is_dir() {
            return at.to_path_buf();
        }
        match at.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => at = parent,
            _ => return PathBuf::from("."),
        }
    }
}

/// Files that MLPerf's rule asks for on this host.
fn full_files(
    workload: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
) -> Result<u64, Failure> {
    let profile = request.profile.unwrap_or(workload.edition);
    let accelerators = u64::from(request.accelerators.unwrap_or(1));
    let mut size = SizeRequest::of(workload, profile, accelerators);
    size.host_memory_bytes = facts.usable_memory_bytes();
    datasize(&size)
        .map(|size| size.files)
        .map_err(Failure::no_plan)
}
