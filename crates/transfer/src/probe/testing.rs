//! Synthetic machines for the tests of the probes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::root::Root;

/// A tree of kernel files in a temporary folder.
#[derive(Debug)]
pub(crate) struct Tree(tempfile::TempDir);

#[allow(clippy::unwrap_used)]
impl Tree {
    /// An empty machine.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Adds a file.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Adds a folder.
    pub(crate) fn folder(self, path: &str) -> Self {
        fs::create_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    /// Adds a link to `target`, a path of the machine.
    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let target = self.0.path().join(Path::new(target).strip_prefix("/").unwrap());
        symlink(target, path).unwrap();
        self
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.0.path())
    }
}
