//! The marker of a checkpoint: a dotfile in its folder that records whether the checkpoint is
//! complete, which files it must hold and that stormlp made it.
//!
//! It says "incomplete" before the first byte of the checkpoint is written, and "complete" only
//! after the last file is durable. Folders without a marker are not stormlp's: they are not removed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::choice::{Container, is_chunk};
use super::layout::Layout;
use super::torch::most_overhead;
use stormlp_core::facts::Identity;

/// File name of the marker in a checkpoint's folder.
pub const MARKER_NAME: &str = ".stormlp-checkpoint.json";

pub(super) const FORMAT_VERSION: u32 = 1;

/// How the content of a checkpoint follows from its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentFacts {
    /// Seed of the content.
    pub seed: u64,
    /// Length in bytes of the source that the content repeats.
    pub source_bytes: u64,
    /// Whether each 512-byte sector has a stamp of its file and position.
    pub stamped: bool,
    /// How tensors are packed; the container's framing overlays the content.
    #[serde(default)]
    pub container: Container,
}

/// One file that a checkpoint must hold in this folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedFile {
    /// The rank that writes it.
    pub rank: u64,
    /// Its name: a plain file name, never a path.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Identity of the file, set once the checkpoint is complete. It distinguishes the file from
    /// one put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// The record of a checkpoint folder that stormlp made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    /// Version of the format.
    pub format_version: u32,
    /// The command that made it: `checkpoint`.
    pub made_by: String,
    /// Whether every file is present, whole and under its final name.
    pub complete: bool,
    /// Whether it was synced, so that it survives a crash. If not, "complete" holds only until the
    /// machine goes down: afterwards files may have lost data without changing length.
    pub crash_safe: bool,
    /// The model's name.
    pub model: String,
    /// The model and its parallelism as written (after scaling).
    pub layout: Layout,
    /// Layers of the full model.
    pub full_layers: u64,
    /// Number of the job's ranks that wrote.
    pub ranks: u64,
    /// Number of the job's ranks in the unscaled run.
    pub full_ranks: u64,
    /// How its content was generated.
    pub content: ContentFacts,
    /// The files in this folder.
    pub files: Vec<MarkedFile>,
}

/// A marker that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// There is none.
    #[error("it has no marker, so stormlp did not make it")]
    Absent,
    /// There is none, and the files are not DLIO's of this model either.
    #[error("it has no marker, and is not a checkpoint of this model by DLIO: {0}")]
    Unlike(String),
    /// It is not JSON, or not of this shape.
    #[error("its marker cannot be read: {0}")]
    Malformed(String),
    /// A newer stormlp wrote it.
    #[error("its marker has format version {0}, this stormlp reads up to {FORMAT_VERSION}")]
    Newer(u32),
    /// An entry points outside its folder.
    #[error("its marker names `{0}`, which is not a plain file name")]
    Name(String),
    /// It holds values that no save writes: it was damaged or modified.
    #[error("its marker cannot be used: {0}")]
    Absurd(String),
}

impl Marker {
    /// Parses a marker. Rejects one with file names outside its folder or with values that no save
    /// writes, so that callers can trust its numbers.
    ///
    /// # Errors
    /// If the text is not a marker, is from a newer version, names anything but plain files, or has
    /// a number out of bounds.
    pub fn parse(text: &str) -> Result<Self, MarkerError> {
        let marker: Self =
            serde_json::from_str(text).map_err(|e| MarkerError::Malformed(e.to_string()))?;
        if marker.format_version > FORMAT_VERSION {
            return Err(MarkerError::Newer(marker.format_version));
        }
        let plain = |name: &str| {
            let reserved = ["", ".", "..", MARKER_NAME];
            !reserved.contains(&name) && !name.contains(['/', '\0'])
        };
        if let Some(file) = marker.files.iter().find(|file| !plain(&file.name)) {
            return Err(MarkerError::Name(file.name.clone()));
        }
        match marker.absurdity() {
            Some(what) => Err(MarkerError::Absurd(what)),
            None => Ok(marker),
        }
    }

    /// Describes a number that no save can have written.
    fn absurdity(&self) -> Option<String> {
        let (model, spread) = (&self.layout.architecture, &self.layout.parallelism);
        let full = model.with_layers(self.full_layers);
        let shape = [model.problems(), full.problems(), spread.problems()];
        if let Some(problem) = shape.into_iter().flatten().next() {
            return Some(problem);
        }
        let (layers, source) = (model.num_layers, self.content.source_bytes);
        let heads = model.num_attention_heads;
        let must = [
            (
                spread.tensor <= heads,
                format!("it has {} tensor-parallel ranks for {heads} heads", spread.tensor),
            ),
            (layers <= self.full_layers, format!("it has {layers} of {} layers", self.full_layers)),
            (
                (1..=self.full_ranks).contains(&self.ranks) && self.full_ranks <= spread.ranks(),
                format!(
                    "it has {} of {} ranks of a job of {}",
                    self.ranks,
                    self.full_ranks,
                    spread.ranks()
                ),
            ),
            (is_chunk(source), format!("its content repeats every {source} bytes")),
        ];
        let broken = must.into_iter().find(|(holds, _)| !holds);
        broken.map(|(_, what)| what).or_else(|| self.odd_files())
    }

    /// The fault of the list of files. The number of ranks must be valid.
    fn odd_files(&self) -> Option<String> {
        let mut names = HashSet::new();
        let mut bytes = 0u64;
        for file in &self.files {
            if file.rank >= self.ranks {
                return Some(format!(
                    "{} is of rank {}; there are {}",
                    file.name, file.rank, self.ranks
                ));
            }
            if !names.insert(file.name.as_str()) {
                return Some(format!("it names {} twice", file.name));
            }
            bytes = bytes.saturating_add(file.bytes);
        }
        let payload = self.layout.first_ranks_bytes(self.ranks);
        let packed = match self.content.container {
            Container::Raw => 0,
            Container::Torch => {
                let tensors = 6 * (self.layout.architecture.num_layers + 3);
                (self.files.len() as u64).saturating_mul(most_overhead(tensors))
            }
        };
        let most = payload.saturating_add(packed);
        (bytes > most)
            .then(|| format!("its files have {bytes} bytes; a checkpoint of its layout has {most}"))
    }

    /// The marker as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a marker is plain data")
    }
}

/// The folder name of checkpoint `step` inside its run's folder, as DLIO names it.
pub fn step_folder(step: u32) -> String {
    format!("global_epoch1_step{step}")
}

/// The step in a folder name, if it is a checkpoint's.
pub fn step_of(folder: &str) -> Option<u32> {
    let step: u32 = folder.strip_prefix("global_epoch1_step")?.parse().ok()?;
    (step_folder(step) == folder).then_some(step)
}

/// The folder name of a run inside a checkpoint directory.
pub(super) fn run_folder(number: u32) -> String {
    format!("run{number}")
}

/// The number in a folder name, if it is a run's.
pub fn run_number(folder: &str) -> Option<u32> {
    let number: u32 = folder.strip_prefix("run")?.parse().ok()?;
    (run_folder(number) == folder).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::builtin;
    use proptest::prelude::*;

    fn marker(name: &str) -> Marker {
        let workload = builtin::load("llama3-8b").unwrap();
        Marker {
            format_version: FORMAT_VERSION,
            made_by: "checkpoint".to_string(),
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
                container: Container::Raw,
            },
            files: vec![MarkedFile { rank: 0, name: name.to_string(), bytes: 3, identity: None }],
        }
    }

    /// The text of a marker whose number at `path` is `value`.
    fn with_number(path: &str, value: u64) -> String {
        let mut json: serde_json::Value =
            serde_json::from_str(&marker("model_0_model_states.pt").to_json()).unwrap();
        *json.pointer_mut(path).unwrap() = value.into();
        json.to_string()
    }

    /// The paths of the numbers in a marker.
    const NUMBERS: [&str; 15] = [
        "/layout/architecture/vocab_size",
        "/layout/architecture/hidden_size",
        "/layout/architecture/ffn_hidden_size",
        "/layout/architecture/num_layers",
        "/layout/architecture/num_attention_heads",
        "/layout/architecture/num_kv_heads",
        "/layout/parallelism/tensor",
        "/layout/parallelism/pipeline",
        "/layout/parallelism/data",
        "/full_layers",
        "/ranks",
        "/full_ranks",
        "/content/source_bytes",
        "/files/0/rank",
        "/files/0/bytes",
    ];

    #[test]
    fn numbers_that_no_save_can_have_written_are_refused_by_name() {
        for path in NUMBERS {
            let error = Marker::parse(&with_number(path, u64::MAX)).unwrap_err();
            assert!(matches!(error, MarkerError::Absurd(_)), "{path}: {error}");
        }
        for source in [0, 1000, 5000, (1 << 30) + 4096, 9_000_000_000_000_000_000] {
            let error = Marker::parse(&with_number("/content/source_bytes", source)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("its marker cannot be used: its content repeats every {source} bytes")
            );
        }
        let cases = [
            ("/full_layers", 31, "it has 32 of 31 layers"),
            ("/full_layers", 0, "model.num_layers is 0"),
            ("/layout/parallelism/tensor", 33, "it has 33 tensor-parallel ranks for 32 heads"),
            ("/ranks", 0, "it has 0 of 8 ranks of a job of 8"),
            ("/ranks", 9, "it has 9 of 8 ranks of a job of 8"),
            ("/full_ranks", 9, "it has 8 of 9 ranks of a job of 8"),
            ("/files/0/rank", 8, "is of rank 8; there are 8"),
            ("/files/0/bytes", 1 << 40, "its files have 1099511627776 bytes"),
        ];
        for (path, value, part) in cases {
            let error = Marker::parse(&with_number(path, value)).unwrap_err();
            assert!(error.to_string().contains(part), "{path}: {error}");
        }
        let mut twice = marker("x");
        twice.files.push(twice.files[0].clone());
        let error = Marker::parse(&twice.to_json()).unwrap_err();
        assert_eq!(error, MarkerError::Absurd("it names x twice".to_string()));
    }

    #[test]
    fn a_marker_reads_back_and_cannot_lead_out_of_its_folder() {
        let good = marker("model_0_model_states.pt");
        assert_eq!(Marker::parse(&good.to_json()).unwrap(), good);
        for name in ["../x", "/etc/passwd", "..", "", "a/b", MARKER_NAME] {
            let error = Marker::parse(&marker(name).to_json()).unwrap_err();
            assert_eq!(error, MarkerError::Name(name.to_string()));
        }
        let newer = marker("x").to_json().replace("version\":1", "version\":9");
        assert_eq!(Marker::parse(&newer).unwrap_err(), MarkerError::Newer(9));
    }

    #[test]
    fn folders_bear_their_number() {
        assert_eq!(step_of(&step_folder(17)), Some(17));
        for other in ["global_epoch1_step", "global_epoch1_step01", "global_epoch2_step1", "x"] {
            assert_eq!(step_of(other), None);
        }
        assert_eq!(run_number(&run_folder(17)), Some(17));
        for other in ["run", "run01", "run-1", "x"] {
            assert_eq!(run_number(other), None);
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = Marker::parse(&text);
        }

        #[test]
        fn whatever_number_is_read_can_be_reckoned_with(
            field in 0..NUMBERS.len(), value: u64, bits in 0u32..64
        ) {
            if let Ok(marker) = Marker::parse(&with_number(NUMBERS[field], value >> bits)) {
                let all = marker.layout.first_ranks_bytes(marker.ranks);
                prop_assert!(marker.files.iter().map(|file| file.bytes).sum::<u64>() <= all);
                prop_assert!(marker.content.source_bytes.is_multiple_of(4096));
                prop_assert!(marker.content.source_bytes > 0);
            }
        }
    }
}
