//! The route taken by the bytes of a cuFile path, as far as it can be determined, and the
//! evidence.
//!
//! The sources, in order: cuFile's counters; the statistics of the nvidia-fs kernel driver;
//! forbidden compatibility mode; the absence of any other route on this machine. A route that none
//! of them shows is unproven, which is not the same as a fallback.

use std::collections::BTreeSet;

use stormlp_core::evidence::{Counted, Mechanism, RouteProof};
use stormlp_core::path::PathKind;
use stormlp_core::units::counted;

use crate::cufile::{NvfsCounts, NvidiaFsCounts, Routes, TO_ENABLE, Transferred};

/// `3 peer-to-peer, 0 nvidia-fs and 0 POSIX`.
fn words(operations: &Routes) -> String {
    let direct = operations.direct.iter().map(|(by, count)| format!("{count} {}", by.words()));
    format!("{} and {} POSIX", direct.collect::<Vec<_>>().join(", "), operations.fallback)
}

/// Observations since a path was built, including other paths of the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteCounts<'a> {
    /// Whether they ended in host memory.
    pub(super) on_host: bool,
    pub(super) fallback_allowed: Option<bool>,
    /// cuFile's counts, and when.
    pub(super) operations: Option<&'a Routes>,
    pub(super) counted: Counted,
    /// Whether the library can count operations, if enabled.
    pub(super) can_count: bool,
    /// nvidia-fs's counts.
    pub(super) nvfs: NvidiaFsCounts,
    /// Transfers of the paths of this process, by their count.
    pub(super) moved: Transferred,
    /// Their transfers when this path's counting ended: cuFile has counted as many at least.
    pub(super) moved_while_counted: Transferred,
    /// Their started transfers, including transfers that failed or are in flight.
    pub(super) begun: Transferred,
    /// How many of these cuFile may move by POSIX calls even when compatibility mode is forbidden.
    pub(super) unbound: u64,
    /// Why none of it used peer-to-peer DMA, if that is certain.
    pub(super) no_p2pdma: Option<&'a str>,
    /// The mechanisms that cuFile offers for any kind of storage, as far as it says.
    pub(super) offered: &'a BTreeSet<Mechanism>,
    /// Whether cuFile lists storage with a direct route.
    pub(super) has_direct_targets: bool,
    /// Whether it lists storage with a route that nvidia-fs does not count.
    pub(super) has_targets_of_their_own: bool,
}

/// The route taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// All by a direct route.
    Direct,
    /// All by POSIX calls.
    Posix,
    /// Some by each.
    Mixed,
    /// Some by POSIX calls; unknown whether the rest used a direct route.
    NotAllDirect,
    /// Undetermined.
    Unknown,
}

impl Route {
    /// The path that actually ran when `kind` was requested.
    pub(super) fn effective(self, kind: PathKind) -> Option<PathKind> {
        match self {
            Self::Direct => Some(kind),
            Self::Posix => Some(PathKind::GdsCompat),
            Self::Mixed | Self::NotAllDirect | Self::Unknown => None,
        }
    }
}

/// A route with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteVerdict {
    pub(super) route: Route,
    pub(super) proof: RouteProof,
    /// One sentence for the report.
    pub(super) summary: String,
    /// The missing proof, if it is unproven.
    pub(super) to_prove: Option<String>,
}

impl RouteVerdict {
    fn new(route: Route, proof: RouteProof, why: String) -> Self {
        let route_in_words = match route {
            Route::Direct => "direct",
            Route::Posix => "cuFile's POSIX compatibility mode",
            Route::Mixed => "part direct, part compatibility mode",
            Route::NotAllDirect => "in part at least cuFile's POSIX compatibility mode",
            Route::Unknown => "the route is not proven",
        };
        Self { route, proof, summary: format!("{route_in_words}: {why}"), to_prove: None }
    }
}

/// The route according to `seen`.
pub(super) fn judge(seen: &RouteCounts<'_>) -> RouteVerdict {
    by_counters(seen)
        .or_else(|| nothing_moved(seen))
        .or_else(|| by_memory(seen))
        .or_else(|| by_nvidia_fs(seen))
        .or_else(|| by_setting(seen))
        .or_else(|| by_elimination(seen))
        .unwrap_or_else(|| unproven(seen))
}

/// Judges by cuFile's counters.
fn by_counters(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    let operations = seen.operations?;
    let direct = operations.all_direct();
    // Entries that went by io_uring are accounted for if the routes have all that were moved.
    let assigned = direct.saturating_add(operations.fallback);
    let leaves_some = operations.unassigned > 0 && assigned < seen.moved_while_counted.operations;
    let route = match (direct, operations.fallback) {
        (0, 0) => return None,
        (_, 0) if leaves_some => return None,
        (_, 0) => Route::Direct,
        (0, _) if leaves_some => Route::NotAllDirect,
        (0, _) => Route::Posix,
        _ => Route::Mixed,
    };
    let memory = if seen.on_host { " of host memory" } else { "" };
    let when = match seen.counted {
        Counted::Beforehand => {
            ", in similar transfers just before the measured part, of two blocks per thread, which \
             a drive may keep in its cache"
        }
        Counted::AtFirst => ", in its first transfers",
        Counted::Never | Counted::Throughout => "",
    };
    let why = format!("cuFile counted {} transfers{memory}{when}", words(operations));
    Some(RouteVerdict::new(route, RouteProof::Counters, why))
}

/// No byte was moved, so no route was used.
fn nothing_moved(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    (seen.moved.operations == 0).then(|| RouteVerdict {
        to_prove: Some("find out why no transfer succeeded, and run it again".to_string()),
        summary: "no route was used: no transfer succeeded".to_string(),
        ..RouteVerdict::new(Route::Unknown, RouteProof::None, String::new())
    })
}

/// Host memory has only one route.
fn by_memory(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    seen.on_host.then(|| {
        let why = "the buffers are host memory, for which cuFile has no direct route".to_string();
        RouteVerdict::new(Route::Posix, RouteProof::Elimination, why)
    })
}

/// Judges by the statistics of nvidia-fs: they cover the whole host, but never another route's
/// transfers.
fn by_nvidia_fs(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    let NvidiaFsCounts::Counting(counts) = seen.nvfs else {
        return None;
    };
    let ours = seen.moved.operations;
    let found = format!(
        "nvidia-fs counted {} reads and writes on this host while {ours} transfers ran",
        counts.operations
    );
    if are_these(counts, seen) {
        let why = format!("{found}, and their bytes match");
        return Some(RouteVerdict::new(Route::Direct, RouteProof::KernelDriver, why));
    }
    // Another direct route may have carried the rest.
    let why_not = seen.no_p2pdma?;
    let is_counted = |by| matches!(by, Mechanism::P2pdma | Mechanism::NvidiaFs);
    if seen.has_targets_of_their_own || !seen.offered.iter().copied().all(is_counted) {
        return None;
    }
    let route = match counts.operations {
        0 => Route::Posix,
        some if some < ours => Route::NotAllDirect,
        // Transfers of other processes are included, and possibly all of these.
        _ => return None,
    };
    let why = format!("{found}, and {why_not}");
    Some(RouteVerdict::new(route, RouteProof::KernelDriver, why))
}

/// Whether the driver's host-wide counts can only be the transfers in question, or as many with as
/// many bytes: other processes' transfers would make them larger. Transfers in flight at the time
/// may or may not be included, as may failed ones.
fn are_these(counts: NvfsCounts, seen: &RouteCounts<'_>) -> bool {
    // A count without bytes could be anyone's.
    let Some(mebibytes) = counts.mebibytes else {
        return false;
    };
    // Large transfers are split into parts of a MiB or more.
    let most = seen.begun.operations + (seen.begun.bytes >> 20);
    let operations = seen.moved.operations..=most;
    // It reports whole MiB for reads and for writes: the difference is off by less than one of
    // each.
    let bytes = mebibytes.saturating_sub(2) << 20 <= seen.begun.bytes
        && mebibytes.saturating_add(2) << 20 >= seen.moved.bytes;
    operations.contains(&counts.operations) && bytes
}

/// Compatibility mode was forbidden, and no transfer bypassed that.
fn by_setting(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    let proves = seen.fallback_allowed == Some(false) && gap_of_the_setting(seen).is_none();
    proves.then(|| {
        let why = "compatibility mode was forbidden, so a fallback would have failed; routes were \
                   not counted"
            .to_string();
        RouteVerdict::new(Route::Direct, RouteProof::FallbackForbidden, why)
    })
}

/// Why forbidding compatibility mode does not prove the route, if so: some cuFile settings use
/// POSIX calls regardless.
fn gap_of_the_setting(seen: &RouteCounts<'_>) -> Option<String> {
    let ours = seen.moved.operations;
    if seen.nvfs.operations().is_some_and(|all| all < ours) {
        return Some("nvidia-fs did not see all of them".to_string());
    }
    if seen.has_targets_of_their_own {
        return Some("file systems with a separate route may use POSIX calls".to_string());
    }
    (seen.unbound > 0).then(|| {
        let are = if seen.unbound == 1 { "is" } else { "are" };
        format!(
            "{} that {are} not aligned to 4 KiB, or in a batch before libcufile 1.18 larger than \
             cuFile's buffer, may use POSIX calls",
            counted(seen.unbound, "transfer")
        )
    })
}

/// No driver, no peer-to-peer DMA, and cuFile offers no route at all.
fn by_elimination(seen: &RouteCounts<'_>) -> Option<RouteVerdict> {
    let why_not = seen.no_p2pdma?;
    let nothing_else = seen.nvfs == NvidiaFsCounts::Absent
        && !seen.has_direct_targets
        && seen.offered.is_empty()
        && seen.operations.is_none_or(|operations| operations.unassigned == 0);
    nothing_else.then(|| {
        let why = format!(
            "by elimination, since nvidia-fs is not loaded, {why_not}, and cuFile names \
                     no direct target"
        );
        RouteVerdict::new(Route::Posix, RouteProof::Elimination, why)
    })
}

/// There is no evidence.
fn unproven(seen: &RouteCounts<'_>) -> RouteVerdict {
    let counters = match (seen.operations, seen.can_count) {
        (Some(Routes { unassigned: 1.., .. }), _) => {
            "cuFile counted transfers that its documentation assigns to no route"
        }
        (Some(_), _) => "cuFile's route counters stayed at zero",
        (None, true) => "cuFile's route counters are off",
        (None, false) => "this libcufile does not count routes (1.15 or later does)",
    };
    let ours = seen.moved.operations;
    let has_others = seen.nvfs.operations().is_some_and(|all| all > ours);
    let kernel = match seen.nvfs {
        NvidiaFsCounts::Absent => "nvidia-fs is not loaded".to_string(),
        NvidiaFsCounts::NotCounting => "nvidia-fs does not count reads and writes".to_string(),
        NvidiaFsCounts::Counting(counts) => format!(
            "nvidia-fs counted {} reads and writes on this host while {ours} transfers ran{}",
            counts.operations,
            if has_others { ", including other processes' or split ones" } else { "" }
        ),
    };
    let gap = gap_of_the_setting(seen);
    let setting = match (seen.fallback_allowed, &gap) {
        (Some(false), Some(gap)) => format!("compatibility mode was forbidden, but {gap}"),
        _ => "compatibility mode was allowed".to_string(),
    };
    let why = format!("{counters}, {kernel}, and {setting}");
    RouteVerdict {
        to_prove: Some(to_prove(seen, gap.is_none(), has_others)),
        ..RouteVerdict::new(Route::Unknown, RouteProof::None, why)
    }
}

/// The missing proof of a route, depending on whether the setting can.
fn to_prove(seen: &RouteCounts<'_>, by_setting: bool, has_others: bool) -> String {
    let count = match (seen.operations, seen.can_count) {
        (None, true) => Some("leave out --tune cufile-stats to have routes counted".to_string()),
        _ => None,
    };
    let have_nvfs_count = match seen.nvfs {
        NvidiaFsCounts::NotCounting => Some(format!("have nvidia-fs count (`{TO_ENABLE}`)")),
        NvidiaFsCounts::Counting(_) if has_others => {
            Some("stop everything else that uses GPUDirect Storage on this host".to_string())
        }
        NvidiaFsCounts::Absent | NvidiaFsCounts::Counting(_) => None,
    };
    let forbid =
        "run with --require gds, which makes a fallback an error and so proves the direct route";
    let last = match by_setting {
        true => forbid,
        false if seen.can_count => "run aligned transfers on a local file system",
        false => "use libcufile 1.15 or later, which counts routes",
    };
    match count.or(have_nvfs_count) {
        Some(first) => format!("{first}; or {last}"),
        None => last.to_string(),
    }
}

#[cfg(test)]
#[path = "gds_route_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
