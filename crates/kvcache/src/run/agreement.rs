//! What several hosts agree on before a run: each has a plan of its own, with its own seed and
//! folder, of the same request.

use stormlp_core::difference::ConsistencyField;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::location::Location;
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

use crate::plan::{KvcacheFacts, KvcacheRequest};

/// Names of request fields that differ from their keys.
const NAMES: [(&str, &str); 9] = [
    ("capacity_bytes", "option --capacity"),
    ("chunk_bytes", "option --chunk-size"),
    ("duration_seconds", "option --duration"),
    ("folder", "option --dir"),
    ("memory_bytes", "option --memory"),
    ("model", "MODEL"),
    ("pause_seconds", "option --pause"),
    ("serving", "options for serving"),
    ("telemetry_seconds", "option --telemetry"),
];

/// The facts needed by a request; GPU libraries are probed only for paths that use them.
///
/// # Errors
/// As [`Session::host_facts`].
pub fn host_facts(request: &KvcacheRequest, session: &Session) -> Result<HostFacts, Failure> {
    let path = request.serving.path.unwrap_or_default();
    let uses_gpu = match &request.serving.device {
        Some(devices) => devices.any_gpu() || path.needs_cufile(),
        None => path.ends_in_accelerator(),
    };
    let folders = || request.folder.iter().map(Location::folder);
    session.facts_of_run((uses_gpu, folders().next()), folders())
}

/// What must be equal on all hosts.
pub fn asked(request: &KvcacheRequest) -> Vec<ConsistencyField> {
    consistency_fields::asked(request, &[], &NAMES)
}

/// The facts of the folder of one of the processes of `peers`, which has a share of what is free
/// where several have their folders: on the machine, or with shared storage everywhere.
pub fn share(facts: KvcacheFacts, peers: &Peers) -> KvcacheFacts {
    let sharers =
        if peers.has_local_data() { peers.processes_here() } else { peers.members().len() };
    let free_bytes = facts.free_bytes.map(|bytes| bytes / sharers.max(1) as u64);
    KvcacheFacts { free_bytes, ..facts }
}
