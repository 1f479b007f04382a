//! JSON as Python writes it, with `NaN` and infinities.

use serde_json::Value;

/// Parses it; `NaN` and infinities (means without values) become `null`.
///
/// # Errors
/// For invalid JSON.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&without_nan(text))
}

/// The text with `null` for words that JSON does not have.
pub fn without_nan(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter();
        let mut word = word.filter(|word| !in_string && rest.starts_with(word));
        if let Some(word) = word.next() {
            plain.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        plain.push(c);
        rest = &rest[c.len_utf8()..];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinities_become_null_outside_strings() {
        let text = r#"{"a": NaN, "b": [-Infinity, Infinity], "NaN \" NaN": "é NaN"}"#;
        let value = parse(text).unwrap();
        assert_eq!(value["a"], Value::Null);
        assert_eq!(value["b"], serde_json::json!([null, null]));
        assert_eq!(value["NaN \" NaN"], "é NaN");
    }
}
