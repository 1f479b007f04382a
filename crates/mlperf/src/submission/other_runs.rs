//! Runs of vector databases and KV caches, whose files are not DLIO's.

use super::leaf::is_metadata;
use super::survey::{DIVISIONS, OTHER_BENCHMARKS, PHASES, TreeShape};
use super::timestamp;
use super::tree::{Parsed, Tree, is_in_image, join, last, parent};

/// The folder of a run, of `datagen` or of `datasize`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OtherRun {
    /// Its path.
    pub(super) path: String,
    /// `kv_cache` or `vector_database`.
    pub(super) benchmark: &'static str,
    /// The model, or the engine of a vector database.
    pub(super) model: String,
    /// `run`, `datagen` or `datasize`.
    pub(super) command: String,
    /// The folder above the commands, which holds the result.
    pub(super) result: String,
    /// The division's folder, in a package.
    pub(super) division: Option<&'static str>,
    /// The names of its metadata files; there must be one.
    pub(super) metadata_names: Vec<String>,
    /// mlpstorage's metadata.
    pub(super) metadata: Parsed,
    /// `summary.json`.
    pub(super) summary: Parsed,
}

impl AsRef<str> for OtherRun {
    /// Its path: the place of a finding.
    fn as_ref(&self) -> &str {
        &self.path
    }
}

impl OtherRun {
    /// Whether it is in the closed division.
    pub(super) fn is_closed(&self) -> bool {
        self.division == Some("closed")
    }

    /// Whether stormlp made it.
    pub(super) fn made_by_stormlp(&self) -> bool {
        self.metadata.value()["generator"] == "stormlp"
            || self.summary.value()["stormlp"].is_object()
    }
}

/// All runs of these benchmarks in `tree`.
pub(super) fn find(tree: &Tree, shape: TreeShape) -> Vec<OtherRun> {
    let folders = tree.iter().map(|(path, _)| path);
    let is_run = |path: &&str| {
        timestamp::folder_time(last(path)).is_some() && tree.is_folder(path) && !is_in_image(path)
    };
    folders.filter(is_run).filter_map(|path| read(tree, shape, path)).collect()
}

fn read(tree: &Tree, shape: TreeShape, path: &str) -> Option<OtherRun> {
    let command = last(parent(path)).to_string();
    let result = parent(parent(path)).to_string();
    let parts: Vec<&str> = result.split('/').collect();
    let named = |part: &&str| OTHER_BENCHMARKS.into_iter().find(|name| name == part);
    let at = parts.iter().position(|part| named(part).is_some())?;
    let model = (*parts.get(at + 1)?).to_string();
    if !PHASES.contains(&command.as_str()) {
        return None;
    }
    let files = tree.files(path).into_iter();
    let metadata_names: Vec<String> =
        files.filter(|name| is_metadata(name)).map(str::to_string).collect();
    let json = |name: &str| tree.json(&join(path, name));
    let division = parts.first().map(|name| name.to_ascii_lowercase());
    let division = DIVISIONS.into_iter().find(|known| division.as_deref() == Some(known));
    Some(OtherRun {
        path: path.to_string(),
        benchmark: named(&parts[at])?,
        model,
        command,
        result,
        division: division.filter(|_| shape == TreeShape::Package),
        metadata: metadata_names.first().map_or(Parsed::Absent, |name| json(name)),
        metadata_names,
        summary: json("summary.json"),
    })
}
