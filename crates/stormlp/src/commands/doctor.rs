//! `stormlp doctor [PATH]`: the paths that this machine supports, and why it lacks the rest.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::Serialize;
use stormlp_core::group::GroupView;
use stormlp_core::location::{folder_or_prefix, names_object};
use stormlp_core::machine::Machine;
use stormlp_show::doctor;
use stormlp_transfer::probe;

use super::doctor_objects;
use crate::hosts::Needs;
use crate::output::Format;
use stormlp_core::failure::Failure;
use stormlp_core::group::GroupFacts;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp doctor /mnt/nvme
  stormlp doctor /dev/nvme0n1
  stormlp doctor s3://bucket/prefix           AWS_ENDPOINT_URL names the endpoints
  mpirun -n 2 --map-by ppr:1:node --host h1,h2 stormlp doctor /shared
                                              also whether the hosts share the folder")]
pub(crate) struct Args {
    /// Folder, file, block device or prefix of objects
    #[arg(value_name = "PATH", default_value = ".", value_parser = folder_or_prefix)]
    directory: PathBuf,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Args {
    /// Other processes only examine the machine.
    pub(crate) fn needs(&self) -> Needs {
        if names_object(&self.directory) { Needs::Nobody } else { Needs::Group }
    }
}

/// The machine, and the processes started together.
#[derive(Serialize)]
struct Examined {
    #[serde(flatten)]
    machine: Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupView>,
}

/// Examines the machine and prints the findings. A missing feature is a finding; only a path that
/// does not exist or is not storage is an error.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    if names_object(&args.directory) {
        return doctor_objects::run(&args.directory, args.format);
    }
    let peers = session.peers(false)?;
    peers.agree(check(&args.directory))?;
    let patience = session.patience();
    let machine = probe::machine(&session.executable()?, &args.directory, &patience);
    let group = if peers.is_alone() {
        None
    } else {
        Some(GroupView {
            facts: GroupFacts { machines: Vec::new(), ..peers.facts()? },
            folder: peers.try_shared(&args.directory)?,
            members: peers.members().to_vec(),
        })
    };
    if !session.group.leads() {
        return Ok(());
    }
    let examined = Examined { machine, group };
    args.format.print(&examined, |examined| {
        let mut document = doctor::document(&examined.machine);
        if let Some(group) = &examined.group {
            doctor::group(group, &mut document);
        }
        document
    })
}

/// Checks that the path is storage.
fn check(path: &Path) -> Result<(), Failure> {
    const HELP: &str = "name an existing folder, file or block device";
    let place = path.display();
    let fault = match probe::metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_dir() || kind.is_file() || kind.is_block_device() => return Ok(()),
        Ok(_) => anyhow!("{place} is not a folder, file or block device"),
        Err(error) if error.kind() == ErrorKind::NotFound => anyhow!("{place} does not exist"),
        Err(error) => anyhow::Error::new(error).context(format!("cannot examine {place}")),
    };
    Err(Failure::machine(fault).with_help(HELP))
}
