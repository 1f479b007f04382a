//! `stormlp workloads`: the built-in workloads and models, and lookup of a workload by name.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use clap::Subcommand;
use serde_json::json;
use stormlp_checkpoint::plan::{CheckpointWorkload, builtin};
use stormlp_checkpoint::show as checkpoint;
use stormlp_core::location::{names_object, path_only};
use stormlp_core::note::Cause;
use stormlp_core::printable::printable;
use stormlp_core::profile::Profile;
use stormlp_core::units::ByteSize;
use stormlp_core::workload_file::{folder_in_storage, sets};
use stormlp_kvcache::plan::{CHECKPOINT_MODELS, Model, SizeRequest, size};
use stormlp_kvcache::show as kvcache;
use stormlp_training::plan::catalog;
use stormlp_training::plan::catalog::{BuiltinWorkload, CATALOG};
use stormlp_training::plan::warnings::edition;
use stormlp_training::plan::workload::Workload;
use stormlp_training::show as training;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Disk, Kind, Reader, Storage as _};

use super::idle::refuse;
use crate::output::{self, Format};
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Workload files are never larger; a device or a dataset named by mistake may be.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// Arguments of `stormlp workloads`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp workloads                        all workloads and models
  stormlp workloads show unet3d > my.yaml  to edit, for `train my.yaml`
  stormlp workloads show llama3.1-8b       sizes of a model's KV caches
  stormlp workloads list --format json     for scripts")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Catalog>,

    #[command(flatten)]
    list: FormatArgs,
}

#[derive(Debug, Subcommand)]
enum Catalog {
    /// List all workloads and models, as without `list`
    List(FormatArgs),
    /// Print a workload or checkpoint model as YAML, or a model's KV-cache sizes
    Show {
        /// Name of a workload or model, such as unet3d, unet3d_h100 or llama3-8b
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct FormatArgs {
    /// Output format [default: text]
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Lists the workloads and models, or prints one.
///
/// # Errors
/// With exit code 3 if it does not exist.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let format = match args.command {
        Some(Catalog::Show { name }) => {
            refuse(&[("--format", args.list.format.is_some())], "on `workloads show`")?;
            return show(&name);
        }
        Some(Catalog::List(list)) => list.format,
        None => args.list.format,
    };
    let workloads: Vec<Workload> = CATALOG
        .iter()
        .map(|entry| entry.workload(&[]))
        .collect::<Result<_, _>>()
        .context("a built-in workload is broken")
        .map_err(Failure::bug)?;
    let models: Vec<CheckpointWorkload> = builtin::names().filter_map(builtin::load).collect();
    let of_caches = Model::all();
    let mut document = training::workloads(&workloads);
    document.sections.extend([checkpoint::models(&models), kvcache::models(&of_caches)]);
    document.headline = format!(
        "{}, {} checkpoint models, {} KV-cache models; `stormlp workloads show NAME` prints one",
        document.headline,
        models.len(),
        of_caches.len()
    );
    let all = json!({"training": workloads, "checkpoint": models, "kvcache": of_caches});
    format.unwrap_or(Format::Text).print(&all, |_| document)
}

/// Prints a workload, or a model.
fn show(name: &str) -> Result<(), Failure> {
    let model = SizeRequest { model: name.to_string(), tokens: Vec::new(), capacity_bytes: None };
    match (builtin::yaml(name), size(&model)) {
        (Some(yaml), _) => output::print(yaml),
        (None, Ok(sizes)) => output::show(&kvcache::size(&sizes)),
        (None, Err(_)) => output::print(built_in(name, None)?.yaml),
    }
}

/// The command that a built-in name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Training,
    Checkpoint,
    KvCache,
}

impl Owner {
    /// The owner of a name; `None` if it is not built in.
    fn of(name: &str) -> Option<Self> {
        match name {
            _ if builtin::yaml(name).is_some() => Some(Self::Checkpoint),
            _ if Model::named(name).is_ok() => Some(Self::KvCache),
            _ => catalog::find(name, None).is_ok().then_some(Self::Training),
        }
    }

    /// The kind of the name there, and the command to type.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Training => ("training workload", "stormlp train"),
            Self::Checkpoint => ("checkpoint model", "stormlp checkpoint"),
            Self::KvCache => ("KV-cache model", "stormlp kvcache serving"),
        }
    }

    /// Rejects the name of another owner, with the command to type.
    ///
    /// # Errors
    /// With exit code 3.
    pub(crate) fn check(self, name: &str) -> Result<(), Failure> {
        let Some(found) = Self::of(name).filter(|found| *found != self) else {
            return Ok(());
        };
        let same = CHECKPOINT_MODELS.iter().find_map(|(checkpoint, of_caches)| match self {
            Self::Checkpoint => (*of_caches == name).then_some(*checkpoint),
            Self::KvCache => (*checkpoint == name).then_some(*of_caches),
            Self::Training => None,
        });
        let ((what, command), (own, own_command)) = (found.words(), self.words());
        let help = match same {
            Some(same) if self == Self::KvCache => format!("use `{same}`"),
            Some(same) => format!("type `{own_command} {same}`"),
            None if found == Self::Checkpoint => format!(
                "type `{command} {name}`, or `stormlp plan WORKLOAD --checkpoint {name}` to predict it"
            ),
            None => format!("type `{command} {name}`"),
        };
        let fact = anyhow::anyhow!("{name} is a {what}, not a {own}");
        Err(Failure::no_plan(fact).with_help(help))
    }
}

/// Warns if the edition of a workload is unknown: sizes and rounding depend on it.
pub(crate) fn tell_edition(workload: &Workload, asked: Option<Profile>, session: &Session) {
    if let Some(warning) = edition(workload, asked).filter(|_| !session.quiet) {
        output::say(format!("warning: {warning}"));
    }
}

fn built_in(name: &str, accelerator: Option<&str>) -> Result<&'static BuiltinWorkload, Failure> {
    catalog::find(name, accelerator).map_err(|error| {
        let help = match name.contains('=') {
            true => format!("each --params has one value: --params {name}"),
            false => "`stormlp workloads` lists the built-in ones".to_string(),
        };
        Failure::no_plan(error).with_help(help)
    })
}

/// Reads a small text file; a device or a dataset named by mistake is rejected.
///
/// # Errors
/// With exit code 4 if it cannot be read, 3 if it is too large or not text.
pub(crate) fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    read_bounded(path, what, MOST_FILE_BYTES)
}

/// Reads a regular text file of at most `most_bytes`.
///
/// # Errors
/// With exit code 4 if it cannot be read, 5 if its device failed, 3 if it is too large or not text.
pub(crate) fn read_bounded(path: &Path, what: &str, most_bytes: u64) -> Result<String, Failure> {
    let cannot = |error: TransferError| {
        let fact = format!("cannot read {what} {}: {}", path.display(), error.reason());
        let mut failure = Failure::from(error);
        failure.note.fact = printable(&fact).into_owned();
        failure
    };
    if Disk.look(path).map_err(cannot)?.is_some_and(|found| found.kind != Kind::File) {
        let error = anyhow::anyhow!("cannot read {what} {}: not a regular file", path.display());
        return Err(Failure::machine(error));
    }
    let mut bytes = Vec::new();
    Reader::open(&Disk, path)
        .and_then(|file| {
            let read = file.take(most_bytes + 1).read_to_end(&mut bytes);
            read.map_err(|source| TransferError::file("read", path, source))
        })
        .map_err(cannot)?;
    if bytes.len() as u64 > most_bytes {
        return Err(Failure::no_plan(anyhow::anyhow!(
            "cannot read {what} {}: larger than {}",
            path.display(),
            ByteSize(most_bytes)
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..at];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Failure::no_plan(anyhow::anyhow!(
            "cannot read {what} {}: byte {at} in line {line} is not valid UTF-8",
            path.display()
        ))
    })
}

/// The workload called `name`: a built-in one, or a YAML file of MLPerf Storage or DLIO; `params`
/// override it.
///
/// # Errors
/// With exit code 3 if there is no such workload or its file is invalid, 4 if the file cannot be
/// read.
pub(crate) fn load(
    name: &str,
    accelerator: Option<&str>,
    params: &[String],
) -> Result<Workload, Failure> {
    let path = Path::new(name);
    let ends_in_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    if !ends_in_yaml && !name.contains('/') {
        Owner::Training.check(name)?;
        let entry = built_in(name, accelerator)?;
        return Ok(entry.workload(params)?);
    }
    let text = read_text(path, "workload file").map_err(|failure| {
        failure.with_help("`stormlp workloads show NAME` prints a workload to start from")
    })?;
    let workload = Workload::parse(&text, name, params)?;
    if workload.workflow.train && !workload.describes_dataset {
        let error = anyhow::anyhow!(
            "{name} has no `dataset`: how many files of which format and size are read"
        );
        return Err(Failure::no_plan(error)
            .with_help("`stormlp workloads show NAME` prints a complete workload to start from"));
    }
    let own = &workload.accelerator;
    if let Some(other) = accelerator.filter(|other| !other.eq_ignore_ascii_case(own)) {
        let fact = anyhow::anyhow!("{name} is for accelerator {own}, but --accelerator is {other}");
        return Err(Failure::no_plan(fact).with_help(format!(
            "--accelerator chooses among the built-in workloads; for a file set --params \
             stormlp.accelerator={other} and --compute-time"
        )));
    }
    Ok(workload)
}

/// Finds the folders of the dataset, unless --dir or one of `params` names it, and of checkpoints in
/// the storage that the workload names.
///
/// # Errors
/// If that is not a path here: with the option that names it.
pub(crate) fn find_folders(
    workload: &mut Workload,
    has_dir: bool,
    params: &[String],
) -> Result<(), Failure> {
    let data = &mut workload.dataset.data_folder;
    let is_object = data.as_deref().is_some_and(|data| names_object(Path::new(data)));
    let is_known = has_dir || (is_object && sets(params, "dataset.data_folder"));
    if !is_known {
        let named = data.as_deref().unwrap_or_default();
        let found = folder_in_storage(&workload.without_effect, named)?;
        *data = data.is_some().then(|| found.to_string_lossy().into_owned());
    }
    if workload.workflow.checkpoint {
        let folder = &mut workload.checkpoint.checkpoint_folder;
        let is_typed = sets(params, "checkpoint.checkpoint_folder");
        let found = path_only(folder).and_then(|path| {
            let in_storage = folder_in_storage(&workload.without_effect, folder);
            match in_storage.err().filter(|_| !is_typed) {
                Some(elsewhere) => Err(elsewhere.note.fact),
                None => Ok(path),
            }
        });
        let found = found.map_err(|why| {
            let fact = format!("checkpoint.checkpoint_folder is {folder}: {why}");
            let help = "use --params checkpoint.checkpoint_folder=DIR or workflow.checkpoint=False";
            Failure::saying(Cause::Plan, fact).with_help(help)
        })?;
        *folder = found.to_string_lossy().into_owned();
    }
    // These keys had an effect.
    let used = ["storage.storage_type", "storage.storage_root"];
    workload.without_effect.retain(|note| is_known || !used.contains(&note.key.as_str()));
    Ok(())
}
