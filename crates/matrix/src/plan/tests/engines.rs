//! The engine and batch of each cell.

use super::*;

#[test]
fn each_cell_has_the_engine_and_batch_that_suit_its_path_and_depth() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu, PathKind::Buffered]);
    request.queue_depths = vec![1, 32];
    let plan = resolve(&request, &laptop(), &folder(100 * GIB)).unwrap();
    let seen: Vec<_> = (plan.cells.iter())
        .map(|cell| &cell.transport)
        .map(|t| (t.path, t.queue_depth, t.engine, t.submit_batch))
        .collect();
    assert_eq!(
        seen,
        [
            (PathKind::Cpu, 1, EngineKind::Uring, 1),
            (PathKind::Buffered, 1, EngineKind::Psync, 1),
            (PathKind::Cpu, 32, EngineKind::Uring, 4),
            (PathKind::Buffered, 32, EngineKind::Uring, 16),
        ]
    );
    assert_eq!(plan.engines_in_words(), "uring, psync (auto)");

    request.engine = EngineChoice::Uring;
    request.tune.submit_batch = Some(2);
    let plan = resolve(&request, &laptop(), &folder(100 * GIB)).unwrap();
    assert!(
        plan.cells
            .iter()
            .all(|c| { (c.transport.engine, c.transport.submit_batch) == (EngineKind::Uring, 2) })
    );
    assert_eq!(plan.engines_in_words(), "uring");
}

#[test]
fn a_refused_io_uring_is_reported_and_a_requested_engine_is_an_error() {
    let mut facts = laptop();
    facts.io_uring = Availability::unavailable("seccomp", "allow io_uring_setup");
    let plan = resolve(&plain(), &facts, &folder(100 * GIB)).unwrap();
    assert_eq!(plan.engine, EngineKind::Psync);
    assert!(plan.warnings.iter().any(|w| w.kind == WarningKind::EngineFellBack));
    let mut request = plain();
    request.engine = EngineChoice::Uring;
    let found = resolve(&request, &facts, &folder(100 * GIB)).unwrap_err();
    assert!(found.to_string().contains("seccomp"), "{found}");
}
