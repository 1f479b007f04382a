//! Runs with a start time.

use super::*;
use stormlp_transfer::surroundings::unix_seconds;

#[test]
fn who_begins_at_a_time_is_ready_by_then_or_measures_nothing() {
    let folder = folder();
    let plan = plan(&request(folder.path()));
    let storage: Arc<dyn Storage> = Arc::new(Disk);
    let surroundings =
        Surroundings { storage: &storage, observer: &Silent, stop: &StopToken::new() };
    let begin_at = |seconds: f64| {
        let head =
            Head::new(ReportKind::Checkpoint, String::new(), String::new(), probe::host_facts());
        let company = Company::From(seconds);
        let host_memory: Arc<dyn Accelerator> = Arc::new(HostStandIn);
        run_over((head, &plan, company), &surroundings, &mut |_| {}, host_memory.into())
    };
    let late = begin_at(1.0).unwrap_err();
    assert!(matches!(late, CheckpointError::Late { .. }), "{late}");
    assert_steps(folder.path(), 0);
    // Long enough even on a busy machine.
    let soon = unix_seconds() + 5.0;
    let report = begin_at(soon).unwrap();
    let (saves, restores) = (&report.results.saves, &report.results.restores);
    assert_eq!((saves.len(), restores.len()), (2, 2));
    let mut before = soon;
    for one in saves.iter().chain(restores) {
        let began = one.started_unix_seconds.unwrap();
        assert!(began >= before, "{began} {before}");
        before = began;
    }
}
