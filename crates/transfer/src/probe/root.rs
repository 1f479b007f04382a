//! Reading the kernel's files, below a root that tests can replace.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use stormlp_core::machine::Fact;

/// The parent of `/proc` and `/sys`: `/`, or a synthetic tree in a test.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// The real machine.
    pub(crate) fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A synthetic tree.
    #[cfg(test)]
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The location of `path`, an absolute path as the kernel documents it.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The whole file, trimmed; the reason names the file as the kernel knows it.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Fact<String> {
        let path = path.as_ref();
        match fs::read(self.path(path)) {
            Ok(bytes) => Fact::Known(String::from_utf8_lossy(&bytes).trim().to_string()),
            Err(error) => Fact::unknown(format!("{}: {}", path.display(), plain(&error))),
        }
    }

    /// A file that holds one number.
    pub(crate) fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Fact<T> {
        let path = path.as_ref();
        self.text(path).and_then(|text| match text.parse() {
            Ok(number) => Fact::Known(number),
            Err(_) => {
                Fact::unknown(format!("{}: `{}` is not a number", path.display(), start_of(&text)))
            }
        })
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Fact<Vec<String>> {
        let path = path.as_ref();
        match fs::read_dir(self.path(path)) {
            Ok(entries) => {
                let mut names: Vec<String> = entries
                    .filter_map(Result::ok)
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect();
                names.sort();
                Fact::Known(names)
            }
            Err(error) => Fact::unknown(format!("{}: {}", path.display(), plain(&error))),
        }
    }

    /// The target of `path` with all links resolved, as a path of the machine.
    pub(crate) fn canonical(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let real = fs::canonicalize(self.path(path)).ok()?;
        let root = fs::canonicalize(&self.0).ok()?;
        Some(Path::new("/").join(real.strip_prefix(root).ok()?))
    }

    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }
}

/// The error message without Rust's `(os error 2)`.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// The first characters of a text of unknown length.
fn start_of(text: &str) -> String {
    text.chars().take(40).collect()
}
