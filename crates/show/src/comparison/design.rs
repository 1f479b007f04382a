//! The order in which the runs of two sides were measured, from their start times.

use super::Named;
use super::judge::Design;

/// How the reports of both sides were measured, unless they are known to be pairs.
///
/// A side that was measured after the other differs from it by whatever happened to the machine in
/// between, too. Runs that alternate share that, if each side has runs before and after some of the
/// other. So few changes of the side, even in random order, do not.
pub(super) fn design(baseline: &[Named<'_>], now: &[Named<'_>]) -> Design {
    if baseline.len().min(now.len()) < 2 {
        return Design::OneRun;
    }
    let mut order: Vec<(&str, bool)> = Vec::new();
    for (side, is_now) in [(baseline, false), (now, true)] {
        order.extend(side.iter().map(|named| (&*named.report.head().started_at, is_now)));
    }
    order.sort_unstable();
    let stretches = stretches(&order);
    // Two sides of n runs in random order change n + 1 times on average, in turns 2 n times. With
    // three stretches or fewer, a side was measured in one go.
    if stretches <= baseline.len().min(now.len()).max(3) { Design::Blocks } else { Design::Turns }
}

/// How many times a side was measured in one go, of starts in order. They have whole seconds: within
/// one, the sides change no more often than they must have.
fn stretches(order: &[(&str, bool)]) -> usize {
    let (mut count, mut last) = (0, None);
    for second in order.chunk_by(|a, b| a.0 == b.0) {
        let mut sides: Vec<bool> = second.iter().map(|(_, is_now)| *is_now).collect();
        sides.dedup();
        sides.sort_by_key(|side| Some(*side) != last);
        for side in sides {
            count += usize::from(last != Some(side));
            last = Some(side);
        }
    }
    count
}

/// The reports from the first to the last.
pub(super) fn by_start<'a>(side: &[Named<'a>]) -> Vec<Named<'a>> {
    let mut sorted = side.to_vec();
    sorted.sort_by(|a, b| a.report.head().started_at.cmp(&b.report.head().started_at));
    sorted
}

/// The names of the sides: those `given`, the values of the first tag that all reports of a side
/// share and the sides do not, or the command line's.
pub(super) fn names(given: [Option<&str>; 2], sides: [&[Named<'_>]; 2]) -> [String; 2] {
    let tags = sides.map(|side| side.first().map(|named| &named.report.head().tags));
    let value = |side: usize, key: &String| {
        let value = tags[side]?.get(key)?;
        let mut reports = sides[side].iter().map(|named| &named.report.head().tags);
        reports.all(|tags| tags.get(key) == Some(value)).then(|| value.clone())
    };
    let both = |key: &String| Some([value(0, key)?, value(1, key)?]);
    let keys = tags[0].into_iter().flat_map(|tags| tags.keys());
    let tagged = keys.filter_map(both).find(|[baseline, candidate]| baseline != candidate);
    let mut names = tagged.unwrap_or_else(|| ["baseline", "candidate"].map(str::to_string));
    for (name, given) in names.iter_mut().zip(given) {
        given.into_iter().for_each(|given| *name = given.to_string());
    }
    names
}
