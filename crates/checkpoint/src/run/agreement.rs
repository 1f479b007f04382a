//! A checkpoint before its first byte: the facts of host and storage, and on several hosts one plan
//! for all of them.

use serde::{Deserialize, Serialize};
use stormlp_core::difference::ConsistencyField;
use stormlp_core::facts::{FolderFacts, HostFacts};
use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, Note};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::consistency_fields;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;

use super::trial::write_rate;
use super::{ScanDepth, scan};
use crate::plan::{CheckpointFacts, CheckpointPlan, CheckpointRequest, resolve};

/// The plan of a valid request.
///
/// # Errors
/// With exit code 3 or 4 and all problems.
pub fn planned(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
) -> Result<CheckpointPlan, Failure> {
    Ok(resolve(request, host, facts).planned()?)
}

/// Checks, without writing, that the run is possible and that all hosts see the same folders. A
/// rejected run does not write. The plan assumes the fastest possible storage.
///
/// # Errors
/// The errors of a plan; all hosts fail alike.
pub fn look(
    request: &CheckpointRequest,
    host: &HostFacts,
    peers: &Peers,
    session: &Session,
) -> Result<CheckpointPlan, Failure> {
    let looked = || {
        let facts = scan(&*session.storage, &request.folders, ScanDepth::Only)?;
        // A plan that is too large then is too large in any case.
        let facts = CheckpointFacts { trial_bytes_per_second: Some(f64::INFINITY), ..facts };
        planned(request, host, &of_all(facts, peers))
    };
    let looked = peers.agree(looked())?;
    for folder in &looked.request.folders {
        peers.check_shared(&session.storage.nearest(folder.folder())?)?;
    }
    Ok(looked)
}

/// The storage facts, with the write rate measured in a trial.
///
/// # Errors
/// If storage cannot be examined; all hosts fail alike.
pub fn tried(
    request: &CheckpointRequest,
    peers: &Peers,
    session: &Session,
) -> Result<CheckpointFacts, Failure> {
    let tried = || {
        let facts = scan(&*session.storage, &request.folders, ScanDepth::AndTry)?;
        Ok(CheckpointFacts { trial_bytes_per_second: trial(request, &facts, session)?, ..facts })
    };
    seen_by_all(tried, peers)
}

/// The write rate of storage, if the scale depends on it. Objects are not tried: a file that grows
/// for a second does not predict uploads, and the plan states its assumption instead.
fn trial(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    session: &Session,
) -> Result<Option<f64>, Failure> {
    if !request.has_open_scale() || request.closed || !request.is_saving() {
        return Ok(None);
    }
    // An unwritable folder is rejected with the reason.
    let first = facts.folders.first();
    let is_tried =
        |folder: &&FolderFacts| folder.writable.is_available() && !folder.path.names_objects();
    let Some(folder) = first.filter(is_tried) else {
        return Ok(None);
    };
    let nearest = session.trial_storage.nearest(folder.path.folder())?;
    write_rate(&*session.trial_storage, &nearest).map(Some).map_err(|error| {
        let Note { kind: cause, fact: why, .. } = Failure::from(error).note;
        let what = format!("the trial write to {} failed: {why}", folder.path);
        Failure::saying(cause, what).with_help(
            "check the kernel log for the device, quotas and limits (ulimit -f), or use another \
             --dir",
        )
    })
}

/// Storage as `look` finds it: on one host if all see the same, else the worst of all hosts. Of
/// several processes on a host only one looks: they would test its storage at the same time.
///
/// # Errors
/// If storage cannot be examined; all hosts fail alike.
pub fn seen_by_all(
    look: impl FnOnce() -> Result<CheckpointFacts, Failure>,
    peers: &Peers,
) -> Result<CheckpointFacts, Failure> {
    if peers.is_alone() {
        return look();
    }
    let look = || look().map(|facts| of_all(facts, peers));
    let own = peers.owns_folder().then(look).transpose();
    let own = peers.agree(own)?;
    let all = peers.exchange(&own.as_ref().map(StorageSeen::of))?;
    let mut facts = own.unwrap_or_default();
    for seen in all.into_iter().flatten() {
        seen.limit(&mut facts);
    }
    Ok(facts)
}

/// Facts about the folders as seen by one host.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StorageSeen {
    /// Free space of each folder, if known.
    free_bytes: Vec<Option<u64>>,
    /// The highest number of a run.
    last_run: u32,
    /// Measured write rate of the first folder.
    trial_bytes_per_second: Option<f64>,
}

impl StorageSeen {
    fn of(facts: &CheckpointFacts) -> Self {
        let folders = facts.folders.iter();
        Self {
            free_bytes: folders.map(|folder| folder.free_bytes).collect(),
            last_run: facts.last_run,
            trial_bytes_per_second: facts.trial_bytes_per_second,
        }
    }

    /// Reduces `facts` to the worse of both. A new run's number is new on all hosts.
    fn limit(self, facts: &mut CheckpointFacts) {
        for (folder, free) in facts.folders.iter_mut().zip(self.free_bytes) {
            folder.free_bytes = folder.free_bytes.zip(free).map(|(one, other)| one.min(other));
        }
        facts.last_run = facts.last_run.max(self.last_run);
        let known = facts.trial_bytes_per_second.zip(self.trial_bytes_per_second);
        facts.trial_bytes_per_second = known.map(|(one, other)| one.min(other));
    }
}

/// The storage of all hosts together, if each has separate folders, like this one.
fn of_all(facts: CheckpointFacts, peers: &Peers) -> CheckpointFacts {
    if peers.has_local_storage() {
        scaled(facts, peers.processes_here(), peers.members().len())
    } else {
        facts
    }
}

/// The storage that `here` processes share, as seen by all `processes`, each of which has an equal
/// share of the ranks.
fn scaled(mut facts: CheckpointFacts, here: usize, processes: usize) -> CheckpointFacts {
    for folder in &mut facts.folders {
        let all = |free: u64| (free / here as u64).saturating_mul(processes as u64);
        folder.free_bytes = folder.free_bytes.map(all);
    }
    let rate = facts.trial_bytes_per_second;
    facts.trial_bytes_per_second = rate.map(|rate| rate / here as f64 * processes as f64);
    facts
}

/// The plan for all hosts, made by one of them from the `facts` of storage.
///
/// # Errors
/// The errors of a plan; all hosts fail alike.
pub fn plan(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
    (peers, session): (&Peers, &Session),
) -> Result<CheckpointPlan, Failure> {
    if peers.is_alone() {
        return planned(request, host, facts);
    }
    let own = session.group.leads().then(|| dealt(planned(request, host, facts)?, peers));
    let own = peers.agree(own.transpose())?;
    peers.from_first(&own)
}

/// Assigns the ranks to hosts, and makes each host restore another host's files unless
/// requested otherwise.
fn dealt(mut plan: CheckpointPlan, peers: &Peers) -> Result<CheckpointPlan, Failure> {
    let (ranks, count) = (plan.ranks.len(), peers.members().len());
    if count > ranks {
        let what = format!("{count} hosts for only {ranks} ranks");
        let help = "start fewer processes, or use more --ranks";
        return Err(Failure::saying(Cause::Plan, what).with_help(help));
    }
    let further = ranks.div_ceil(count);
    if !peers.has_local_storage() && !plan.request.closed && !plan.restores.is_empty() {
        plan.rank_shift = further as u64;
        let members = peers.members();
        let wrote = if members.iter().all(|member| member.leads_host(members)) {
            "another host wrote and has in its page cache, not this one"
        } else {
            "another process wrote; processes of a host share its page cache"
        };
        plan.warnings.push(Warning::new(
            WarningKind::Hosts,
            format!(
                "each rank restores the files of the one {further} positions later, which \
                     {wrote}"
            ),
            "",
        ));
    }
    if !ranks.is_multiple_of(count) {
        plan.warnings.push(Warning::new(
            WarningKind::Hosts,
            format!("{ranks} ranks on {count} hosts: some hosts have one more"),
            "use a number of hosts that divides the ranks",
        ));
    }
    plan.warnings.extend(peers.local_warning("saves to and restores from its own folders"));
    plan.warnings.extend(peers.warnings());
    Ok(plan)
}

/// Request fields that may differ between hosts: each may have the workload's file elsewhere.
const APART: [&str; 1] = ["model"];
/// Names of request fields that differ from their keys.
const NAMES: [(&str, &str); 4] = [
    ("io_size", "option --io-size"),
    ("folders", "option --dir"),
    ("overlap_step_seconds", "option --overlap-step"),
    ("pause_seconds", "option --pause"),
];

/// The part of `request` that must be equal on all hosts. It is taken before a seed is drawn: each
/// host draws one, and the first host's counts.
pub fn asked(request: &CheckpointRequest) -> Vec<ConsistencyField> {
    let mut consistency_fields = consistency_fields::asked(request, &APART, &NAMES);
    let workload = serde_json::json!({ "workload": request.workload });
    consistency_fields.extend(consistency_fields::of(&workload, &[], &[]));
    consistency_fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::facts::Availability;

    /// Storage with this free space and write rate.
    fn facts(free_bytes: u64, rate: Option<f64>) -> CheckpointFacts {
        CheckpointFacts {
            folders: vec![FolderFacts {
                path: "ckpt".into(),
                writable: Availability::Available,
                free_bytes: Some(free_bytes),
                file_system_id: 1,
                file_system: None,
                direct: Availability::Available,
            }],
            trial_bytes_per_second: rate,
            ..CheckpointFacts::default()
        }
    }

    #[test]
    fn the_worst_host_decides_what_all_have() {
        let mut first = facts(800, Some(40.0));
        StorageSeen::of(&facts(200, Some(60.0))).limit(&mut first);
        assert_eq!(StorageSeen::of(&first), StorageSeen::of(&facts(200, Some(40.0))));
        StorageSeen::of(&facts(900, Some(10.0))).limit(&mut first);
        assert_eq!(StorageSeen::of(&first), StorageSeen::of(&facts(200, Some(10.0))));
        // A later look does not run a trial.
        StorageSeen::of(&facts(100, None)).limit(&mut first);
        assert_eq!(StorageSeen::of(&first), StorageSeen::of(&facts(100, None)));
    }

    #[test]
    fn processes_of_one_host_share_its_resources() {
        let of =
            |here, processes| StorageSeen::of(&scaled(facts(600, Some(60.0)), here, processes));
        assert_eq!(of(1, 1), StorageSeen::of(&facts(600, Some(60.0))));
        // Both on one host: its storage is all there is.
        assert_eq!(of(2, 2), StorageSeen::of(&facts(600, Some(60.0))));
        assert_eq!(of(1, 2), StorageSeen::of(&facts(1200, Some(120.0))));
        // Three of four on this host: it is full when it has three quarters of the data.
        assert_eq!(of(3, 4), StorageSeen::of(&facts(800, Some(80.0))));
    }
}
