//! When a comparison of pairs of runs is looked at, and how much of the permitted error each look
//! spends.
//!
//! Whoever tests again after each pair and stops at the first success is wrong far more often than
//! the level of one test says. Here the looks are fixed beforehand and share the permitted error:
//! after a share *t* of all pairs, *t*² of it is spent (the power family of Kim and DeMets 1987).
//! The sum over the looks bounds the error whatever their correlation, and so whatever the variance
//! of the pairs, which is unknown and estimated anew at each look.

/// The numbers of pairs after which a comparison may end; the last ends it in any case.
pub const LOOKS: [usize; 4] = [5, 7, 10, 15];
/// The maximum number of pairs.
pub const MOST_PAIRS: usize = LOOKS[LOOKS.len() - 1];

/// Whether a comparison may end after this many pairs.
pub fn is_look(pairs: usize) -> bool {
    LOOKS.contains(&pairs)
}

/// The share of the permitted error that the look after `pairs` pairs spends; between looks, the
/// next one's, since a comparison that stops there replaces it.
pub fn spent(pairs: usize) -> f64 {
    let until = |pairs: usize| (pairs as f64 / MOST_PAIRS as f64).powi(2);
    let next = LOOKS.iter().position(|look| *look >= pairs).unwrap_or(LOOKS.len() - 1);
    let before = next.checked_sub(1).map_or(0, |last| LOOKS[last]);
    until(LOOKS[next]) - until(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_looks_spend_the_error_once() {
        let all: f64 = LOOKS.iter().map(|look| spent(*look)).sum();
        assert!((all - 1.0).abs() < 1e-12, "{all}");
        assert_eq!(spent(1), spent(5));
        assert_eq!(spent(6), spent(7));
        assert!(spent(15) > 0.5, "{}", spent(15));
        assert!(is_look(7) && !is_look(8));
    }
}
