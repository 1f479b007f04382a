//! What several hosts measured, as one.

use stormlp_core::evidence::Evidence;
use stormlp_core::group::Member;

/// For each process, whether host-wide figures are to be counted there: processes of one host see the
/// same devices. Each counts until it has done its own
/// work, so of those of a machine it is the one that `counted` most.
pub fn count_members_once(members: &[Member], counted: impl Fn(usize) -> u64) -> Vec<bool> {
    let most = |nth: usize| {
        let is_same = |other: &usize| members[*other].shares_host_with(&members[nth]);
        let same = (0..members.len()).rev().filter(is_same);
        same.max_by_key(|other| counted(*other)) == Some(nth)
    };
    (0..members.len()).map(most).collect()
}

/// Evidence for all hosts: that of the first host whose path differs from the first one's, so that
/// a fallback on any host is never hidden. Requests to object stores are those of all hosts.
pub fn evidence_of_all<'e>(
    evidence: impl Iterator<Item = &'e Evidence> + Clone,
) -> Option<Evidence> {
    let mut others = evidence.clone();
    let first = others.next()?;
    let other = others.find(|one| one.effective_path != first.effective_path);
    Some(other.unwrap_or(first).clone().with_stores_of(evidence))
}

/// The share of the longest of `times`, 0 to 1, during which all of them were running. Each is a
/// start by the host's clock and a duration, in seconds; `None` if none took any time.
pub fn share_at_once(times: &[(f64, f64)]) -> Option<f64> {
    let began = times.iter().map(|time| time.0).fold(f64::MIN, f64::max);
    let ended = times.iter().map(|time| time.0 + time.1).fold(f64::MAX, f64::min);
    let longest = times.iter().map(|time| time.1).fold(0.0, f64::max);
    (longest > 0.0).then(|| ((ended - began) / longest).clamp(0.0, 1.0))
}
