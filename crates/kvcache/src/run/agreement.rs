//! What several hosts agree on before a run: each has a plan of its own, with its own seed and
//! folder, of the same request.

use stormlp_core::difference::ConsistencyField;
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;

use crate::plan::{KvcacheFacts, KvcacheRequest};

/// Names of request fields that differ from their keys.
const NAMES: [(&str, &str); 8] = [
    ("capacity_bytes", "option --capacity"),
    ("chunk_bytes", "option --chunk-size"),
    ("duration_seconds", "option --duration"),
    ("folder", "option --dir"),
    ("memory_bytes", "option --memory"),
    ("model", "MODEL"),
    ("pause_seconds", "option --pause"),
    ("serving", "options for serving"),
];

/// What must be equal on all hosts.
pub fn asked(request: &KvcacheRequest) -> Vec<ConsistencyField> {
    consistency_fields::asked(request, &[], &NAMES)
}

/// The facts of the folder of one of the processes of `peers`, which has a share of what is free
/// where several have their folders: on the machine, or with shared storage everywhere.
pub fn share(mut facts: KvcacheFacts, peers: &Peers) -> KvcacheFacts {
    let sharers =
        if peers.has_local_storage() { peers.processes_here() } else { peers.members().len() };
    let folder = &mut facts.folder;
    folder.free_bytes = folder.free_bytes.map(|bytes| bytes / sharers.max(1) as u64);
    facts
}
