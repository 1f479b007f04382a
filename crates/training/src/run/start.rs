//! The preparation of a run before its first byte: a request for this machine, its dataset and its
//! plan.

use std::path::{Path, PathBuf};

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_core::note::Cause;
use stormlp_core::path::PathKind;
use stormlp_core::transport::Devices;
use stormlp_core::warning::Warning;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_transfer::storage::{FolderLock, LockError, Storage};

use super::agreement;
use super::data::{self, Data};
use crate::plan::request::TrainRequest;
use crate::plan::resolve::{Resolved, rules_broken_without_data};
use crate::plan::train_plan::TrainPlan;
use crate::plan::workload::Workload;

/// The request, before the dataset is examined.
pub struct RequestedRun {
    /// The workload, with all parameters applied.
    pub workload: Workload,
    /// The options.
    pub request: TrainRequest,
    facts: HostFacts,
}

/// A run ready to start.
pub struct Prepared {
    /// The workload, with the dataset that the run reads.
    pub workload: Workload,
    /// The facts of this machine.
    pub facts: HostFacts,
    /// The dataset.
    pub data: Data,
    /// The plan.
    pub plan: TrainPlan,
    /// Findings that do not prevent the run.
    pub warnings: Vec<Warning>,
}

impl RequestedRun {
    /// The request for this machine, which is examined.
    ///
    /// # Errors
    /// If the GPU libraries cannot be probed.
    pub fn of(
        workload: Workload,
        request: TrainRequest,
        session: &Session,
    ) -> Result<Self, Failure> {
        let facts = facts(&request, session)?;
        Ok(Self { workload, request, facts })
    }

    /// Finds the dataset and makes the complete plan of the run. `beside` returns the result
    /// folders that share the file system of the dataset's folder, for rules that ask for them.
    ///
    /// # Errors
    /// If there is no such dataset, or no valid plan.
    pub fn prepare(
        self,
        beside: impl FnOnce(&Path) -> Vec<PathBuf>,
        peers: &Peers,
        session: &Session,
    ) -> Result<Prepared, Failure> {
        let Self { mut workload, mut request, facts } = self;
        let data = if request.is_null() {
            Data::none(&workload)
        } else {
            data::find(&workload, &request, &facts, session)
                .map_err(|failure| with_broken_rules(failure, &workload, &request, &facts))?
        };
        let folder = &data.inventory.folder;
        if data.to_make.is_some() && !peers.is_alone() {
            let fact = format!("{folder} has no dataset, and several hosts do not make one");
            let failure = Failure::saying(Cause::Machine, fact)
                .with_help("make it first, without the launcher: `stormlp datagen`");
            return Err(with_broken_rules(failure, &workload, &request, &facts));
        }
        if request.closed && !request.is_null() {
            request.results_beside_data = beside(folder.folder());
        }
        request.makes_dataset = data.to_make.is_some();
        workload.dataset = data.spec.clone();
        if data.inventory.starter {
            request.take_starter_set(&workload);
        }
        let Resolved { plan, warnings: of_plan } =
            TrainPlan::resolve(&workload, &request, &facts, &data.inventory)?;
        let mut warnings = data.warnings.clone();
        warnings.extend(of_plan);
        warnings.extend(agreement::warnings(peers, &plan));
        Ok(Prepared { workload, facts, data, plan, warnings })
    }
}

/// The facts needed by a run; GPU libraries are probed only for paths that use them.
fn facts(request: &TrainRequest, session: &Session) -> Result<HostFacts, Failure> {
    let uses_gpu = request.path.is_some_and(PathKind::ends_in_accelerator)
        || request.device.as_ref().is_some_and(Devices::any_gpu);
    let objects = request.dir.as_ref().is_some_and(Location::names_objects);
    let folder = request.dir.as_ref().map(Location::folder);
    // Threads are bound near the drives of the dataset; an unnamed dataset is generated in the
    // current folder.
    let reads = (!request.is_null() && !objects).then_some(folder.unwrap_or(Path::new(".")));
    session.facts_of_run((uses_gpu, reads), reads)
}

/// A missing dataset, and the closed rules that the run would break with any dataset.
fn with_broken_rules(
    failure: Failure,
    workload: &Workload,
    request: &TrainRequest,
    facts: &HostFacts,
) -> Failure {
    let mut problems = rules_broken_without_data(workload, request, facts);
    if failure.cause() != Cause::Machine || problems.is_empty() {
        return failure;
    }
    problems.machine(failure.note.fact, failure.note.remedy);
    problems.into()
}

/// Locks the dataset folder against other runs. A read-only folder is shared deliberately and
/// cannot be changed meanwhile.
///
/// # Errors
/// If another run holds it, or its device fails.
pub fn lock(storage: &dyn Storage, plan: &TrainPlan) -> Result<Option<FolderLock>, Failure> {
    let Some(folder) = &plan.data.folder else {
        return Ok(None);
    };
    match storage.lock(folder.folder()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(Failure::machine(error)),
        Err(LockError::File(error)) if error.is_device_failure() => Err(error.into()),
        Err(LockError::File(_)) => Ok(None),
    }
}
