//! Tests the cause and the wording of verdicts.

use crate::plan::client::{Client, ClientCost};
use crate::plan::request::TrainRequest;
use crate::report::{AcceleratorEpoch, Cost, Slowest, StepLatency};
use stormlp_core::facts::FoundFile;
use stormlp_dataset::inventory::facts::Inventory;

use super::*;
use crate::plan::catalog;

fn waiting(storage: f64, cpu: f64, barrier: f64, startup: f64) -> WaitingSeconds {
    WaitingSeconds { storage, cpu, barrier, startup }
}

#[test]
fn the_largest_cause_gives_its_name() {
    let of = |au, ahead, waiting| bound(au, ahead, &waiting);
    let storage = waiting(9.0, 0.0, 0.0, 0.0);
    assert_eq!(of(99.0, false, storage), Bound::Compute);
    assert_eq!(of(99.0, true, storage), Bound::ReadAhead);
    let barrier = |storage, cpu| waiting(storage, cpu, 50.0, 0.0);
    assert_eq!(of(50.0, true, barrier(9.0, 1.0)), Bound::Storage);
    assert_eq!(of(50.0, false, barrier(1.0, 9.0)), Bound::Client);
    assert_eq!(of(50.0, false, barrier(5.2, 4.8)), Bound::StorageAndClient);
    assert_eq!(of(50.0, false, barrier(4.8, 5.2)), Bound::StorageAndClient);
    assert_eq!(of(50.0, false, waiting(0.0, 0.0, 50.0, 1.0)), Bound::Barrier);
    assert_eq!(of(50.0, false, waiting(0.0, 0.0, 1.0, 9.0)), Bound::Startup);
}

/// unet3d on one H100 with 70 files: ten steps per epoch.
fn plan(request: &TrainRequest) -> TrainPlan {
    let inventory = Inventory {
        folder: "/data/unet3d".into(),
        train: (0..70)
            .map(|index| FoundFile {
                name: format!("train/img_{index:02}_of_70.npz"),
                bytes: 146_600_628,
            })
            .collect(),
        ..Inventory::default()
    };
    let workload = catalog::find("unet3d", Some("h100")).unwrap().workload(&[]).unwrap();
    let request = TrainRequest { files: Some(70), ..request.clone() };
    TrainPlan::resolve(&workload, &request, &stormlp_fixtures::host(), &inventory).unwrap().plan
}

/// The verdict over one epoch with the given AU, read-ahead share and waiting.
fn judged(
    plan: &TrainPlan,
    au: f64,
    prefetched_share: f64,
    waiting_seconds: WaitingSeconds,
) -> Verdict {
    judged_by(plan, (au, prefetched_share), waiting_seconds, None)
}

/// The same, with `slowest` as the accelerator that the rest waited for.
fn judged_by(
    plan: &TrainPlan,
    (au, prefetched_share): (f64, f64),
    waiting_seconds: WaitingSeconds,
    slowest: Option<Slowest>,
) -> Verdict {
    judged_beside(plan, (au, prefetched_share), waiting_seconds, slowest, (None, None))
}

/// The same, beside the AU that this host reaches without storage, and limits in force.
fn judged_beside(
    plan: &TrainPlan,
    (au, prefetched_share): (f64, f64),
    waiting_seconds: WaitingSeconds,
    slowest: Option<Slowest>,
    (ceiling, limits): (Option<f64>, Option<&LimitsInForce>),
) -> Verdict {
    let ceiling = ceiling.map(|profile| AuPercent { profile, ..AuPercent::default() });
    let measures = Measures {
        au_percent: AuPercent { profile: au, ..AuPercent::default() },
        window_samples_per_second: 10.0,
        prefetched_share,
        waiting_seconds,
        ..Measures::default()
    };
    let epoch = EpochReport {
        epoch: 1,
        measures,
        cost: Cost::default(),
        started_seconds: 0.0,
        duration_seconds: 5.0,
        cached_share: None,
        device_busy_percent: None,
        slowest,
        latency: StepLatency::default(),
        accelerators: vec![AcceleratorEpoch { accelerator: 0, blocks: Vec::new() }],
        hosts: Vec::new(),
    };
    verdict(plan, &[&epoch], &measures, ceiling.as_ref(), limits)
}

#[test]
fn a_run_that_lives_on_what_was_read_ahead_is_not_called_compute_bound() {
    let plan = plan(&TrainRequest::default());
    assert_eq!(plan.steps_per_epoch, 10);
    // Half of the epoch was read after the first of ten steps: four of the nine that count.
    let verdict = judged(&plan, 99.0, 0.5, waiting(0.0, 0.0, 0.0, 1.0));
    assert_eq!(verdict.limited_by, Bound::ReadAhead);
    // The share and the advice are given once, by a warning.
    assert_eq!(verdict.sentence, "AU 99.0 % is largely due to prefetched samples");
    let verdict = judged(&plan, 99.0, 0.2, waiting(0.0, 0.0, 0.0, 1.0));
    assert_eq!(verdict.limited_by, Bound::Compute);
    let verdict = judged(&plan, 60.0, 0.5, waiting(1.0, 0.0, 0.0, 1.0));
    assert_eq!(verdict.limited_by, Bound::Storage);
}

#[test]
fn a_host_that_reaches_the_threshold_alone_is_not_the_bound_unless_its_quota_is() {
    let plan = plan(&TrainRequest::default());
    let judged = |ceiling, limits| {
        let waits = waiting(0.2, 0.8, 0.0, 0.0);
        judged_beside(&plan, (50.0, 0.1), waits, None, (Some(ceiling), limits))
    };
    let contradicted = judged(99.5, None);
    assert_eq!(contradicted.limited_by, Bound::Client);
    assert_eq!(
        contradicted.sentence,
        "client-bound: 80 % of the wait for data was this host; AU is 50.0 % with reads, 99.5 % \
         without: their CPU cost is the limit"
    );
    assert_eq!(judged(80.0, None).limited_by, Bound::Client, "it misses the threshold alone");
    let words = "0.20 CPUs (cpu.max), 95 % of the time".to_string();
    let quota = LimitsInForce { words, of_cpus: true };
    let limited = judged(99.5, Some(&quota));
    assert_eq!(limited.limited_by, Bound::Client);
    let named = "; limit in force: 0.20 CPUs (cpu.max), 95 % of the time";
    assert!(limited.sentence.ends_with(named), "{}", limited.sentence);
}

#[test]
fn the_limit_in_force_is_named_unless_the_run_did_not_wait() {
    let plan = plan(&TrainRequest::default());
    let words = "reads of vda at 50.0 MB/s (io.max), 90 % of the time".to_string();
    let limit = LimitsInForce { words, of_cpus: false };
    let judged = |au| {
        let waits = waiting(1.0, 0.0, 0.0, 0.0);
        judged_beside(&plan, (au, 0.1), waits, None, (None, Some(&limit))).sentence
    };
    let held = judged(40.0);
    assert!(held.starts_with("storage-bound") && held.ends_with(&limit.words), "{held}");
    assert!(!judged(99.0).contains("limit"), "{}", judged(99.0));
}

#[test]
fn one_accelerator_is_not_advised_to_use_fewer() {
    let client = waiting(0.0, 1.0, 0.0, 0.0);
    let one = judged(&plan(&TrainRequest::default()), 50.0, 0.1, client).sentence;
    assert!(one.ends_with("try more or faster CPUs"), "{one}");
    let request = TrainRequest { accelerators: Some(2), ..TrainRequest::default() };
    let two = judged(&plan(&request), 50.0, 0.1, client).sentence;
    assert!(two.ends_with("try fewer accelerators, or more CPUs"), "{two}");
}

#[test]
fn client_cost_per_step_is_not_met_with_advice_to_read_faster() {
    let request = TrainRequest { client_overhead: Client::Dlio, ..TrainRequest::default() };
    let plan = plan(&request);
    let steps = plan.steps_per_epoch as f64
        * ClientCost::known(plan.data.format).unwrap().step_seconds_of(plan.batch_size);
    let of_steps = judged(&plan, 90.0, 0.1, waiting(0.0, steps, 0.0, 0.0)).sentence;
    assert!(of_steps.contains("client-bound") && of_steps.contains("cost per step"), "{of_steps}");
    let of_bytes = judged(&plan, 90.0, 0.1, waiting(0.0, 5.0 * steps, 0.0, 0.0)).sentence;
    assert!(of_bytes.contains("reader.read_threads"), "{of_bytes}");
}

#[test]
fn a_wait_shown_as_zero_explains_nothing() {
    let plan = plan(&TrainRequest::default());
    let of = |barrier: f64, delayed_others_seconds: f64| {
        let slowest = Slowest { accelerator: 3, delayed_others_seconds };
        let waiting = waiting(0.0, 0.0, barrier, 0.0);
        let verdict = judged_by(&plan, (95.1, 0.0), waiting, Some(slowest));
        assert_eq!(verdict.limited_by, Bound::Barrier);
        verdict.sentence
    };
    let nothing = "AU 95.1 %; accelerators waited neither for data nor for each other";
    assert_eq!(of(0.004, 0.004), nothing);
    assert!(of(0.5, 0.004).ends_with("waited 0.50 s for slower peers"));
    assert!(of(0.5, 0.2).ends_with("longest for accelerator 3 (0.20 s)"));
}
