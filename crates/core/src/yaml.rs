//! Reading YAML that a user wrote.

use serde::de::{DeserializeOwned, Error as _};

/// The deepest nesting of brackets: far beyond any workload, and no deeper than the parser goes.
/// It would refuse deeper ones, too, but only after a time that grows with the square of the text.
const MAX_DEPTH: usize = 128;

/// Reads the YAML `text`.
///
/// # Errors
/// If it is not valid, is not a `T`, or nests brackets more than 128 deep.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_yaml::Error> {
    match too_deep(text) {
        Some(line) => Err(serde_yaml::Error::custom(format!(
            "line {line} nests brackets more than {MAX_DEPTH} deep"
        ))),
        None => serde_yaml::from_str(text),
    }
}

/// The line in which more brackets are open than any file has. Brackets in strings and comments
/// count, too: only many unclosed ones reach the limit.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut lines = (1..).zip(text.lines());
    lines.find_map(|(line, text)| {
        let is_deep = text.bytes().any(|byte| {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > MAX_DEPTH
        });
        is_deep.then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use serde_yaml::Value;

    use super::*;

    #[test]
    fn deep_brackets_are_refused_by_their_line() {
        let deep = format!("model: x\na: {}", "[".repeat(100_000));
        let error = read::<Value>(&deep).unwrap_err().to_string();
        assert_eq!(error, "line 2 nests brackets more than 128 deep");
    }

    #[test]
    fn brackets_beside_each_other_are_not_deep() {
        let wide = format!("a: [{}]", "[1], {b: 2}, ".repeat(1_000));
        assert_eq!(read::<Value>(&wide).unwrap()["a"].as_sequence().unwrap().len(), 2_000);
    }
}
