//! Lines of a name and a value, aligned.

use stormlp_model::facts::Availability;

use super::verdict;

/// Columns of a name, the blanks after it included.
const NAME_WIDTH: usize = 26;

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

    /// A name and its value.
    pub(super) fn row(&mut self, name: &str, value: impl AsRef<str>) {
        self.plain(format!("  {name:NAME_WIDTH$}{}", value.as_ref()));
    }

    /// A name, whether it can be used and what would make it so.
    pub(super) fn availability(&mut self, name: &str, availability: &Availability) {
        self.row(name, verdict(availability));
        if let Availability::Unavailable { remedy, .. } = availability
            && !remedy.is_empty()
        {
            self.row("", format!("    help: {remedy}"));
        }
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.0
    }
}
