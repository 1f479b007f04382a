//! The folder of one run, which mlpstorage calls a leaf, and the content of its files.

use serde_json::Value;

use super::figures::{EpochFigures, EpochTimes, number};
use super::timestamp;
use super::tree::{Entry, Parsed, Tree, join, last, parent};
use stormlp_core::profile::Profile;

/// The folder of a run of the benchmark, of `datagen` or of `datasize`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    /// Its path; empty where the tree is a run itself.
    pub(super) path: String,
    /// The name of its folder.
    name: String,
    /// The kind of benchmark that ran.
    pub(super) kind: LeafKind,
    /// DLIO's `summary.json`.
    pub(super) summary: Parsed,
    /// mlpstorage's metadata.
    pub(super) metadata: Parsed,
    /// The names of its metadata files; there must be one.
    pub(super) metadata_names: Vec<String>,
    /// `provenance.json`.
    pub(super) provenance: Parsed,
    /// `fs_separation.json`.
    pub(super) separation: Parsed,
    /// The keys that were set, in order.
    pub(super) overrides: Vec<(String, String)>,
    /// `overrides.yaml`.
    pub(super) overrides_file: Parsed,
    /// `config.yaml`.
    pub(super) config: Parsed,
    /// `N_output.json` of each rank that has one, by path.
    pub(super) ranks: Vec<(String, Vec<EpochFigures>)>,
    /// `N_per_epoch_stats.json` of each rank that has one, by path.
    pub(super) stats: Vec<(String, Vec<EpochTimes>)>,
    /// Files that cannot be used, and why.
    pub(super) unusable: Vec<(String, String)>,
}

/// The edition of the rules that are checked.
pub(super) const NEWEST: &str = "3.0";

/// The kind of benchmark that ran in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafKind {
    /// `datasize`.
    Datasize,
    /// `datagen`.
    Datagen,
    /// A training run.
    Run,
    /// Checkpoint writes or reads.
    Checkpoint,
    /// No file shows it.
    Unknown,
}

impl AsRef<str> for Leaf {
    /// Its path: the place of a finding.
    fn as_ref(&self) -> &str {
        &self.path
    }
}

impl Leaf {
    /// Reads the leaf at `path` of `tree`.
    pub(super) fn read(tree: &Tree, path: &str, kind: Option<LeafKind>) -> Self {
        let json = |name: &str| tree.json(&join(path, name));
        let config = |name: &str| {
            let place = join(path, &format!("dlio_config/{name}.yaml"));
            // DLIO alone leaves them in Hydra's folder.
            let found = Some(tree.yaml(&place)).filter(|found| found.path.is_some());
            found.unwrap_or_else(|| tree.yaml(&join(path, &format!(".hydra/{name}.yaml"))))
        };
        let files = tree.files(path).into_iter();
        let metadata_names: Vec<&str> = files.filter(|name| is_metadata(name)).collect();
        let overrides_file = config("overrides");
        let mut leaf = Self {
            path: path.to_string(),
            name: if path.is_empty() { tree.name() } else { last(path) }.to_string(),
            kind: LeafKind::Unknown,
            summary: json("summary.json"),
            metadata: metadata_names.first().map(|name| json(name)).unwrap_or_default(),
            metadata_names: metadata_names.iter().map(ToString::to_string).collect(),
            provenance: json("provenance.json"),
            separation: json("fs_separation.json"),
            overrides: Vec::new(),
            overrides_file,
            config: config("config"),
            ranks: Vec::new(),
            stats: Vec::new(),
            unusable: Vec::new(),
        };
        leaf.overrides = leaf.keys_that_were_set();
        leaf.take_ranks(tree);
        leaf.find_unusable(&config("hydra"));
        leaf.kind = kind.unwrap_or_else(|| leaf.kind_by_content());
        leaf
    }

    fn take_ranks(&mut self, tree: &Tree) {
        for name in tree.files(&self.path) {
            let place = join(&self.path, name);
            match tree.get(&place) {
                Some(Entry::Rank(figures)) => self.ranks.push((place, figures.clone())),
                Some(Entry::Stats(stats)) => self.stats.push((place, stats.clone())),
                Some(Entry::Unreadable(why)) => self.unusable.push((place, why.clone())),
                _ => {}
            }
        }
    }

    fn find_unusable(&mut self, hydra: &Parsed) {
        let parts = [
            &self.summary,
            &self.metadata,
            &self.provenance,
            &self.separation,
            &self.overrides_file,
            &self.config,
            hydra,
        ];
        for part in parts {
            let Some(path) = &part.path else { continue };
            let fault = match &part.fault {
                Some(why) => Some(why.clone()),
                // Hydra's list is the only file that is not a mapping.
                None if path.ends_with("overrides.yaml") => fault_of_overrides(&part.value),
                None => (!part.value.is_object())
                    .then(|| "its content does not match its name".to_string()),
            };
            if let Some(why) = fault
                && !self.unusable.iter().any(|(known, _)| known == path)
            {
                self.unusable.push((path.clone(), why));
            }
        }
    }

    /// Changes to the workload: Hydra's overrides, then the metadata's.
    fn keys_that_were_set(&self) -> Vec<(String, String)> {
        let mut keys: Vec<(String, String)> = Vec::new();
        let mut add = |key: &str, value: String| {
            let key = key.trim_start_matches('+');
            let key = key.strip_prefix("workload.").unwrap_or(key).to_string();
            if key != "workload" && !keys.iter().any(|(known, _)| *known == key) {
                keys.push((key, value));
            }
        };
        for line in self.overrides_file.value.as_array().into_iter().flatten() {
            if let Some((key, value)) = line.as_str().and_then(|line| line.split_once('=')) {
                add(key, value.to_string());
            }
        }
        for section in ["override_parameters", "params_dict"] {
            let entries = self.metadata.value[section].as_object();
            for (key, value) in entries.into_iter().flatten() {
                add(key, plain(value));
            }
        }
        keys
    }

    fn kind_by_content(&self) -> LeafKind {
        let metric = self.summary.value["metric"].as_object();
        let begins = |prefix: &str| {
            let mut keys = metric.into_iter().flatten();
            keys.any(|(key, _)| key.starts_with(prefix))
        };
        if begins("train_") {
            return LeafKind::Run;
        }
        if begins("save_") || begins("load_") {
            return LeafKind::Checkpoint;
        }
        let is = |key: &str, wanted: &str| {
            self.set(key).is_some_and(|value| value.eq_ignore_ascii_case(wanted))
        };
        if is("workflow.generate_data", "true") && !is("workflow.train", "true") {
            return LeafKind::Datagen;
        }
        LeafKind::Unknown
    }

    /// The name of its folder.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its path, or the name of its folder where the tree is a run itself.
    pub(super) fn place(&self) -> &str {
        if self.path.is_empty() { &self.name } else { &self.path }
    }

    /// The folder that holds it.
    pub(super) fn parent(&self) -> &str {
        parent(&self.path)
    }

    /// The value that a key of the workload was set to.
    pub(super) fn set(&self, key: &str) -> Option<&str> {
        let mut keys = self.overrides.iter();
        keys.find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A number of the summary.
    pub(super) fn figure(&self, key: &str) -> Option<f64> {
        number(&self.summary.value[key])
    }

    /// A metric of the summary.
    pub(super) fn metric(&self, key: &str) -> Option<f64> {
        number(&self.summary.value["metric"][key])
    }

    /// An argument of mlpstorage.
    pub(super) fn argument(&self, key: &str) -> &Value {
        &self.metadata.value["args"][key]
    }

    /// A parameter of the workload as it ran, `dataset` and `num_files_train`: from the metadata,
    /// else from DLIO's configuration.
    pub(super) fn parameter(&self, section: &str, key: &str) -> &Value {
        let metadata = &self.metadata.value;
        let config = &self.config.value;
        let places =
            [&metadata["parameters"], &metadata["combined_params"], &config["workload"], config];
        let values = places.into_iter().map(|place| &place[section][key]);
        let mut found = values.filter(|value| !value.is_null());
        found.next().unwrap_or(&Value::Null)
    }

    /// Start and end by its summary.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        let at = |key: &str| timestamp::seconds(self.summary.value[key].as_str()?);
        Some((at("start")?, at("end")?))
    }

    /// The memory of all hosts together in GiB.
    pub(super) fn memory_gib(&self) -> Option<f64> {
        let list = self.summary.value["host_memory_GB"].as_array()?;
        let each: Option<Vec<f64>> = list.iter().map(number).collect();
        // MPI node numbers leave some entries 0 and count other nodes twice.
        let each = each.filter(|each| each.iter().all(|gib| *gib >= 0.0))?;
        let sum: f64 = each.iter().sum();
        (sum > 0.0 && sum.is_finite()).then_some(sum)
    }

    /// The official tool's verdict on it, in lower case.
    pub(super) fn verification(&self) -> Option<String> {
        let verdict = self.metadata.value["verification"].as_str()?;
        Some(verdict.to_ascii_lowercase())
    }

    /// Whether stormlp made it. It does not write all files of the official tool.
    pub(super) fn made_by_stormlp(&self) -> bool {
        self.metadata.value["generator"] == "stormlp" || self.summary.value["stormlp"].is_object()
    }

    /// The profile that stormlp's mark names.
    fn profile(&self) -> Option<Profile> {
        let mut marks =
            [&self.summary, &self.metadata].map(|file| &file.value["stormlp"]).into_iter();
        marks.find_map(|mark| mark["profile"].as_str()?.parse().ok())
    }

    /// Its edition, and the fact that shows it: its stamp, stormlp's profile, files that one
    /// edition alone has, or the accelerator.
    pub(super) fn edition(&self) -> Option<(String, String)> {
        let stamp = self.provenance.value["rules_edition"].as_str();
        if let Some(edition) = stamp.filter(|edition| *edition != "unknown") {
            return Some((edition.to_string(), "provenance.json names it".to_string()));
        }
        if let Some(profile) = self.profile() {
            return Some((edition_of(profile)?, format!("stormlp's profile {profile}")));
        }
        let metadata = &self.metadata.value;
        if metadata["override_parameters"].is_object() || self.separation.is_found() {
            return Some((NEWEST.to_string(), "it has v3.0's files".to_string()));
        }
        self.edition_of_accelerator()
    }

    /// The edition that has its accelerator.
    pub(super) fn edition_of_accelerator(&self) -> Option<(String, String)> {
        let accelerator = self.accelerator()?;
        let edition = Profile::of_accelerator(&accelerator).and_then(edition_of)?;
        Some((edition, format!("accelerator {accelerator}")))
    }

    /// The model by the metadata, else by Hydra's choice of workload.
    pub(super) fn model(&self) -> Option<String> {
        if let Some(model) = self.argument("model").as_str() {
            return Some(model.to_ascii_lowercase());
        }
        let choice = self.choice()?;
        Some(choice.split_once('_').map_or(choice, |(model, _)| model).to_ascii_lowercase())
    }

    /// The emulated accelerator: from the metadata, otherwise from Hydra's choice of workload, such
    /// as `unet3d_h100`.
    pub(super) fn accelerator(&self) -> Option<String> {
        let chosen = || Some(self.choice()?.rsplit_once('_')?.1.to_ascii_lowercase());
        self.named_accelerator().or_else(chosen)
    }

    /// The emulated accelerator that the metadata names.
    pub(super) fn named_accelerator(&self) -> Option<String> {
        let named = &self.metadata.value["accelerator"];
        let named = self.argument("accelerator_type").as_str().or_else(|| named.as_str());
        named.map(str::to_ascii_lowercase)
    }

    /// Hydra's choice of workload.
    fn choice(&self) -> Option<&str> {
        let mut lines = self.overrides_file.value.as_array()?.iter();
        lines.find_map(|line| line.as_str()?.strip_prefix("workload="))
    }
}

/// The edition that a profile reproduces.
fn edition_of(profile: Profile) -> Option<String> {
    let edition = match profile {
        Profile::V1 => "1.0",
        Profile::V2 => "2.0",
        Profile::V3 => NEWEST,
        Profile::Native => return None,
    };
    Some(edition.to_string())
}

/// The fault of Hydra's overrides, if any; each must be `KEY=VALUE`.
fn fault_of_overrides(value: &Value) -> Option<String> {
    let Some(list) = value.as_array() else {
        return Some("it is not a list of overrides".to_string());
    };
    let is_override = |line: &str| {
        line.split_once('=')
            .is_some_and(|(key, _)| !key.trim_matches('+').trim().is_empty() && key.trim() == key)
    };
    let wrong = list.iter().find(|line| !line.as_str().is_some_and(is_override))?;
    Some(format!("its entry {wrong} is not KEY=VALUE"))
}

/// Whether this is the name of mlpstorage's metadata.
pub(super) fn is_metadata(name: &str) -> bool {
    name.contains("metadata") && name.ends_with(".json")
}

/// A value as it would be typed.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
