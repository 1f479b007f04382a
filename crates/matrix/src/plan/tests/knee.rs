//! Plans of knee searches.

use super::*;

#[test]
fn a_search_for_knees_plans_what_it_may_need() {
    let search = |paths: &[PathKind], io_size: u64| MatrixRequest {
        find_knee: true,
        paths: PathChoice::each(paths),
        io_sizes: vec![IoSize::fixed(io_size)],
        threads: Vec::new(),
        queue_depths: Vec::new(),
        ..MatrixRequest::plain(PathBuf::from("data"))
    };
    let search = |paths: &[PathKind], io_size: u64| search(paths, io_size).complete();
    let settings = |request: &MatrixRequest, facts: &HostFacts| -> Vec<(usize, usize)> {
        let plan = resolve(request, facts, &folder(100 * GIB)).unwrap();
        let of = |cell: &CellPlan| (cell.transport.threads, cell.transport.queue_depth);
        plan.cells.iter().map(of).collect()
    };
    // Doubling thread counts, with depths between.
    let cpu = settings(&search(&[PathKind::Cpu], 64 * KIB), &laptop());
    assert_eq!(cpu.len(), 6 * 12);
    assert!(!cpu.iter().any(|(threads, _)| *threads == 3));
    // A blocking path only varies threads; one that cannot run has a cell that says why.
    let gds = settings(&search(&[PathKind::Gds], MIB), &gpu_server());
    assert_eq!(gds.len(), 10);
    let both = search(&[PathKind::Gds, PathKind::Cpu], 64 * KIB);
    assert_eq!(settings(&both, &laptop()).len(), 6 * 12 + 1);
    // At most a quarter of 16 GiB is in flight.
    let large = settings(&search(&[PathKind::Cpu], 64 * MIB), &laptop());
    assert!(large.iter().all(|(threads, depth)| threads * depth <= 64), "{large:?}");
    let mut many = search(&[PathKind::Cpu], MIB);
    many.jobs = vec![many.jobs[0].clone(); 40];
    many.threads = Vec::new();
    assert_eq!(many.complete().threads, [40], "each job has a thread");
}
