//! The manifest of a data folder: the files created by stormlp and their content.
//!
//! It lies in the folder as a dotfile. Without an entry in it no file counts as stormlp's own:
//! such a file is never overwritten unasked and never removed.

use serde::{Deserialize, Serialize};

use stormlp_core::facts::Identity;

/// The name of the manifest in a data folder of the matrix.
pub const MANIFEST_NAME: &str = ".stormlp-manifest.json";

/// The version of the manifest's format.
const FORMAT_VERSION: u32 = 1;

/// What a file of the matrix holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// Space without content: allocated, never written. Reading it touches no device.
    Unwritten,
    /// The position-dependent pattern of this seed, from end to end; incompressible.
    Pattern {
        /// The seed.
        seed: u64,
    },
    /// Written all over, but with something else than the pattern.
    Other,
}

/// One file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its name in the folder; a plain name, never a path.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it holds.
    pub content: ContentState,
    /// Identity of the file, to detect replacements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// What stormlp made in a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataManifest {
    /// Version of the format.
    pub format_version: u32,
    /// The command that made it: `gds`.
    pub made_by: String,
    /// The files.
    pub files: Vec<ManifestFile>,
}

/// A manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON, or has the wrong structure.
    #[error("the manifest cannot be read: {0}")]
    Malformed(String),
    /// A newer stormlp wrote it.
    #[error("the manifest has format version {0}, this stormlp reads up to {FORMAT_VERSION}")]
    Newer(u32),
    /// An entry points out of its folder.
    #[error("the manifest names `{0}`, which is not a plain file name")]
    Name(String),
}

impl DataManifest {
    /// An empty manifest of the matrix.
    pub fn new() -> Self {
        Self { format_version: FORMAT_VERSION, made_by: "gds".to_string(), files: Vec::new() }
    }

    /// Reads a manifest and refuses one that could lead out of its folder.
    ///
    /// # Errors
    /// If the text is not a manifest, is too new, or names anything but plain files.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let manifest: Self =
            serde_json::from_str(text).map_err(|e| ManifestError::Malformed(e.to_string()))?;
        if manifest.format_version > FORMAT_VERSION {
            return Err(ManifestError::Newer(manifest.format_version));
        }
        match manifest.files.iter().find(|file| !is_plain(&file.name)) {
            Some(file) => Err(ManifestError::Name(file.name.clone())),
            None => Ok(manifest),
        }
    }

    /// The text of the manifest.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is plain data")
    }

    /// The entry of a file.
    pub fn file(&self, name: &str) -> Option<&ManifestFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Adds an entry, or replaces the one of that name.
    pub fn set(&mut self, file: ManifestFile) {
        match self.files.iter_mut().find(|old| old.name == file.name) {
            Some(old) => *old = file,
            None => self.files.push(file),
        }
    }

    /// Removes the entry of a file.
    pub fn remove(&mut self, name: &str) {
        self.files.retain(|file| file.name != name);
    }
}

impl Default for DataManifest {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `name` is the name of a file in the folder itself.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_manifest_reads_back_and_entries_replace_each_other() {
        let mut manifest = DataManifest::new();
        for bytes in [1, 2] {
            manifest.set(ManifestFile {
                name: "stormlp.0".to_string(),
                bytes,
                content: ContentState::Pattern { seed: 7 },
                identity: None,
            });
        }
        assert_eq!(manifest.files.len(), 1);
        let read = DataManifest::parse(&manifest.to_json()).unwrap();
        assert_eq!(read, manifest);
        assert_eq!(read.file("stormlp.0").unwrap().bytes, 2);
    }

    #[test]
    fn a_manifest_cannot_lead_out_of_its_folder() {
        for name in ["../x", "/etc/passwd", "..", "", "a/b"] {
            let mut manifest = DataManifest::new();
            manifest.set(ManifestFile {
                name: name.to_string(),
                bytes: 1,
                content: ContentState::Other,
                identity: None,
            });
            let error = DataManifest::parse(&manifest.to_json()).unwrap_err();
            assert_eq!(error, ManifestError::Name(name.to_string()));
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = DataManifest::parse(&text);
        }
    }
}
