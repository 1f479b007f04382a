//! Parsing of whole numbers on the command line.

use std::ops::{Bound, RangeBounds, RangeInclusive};

/// The number shown as an example, if in range.
const EXAMPLE: u64 = 8;

/// A whole number type for options.
pub trait Whole: TryFrom<u64> {
    /// The largest value.
    const MOST: u64;
}

impl Whole for u8 {
    const MOST: u64 = Self::MAX as u64;
}

impl Whole for u16 {
    const MOST: u64 = Self::MAX as u64;
}

impl Whole for u32 {
    const MOST: u64 = Self::MAX as u64;
}

impl Whole for u64 {
    const MOST: u64 = Self::MAX;
}

/// Parses a number in `range`; the error names the range and an example.
pub fn whole<N: Whole>(
    range: impl RangeBounds<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    let least = match range.start_bound() {
        Bound::Included(least) => *least,
        Bound::Excluded(below) => below + 1,
        Bound::Unbounded => 0,
    };
    let most = match range.end_bound() {
        Bound::Included(most) => *most,
        Bound::Excluded(above) => above - 1,
        Bound::Unbounded => N::MOST,
    };
    move |text| {
        let number: Option<u64> = text.parse().ok();
        let possible = number
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| N::try_from(number).ok());
        possible.ok_or_else(|| {
            let which = match (least, most == N::MOST) {
                (0, true) if number.is_none() => String::new(),
                (_, true) if number.is_none_or(|number| number < least) => {
                    format!(" of {least} or more")
                }
                _ => format!(" from {least} to {most}"),
            };
            let example = EXAMPLE.clamp(least, most);
            format!("`{text}` is not a whole number{which}: use one such as {example}")
        })
    }
}

/// Parses by `parse` a value in `range`, which the error shows as `words`.
pub fn within<T: PartialOrd + Clone + Send + Sync + 'static, E>(
    parse: impl Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    range: RangeInclusive<T>,
    words: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = parse(text).ok().filter(|value| range.contains(value));
        value.ok_or_else(|| format!("`{text}` is not possible: use {words}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_requests_are_answered_with_possible_ones() {
        let some = |text: &str| whole::<u32>(1..)(text);
        assert_eq!(some("1"), Ok(1));
        assert_eq!(some("4294967295"), Ok(u32::MAX));
        let refused = |text: &str| some(text).err().unwrap_or_default();
        let message = "`0` is not a whole number of 1 or more: use one such as 8";
        assert_eq!(refused("0"), message);
        assert_eq!(refused("many"), message.replace('0', "many"));
        assert_eq!(refused("-1"), message.replacen('0', "-1", 1));
        let message = "`4294967296` is not a whole number from 1 to 4294967295: use one such as 8";
        assert_eq!(refused("4294967296"), message);
    }

    #[test]
    fn a_value_out_of_range_is_answered_with_the_range() {
        let share = |text: &str| within(str::parse::<f64>, 0.0..=1.0, "0 to 1")(text);
        assert_eq!(share("0.5"), Ok(0.5));
        for text in ["2", "NaN", "half"] {
            assert_eq!(share(text), Err(format!("`{text}` is not possible: use 0 to 1")));
        }
    }

    #[test]
    fn an_example_is_a_possible_value() {
        let level = whole::<u8>(0..=3)("4");
        let message = "`4` is not a whole number from 0 to 3: use one such as 3";
        assert_eq!(level, Err(message.to_string()));
        let any = whole::<u64>(..)("x");
        let message = "`x` is not a whole number: use one such as 8";
        assert_eq!(any, Err(message.to_string()));
    }
}
