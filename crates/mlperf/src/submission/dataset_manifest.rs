//! mlpstorage's manifest of a dataset, which `datagen` leaves beside the data and each later run copies
//! into its folder: rule 3.3.1.

use serde_json::Value;

use super::figures::{number, shown};
use super::leaf::{Leaf, plain};
use super::rule::{COPY_FROM_RESULTS, Finding, Official, failed};
use super::survey::RunGroup;
use super::training::files_of;
use super::tree::{Parsed, last};

const NAME: &str = "datagen-manifest.json";
const RIGHT_DATASET: &str = "run on the dataset of the package's datagen run";

/// What is wrong with the manifest of a run that used this many `files`.
pub(super) fn faults(group: &RunGroup, leaf: &Leaf, files: f64) -> Vec<Finding> {
    let value = match &leaf.dataset {
        Parsed::Absent => return missing(leaf).into_iter().collect(),
        // Another rule reports it.
        Parsed::Broken { .. } => return Vec::new(),
        Parsed::Found { value, .. } => value,
    };
    // A copy of the manifest, or mlpstorage's envelope around one.
    let manifest = if value["manifest"].is_object() { &value["manifest"] } else { value };
    let at = leaf.dataset.path().unwrap_or(&leaf.path);
    let fault = |fact: String| failed(at, fact, RIGHT_DATASET).officially(Official::Fails);
    let mut faults = Vec::new();
    let waived: Vec<String> =
        value["overridden"].as_array().into_iter().flatten().map(plain).collect();
    if !waived.is_empty() {
        faults.push(fault(format!("the run was told to ignore {}", waived.join(", "))));
    }
    let made = number(&manifest["num_files_train"]);
    match made {
        None => faults.push(fault("it has no num_files_train".to_string())),
        Some(made) if files > made => {
            faults.push(fault(format!("{} files used, {} made", shown(files), shown(made))));
        }
        Some(_) => {}
    }
    let source =
        manifest["source_datagen_result_dir"].as_str().map(|path| last(path.trim_end_matches('/')));
    match source.map(|name| group.datagen.iter().find(|datagen| datagen.name() == name)) {
        Some(None) if !group.datagen.is_empty() => {
            let name = source.unwrap_or_default();
            faults.push(fault(format!("it is of datagen run {name}, which is not in the package")));
        }
        Some(Some(datagen)) => {
            let both = files_of(datagen).zip(made).filter(|(theirs, made)| theirs != made);
            faults.extend(both.map(|(theirs, made)| {
                let (made, theirs) = (shown(made), shown(theirs));
                fault(format!("it has {made} files, datagen run {} {theirs}", datagen.name()))
            }));
        }
        _ => {}
    }
    // mlpstorage itself refuses such a run, and its checker does not look again.
    faults.extend(unlike(leaf, manifest).into_iter().map(|(key, theirs, own)| {
        let fact = format!("its {key} is {theirs}, that of the run {own}");
        failed(at, fact, RIGHT_DATASET).officially(Official::Silent)
    }));
    faults
}

/// A run without a manifest: the metadata of newer runs names it.
fn missing(leaf: &Leaf) -> Option<Finding> {
    if leaf.is_of_stormlp() {
        return None;
    }
    if !leaf.metadata.value()["datagen_manifest_file"].is_null() {
        let fact = format!("the metadata names {NAME}, but it is missing");
        return Some(failed(leaf, fact, COPY_FROM_RESULTS).officially(Official::Fails));
    }
    let fact = format!("the run found no manifest of its dataset ({NAME})");
    let is_newer = leaf.provenance.is_found();
    is_newer.then(|| failed(leaf, fact, "generate the dataset with mlpstorage, and run again"))
}

/// What manifest and run have, and differ in: key, the manifest's and the run's.
fn unlike(leaf: &Leaf, manifest: &Value) -> Vec<(&'static str, String, String)> {
    let of_dataset = |key| leaf.parameter("dataset", key).clone();
    let model = leaf.model().map_or(Value::Null, Value::String);
    let pairs = [
        ("model", model),
        ("num_samples_per_file", of_dataset("num_samples_per_file")),
        ("record_length_bytes", of_dataset("record_length_bytes")),
        ("num_subfolders_train", of_dataset("num_subfolders_train")),
    ];
    let formats = ("dataset_format", of_dataset("format"));
    let alike = |one: &Value, other: &Value| match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        _ => plain(one).eq_ignore_ascii_case(&plain(other)),
    };
    let both = pairs.into_iter().chain([formats]);
    let known = both.filter(|(key, own)| !own.is_null() && !manifest[*key].is_null());
    known
        .filter(|(key, own)| !alike(&manifest[*key], own))
        .map(|(key, own)| (key, plain(&manifest[key]), plain(&own)))
        .collect()
}
