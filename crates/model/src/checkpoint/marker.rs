//! The marker of a checkpoint: a dotfile in its folder that says whether it is whole, what it
//! must hold and that stormlp made it.
//!
//! It says "incomplete" before the first byte of the checkpoint is written, and "complete" only
//! after the last file is durable under its final name. Without a marker nothing is stormlp's: it
//! is neither overwritten nor removed.

use serde::{Deserialize, Serialize};

use super::layout::Layout;

/// The name of the marker in the folder of a checkpoint.
pub const MARKER_NAME: &str = ".stormlp-checkpoint.json";

/// The version of the marker's format.
const FORMAT_VERSION: u32 = 1;

/// How the bytes of a checkpoint follow from their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentFacts {
    /// Seed of the content.
    pub seed: u64,
    /// Length of the source that content repeats, in bytes.
    pub source_bytes: u64,
    /// Whether each sector of 512 bytes bears a stamp of its file and position.
    pub stamped: bool,
}

/// One file that a checkpoint must hold in this folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedFile {
    /// The rank that writes it.
    pub rank: u64,
    /// Its name; a plain name, never a path.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What stormlp says of a checkpoint folder it made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    /// Version of the format.
    pub format_version: u32,
    /// The command that made it: `checkpoint`.
    pub made_by: String,
    /// Whether every file is there, whole and under its final name.
    pub complete: bool,
    /// Whether it was synced, so that it is whole even after a crash. If not, "complete" holds
    /// until the machine goes down: after that files may have lost bytes without losing length.
    pub crash_safe: bool,
    /// The model's name.
    pub model: String,
    /// The model and its parallelism, as written (after scaling).
    pub layout: Layout,
    /// Layers of the full model.
    pub full_layers: u64,
    /// How many of the job's ranks wrote.
    pub ranks: u64,
    /// How many of the job's ranks the unscaled run has.
    pub full_ranks: u64,
    /// How its bytes came about.
    pub content: ContentFacts,
    /// The files in this folder.
    pub files: Vec<MarkedFile>,
}

/// A marker that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// It is no JSON, or not of this shape.
    #[error("its marker cannot be read: {0}")]
    Malformed(String),
    /// A newer stormlp wrote it.
    #[error("its marker has format version {0}, this stormlp reads up to {FORMAT_VERSION}")]
    Newer(u32),
    /// An entry points out of its folder.
    #[error("its marker names `{0}`, which is not a plain file name")]
    Name(String),
}

impl Marker {
    /// The current version and maker, for a marker about to be written.
    pub fn version() -> (u32, String) {
        (FORMAT_VERSION, "checkpoint".to_string())
    }

    /// Reads a marker and refuses one that could lead out of its folder.
    ///
    /// # Errors
    /// When the text is no marker, is newer, or names something else than plain files.
    pub fn parse(text: &str) -> Result<Self, MarkerError> {
        let marker: Self =
            serde_json::from_str(text).map_err(|e| MarkerError::Malformed(e.to_string()))?;
        if marker.format_version > FORMAT_VERSION {
            return Err(MarkerError::Newer(marker.format_version));
        }
        let plain = |name: &str| {
            !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
        };
        match marker.files.iter().find(|file| !plain(&file.name)) {
            Some(file) => Err(MarkerError::Name(file.name.clone())),
            None => Ok(marker),
        }
    }

    /// The text of the marker.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a marker is plain data")
    }
}

/// The folder of checkpoint `step` inside a checkpoint directory, named as DLIO names it.
pub fn step_folder(step: u32) -> String {
    format!("global_epoch1_step{step}")
}

/// The step of a folder's name, if it is one of a checkpoint.
pub fn step_of(folder: &str) -> Option<u32> {
    let step: u32 = folder.strip_prefix("global_epoch1_step")?.parse().ok()?;
    (step_folder(step) == folder).then_some(step)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::checkpoint::builtin;
    use proptest::prelude::*;

    fn marker(name: &str) -> Marker {
        let workload = builtin::load("llama3-8b").unwrap();
        let (format_version, made_by) = Marker::version();
        Marker {
            format_version,
            made_by,
            complete: false,
            crash_safe: true,
            model: workload.name.clone(),
            layout: workload.layout(workload.parallelism_of_all_ranks()),
            full_layers: 32,
            ranks: 8,
            full_ranks: 8,
            content: ContentFacts {
                seed: 1,
                source_bytes: 1 << 20,
                stamped: true,
            },
            files: vec![MarkedFile {
                rank: 0,
                name: name.to_string(),
                bytes: 3,
            }],
        }
    }

    #[test]
    fn a_marker_reads_back_and_cannot_lead_out_of_its_folder() {
        let good = marker("model_0_model_states.pt");
        assert_eq!(Marker::parse(&good.to_json()).unwrap(), good);
        for name in ["../x", "/etc/passwd", "..", "", "a/b"] {
            let error = Marker::parse(&marker(name).to_json()).unwrap_err();
            assert_eq!(error, MarkerError::Name(name.to_string()));
        }
        let newer = marker("x").to_json().replace("version\":1", "version\":9");
        assert_eq!(Marker::parse(&newer).unwrap_err(), MarkerError::Newer(9));
    }

    #[test]
    fn folders_bear_their_step() {
        assert_eq!(step_of(&step_folder(17)), Some(17));
        for other in [
            "global_epoch1_step",
            "global_epoch1_step01",
            "global_epoch2_step1",
            "x",
        ] {
            assert_eq!(step_of(other), None);
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = Marker::parse(&text);
        }
    }
}
