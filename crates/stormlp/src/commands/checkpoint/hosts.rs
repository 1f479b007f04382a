//! A checkpoint of which several hosts save and restore a share: one of them plans for all.

use stormlp_model::checkpoint::{CheckpointPlan, CheckpointRequest};
use stormlp_model::facts::HostFacts;
use stormlp_model::warning::{Warning, WarningKind};

use super::{planned, tried};
use crate::commands::party::Party;
use crate::exit::Failure;
use crate::hosts;
use crate::session::Session;

/// The plan that all hosts carry out. What it depends on of storage (free space, how fast it is
/// written) one of them looks at.
///
/// # Errors
/// As those of a plan; all hosts fail alike.
pub(super) fn plan(
    request: &CheckpointRequest,
    host: &HostFacts,
    party: &Party,
    session: &Session,
) -> Result<CheckpointPlan, Failure> {
    let resolve = || planned(request, host, &tried(request, session)?);
    if party.is_alone() {
        return resolve();
    }
    let own = session.group.leads().then(|| {
        let plan = resolve()?;
        dealt(plan, request, party)
    });
    let own = party.agree(own.transpose(), |_| Vec::new(), session)?;
    let told = hosts::exchange(&session.group, &own)?;
    let plan = told.into_iter().next().flatten();
    plan.ok_or_else(|| Failure::bug(anyhow::anyhow!("the first host has no plan")))
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
    if request.rank_shift.is_none() && !plan.closed && !plan.restores.is_empty() {
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
    plan.warnings.extend(party.warnings());
    Ok(plan)
}

/// What a run by `plan` does, as far as all have to do the same; its scale one host decides.
pub(super) fn promises(plan: &CheckpointPlan) -> Vec<(String, String)> {
    let folders: Vec<String> = plan.folders.iter().map(ToString::to_string).collect();
    let promises = [
        ("model", plan.model.clone()),
        ("profile", format!("{:?}", plan.profile)),
        ("mode", format!("{:?}", plan.mode)),
        ("folders", folders.join(", ")),
        ("number of saves", plan.writes.to_string()),
        ("number of restores", plan.restores.len().to_string()),
        ("pause", format!("{} s", plan.pause_seconds)),
        ("path", plan.path().to_string()),
        ("fsync", format!("{:?}", plan.fsync)),
        ("page cache before restores", format!("cold: {}", plan.cold)),
        ("check of what is restored", plan.verify.to_string()),
    ];
    let named = promises.into_iter();
    named
        .map(|(what, value)| (what.to_string(), value))
        .collect()
}

/// Makes sure that all hosts see the same folders.
///
/// # Errors
/// All hosts fail alike where one does not.
pub(super) fn check(
    plan: &CheckpointPlan,
    party: &Party,
    session: &Session,
) -> Result<(), Failure> {
    for folder in &plan.folders {
        let nearest = session.storage.nearest(folder.folder());
        party
            .check_shared(&nearest, session)
            .map_err(|failure| failure.with_help("use a --dir on shared storage"))?;
    }
    Ok(())
}
