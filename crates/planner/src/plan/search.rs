//! Finds the largest number that satisfies a condition, in few tries.

/// The largest number from 1 to `most` for which `holds` is true, or 0 if there is none. If `holds`
/// is false for a number, it is assumed to be false for all larger ones. `guess` is tried first.
///
/// # Errors
/// Any error of `holds`.
pub fn last<E>(
    guess: u32,
    most: u32,
    mut holds: impl FnMut(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    // Invariant: true for `yes`, false for `no`; the initial values are not tried.
    let (mut yes, mut no) = (0, most.saturating_add(1));
    let mut at = guess.clamp(1, most.max(1));
    let mut stride = (at / 64).max(1);
    while no - yes > 1 {
        if holds(at)? {
            yes = at
        } else {
            no = at
        }
        let open_above = no > most;
        let open_below = yes == 0;
        at = match (open_above, open_below) {
            (true, _) => yes.saturating_add(stride).min(most),
            (false, true) => no.saturating_sub(stride).max(1),
            (false, false) => yes + (no - yes) / 2,
        };
        stride = stride.saturating_mul(4);
        if no - yes > 1 && (at <= yes || at >= no) {
            at = yes + (no - yes) / 2;
        }
    }
    Ok(yes)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn found(guess: u32, most: u32, answer: u32) -> (u32, u32) {
        let mut tries = 0;
        let found = last(guess, most, |number| {
            tries += 1;
            assert!((1..=most).contains(&number));
            Ok::<_, Infallible>(number <= answer)
        });
        (found.unwrap(), tries)
    }

    proptest! {
        #[test]
        fn the_largest_is_found_from_any_guess(
            most in 1u32..100_000,
            guess in 0u32..200_000,
            answer in 0u32..200_000,
        ) {
            prop_assert_eq!(found(guess, most, answer).0, answer.min(most));
        }
    }

    #[test]
    fn a_good_guess_saves_tries() {
        assert_eq!(found(4, 100_000, 4), (4, 2));
        assert!(found(1000, 100_000, 990).1 <= 9);
        assert!(found(1000, 100_000, 1003).1 <= 6);
        assert!(found(1, 100_000, 100_000).1 <= 12);
    }
}
