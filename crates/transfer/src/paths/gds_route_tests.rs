//! Every source of evidence, alone and combined.

use stormlp_core::evidence::Mechanism;

use super::*;
use crate::cufile::RouteCounters;
use crate::cufile::Routes;
use stormlp_core::evidence::OperationsBy;

/// One hundred transfers of 1 MiB.
const HUNDRED: Transferred = Transferred { operations: 100, bytes: 100 << 20 };

static NONE: BTreeSet<Mechanism> = BTreeSet::new();

/// Transfers to a GPU without any evidence.
fn nothing() -> RouteCounts<'static> {
    RouteCounts {
        on_host: false,
        fallback_allowed: Some(true),
        operations: None,
        counted: Counted::Never,
        can_count: false,
        nvfs: NvidiaFsCounts::Absent,
        moved: HUNDRED,
        moved_while_counted: HUNDRED,
        begun: HUNDRED,
        unbound: 0,
        no_p2pdma: None,
        offered: &NONE,
        has_direct_targets: true,
        has_targets_of_their_own: false,
    }
}

fn direct(p2p: u64, nvfs: u64) -> OperationsBy {
    [(Mechanism::P2pdma, p2p), (Mechanism::NvidiaFs, nvfs)].into()
}

fn counted(p2p: u64, nvfs: u64, fallback: u64) -> RouteCounts<'static> {
    let operations = Routes { direct: direct(p2p, nvfs), fallback, unassigned: 0 };
    RouteCounts {
        operations: Some(Box::leak(Box::new(operations))),
        counted: Counted::Throughout,
        ..nothing()
    }
}

fn kernel(operations: u64, mebibytes: Option<u64>) -> NvidiaFsCounts {
    NvidiaFsCounts::Counting(NvfsCounts { operations, mebibytes })
}

fn found(seen: RouteCounts<'_>) -> (Route, RouteProof) {
    let verdict = judge(&seen);
    (verdict.route, verdict.proof)
}

#[test]
fn a_fallback_is_never_named_after_the_requested_path() {
    let route = |p2p, nvfs, posix| judge(&counted(p2p, nvfs, posix)).route;
    let effective = |route: Route| route.effective(PathKind::Gds);
    assert_eq!(effective(route(3, 0, 0)), Some(PathKind::Gds));
    assert_eq!(effective(route(0, 3, 0)), Some(PathKind::Gds));
    assert_eq!(effective(route(0, 0, 3)), Some(PathKind::GdsCompat));
    assert_eq!(effective(route(1, 0, 1)), None);
}

#[test]
fn transfers_that_no_counter_has_are_of_the_only_other_route() {
    let of = |offered: &[Mechanism], posix, unassigned| {
        let offered = BTreeSet::from_iter(offered.iter().copied());
        let transfers = Routes { direct: direct(0, 0), fallback: posix, unassigned };
        let counters = RouteCounters { transfers, ..RouteCounters::default() };
        let operations = counters.of(PathKind::Gds, false, &offered);
        let seen =
            RouteCounts { operations: Some(&operations), offered: &offered, ..counted(0, 0, 0) };
        judge(&RouteCounts { no_p2pdma: Some("there is none"), has_direct_targets: false, ..seen })
    };
    use Mechanism::{C2c, Dmabuf, NvidiaFs, NvidiaPeermem};
    // As on Grace, and on a file system with RDMA.
    let by_c2c = of(&[C2c, NvidiaFs], 0, 100);
    assert_eq!((by_c2c.route, by_c2c.proof), (Route::Direct, RouteProof::Counters));
    assert!(by_c2c.summary.contains("100 C2C and 0 POSIX"), "{}", by_c2c.summary);
    assert_eq!(of(&[Dmabuf], 0, 100).route, Route::Direct);
    assert_eq!(of(&[Dmabuf], 60, 40).route, Route::Mixed);
    // One of two, or of none that is known.
    assert_eq!(of(&[Dmabuf, NvidiaPeermem], 0, 100).route, Route::Unknown);
    assert_eq!(of(&[], 0, 100).route, Route::Unknown);
    assert_eq!(of(&[], 60, 40).route, Route::NotAllDirect);
    // A route that is offered was perhaps taken; what is not counted is not ruled out.
    assert_eq!(of(&[C2c], 0, 0).route, Route::Unknown);
    assert_eq!(of(&[], 0, 0).route, Route::Posix);
}

#[test]
fn io_uring_alone_proves_no_route() {
    let of = |p2p, fallback, unassigned| {
        let batches = Routes { direct: direct(p2p, 0), fallback, unassigned };
        let counters = RouteCounters { batches, ..RouteCounters::default() };
        let operations = counters.of(PathKind::GdsBatch, false, &NONE);
        let moved_while_counted = Transferred { operations: 8, bytes: 8 << 20 };
        judge(&RouteCounts {
            operations: Some(&operations),
            moved_while_counted,
            ..counted(0, 0, 0)
        })
    };
    // Entries that another counter assigns to a route.
    assert_eq!(of(8, 0, 8).route, Route::Direct);
    assert_eq!(of(0, 8, 8).route, Route::Posix);
    assert_eq!(of(0, 4, 8).route, Route::NotAllDirect);
    for unproven in [of(0, 0, 8), of(4, 0, 8), of(4, 0, 4)] {
        assert_eq!(unproven.route, Route::Unknown);
        assert!(unproven.summary.contains("assigns to no route"), "{}", unproven.summary);
    }
}

#[test]
fn a_direct_path_without_counts_is_unproven_but_not_a_fallback() {
    for seen in [nothing(), counted(0, 0, 0)] {
        let verdict = judge(&seen);
        assert_eq!((verdict.route, verdict.proof), (Route::Unknown, RouteProof::None));
        assert!(verdict.to_prove.unwrap().contains("--require gds"));
    }
    let told_not_to = RouteCounts { can_count: true, ..nothing() };
    let to_prove = judge(&told_not_to).to_prove.unwrap();
    assert!(to_prove.contains("--tune cufile-stats"), "{to_prove}");
    let off = RouteCounts {
        nvfs: NvidiaFsCounts::NotCounting,
        no_p2pdma: Some("there is none"),
        has_direct_targets: false,
        ..nothing()
    };
    let verdict = judge(&off);
    assert_eq!(verdict.route, Route::Unknown);
    assert!(verdict.to_prove.unwrap().contains("rw_stats_enabled"));
}

#[test]
fn nvidia_fs_proves_only_what_it_counted_completely() {
    let of = |nvfs| found(RouteCounts { nvfs, ..nothing() });
    let proven = (Route::Direct, RouteProof::KernelDriver);
    assert_eq!(of(kernel(100, Some(100))), proven);
    assert_eq!(of(kernel(140, Some(99))), proven, "whole MiB are cut off");
    let unproven = (Route::Unknown, RouteProof::None);
    // Large transfers are split: the count alone is no proof.
    assert_eq!(of(kernel(100, None)), unproven);
    assert_eq!(of(kernel(400, Some(50))), unproven);
    assert_eq!(of(kernel(99, Some(100))), unproven);
    // Peer-to-peer DMA may have carried them.
    assert_eq!(of(kernel(0, Some(0))), unproven);
    // Another program moved bytes meanwhile, which may account for all of the count.
    assert_eq!(of(kernel(150, Some(150))), unproven);
    let others = judge(&RouteCounts { nvfs: kernel(150, Some(150)), ..nothing() });
    assert!(
        others.summary.contains("including other processes' or split ones"),
        "{}",
        others.summary
    );
    assert!(others.to_prove.unwrap().starts_with("stop everything else"));
}

#[test]
fn small_transfers_of_others_are_not_counted_as_ours() {
    let small = Transferred { operations: 8, bytes: 8 << 12 };
    let of = |operations| {
        found(RouteCounts {
            moved: small,
            begun: small,
            nvfs: kernel(operations, Some(0)),
            ..nothing()
        })
    };
    assert_eq!(of(8), (Route::Direct, RouteProof::KernelDriver));
    assert_eq!(of(100), (Route::Unknown, RouteProof::None));
}

#[test]
fn transfers_in_flight_may_be_counted_or_not() {
    let begun = Transferred { operations: 104, bytes: 104 << 20 };
    for counted in [100, 102, 104] {
        let seen = RouteCounts { begun, nvfs: kernel(counted, Some(counted)), ..nothing() };
        assert_eq!(found(seen).0, Route::Direct, "{counted}");
    }
}

#[test]
fn without_transfers_there_is_no_route() {
    let failed = RouteCounts {
        moved: Transferred::default(),
        fallback_allowed: Some(false),
        no_p2pdma: Some("there is none"),
        has_direct_targets: false,
        ..nothing()
    };
    let on_host = RouteCounts { on_host: true, ..failed };
    let counting = RouteCounts { nvfs: kernel(0, Some(0)), ..failed };
    for seen in [failed, on_host, counting] {
        let verdict = judge(&seen);
        assert_eq!(verdict.route, Route::Unknown);
        assert_eq!(verdict.proof, RouteProof::None);
        assert!(verdict.summary.ends_with("no transfer succeeded"));
    }
}

#[test]
fn nvidia_fs_refutes_if_there_is_no_other_route() {
    let of = |nvfs, fallback_allowed| {
        found(RouteCounts { nvfs, fallback_allowed, no_p2pdma: Some("there is none"), ..nothing() })
    };
    let allowed = Some(true);
    let by_nvfs = |route| (route, RouteProof::KernelDriver);
    assert_eq!(of(kernel(0, Some(0)), allowed), by_nvfs(Route::Posix));
    assert_eq!(of(kernel(40, Some(40)), allowed), by_nvfs(Route::NotAllDirect));
    // More than these, so other processes' are included: no claim is refuted.
    let unproven = (Route::Unknown, RouteProof::None);
    assert_eq!(of(kernel(150, Some(150)), allowed), unproven);
    let network = RouteCounts {
        nvfs: kernel(0, Some(0)),
        no_p2pdma: Some("there is none"),
        has_targets_of_their_own: true,
        ..nothing()
    };
    assert_eq!(found(network), unproven, "a route of its own");
    // POSIX calls were used although forbidden.
    assert_eq!(of(kernel(0, Some(0)), Some(false)), by_nvfs(Route::Posix));
}

#[test]
fn compatibility_mode_follows_by_elimination() {
    let left = RouteCounts {
        no_p2pdma: Some("libcufile 1.11 has no peer-to-peer DMA"),
        has_direct_targets: false,
        ..nothing()
    };
    let verdict = judge(&left);
    assert_eq!((verdict.route, verdict.proof), (Route::Posix, RouteProof::Elimination));
    assert!(verdict.summary.contains("by elimination, since nvidia-fs is not loaded"));
    let other_target = RouteCounts { has_direct_targets: true, ..left };
    assert_eq!(judge(&other_target).route, Route::Unknown);
    let forbidden = RouteCounts { fallback_allowed: Some(false), ..left };
    assert_eq!(found(forbidden), (Route::Direct, RouteProof::FallbackForbidden));
    let on_host = RouteCounts { on_host: true, ..nothing() };
    assert_eq!(found(on_host), (Route::Posix, RouteProof::Elimination));
}

#[test]
fn the_summary_states_when_it_was_counted() {
    let beforehand = RouteCounts { counted: Counted::Beforehand, ..counted(8, 0, 0) };
    assert!(judge(&beforehand).summary.contains("before the measured part"));
    let at_first = RouteCounts { counted: Counted::AtFirst, ..counted(8, 0, 0) };
    assert!(judge(&at_first).summary.ends_with("in its first transfers"));
}

#[test]
fn batches_are_judged_by_their_own_counters() {
    let counters = RouteCounters {
        reads: 9,
        transfers: Routes { fallback: 9, ..Routes::default() },
        batches: Routes { direct: direct(4, 0), ..Routes::default() },
        ..RouteCounters::default()
    };
    for kind in [PathKind::GdsBatch, PathKind::GdsBatchStream] {
        let batch = counters.of(kind, false, &NONE);
        assert_eq!((batch.direct, batch.fallback), (direct(4, 0), 0));
    }
    let blocking = counters.of(PathKind::Gds, false, &NONE);
    assert_eq!((blocking.direct, blocking.fallback), (OperationsBy::new(), 9));
}

#[test]
fn host_memory_counts_as_posix() {
    let counters = RouteCounters { reads: 5, writes: 2, ..RouteCounters::default() };
    assert_eq!(counters.of(PathKind::Gds, true, &NONE).fallback, 7);
}

#[test]
fn forbidding_proves_only_transfers_that_no_setting_sends_by_posix_calls() {
    let forbidden = RouteCounts { fallback_allowed: Some(false), ..nothing() };
    let direct = (Route::Direct, RouteProof::FallbackForbidden);
    assert_eq!(found(forbidden), direct);
    let counting = |nvfs| RouteCounts { nvfs, ..forbidden };
    assert_eq!(found(counting(NvidiaFsCounts::NotCounting)), direct);
    // Other processes' transfers are included, which refutes no claim.
    assert_eq!(found(counting(kernel(150, Some(150)))), direct);
    let unbound = RouteCounts { unbound: 1, ..forbidden };
    let network = RouteCounts { has_targets_of_their_own: true, ..forbidden };
    for (seen, why) in [
        (counting(kernel(0, Some(0))), "nvidia-fs did not see all"),
        (unbound, "1 transfer that is not aligned"),
        (network, "file systems with a separate route"),
    ] {
        let verdict = judge(&seen);
        assert_eq!(verdict.route, Route::Unknown, "{why}");
        assert_eq!(verdict.proof, RouteProof::None, "{why}");
        assert!(verdict.summary.contains(why), "{}", verdict.summary);
        assert!(!verdict.summary.contains("was allowed"), "{why}");
        // It has been tried; and if allowed, advice without a proof is omitted.
        let allowed = RouteCounts { fallback_allowed: Some(true), ..seen };
        for seen in [seen, allowed] {
            let to_prove = judge(&seen).to_prove.unwrap();
            assert!(!to_prove.contains("--require gds"), "{to_prove}");
        }
    }
}
