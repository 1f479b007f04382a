//! What a tree is: whose, of which edition, and which runs belong together.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::leaf::{Leaf, LeafKind, is_metadata};
use super::tree::{Tree, is_in_image, join, last, parent};
use super::{marks, moment};
use stormlp_core::names::Named;
use stormlp_core::profile::Profile;

use schemars::JsonSchema;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// An edition of the rules.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[strum(parse_err_ty = String, parse_err_fn = stormlp_core::names::unknown::<Self>)]
pub enum Edition {
    /// MLPerf Storage v2.0.
    #[serde(rename = "2.0")]
    #[strum(serialize = "2.0")]
    V2,
    /// MLPerf Storage v3.0.
    #[serde(rename = "3.0")]
    #[strum(serialize = "3.0")]
    V3,
}

impl Named for Edition {
    const WHAT: &'static str = "an edition of the rules";
}

impl Edition {
    /// The profile that reproduces it.
    pub fn profile(self) -> Profile {
        match self {
            Self::V2 => Profile::V2,
            Self::V3 => Profile::V3,
        }
    }

    /// The edition that a profile reproduces; `None` for one whose rules are not held here.
    pub fn of_profile(profile: Profile) -> Option<Self> {
        match profile {
            Profile::V2 => Some(Self::V2),
            Profile::V3 => Some(Self::V3),
            Profile::V1 | Profile::Native => None,
        }
    }
}

/// How a tree is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// `closed/` and `open/` with organisations below.
    Package,
    /// A folder of results as mlpstorage or DLIO leaves it, without a package around it.
    Results,
}

/// What the runs of a group are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Training.
    Training,
    /// Checkpointing.
    Checkpointing,
}

/// What a result is submitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Nothing but a few parameters was chosen.
    Closed,
    /// More is free.
    Open,
}

/// Runs that make one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Where they lie.
    pub path: String,
    /// What they are.
    pub category: Category,
    /// The model.
    pub model: String,
    /// The folder of their system, where the tree is a package.
    pub system: Option<String>,
    /// `closed` or `open`, in lower case, where the tree is a package.
    pub division: Option<String>,
    /// Sizings.
    pub datasize: Vec<Leaf>,
    /// Generations.
    pub datagen: Vec<Leaf>,
    /// Runs, oldest first.
    pub runs: Vec<Leaf>,
}

/// A tree and what it was found to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The tree.
    pub tree: Tree,
    /// Whose rules.
    pub edition: Edition,
    /// How that is known.
    pub edition_from: String,
    /// How it is laid out.
    pub shape: Shape,
    /// What results there are.
    pub groups: Vec<Group>,
    /// Leaves that belong to none.
    pub others: Vec<Leaf>,
}

const PHASES: [&str; 3] = ["datasize", "datagen", "run"];
/// Divisions, spelt as rules and tools spell them.
pub(super) const DIVISIONS: [&str; 2] = ["closed", "open"];

impl Submission {
    /// Looks through `tree`; `edition` is the one that was asked for.
    pub fn survey(tree: Tree, edition: Option<Edition>) -> Self {
        let divisions = tree.names("").into_iter();
        let is_package =
            divisions.clone().any(|name| DIVISIONS.contains(&name.to_ascii_lowercase().as_str()));
        let shape = if is_package { Shape::Package } else { Shape::Results };
        let leaves = leaves(&tree, shape);
        let (edition, edition_from) = match edition {
            Some(asked) => (asked, "--edition".to_string()),
            None => edition_of(&leaves),
        };
        let mut submission =
            Self { tree, edition, edition_from, shape, groups: Vec::new(), others: Vec::new() };
        submission.group(leaves);
        submission
    }

    fn group(&mut self, leaves: Vec<Leaf>) {
        let mut groups: BTreeMap<(String, Category), Group> = BTreeMap::new();
        for leaf in leaves {
            let Some((path, category, model)) = home(&leaf, self.shape) else {
                self.others.push(leaf);
                continue;
            };
            let group = groups.entry((path.clone(), category)).or_insert_with(|| {
                let parts: Vec<&str> = path.split('/').collect();
                let packaged = self.shape == Shape::Package && parts.len() > 3;
                Group {
                    system: packaged.then(|| parts[..4.min(parts.len())].join("/")),
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
            // Folders are named for moments; where they are not, the summaries say when.
            group.runs.sort_by(|a, b| began(a).total_cmp(&began(b)));
        }
    }

    /// Every leaf.
    pub fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.groups.iter().flat_map(Group::leaves).chain(&self.others)
    }

    /// How it is known that stormlp made one of the leaves.
    pub fn rehearsal(&self) -> Option<String> {
        let mut marks = self.leaves().filter_map(|leaf| {
            let mark = leaf.mark.as_deref()?;
            Some(format!("{}: {mark}", leaf.path))
        });
        marks.next()
    }

    /// What bears a mark of stormlp's outside of the folders of runs: where, and which.
    pub(super) fn marks_elsewhere(&self) -> Vec<(String, &'static str)> {
        let leaves: BTreeSet<&str> = self.leaves().map(|leaf| leaf.path.as_str()).collect();
        marks::elsewhere(&self.tree, |path| leaves.contains(parent(path)))
    }

    /// The folders of organisations: `closed/acme`; the guidelines of v2.0 write `Closed/acme`.
    pub fn organisations(&self) -> Vec<String> {
        let is_division = |name: &&str| DIVISIONS.contains(&name.to_ascii_lowercase().as_str());
        let divisions = self.tree.folders("").into_iter().filter(is_division);
        let below = |division: &str| {
            let names = self.tree.folders(division).into_iter();
            names.map(|name| join(division, name)).collect::<Vec<String>>()
        };
        divisions.flat_map(below).collect()
    }
}

impl Group {
    /// Every leaf of it.
    pub fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.datasize.iter().chain(&self.datagen).chain(&self.runs)
    }

    /// What one of its runs is submitted to: by the folder of the division, else by what mlpstorage
    /// said of it.
    pub fn division_of(&self, leaf: &Leaf) -> Option<Division> {
        let said = || leaf.verification();
        let name = self.division.clone().or_else(said)?;
        match name.as_str() {
            "closed" => Some(Division::Closed),
            "open" => Some(Division::Open),
            _ => None,
        }
    }

    /// The folder that its runs lie in.
    pub fn run_folder(&self) -> String {
        match self.runs.first() {
            Some(leaf) => leaf.parent().to_string(),
            None => join(&self.path, "run"),
        }
    }
}

/// When a run began, for sorting.
fn began(leaf: &Leaf) -> f64 {
    let by_summary = || leaf.span().map(|(start, _)| start);
    moment::of_folder(leaf.name()).or_else(by_summary).unwrap_or(f64::MAX)
}

/// Benchmarks whose results are not looked into.
pub(super) const OTHER_BENCHMARKS: [&str; 2] = ["vector_database", "kv_cache"];

/// Whether `path` is of another benchmark, or of source code: neither has runs of these.
pub(super) fn is_elsewhere(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| OTHER_BENCHMARKS.contains(&part)) || is_in_image(path)
}

/// The folders that hold files of a run.
fn leaves(tree: &Tree, shape: Shape) -> Vec<Leaf> {
    let mut folders: BTreeSet<String> = BTreeSet::new();
    for (path, _) in tree.iter().filter(|(path, _)| !is_elsewhere(path)) {
        let (name, folder) = (last(path), parent(path));
        let marks = name == "summary.json"
            || name == "dlio_config"
            || is_metadata(name)
            || name.ends_with("per_epoch_stats.json");
        if marks {
            folders.insert(folder.to_string());
        }
        // A run without any of its files is a run all the same.
        let phase = last(folder);
        if moment::of_folder(name).is_some()
            && tree.is_folder(path)
            && (PHASES.contains(&phase) || last(parent(folder)) == "checkpointing")
        {
            folders.insert(path.to_string());
        }
    }
    let kind = |path: &str| {
        let parts: Vec<&str> = path.split('/').collect();
        match category(&parts, shape)? {
            (_, Category::Checkpointing) => Some(LeafKind::Checkpoint),
            (at, Category::Training) => match parts.get(at + 2).copied() {
                Some("datasize") => Some(LeafKind::Datasize),
                Some("datagen") => Some(LeafKind::Datagen),
                Some("run") => Some(LeafKind::Run),
                _ => None,
            },
        }
    };
    folders.iter().map(|path| Leaf::read(tree, path, kind(path))).collect()
}

/// Which of the folders above a leaf is that of its category. Systems and organisations may bear such
/// names, too: where it lies in a package, and what follows it, tells them apart.
fn category(parts: &[&str], shape: Shape) -> Option<(usize, Category)> {
    let named = |at: usize| match parts.get(at).copied() {
        Some("training") => Some((at, Category::Training)),
        Some("checkpointing") => Some((at, Category::Checkpointing)),
        _ => None,
    };
    // closed/ORGANISATION/results/SYSTEM/training
    let in_package = (shape == Shape::Package).then(|| named(4)).flatten();
    let all = || (0..parts.len().saturating_sub(2)).filter_map(named);
    let fits = |(at, category): &(usize, Category)| match category {
        Category::Training => PHASES.contains(&parts[at + 2]),
        Category::Checkpointing => parts.len() == at + 3,
    };
    let in_package = in_package.filter(|(at, _)| parts.len() > at + 2);
    in_package.or_else(|| all().find(fits)).or_else(|| all().next())
}

/// The group that a leaf belongs to, and its model.
fn home(leaf: &Leaf, shape: Shape) -> Option<(String, Category, String)> {
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

/// The edition that the leaves belong to, and how it is known.
fn edition_of(leaves: &[Leaf]) -> (Edition, String) {
    // Most of them: one that is of another edition is told, not followed.
    let told: Vec<(&Leaf, Edition, String)> = leaves
        .iter()
        .filter_map(|leaf| leaf.edition().map(|(edition, from)| (leaf, edition, from)))
        .collect();
    let of = |wanted: Edition| told.iter().filter(move |(_, edition, _)| *edition == wanted);
    let most =
        if of(Edition::V2).count() > of(Edition::V3).count() { Edition::V2 } else { Edition::V3 };
    if let Some((leaf, edition, from)) = of(most).next() {
        return (*edition, format!("{}: {from}", leaf.path));
    }
    let mut v3 = leaves.iter().filter(|leaf| {
        leaf.metadata.value()["override_parameters"].is_object() || leaf.separation.is_found()
    });
    match v3.next() {
        Some(leaf) => (Edition::V3, format!("{}: it has v3.0's files", leaf.path)),
        None if leaves.is_empty() => (Edition::V3, "the newest: nothing tells".to_string()),
        None => (Edition::V2, "no file of v3.0's is there".to_string()),
    }
}
