//! Measurements of several hosts, combined.

use stormlp_core::evidence::Evidence;
use stormlp_core::group::Member;
use stormlp_core::path::PathKind;

/// For each process, whether host-wide figures are to be counted there: processes of one host see
/// the same devices. Each counts until its work is done, so the process of a machine with the
/// largest count (`counted`) is chosen.
pub fn count_members_once(members: &[Member], counted: impl Fn(usize) -> u64) -> Vec<bool> {
    let most = |nth: usize| {
        let is_same = |other: &usize| members[*other].shares_host_with(&members[nth]);
        let same = (0..members.len()).rev().filter(is_same);
        same.max_by_key(|other| counted(*other)) == Some(nth)
    };
    (0..members.len()).map(most).collect()
}

/// Evidence for all hosts, from the first host that did not use the path `asked`, so that a
/// fallback on any host is never hidden. Requests to object stores are summed over all hosts.
pub fn evidence_of_all<'e>(
    asked: PathKind,
    evidence: impl Iterator<Item = &'e Evidence> + Clone,
) -> Option<Evidence> {
    let fell_back = evidence.clone().find(|one| one.effective_path != Some(asked));
    let shown = fell_back.or(evidence.clone().next())?;
    Some(shown.clone().with_stores_of(evidence))
}

/// The share of the longest of `times`, 0 to 1, during which all of them were running. Each is a
/// start by the host's clock and a duration, in seconds; `None` if none took any time.
pub fn share_at_once(times: &[(f64, f64)]) -> Option<f64> {
    let began = times.iter().map(|time| time.0).fold(f64::MIN, f64::max);
    let ended = times.iter().map(|time| time.0 + time.1).fold(f64::MAX, f64::min);
    let longest = times.iter().map(|time| time.1).fold(0.0, f64::max);
    (longest > 0.0).then(|| ((ended - began) / longest).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_on_any_host_is_shown() {
        let took = |path| Evidence {
            effective_path: path,
            summary: format!("{path:?}"),
            direct_io: stormlp_core::evidence::DirectIo::Refused,
            engine: None,
            direct_storage: None,
            object_store: None,
        };
        let (asked, other) = (took(Some(PathKind::Gds)), took(Some(PathKind::GdsCompat)));
        let shown = |all: &[&Evidence]| {
            evidence_of_all(PathKind::Gds, all.iter().copied()).map(|one| one.effective_path)
        };
        assert_eq!(shown(&[&asked, &asked]), Some(asked.effective_path));
        assert_eq!(shown(&[&asked, &other]), Some(other.effective_path));
        assert_eq!(shown(&[&other, &asked]), Some(other.effective_path));
        assert_eq!(shown(&[&asked, &took(None)]), Some(None));
        assert_eq!(shown(&[]), None);
    }
}
