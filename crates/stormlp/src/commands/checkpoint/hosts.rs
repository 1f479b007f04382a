//! A checkpoint of which several hosts save and restore a share: one of them plans for all.

use stormlp_model::checkpoint::{CheckpointFacts, CheckpointPlan, CheckpointRequest};
use stormlp_model::difference::Promise;
use stormlp_model::facts::HostFacts;
use stormlp_model::warning::{Warning, WarningKind};

use super::{looked_at, planned};
use crate::commands::party::Party;
use crate::commands::promises;
use crate::exit::Failure;
use crate::hosts;
use crate::session::Session;

/// Makes sure, as far as one can by looking, that the run can be made, that all hosts would do the same,
/// and that they see the same folders. Nothing is written by a run that is refused.
///
/// # Errors
/// As those of a plan; all hosts fail alike.
pub(super) fn look(
    request: &CheckpointRequest,
    host: &HostFacts,
    party: &Party,
    session: &Session,
) -> Result<(), Failure> {
    let looked = looked_at(request).and_then(|facts| {
        let facts = of_all(facts, party);
        planned(request, host, &facts)
    });
    let looked = party.agree(looked, |_| promises(request), session)?;
    check(&looked, party, session)
}

/// Storage as it proved when it was written to: by one host where all see the same, else as the worst
/// host has it.
///
/// # Errors
/// When it cannot be looked at; all hosts fail alike.
pub(super) fn tried(
    request: &CheckpointRequest,
    party: &Party,
    session: &Session,
) -> Result<CheckpointFacts, Failure> {
    if party.is_alone() {
        return super::tried(request, session);
    }
    let looks = session.group.leads() || party.has_local_data();
    let own = looks.then(|| super::tried(request, session)).transpose();
    let own = party.agree(own, |_| Vec::new(), session)?;
    let free = |facts: &CheckpointFacts| -> Vec<u64> {
        let folders = facts.folders.iter();
        folders.map(|folder| folder.free_bytes).collect()
    };
    let told = own
        .as_ref()
        .map(|facts| (free(facts), facts.trial_bytes_per_second));
    let all = hosts::exchange(&session.group, &told)?;
    let mut facts = own.unwrap_or_default();
    for (free, rate) in all.into_iter().flatten() {
        for (folder, free) in facts.folders.iter_mut().zip(free) {
            folder.free_bytes = folder.free_bytes.min(free);
        }
        let known = facts.trial_bytes_per_second.zip(rate);
        facts.trial_bytes_per_second = known.map(|(one, other)| one.min(other));
    }
    Ok(of_all(facts, party))
}

/// What all hosts have together where each has folders of its own.
pub(super) fn of_all(mut facts: CheckpointFacts, party: &Party) -> CheckpointFacts {
    if party.is_alone() || !party.has_local_data() {
        return facts;
    }
    let all = party.members();
    let hosts = all.iter().filter(|member| member.leads_host(all)).count();
    for folder in &mut facts.folders {
        folder.free_bytes = folder.free_bytes.saturating_mul(hosts as u64);
    }
    let rate = facts.trial_bytes_per_second;
    facts.trial_bytes_per_second = rate.map(|rate| rate * hosts as f64);
    facts
}

/// The plan that all hosts carry out, which one of them makes of `facts` of storage.
///
/// # Errors
/// As those of a plan; all hosts fail alike.
pub(super) fn plan(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
    (party, session): (&Party, &Session),
) -> Result<CheckpointPlan, Failure> {
    if party.is_alone() {
        return planned(request, host, facts);
    }
    let own = session
        .group
        .leads()
        .then(|| dealt(planned(request, host, facts)?, request, party));
    let own = party.agree(own.transpose(), |_| Vec::new(), session)?;
    from_first(&own, session)
}

/// What the first host has, on all of them.
///
/// # Errors
/// When the others cannot be heard.
pub(super) fn from_first<T>(own: &Option<T>, session: &Session) -> Result<T, Failure>
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let told = hosts::exchange(&session.group, own)?;
    let first = told.into_iter().next().flatten();
    first.ok_or_else(|| Failure::bug(anyhow::anyhow!("the first host has nothing to tell")))
}

/// Deals the ranks to the hosts, and has each restore what another host wrote unless something else
/// was asked for.
fn dealt(
    mut plan: CheckpointPlan,
    request: &CheckpointRequest,
    party: &Party,
) -> Result<CheckpointPlan, Failure> {
    let (ranks, count) = (plan.ranks.len(), party.members().len());
    if count > ranks {
        let error = anyhow::anyhow!("{count} hosts, and {ranks} ranks to deal to them");
        return Err(Failure::no_plan(error).with_help("start fewer processes, or use more --ranks"));
    }
    let further = ranks.div_ceil(count);
    let shared = !party.has_local_data();
    if shared && request.rank_shift.is_none() && !plan.closed && !plan.restores.is_empty() {
        plan.rank_shift = further as u64;
        let members = party.members();
        let wrote = match members.iter().all(|member| member.leads_host(members)) {
            true => "another host wrote and has in its page cache, not this one",
            false => "another process wrote; those of one host share its page cache",
        };
        plan.warnings.push(Warning::new(
            WarningKind::Hosts,
            format!("each rank restores the files of the one {further} further, which {wrote}"),
            "--rank-shift 0 has each restore its own",
        ));
    }
    if !ranks.is_multiple_of(count) {
        plan.warnings.push(Warning::new(
            WarningKind::Hosts,
            format!("{ranks} ranks on {count} hosts: some hosts have one more than others"),
            "use a number of hosts that divides the ranks",
        ));
    }
    if !shared {
        plan.warnings.push(Warning::new(
            WarningKind::Hosts,
            "every host saves to folders of its own and restores what it saved (--local-data): \
             nothing here is of shared storage",
            "",
        ));
    }
    plan.warnings.extend(party.warnings());
    Ok(plan)
}

/// What each host may be asked for itself: where a seed was not asked for each draws its own, and the
/// first one's counts.
const APART: [&str; 4] = ["typed", "results_beside_data", "seed", "threading"];
/// What was asked for is called by its option, where that is another word.
const NAMES: [(&str, &str); 6] = [
    ("chunk_bytes", "option --chunk-size"),
    ("cufile_stats", "option --cufile-stats"),
    ("local_data", "option --local-data"),
    ("overlap_step_seconds", "option --overlap"),
    ("rank_shift", "option --rank-shift"),
    ("require_gds", "option --require-gds"),
];

/// What `request` asks for, as far as all hosts have to ask the same.
fn promises(request: &CheckpointRequest) -> Vec<Promise> {
    promises::of(request, &APART, &NAMES)
}

/// Makes sure that all hosts see the same folders.
///
/// # Errors
/// All hosts fail alike where one does not.
fn check(plan: &CheckpointPlan, party: &Party, session: &Session) -> Result<(), Failure> {
    for folder in &plan.folders {
        let nearest = session.storage.nearest(folder.folder());
        party.check_shared(&nearest, session)?;
    }
    Ok(())
}
