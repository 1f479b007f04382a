//! `stormlp doctor [PATH]`: the paths this machine supports, and why not the others.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde::Serialize;
use stormlp_core::group::GroupView;
use stormlp_core::location::names_object;
use stormlp_core::machine::Machine;
use stormlp_core::note::Cause;
use stormlp_show::doctor;
use stormlp_transfer::probe;

use super::doctor_objects;
use super::workloads::read_text;
use crate::hosts::Needs;
use crate::output::{self, Format};
use stormlp_core::failure::Failure;
use stormlp_core::group::GroupFacts;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp doctor                              this machine and the current folder
  stormlp doctor /mnt/nvme                    the storage of another folder
  stormlp doctor /dev/nvme0n1                 a block device itself, or a file
  stormlp doctor s3://bucket/prefix           an object store, which AWS_ENDPOINT_URL names; several
                                              endpoints of it are separated by commas
  mpirun -n 2 --map-by ppr:1:node --host h1,h2 stormlp doctor /shared
                                              whether hosts find each other, share the folder, and what
                                              a barrier costs
  stormlp doctor --launch h1,h2               what to type for each launcher; also --launch ./hostfile")]
pub(crate) struct Args {
    /// Folder, file, block device or prefix of objects to examine.
    #[arg(value_name = "PATH", default_value = ".")]
    directory: PathBuf,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Print the commands to start one process on each of these hosts, or those of a hostfile, with
    /// each launcher, and exit
    #[arg(long, value_name = "HOST,...|FILE", value_delimiter = ',', conflicts_with_all = ["directory", "format"])]
    launch: Vec<String>,
}

impl Args {
    /// Other processes take part only in the examination of the machine.
    pub(crate) fn needs(&self) -> Needs {
        let alone = !self.launch.is_empty() || names_object(&self.directory);
        if alone { Needs::Nobody } else { Needs::Group }
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
    if !args.launch.is_empty() {
        return launch(&args.launch);
    }
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

/// Shows how to start a process on each of the `hosts`: their names, or a hostfile (a path, or the name
/// of a file that is there).
fn launch(hosts: &[String]) -> Result<(), Failure> {
    let typed = hosts.join("\n");
    let is_file = hosts.len() == 1 && (typed.contains('/') || Path::new(&typed).is_file());
    let named = if is_file {
        doctor::hosts_of(&read_text(Path::new(&typed), "the hostfile")?)
    } else {
        doctor::hosts_of(&typed)
    };
    if named.is_empty() {
        let fact = format!("{} names no host", if is_file { &typed } else { "--launch" });
        let cause = if is_file { Cause::Plan } else { Cause::Usage };
        let help = "name hosts, as in --launch h1,h2, or a hostfile, which has one name a line";
        return Err(Failure::saying(cause, fact).with_help(help));
    }
    let mut document = doctor::launch(&named, is_file.then_some(&typed));
    if !is_file && hosts.len() == 1 {
        let what = format!("{typed}, since no file {typed} is in this folder");
        document.brief.add("host", what);
    }
    output::show(&document)
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
