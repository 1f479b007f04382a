//! Assignment of ranks to hosts: in order, as evenly as possible.

use std::ops::Range;

/// The indices of the ranks of host `host` out of `of`, among `count` ranks.
pub fn dealt_to(host: usize, of: usize, count: usize) -> Range<usize> {
    // The first hosts get one more if the ranks do not divide evenly.
    let (each, more) = (count / of.max(1), count % of.max(1));
    let first = host * each + host.min(more);
    first..first + each + usize::from(host < more)
}

/// The host, out of `of`, that rank index `nth` of `count` is assigned to.
pub fn host_of(nth: usize, of: usize, count: usize) -> usize {
    let has = |host: &usize| dealt_to(*host, of, count).contains(&nth);
    (0..of).find(has).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_dealt_to_one_host() {
        assert_eq!(dealt_to(0, 1, 8), 0..8);
        let of_three: Vec<_> = (0..3).map(|host| dealt_to(host, 3, 8)).collect();
        assert_eq!(of_three, [0..3, 3..6, 6..8]);
        let hosts: Vec<_> = (0..8).map(|nth| host_of(nth, 3, 8)).collect();
        assert_eq!(hosts, [0, 0, 0, 1, 1, 1, 2, 2]);
    }
}
