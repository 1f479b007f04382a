//! The marker in a folder of objects, and how a file in it is known to be one of them: by its name
//! and its beginning, which follow from each other. So there is no list of files, and the files of
//! a killed run can be told from other files.

use serde::{Deserialize, Serialize};

use super::content::{Content, HEADER_BYTES, tokens_of};
use super::model::Model;
use super::noise::Noise;
use super::serving::BLOCK_BYTES;

/// The file name of the marker.
pub const MARKER_NAME: &str = ".stormlp-kvcache.json";
/// Bytes of a file by which it is known.
pub const KNOWN_BY_BYTES: usize = 4096;
/// How the name of an object's file ends.
const SUFFIX: &str = ".npy";
const FORMAT_VERSION: u32 = 1;
/// How the names of objects begin that no trace has named.
const PREFIXES: [&str; 5] = ["user_", "conv_user_", "trace_user_", "chunk_", "pack_"];

/// The file name of an object.
pub fn file_name(key: &str) -> String {
    format!("{key}{SUFFIX}")
}

/// Whether a file has a name that runs give to objects, so that it could be taken for one.
pub fn names_object_of_a_run(name: &str) -> bool {
    let key = name.strip_suffix(SUFFIX);
    key.is_some_and(|key| PREFIXES.iter().any(|prefix| key.starts_with(prefix)))
}

/// The facts in a folder's marker about its objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    format_version: u32,
    /// The command that made it: `kvcache`.
    made_by: String,
    /// The models of its objects.
    models: Vec<String>,
    /// The seed of their content.
    seed: u32,
    /// Whether a trace has named objects, so that they may have any name.
    #[serde(default)]
    named_by_trace: bool,
}

impl Marker {
    /// The marker of a run.
    pub fn new(models: Vec<String>, seed: u32, named_by_trace: bool) -> Self {
        let made_by = "kvcache".to_string();
        Self { format_version: FORMAT_VERSION, made_by, models, seed, named_by_trace }
    }

    /// Reads a marker.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let marker: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match marker.format_version {
            FORMAT_VERSION => Ok(marker),
            newer => Err(format!(
                "it has format version {newer}, this stormlp reads up to {FORMAT_VERSION}"
            )),
        }
    }

    /// Whether a file is an object of this folder, whole or not: `start` has its first
    /// [`KNOWN_BY_BYTES`], or all if there are fewer. Of an empty one only the name tells.
    pub fn made(&self, name: &str, bytes: u64, start: &[u8]) -> bool {
        let Some(key) = name.strip_suffix(SUFFIX) else {
            return false;
        };
        if bytes == 0 {
            return self.named_by_trace || names_object_of_a_run(name);
        }
        let noise = Noise::new(self.seed.into());
        self.models.iter().filter_map(|model| Model::named(model).ok()).any(|model| {
            // A file that ends within its header has no tokens to compare with.
            let header = start.first_chunk::<{ HEADER_BYTES as usize }>();
            let Some(tokens) = header.and_then(|header| tokens_of(&model, header)) else {
                return false;
            };
            let content = Content::new(&model, key, tokens, self.seed.into());
            let mut expected = vec![0; start.len().min(content.bytes() as usize)];
            content.fill(&noise, 0, &mut expected);
            // The last block of a chunk is filled up.
            bytes <= content.bytes().next_multiple_of(BLOCK_BYTES) && expected == start
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_name_and_its_beginning() {
        let marker = Marker::new(vec!["llama3.1-8b".to_string(), "tiny-1b".to_string()], 42, false);
        let model = Model::named("tiny-1b").unwrap();
        let content = Content::new(&model, "user_0000_req_000001", 700, 42);
        let mut start = vec![0; KNOWN_BY_BYTES];
        content.fill(&Noise::new(42), 0, &mut start);
        let name = file_name("user_0000_req_000001");
        assert!(marker.made(&name, content.bytes(), &start));
        // Cut short by a kill.
        assert!(marker.made(&name, 1000, &start[..1000]));
        assert!(marker.made(&name, 0, &[]));
        assert!(!marker.made("photo.npy", 0, &[]));
        assert!(Marker::new(Vec::new(), 42, true).made("of_a_trace.npy", 0, &[]));
        assert!(!marker.made(&name, content.bytes() + BLOCK_BYTES, &start));
        assert!(!marker.made(&file_name("user_0000_req_000002"), content.bytes(), &start));
        assert!(!marker.made("user_0000_req_000001", content.bytes(), &start));
        assert!(!marker.made(&name, 100, &start[..100]));
        start[200] ^= 1;
        assert!(!marker.made(&name, content.bytes(), &start));
        let other = Marker::new(vec!["tiny-1b".to_string()], 43, false);
        start[200] ^= 1;
        assert!(!other.made(&name, content.bytes(), &start));
    }

    #[test]
    fn names_of_others_are_not_those_of_objects() {
        assert!(names_object_of_a_run("user_0000_req_000001.npy"));
        assert!(names_object_of_a_run("chunk_0000000000000001.npy"));
        assert!(
            ["cat.npy", "user_0000_req_000001", "users.npy"]
                .iter()
                .all(|name| !names_object_of_a_run(name))
        );
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        let marker = Marker::new(vec!["tiny-1b".to_string()], 7, true);
        let text = serde_json::to_string(&marker).unwrap();
        assert_eq!(Marker::parse(&text), Ok(marker));
        assert!(Marker::parse("{}").is_err());
        let newer = text.replace("\"format_version\":1", "\"format_version\":2");
        assert!(Marker::parse(&newer).unwrap_err().contains("format version 2"));
    }
}
