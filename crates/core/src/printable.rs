//! Makes text from a file, a name or an argument safe to print. Untrusted text must not colour a
//! terminal, move its cursor, or display words other than those present.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with every control character escaped: `
/// `, `\x1b`, `\u{202e}`. The result is one line.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |_| false)
}

/// Like [`printable`], but keeps line breaks and tabs: for text with a trusted line structure.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| matches!(c, '\n' | '\t'))
}

/// Bytes as pairs of hexadecimal digits, which mean nothing to terminals and protocols.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON with every such character as a JSON escape. A serializer escapes only the characters that
/// JSON requires, but terminals react to more characters than that.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(|c| steers(c) && !c.is_ascii_whitespace()) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match steers(c) && !c.is_ascii_whitespace() {
            // All of them are in the Basic Multilingual Plane, so one escape suffices.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out.into()
}

/// Whether a character controls the display rather than showing: C0 and C1 controls, bidirectional
/// formatting, and line separators.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| steers(c) && !keeps(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            c if !steers(c) || keeps(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            c if c.is_ascii() => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{printable, printable_json, printable_lines, steers};

    #[test]
    fn control_characters_are_escaped_and_everything_else_stays() {
        let nasty = "a\x1b[31m\u{9b}2J\u{7f}\u{202e}b\u{2066}\n\tc";
        let shown = r"a\x1b[31m\u{9b}2J\x7f\u{202e}b\u{2066}\n\tc";
        assert_eq!(printable(nasty), shown);
        assert_eq!(printable("Müller 300 µs ± 2 ─ ×"), "Müller 300 µs ± 2 ─ ×");
        assert_eq!(printable_lines("a\n\tb\rc"), "a\n\tb\\rc");
    }

    proptest! {
        #[test]
        fn printed_text_contains_no_control_sequences(text in ".*") {
            prop_assert!(!printable(&text).chars().any(steers));
            let json = serde_json::json!({ "name": text }).to_string();
            let shown = printable_json(&json).into_owned();
            prop_assert!(!shown.chars().any(steers));
            let back: serde_json::Value = serde_json::from_str(&shown).unwrap_or_default();
            prop_assert_eq!(back["name"].as_str(), Some(text.as_str()));
        }
    }
}
