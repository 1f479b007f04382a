//! Agreement of several hosts before a run: each has a plan, with a different seed and folder, of
//! the same request.

use stormlp_core::difference::ConsistencyField;
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;

use crate::plan::{KvcacheFacts, KvcacheRequest, KvcacheWorkload};

/// Names of request fields that differ from their keys.
const NAMES: [(&str, &str); 8] = [
    ("capacity_bytes", "option --capacity"),
    ("duration_seconds", "option --duration"),
    ("folder", "option --dir"),
    ("io_bytes", "option --io-size"),
    ("model", "MODEL"),
    ("prefill_tokens_per_second", "option --prefill-rate"),
    ("requests_per_second", "option --request-rate"),
    ("trace", "FILE"),
];

/// Fields that must be equal on all hosts.
pub fn asked(request: &KvcacheRequest) -> Vec<ConsistencyField> {
    let options = match &request.workload {
        KvcacheWorkload::Mlperf(of) => consistency_fields::asked(of, &[], &NAMES),
        KvcacheWorkload::Serving(of) => consistency_fields::asked(of, &[], &NAMES),
        KvcacheWorkload::Replay(of) => consistency_fields::asked(of, &[], &NAMES),
    };
    let mut fields = vec![("the workload".to_string(), request.workload_name().to_string())];
    fields.extend(consistency_fields::asked(&request.run, &[], &NAMES));
    fields.extend(options);
    fields
}

/// The facts of the folder of one of the processes of `peers`, which has a share of the free space
/// where several have their folders: on the machine, or with shared storage everywhere.
pub fn share(mut facts: KvcacheFacts, peers: &Peers) -> KvcacheFacts {
    let sharers =
        if peers.has_local_storage() { peers.processes_here() } else { peers.members().len() };
    let folder = &mut facts.folder;
    folder.free_bytes = folder.free_bytes.map(|bytes| bytes / sharers.max(1) as u64);
    facts
}
