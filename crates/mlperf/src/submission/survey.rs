//! The contents of a tree: its edition, its layout, and which runs make a result.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::leaf::{Leaf, LeafKind, NEWEST, is_metadata};
use super::timestamp;
use super::tree::{Entry, Tree, is_in_image, join, last, parent};

/// How a tree is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeShape {
    /// `closed/` and `open/` with organisations below.
    Package,
    /// A results folder as mlpstorage or DLIO leaves it, outside a package.
    Results,
}

/// A benchmark, by the name of its folder.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Category {
    Training,
    Checkpointing,
    VectorDatabase,
    KvCache,
}

/// The benchmarks that DLIO runs.
pub(super) const DLIO: [Category; 2] = [Category::Training, Category::Checkpointing];

impl Category {
    /// Its name, as in folders and files.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }

    /// Depth of the phases' folders below its folder; a vector database's path names its index,
    /// too.
    fn phase_depth(self) -> usize {
        if self == Self::VectorDatabase { 3 } else { 2 }
    }
}

/// The run folders that make one result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunGroup {
    /// Their common folder.
    pub(super) path: String,
    /// The benchmark.
    pub(super) category: Category,
    /// The model.
    pub(super) model: String,
    /// The system's folder, in a package.
    pub(super) system: Option<String>,
    /// The division's folder in lower case, in a package.
    pub(super) division: Option<String>,
    /// Runs of `datasize`.
    pub(super) datasize: Vec<Leaf>,
    /// Runs of `datagen`.
    pub(super) datagen: Vec<Leaf>,
    /// Runs of the benchmark, oldest first.
    pub(super) runs: Vec<Leaf>,
}

/// A tree, its edition and its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The tree.
    pub(super) tree: Tree,
    /// The edition of its runs.
    pub(super) edition: String,
    /// The fact that shows the edition.
    pub(super) edition_from: String,
    /// How the tree is laid out.
    pub(super) shape: TreeShape,
    /// The results.
    pub(super) groups: Vec<RunGroup>,
    /// Run folders that belong to no result.
    pub(super) others: Vec<Leaf>,
}

impl AsRef<str> for RunGroup {
    /// Its path: the place of a finding.
    fn as_ref(&self) -> &str {
        &self.path
    }
}

pub(super) const PHASES: [&str; 3] = ["datasize", "datagen", "run"];
/// Divisions as the rules spell them.
pub(super) const DIVISIONS: [&str; 2] = ["closed", "open"];
/// The edition of runs that no file shows.
pub(super) const UNKNOWN_EDITION: &str = "unknown";

impl Submission {
    /// Surveys `tree`.
    pub fn survey(tree: Tree) -> Self {
        let mut divisions = tree.names("").into_iter();
        let is_package =
            divisions.any(|name| DIVISIONS.contains(&name.to_ascii_lowercase().as_str()));
        let shape = if is_package { TreeShape::Package } else { TreeShape::Results };
        let leaves = leaves(&tree, shape);
        let (groups, others) = (Vec::new(), Vec::new());
        let (edition, edition_from) = (String::new(), String::new());
        let mut submission = Self { tree, edition, edition_from, shape, groups, others };
        submission.group(leaves);
        (submission.edition, submission.edition_from) = submission.shown_edition();
        submission
    }

    /// Whether there is no result to check: no run, and no package around where runs should be.
    pub fn is_foreign(&self) -> bool {
        let has_runs = self.leaves().next().is_some();
        !has_runs && self.shape == TreeShape::Results && self.is_checked()
    }

    /// Whether the rules here belong to its edition. A tree that does not show its edition is
    /// checked, and gets no verdict.
    pub(super) fn is_checked(&self) -> bool {
        [NEWEST, UNKNOWN_EDITION].contains(&self.edition.as_str())
    }

    /// The edition of the runs, and the fact that shows it. A tree with a run of the newest edition
    /// is one of its trees: a rule reports the other runs.
    fn shown_edition(&self) -> (String, String) {
        if let Some(path) = file_of_v1(&self.tree) {
            return ("1.0".to_string(), path);
        }
        let known = self.leaves().filter_map(|leaf| {
            let (edition, from) = leaf.edition()?;
            Some((edition, format!("{}: {from}", leaf.place())))
        });
        let known: Vec<(String, String)> = known.collect();
        let newest = known.iter().find(|(edition, _)| edition == NEWEST);
        if let Some(shown) = newest.or(known.first()) {
            return shown.clone();
        }
        // Other editions have no other benchmarks.
        let is_dlio = self.groups.iter().any(|group| DLIO.contains(&group.category));
        if is_dlio || !self.others.is_empty() {
            (UNKNOWN_EDITION.to_string(), "no file shows it".to_string())
        } else {
            (NEWEST.to_string(), "the newest: no file shows one".to_string())
        }
    }

    fn group(&mut self, leaves: Vec<Leaf>) {
        let mut groups: BTreeMap<(String, Category), RunGroup> = BTreeMap::new();
        for leaf in leaves {
            let Some((path, category, model)) = home(&leaf, self.shape) else {
                self.others.push(leaf);
                continue;
            };
            let group = groups.entry((path.clone(), category)).or_insert_with(|| {
                let parts: Vec<&str> = path.split('/').collect();
                let packaged = self.shape == TreeShape::Package && parts.len() > 3;
                RunGroup {
                    system: packaged.then(|| parts[..4].join("/")),
                    division: packaged.then(|| parts[0].to_ascii_lowercase()),
                    path,
                    category,
                    model,
                    datasize: Vec::new(),
                    datagen: Vec::new(),
                    runs: Vec::new(),
                }
            });
            match leaf.kind {
                LeafKind::Datasize => group.datasize.push(leaf),
                LeafKind::Datagen => group.datagen.push(leaf),
                LeafKind::Run | LeafKind::Checkpoint | LeafKind::Unknown => group.runs.push(leaf),
            }
        }
        self.groups = groups.into_values().collect();
        for group in &mut self.groups {
            // Folders are named after the time; otherwise the summary tells it.
            group.runs.sort_by(|a, b| began(a).total_cmp(&began(b)));
        }
    }

    /// All run folders.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.groups.iter().flat_map(RunGroup::leaves).chain(&self.others)
    }

    /// A run that stormlp made.
    pub(super) fn rehearsal(&self) -> Option<String> {
        let leaf = self.leaves().find(|leaf| leaf.made_by_stormlp());
        leaf.map(|leaf| leaf.place().to_string())
    }

    /// The results, such as `training unet3d`.
    pub(super) fn results(&self) -> Vec<String> {
        let groups = self.groups.iter();
        let mut results: Vec<String> =
            groups.map(|group| format!("{} {}", group.category.name(), group.model)).collect();
        results.dedup();
        results
    }

    /// The organisations' folders: `closed/acme`.
    pub(super) fn organisations(&self) -> Vec<String> {
        let is_division = |name: &&str| DIVISIONS.contains(&name.to_ascii_lowercase().as_str());
        let divisions = self.tree.folders("").into_iter().filter(is_division);
        let below = |division: &str| {
            let names = self.tree.folders(division).into_iter();
            names.map(|name| join(division, name)).collect::<Vec<String>>()
        };
        divisions.flat_map(below).collect()
    }

    /// The description of a result's system.
    pub(super) fn description(&self, group: &RunGroup) -> Value {
        let parts = group.system.as_deref().map(|path| path.split('/').collect::<Vec<_>>());
        let Some([division, organisation, _, system]) = parts.as_deref() else {
            return Value::Null;
        };
        let path = format!("{division}/{organisation}/systems/{system}.yaml");
        self.tree.yaml(&path).value["system_under_test"].clone()
    }
}

impl RunGroup {
    /// All its run folders.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.datasize.iter().chain(&self.datagen).chain(&self.runs)
    }

    /// The runs that count: all but the warm-up of a training result.
    pub(super) fn scored(&self) -> impl Iterator<Item = &Leaf> {
        let has_warm_up = self.category == Category::Training && self.runs.len() > 1;
        self.runs.iter().skip(usize::from(has_warm_up))
    }

    /// The division of one of its runs: `closed` or `open` by the folder above, else by
    /// mlpstorage's verification.
    pub(super) fn division_of(&self, leaf: &Leaf) -> Option<&'static str> {
        let name = self.division.clone().or_else(|| leaf.verification())?;
        DIVISIONS.into_iter().find(|division| *division == name)
    }

    /// The folder that holds its runs.
    pub(super) fn run_folder(&self) -> String {
        match self.runs.first() {
            Some(leaf) => leaf.parent().to_string(),
            None => join(&self.path, "run"),
        }
    }
}

fn began(leaf: &Leaf) -> f64 {
    let by_summary = || leaf.span().map(|(start, _)| start);
    timestamp::folder_time(leaf.name()).or_else(by_summary).unwrap_or(f64::MAX)
}

/// A file that only trees of v1.0 have: the report of `benchmark.sh`, or Hydra's files in `configs/`.
fn file_of_v1(tree: &Tree) -> Option<String> {
    let files = tree.iter().filter(|(_, entry)| !matches!(entry, Entry::Folder));
    let mut paths = files.map(|(path, _)| path).filter(|path| !is_in_image(path));
    let is_its = |path: &&str| {
        let is_config = last(path) == "overrides.yaml" && last(parent(path)) == "configs";
        is_config || last(path) == "mlperf_storage_report.json"
    };
    paths.find(is_its).map(str::to_string)
}

/// Whether `path` belongs to a vector database, which is not checked, or to source code.
pub(super) fn is_elsewhere(path: &str) -> bool {
    path.split('/').any(|part| part == Category::VectorDatabase.name()) || is_in_image(path)
}

/// The folders that hold a run's files.
fn leaves(tree: &Tree, shape: TreeShape) -> Vec<Leaf> {
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for (path, _) in tree.iter().filter(|(path, _)| !is_in_image(path)) {
        let (name, folder) = (last(path), parent(path));
        let marks = name == "summary.json"
            || name == "dlio_config"
            || is_metadata(name)
            || name.ends_with("per_epoch_stats.json");
        if marks {
            folders.insert(folder.to_string());
        }
        // A run that lost all its files still counts.
        let phase = last(folder);
        if timestamp::folder_time(name).is_some()
            && tree.is_folder(path)
            && (PHASES.contains(&phase) || last(parent(folder)) == "checkpointing")
        {
            folders.insert(path.to_string());
        }
    }
    folders.iter().map(|path| Leaf::read(tree, path, kind(path, shape))).collect()
}

/// The kind of benchmark in the folder at `path`, by the folders above.
fn kind(path: &str, shape: TreeShape) -> Option<LeafKind> {
    let parts: Vec<&str> = path.split('/').collect();
    let (at, category) = category(&parts, shape)?;
    if category == Category::Checkpointing {
        return Some(LeafKind::Checkpoint);
    }
    match *parts.get(at + category.phase_depth())? {
        "datasize" => Some(LeafKind::Datasize),
        "datagen" => Some(LeafKind::Datagen),
        "run" => Some(LeafKind::Run),
        _ => None,
    }
}

/// Which folder above a run names its benchmark. Systems and organisations may have the same name;
/// the folder's depth in a package, and the next folders tell them apart.
fn category(parts: &[&str], shape: TreeShape) -> Option<(usize, Category)> {
    let named = |at: usize| Some((at, parts.get(at)?.parse::<Category>().ok()?));
    // closed/ORGANISATION/results/SYSTEM/training
    let in_package = (shape == TreeShape::Package).then(|| named(4)).flatten();
    let all = || (0..parts.len().saturating_sub(2)).filter_map(named);
    let fits = |(at, category): &(usize, Category)| match category {
        Category::Checkpointing => parts.len() == at + 3,
        other => parts.get(at + other.phase_depth()).is_some_and(|part| PHASES.contains(part)),
    };
    let in_package = in_package.filter(|(at, _)| parts.len() > at + 2);
    in_package.or_else(|| all().find(fits)).or_else(|| all().next())
}

/// The folder of the result that a run belongs to, its benchmark and its model.
fn home(leaf: &Leaf, shape: TreeShape) -> Option<(String, Category, String)> {
    let parts: Vec<&str> = leaf.path.split('/').collect();
    if let Some((at, category)) = category(&parts, shape) {
        let path = parts[..=at + 1].join("/");
        return Some((path, category, parts[at + 1].to_string()));
    }
    let category = match leaf.kind {
        LeafKind::Run | LeafKind::Datagen | LeafKind::Datasize => Category::Training,
        LeafKind::Checkpoint => Category::Checkpointing,
        LeafKind::Unknown => return None,
    };
    let model = leaf.model().unwrap_or_else(|| "unknown".to_string());
    Some((leaf.parent().to_string(), category, model))
}
