//! Formats commands in messages so that they can be pasted into a shell.

/// Quotes `word` for a shell where necessary.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("--io-size=1M"), "--io-size=1M");
        assert_eq!(shell_word("my data"), "'my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
