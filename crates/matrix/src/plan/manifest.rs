//! The manifest of a data folder: the files created by stormlp and their content.
//!
//! It is a dotfile in the folder. A file without an entry in it does not belong to stormlp: it is
//! never overwritten without permission and never removed.

use serde::{Deserialize, Serialize};

use stormlp_core::facts::Identity;

/// File name of the manifest in a data folder of the matrix.
pub const MANIFEST_NAME: &str = ".stormlp-manifest.json";

/// Manifest format version.
const FORMAT_VERSION: u32 = 1;

/// Contents of a file of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// Allocated but never written. Reading it does not access the device.
    Unwritten,
    /// The position-dependent, incompressible pattern of this seed throughout.
    Pattern {
        /// The seed.
        seed: u64,
    },
    /// Completely written, but not with the pattern.
    Other,
}

/// A manifest entry of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// File name in the folder; never a path.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its contents.
    pub content: ContentState,
    /// Identity of the file, to detect replacements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// The files that stormlp created in a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataManifest {
    /// Version of the format.
    pub format_version: u32,
    /// The command that created it: `gds`.
    pub made_by: String,
    /// The files.
    pub files: Vec<ListedFile>,
}

impl DataManifest {
    /// Parses a manifest and rejects one that could point outside its folder.
    ///
    /// # Errors
    /// If the text is not a manifest of a matrix, is too new, or names anything but plain files.
    pub fn parse(text: &str) -> Result<Self, String> {
        let malformed = |error| format!("the manifest cannot be read: {error}");
        let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
        match value["made_by"].as_str() {
            Some("gds") => {}
            Some(other) => return Err(format!("it contains files created by `stormlp {other}`")),
            None => return Err("its manifest does not name its creator".to_string()),
        }
        let manifest: Self = serde_json::from_value(value).map_err(malformed)?;
        if manifest.format_version > FORMAT_VERSION {
            return Err(format!(
                "the manifest has format version {}, this stormlp reads up to {FORMAT_VERSION}",
                manifest.format_version
            ));
        }
        match manifest.files.iter().find(|file| !is_plain(&file.name)) {
            Some(file) => {
                Err(format!("the manifest names `{}`, which is not a plain file name", file.name))
            }
            None => Ok(manifest),
        }
    }

    /// The manifest as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is plain data")
    }

    /// The entry of a file.
    pub fn file(&self, name: &str) -> Option<&ListedFile> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Adds an entry, or replaces the one of the same name.
    pub fn set(&mut self, file: ListedFile) {
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
        Self { format_version: FORMAT_VERSION, made_by: "gds".to_string(), files: Vec::new() }
    }
}

/// Whether `name` is a plain file name without a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_manifest_reads_back_and_entries_replace_each_other() {
        let mut manifest = DataManifest::default();
        for bytes in [1, 2] {
            manifest.set(ListedFile {
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
            let mut manifest = DataManifest::default();
            manifest.set(ListedFile {
                name: name.to_string(),
                bytes: 1,
                content: ContentState::Other,
                identity: None,
            });
            let error = DataManifest::parse(&manifest.to_json()).unwrap_err();
            assert!(
                error.contains(&format!("`{name}`, which is not a plain file name")),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = DataManifest::parse(&text);
        }
    }
}
