//! A matrix on several hosts before its first byte: each has separate files, and all have the same
//! cells.

use std::path::{Path, PathBuf};

use stormlp_core::difference::ConsistencyField;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::path::PathKind;
use stormlp_core::warning::Warning;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_transfer::storage::{Storage as _, StorageRouter};

use super::scan;
use crate::plan::{
    CellSpan, JobTarget, MatrixPlan, MatrixRequest, TargetInventory, asked, decided, resolve,
};

/// The facts that a process determines before planning.
struct Looked {
    /// The options that must be equal on all hosts.
    consistency_fields: Vec<ConsistencyField>,
    request: MatrixRequest,
    facts: HostFacts,
    inventory: TargetInventory,
    /// The folders in which each process has a subfolder.
    shared: Vec<PathBuf>,
}

/// Plans `request` on this machine; options and plan must be equal on all hosts, including whether
/// this is a dry run, and the report being resumed.
///
/// # Errors
/// With exit code 3 or 4 and all problems.
pub fn prepare(
    request: Result<MatrixRequest, Failure>,
    (dry_run, resume): (bool, Option<&Path>),
    peers: &Peers,
    session: &Session,
) -> Result<(MatrixPlan, HostFacts), Failure> {
    let looked = request.and_then(|request| look(request, (dry_run, resume), peers, session));
    let looked = peers.agree_on(looked, |looked| looked.consistency_fields.clone())?;
    let Looked { request, facts, mut inventory, shared, .. } = looked;
    share_room(&mut inventory, peers)?;
    let plan = resolve(&request, &facts, &inventory).map_err(Failure::from);
    let plan = peers.agree_on(plan, decided)?;
    if !dry_run {
        make_shared(&shared, peers, session)?;
    }
    Ok((plan, facts))
}

fn look(
    mut request: MatrixRequest,
    (dry_run, resume): (bool, Option<&Path>),
    peers: &Peers,
    session: &Session,
) -> Result<Looked, Failure> {
    if !peers.is_alone() && matches!(request.span(), CellSpan::Steady(_)) {
        let fact = "--duration steady: several processes become steady at different times";
        return Err(Failure::usage(fact).with_help("use --duration 10m with a --warmup"));
    }
    let mut consistency_fields = asked(&request, !peers.has_local_storage());
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let report = resume.map_or("none".to_string(), |path| absolute(path).display().to_string());
    consistency_fields.push(("option --resume".to_string(), report));
    consistency_fields.push(("option --dry-run".to_string(), dry_run.to_string()));
    let shared = share(&mut request, peers, session)?;
    let facts = host_facts(&request, session)?;
    let inventory =
        scan::inventory(&*session.storage, &request, 1 + usize::from(!shared.is_empty()))?;
    Ok(Looked { consistency_fields, request, facts, inventory, shared })
}

/// Gives each process a subfolder of the given folders, which all processes may see. Returns the
/// given folders.
///
/// # Errors
/// If all of them would write to the same file.
fn share(
    request: &mut MatrixRequest,
    peers: &Peers,
    session: &Session,
) -> Result<Vec<PathBuf>, Failure> {
    let mut shared = Vec::new();
    if peers.is_alone() || peers.has_local_storage() {
        return Ok(shared);
    }
    let writes = request.writes();
    for job in &mut request.jobs {
        match &mut job.target {
            JobTarget::Folder(folder) => {
                shared.push(folder.clone());
                folder.push(format!("rank-{}", session.group.rank()));
            }
            JobTarget::File(file) if writes => {
                return Err(Failure::usage(format!(
                    "all hosts would overwrite each other's data in {}",
                    file.display()
                ))
                .with_help(
                    "name a folder with --dir, or --local-storage if the file or device of that \
                     name is different on each host",
                ));
            }
            JobTarget::File(_) => {}
        }
    }
    Ok(shared)
}

/// Divides the smallest free space seen by any host into equal shares, so that all hosts derive the
/// same file sizes from it.
fn share_room(inventory: &mut TargetInventory, peers: &Peers) -> Result<(), Failure> {
    if peers.is_alone() {
        return Ok(());
    }
    let mut rooms: Vec<&mut u64> = inventory.free_bytes().collect();
    let own: Vec<u64> = rooms.iter().map(|room| **room).collect();
    let sharers = if peers.has_local_storage() { 1 } else { peers.members().len() as u64 };
    for other in peers.exchange(&own)? {
        for (room, other) in rooms.iter_mut().zip(other) {
            **room = (**room).min(other);
        }
    }
    for room in rooms {
        *room /= sharers;
    }
    Ok(())
}

/// Creates the folders in which each process has one, and tests whether all see them.
fn make_shared(folders: &[PathBuf], peers: &Peers, session: &Session) -> Result<(), Failure> {
    for folder in folders {
        let made = if session.group.leads() {
            StorageRouter::default().make_folder(folder).map_err(Failure::machine)
        } else {
            Ok(())
        };
        peers.agree(made)?;
        peers.check_shared(folder)?;
    }
    Ok(())
}

/// Warnings about these hosts for the report.
pub fn warnings(peers: &Peers) -> impl Iterator<Item = Warning> {
    peers.warnings().into_iter().chain(peers.local_warning("used its own files"))
}

/// The facts needed by a request; GPU libraries are probed only for paths that use them.
///
/// # Errors
/// As [`Session::host_facts`].
pub fn host_facts(request: &MatrixRequest, session: &Session) -> Result<HostFacts, Failure> {
    let uses_gpu = request.paths().into_iter().any(PathKind::ends_in_accelerator);
    let nearest = session.storage.nearest(request.jobs[0].target.path())?;
    let directory = match session.storage.is_folder(&nearest)? {
        true => &*nearest,
        false => nearest.parent().unwrap_or(&nearest),
    };
    let targets = request.jobs.iter().map(|job| job.target.path().as_path());
    session.facts_of_run((uses_gpu, Some(directory)), targets)
}

/// Plans a request on this machine alone.
///
/// # Errors
/// With exit code 3 or 4 and all problems.
pub fn plan(
    request: &MatrixRequest,
    facts: &HostFacts,
    session: &Session,
) -> Result<MatrixPlan, Failure> {
    let inventory = scan::inventory(&*session.storage, request, 1)?;
    Ok(resolve(request, facts, &inventory)?)
}
