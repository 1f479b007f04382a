//! Formats commands in messages so that they can be pasted into a shell.

use std::fmt;

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

/// A command as it was typed, to be told again with some options changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// The command of these words.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }

    /// The same with `option` set to `value`, in place of the value that was typed if there is one.
    #[must_use]
    pub fn with(mut self, option: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        let joined = format!("{option}=");
        match self.0.iter().position(|word| word == option || word.starts_with(&joined)) {
            Some(at) if self.0[at] != option => self.0[at] = joined + &value,
            Some(at) if at + 1 < self.0.len() => self.0[at + 1] = value,
            _ => self.0.extend([option.to_string(), value]),
        }
        self
    }

    /// The same without a flag.
    #[must_use]
    pub fn without_flag(mut self, flag: &str) -> Self {
        self.0.retain(|word| word != flag);
        self
    }

    /// The same without an option and its value, which may be left out.
    #[must_use]
    pub fn without_option(mut self, option: &str) -> Self {
        let joined = format!("{option}=");
        self.0.retain(|word| !word.starts_with(&joined));
        if let Some(at) = self.0.iter().position(|word| word == option) {
            let has_value = self.0.get(at + 1).is_some_and(|next| !next.starts_with('-'));
            self.0.drain(at..=at + usize::from(has_value));
        }
        self
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|word| shell_word(word)).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandLine, shell_word};

    #[test]
    fn a_typed_command_is_told_again_with_one_option_changed() {
        let typed =
            CommandLine::new(["stormlp", "m", "--scale", "0.5", "--cold", "--dir", "my dir"]);
        let full = typed.clone().with("--scale", 1);
        assert_eq!(full.to_string(), "stormlp m --scale 1 --cold --dir 'my dir'");
        let joined = CommandLine::new(["stormlp", "--scale=0.5", "m"]).with("--scale", 1);
        assert_eq!(joined.to_string(), "stormlp --scale=1 m");
        let added = typed.without_flag("--cold").without_option("--scale").with("--restores", 0);
        assert_eq!(added.to_string(), "stormlp m --dir 'my dir' --restores 0");
        let bare = CommandLine::new(["stormlp", "--rank-shift", "--cold", "m"]);
        assert_eq!(bare.without_option("--rank-shift").to_string(), "stormlp --cold m");
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("--io-size=1M"), "--io-size=1M");
        assert_eq!(shell_word("my data"), "'my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
