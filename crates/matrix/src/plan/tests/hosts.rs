//! When the plans of two hosts describe the same work.

use super::*;

/// A change that makes a plan differ.
type Change = fn(&mut MatrixPlan);

#[test]
fn hosts_with_different_work_are_reported_by_one_setting() {
    let plan = solve(&plain(), &folder(100 * GIB));
    assert_eq!(difference(("h1", &plan), ("h2", &plan)), None);
    let cases: [(Change, &str); 4] = [
        (|plan| plan.request.seed += 1, "setting `seed`: h1 has "),
        (
            |plan| plan.cells[1].transport.pages = stormlp_core::transport::Pages::Small,
            "setting `pages` of the cells",
        ),
        (|plan| plan.cells[1].transport.threads += 1, "cell 1: h1 has "),
        (|plan| plan.crews.push(CrewPlan { workers: Vec::new() }), "threads of the cells at `"),
    ];
    for (change, message) in cases {
        let mut other = plan.clone();
        change(&mut other);
        let line = difference(("h1", &plan), ("h2", &other)).unwrap();
        assert!(line.contains(message) && line.contains("h2 has "), "{line}");
    }
}
