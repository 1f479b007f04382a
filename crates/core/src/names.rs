//! Closed sets with names on the command line, and the error for an unknown name.

pub use strum::{VariantArray, VariantNames};

/// A closed set of names accepted on the command line; its `FromStr` is derived and fails with
/// [`unknown`].
pub trait Named: VariantNames {
    /// The noun for a member, as in `a path`.
    const WHAT: &'static str;
}

/// The error message for `text`, which is not a name of `T`.
pub fn unknown<T: Named>(text: &str) -> String {
    unknown_among(T::VARIANTS, T::WHAT, text)
}

/// The error message for `text`, which is not among `names`; `what` is the noun for a member.
pub fn unknown_among(names: &[&str], what: &str, text: &str) -> String {
    let choice = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    };
    let meant =
        nearest(text, names.iter().copied()).map(|name| format!("; did you mean `{name}`?"));
    format!("`{text}` is not {what}: use {choice}{}", meant.unwrap_or_default())
}

/// The one of `names` that `typed` was probably meant to be. A number is not a misspelling of
/// another.
pub fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_word = typed.chars().any(char::is_alphabetic);
    names
        .filter(|_| is_word)
        .filter_map(|name| Some((distance(typed, name)?, name)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The edit distance from `typed` to `known`; `None` if `known` cannot have been meant. It can if
/// it starts with `typed`, or if at most a third of the characters are wrong, or half of them after
/// a common prefix.
pub fn distance(typed: &str, known: &str) -> Option<usize> {
    let length = typed.chars().count();
    let alike = typed.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    let wrong = if alike >= 4 { length / 2 } else { length / 3 };
    let edits = strsim::levenshtein(typed, known);
    ((length >= 3 && known.starts_with(typed)) || edits <= wrong.max(1)).then_some(edits)
}

/// `name` as a file or directory name, or `other` if no character of it is usable.
pub fn file_name(name: &str, other: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name.chars().map(|c| if safe(c) { c } else { '-' }).collect();
    match name.trim_start_matches('.') {
        "" => other.to_string(),
        name => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::Operation;

    #[test]
    fn a_name_is_found_or_all_are_listed() {
        assert_eq!("randread".parse(), Ok(Operation::RandRead));
        let error = |text: &str| text.parse::<Operation>().unwrap_err();
        let all = "use read, write, randread or randwrite";
        assert_eq!(error("copy"), format!("`copy` is not an operation: {all}"));
        for (typed, meant) in [("Read", "read"), ("randred", "randread"), ("wri", "write")] {
            let error = error(typed);
            assert!(error.ends_with(&format!("{all}; did you mean `{meant}`?")), "{error}");
        }
        assert!(!error("").contains("mean"));
        assert_eq!(super::nearest("1.0", ["2.0", "3.0"].into_iter()), None);
    }
}
