//! The order in which the runs of two sides were measured, from their start times.

use super::Named;
use super::judge::Design;

/// How the reports of both sides were measured, unless they are known to be pairs.
///
/// A side that was measured after the other differs from it by whatever happened to the machine in
/// between, too. Runs that alternate share that, if each side has runs before and after some of the
/// other.
pub(super) fn design(baseline: &[Named<'_>], now: &[Named<'_>]) -> Design {
    if baseline.len().min(now.len()) < 2 {
        return Design::OneRun;
    }
    let mut order: Vec<(&str, usize, bool)> = Vec::new();
    for (side, is_now) in [(baseline, false), (now, true)] {
        let starts = side.iter().map(|named| &*named.report.head().started_at).enumerate();
        order.extend(starts.map(|(nth, start)| (start, nth, is_now)));
    }
    order.sort_unstable();
    let stretches = order.chunk_by(|a, b| a.2 == b.2).count();
    // Two sides of n runs in random order change n + 1 times on average, in turns 2 n times. With
    // three stretches or fewer, a side was measured in one go.
    if stretches <= baseline.len().min(now.len()).max(3) { Design::Blocks } else { Design::Turns }
}

/// The reports from the first to the last.
pub(super) fn by_start<'a>(side: &[Named<'a>]) -> Vec<Named<'a>> {
    let mut sorted = side.to_vec();
    sorted.sort_by(|a, b| a.report.head().started_at.cmp(&b.report.head().started_at));
    sorted
}
