//! Lines of a name and a value, aligned.

use stormlp_model::facts::Availability;

use super::verdict;

/// Columns of a name, the blanks after it included.
const NAME_WIDTH: usize = 26;
/// Columns of a value before it goes on in the next line; with the name it makes 110.
const VALUE_WIDTH: usize = 82;

/// A text that grows line by line.
#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    /// A line as it is.
    pub(super) fn plain(&mut self, line: String) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    /// A title, after an empty line.
    pub(super) fn heading(&mut self, title: &str) {
        self.0.push('\n');
        self.plain(title.to_string());
    }

    /// A name and its value, in as many lines as the value takes.
    pub(super) fn row(&mut self, name: &str, value: impl AsRef<str>) {
        let mut name = name;
        for line in wrapped(value.as_ref(), VALUE_WIDTH) {
            self.plain(format!("  {name:NAME_WIDTH$}{line}"));
            name = "";
        }
    }

    /// A paragraph of its own, indented.
    pub(super) fn paragraph(&mut self, text: &str) {
        for (i, line) in wrapped(text, VALUE_WIDTH + NAME_WIDTH - 2)
            .iter()
            .enumerate()
        {
            self.plain(format!("  {}{line}", if i == 0 { "- " } else { "  " }));
        }
    }

    /// A name, whether it can be used and what would make it so.
    pub(super) fn availability(&mut self, name: &str, availability: &Availability) {
        self.row(name, verdict(availability));
        if let Availability::Unavailable { remedy, .. } = availability
            && !remedy.is_empty()
        {
            self.row("", format!("help: {remedy}"));
        }
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// `text` in lines of at most `width` characters, broken at blanks; a longer word keeps a line to
/// itself. An empty text is one empty line.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        let last = lines.len() - 1;
        if used > 0 && used + 1 + length > width {
            lines.push(word.to_string());
            used = length;
        } else {
            if used > 0 {
                lines[last].push(' ');
                used += 1;
            }
            lines[last].push_str(word);
            used += length;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_at_blanks_and_lose_nothing() {
        let text = "a library that has averyveryverylongpath in it";
        let lines = wrapped(text, 12);
        assert_eq!(
            lines,
            ["a library", "that has", "averyveryverylongpath", "in it"]
        );
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrapped("", 5), [""]);
    }
}
