//! What hosts without a launcher must have in common so that their checkpoints can be merged.
//! Everything in the plan counts except the fields excluded here, so that new fields are never
//! forgotten.

use crate::plan::checkpoint_plan::{CheckpointPlan, DECIDED_FURTHER_ON};
use serde_json::Value;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::difference::{Promise, fields_but, in_words, text};
use stormlp_core::placement::Placement;
use stormlp_core::transport::WaitMode;

/// The first difference between the plans of two hosts, in one line that names both hosts.
pub fn difference(
    (one, plan): (&str, &CheckpointPlan),
    (other, other_plan): (&str, &CheckpointPlan),
) -> Option<String> {
    let (ours, theirs) = (promises(plan), promises(other_plan));
    let mut pairs = ours.iter().zip(&theirs);
    let ((what, of_one), (_, of_other)) = pairs.find(|(ours, theirs)| ours != theirs)?;
    Some(in_words(what, (one, of_one), (other, of_other)))
}

/// The decisions of a plan that must be equal on all hosts. Those that users know by name come
/// first, since the rest follows from them.
fn promises(plan: &CheckpointPlan) -> Vec<Promise> {
    let mut promises = vec![
        ("model".to_string(), plan.model.clone()),
        ("number of ranks".to_string(), plan.ranks.len().to_string()),
        ("scale".to_string(), plan.scaling.factor.to_string()),
        ("number of directories".to_string(), plan.request.folders.len().to_string()),
    ];
    let mut settings = fields_but(&common(plan), &DECIDED_FURTHER_ON);
    if let Some(Value::Object(asked)) = settings.remove("request") {
        settings.extend(asked);
    }
    let settings = settings.iter().map(|(key, value)| (format!("setting `{key}`"), text(value)));
    promises.extend(settings);
    promises
}

/// The plan without host-specific values: the location of its checkpoints and the free space there,
/// the content seed, and what follows from its CPUs.
fn common(plan: &CheckpointPlan) -> CheckpointPlan {
    let mut plan = plan.clone();
    plan.warnings.clear();
    plan.full_run.clear();
    if let Some(client) = &mut plan.client {
        (client.origin, client.cpus) = (CalibrationOrigin::default(), 0);
    }
    plan.free_bytes = None;
    plan.buffer_bytes = 0;
    plan.content.seed = 0;
    for restore in &mut plan.restores {
        restore.content.seed = 0;
    }
    for transport in [&mut plan.save, &mut plan.restore] {
        (transport.threads, transport.queue_depth) = (0, 0);
        (transport.streams, transport.submit_batch) = (0, 0);
        transport.wait = WaitMode::default();
        transport.placement = Placement::default();
        transport.devices = Vec::new();
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::builtin;
    use crate::plan::choice::ScaleChoice;
    use crate::plan::facts::CheckpointFacts;
    use crate::plan::request::CheckpointRequest;
    use crate::plan::resolve::resolve;
    use stormlp_core::facts::HostFacts;
    use stormlp_core::path::PathKind;

    type Change = fn(&mut CheckpointRequest);

    fn plan(change: Change) -> CheckpointPlan {
        let workload = builtin::load("llama3-8b").unwrap();
        let mut request = CheckpointRequest::plain(workload, "ckpt".into());
        request.dry_run = true;
        change(&mut request);
        let host = HostFacts::fixture();
        resolve(&request, &host, &CheckpointFacts::default()).plan.unwrap()
    }

    #[test]
    fn hosts_with_different_work_are_distinguished() {
        let ours = plan(|_| {});
        let changes: [(Change, &str); 6] = [
            (|one| one.writes = Some(3), "setting `writes`"),
            (|one| one.cold = true, "setting `cold`"),
            (|one| one.streams = Some(7), "setting `save` at `window`"),
            (|one| one.scale = Some(ScaleChoice::Factor(0.5)), "the scale: "),
            (|one| one.path = PathKind::Cpu, "setting `"),
            (|one| one.folders.push("other".into()), "number of directories"),
        ];
        for (change, told) in changes {
            let theirs = plan(change);
            let line = difference(("h1", &ours), ("h2", &theirs)).unwrap();
            assert!(line.contains(told), "{told}: {line}");
            assert!(line.contains("h1 has") && line.contains("h2 has"), "{line}");
        }
    }

    #[test]
    fn each_host_may_have_folders_a_seed_and_cpus_of_its_own() {
        let ours = plan(|_| {});
        let mut theirs = plan(|one| {
            one.folders = vec!["elsewhere".into()];
            one.seed = Some(7);
        });
        theirs.save.threads += 3;
        theirs.free_bytes = Some(1);
        assert_eq!(difference(("h1", &ours), ("h2", &theirs)), None);
    }
}
