//! Runs on object storage: how a run accesses its data, and the rules that only such runs have.

use std::collections::BTreeSet;

use serde_json::Value;
use strum::Display;

use super::leaf::{Leaf, plain};
use super::rule::{Finding, Official, advice, failed, or_passed, passed_open, wish};
use super::survey::{RunGroup, Submission};

/// How a run accesses its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Access {
    /// Files in a file system.
    File,
    /// Objects.
    Object,
}

/// Types of storage that are file systems.
const FILES: [&str; 3] = ["local_fs", "parallel_fs", "direct_fs"];

/// Variables that set how the official client moves objects. The rules let a run have them only if
/// its configuration declares them.
const VARIABLES: [&str; 22] = [
    "S3DLIO_SKIP_HEAD",
    "S3DLIO_ENABLE_RANGE_OPTIMIZATION",
    "S3DLIO_RANGE_THRESHOLD_MB",
    "S3DLIO_RANGE_CONCURRENCY",
    "S3DLIO_CHUNK_SIZE",
    "S3DLIO_H2C",
    "S3DLIO_H2_ADAPTIVE_WINDOW",
    "S3DLIO_H2_STREAM_WINDOW_MB",
    "S3DLIO_H2_CONN_WINDOW_MB",
    "S3DLIO_POOL_MAX_IDLE_PER_HOST",
    "S3DLIO_POOL_IDLE_TIMEOUT_SECS",
    "S3DLIO_PUT_VERIFY",
    "S3DLIO_MPU_PUT_VERIFY",
    "S3DLIO_MULTIPART_THRESHOLD_MB",
    "S3DLIO_RT_THREADS",
    "S3DLIO_MAX_RETRY_ATTEMPTS",
    "S3DLIO_CONNECT_TIMEOUT_SECS",
    "S3DLIO_OPERATION_TIMEOUT_SECS",
    "S3DLIO_PUT_MAX_RETRIES",
    "S3DLIO_PUT_RETRY_DELAY_MS",
    "S3DLIO_MPU_MAX_RETRIES",
    "S3DLIO_MPU_RETRY_DELAY_S",
];
/// Sections of the metadata that are the run's configuration.
const CONFIGURATION: [&str; 5] =
    ["parameters", "combined_params", "yaml_params", "override_parameters", "params_dict"];

/// How a run accessed its data by its parameters, and the fact that shows it.
pub(super) fn access(leaf: &Leaf) -> Option<(Access, String)> {
    let set = leaf.set("storage.storage_type");
    let kind = set.or_else(|| leaf.parameter("storage", "storage_type").as_str())?;
    let access = if FILES.contains(&kind) { Access::File } else { Access::Object };
    Some((access, format!("storage_type is {kind}")))
}

/// How a result's system is accessed by its description, and the fact that shows it.
pub(super) fn described(submission: &Submission, group: &RunGroup) -> Option<(Access, String)> {
    let description = description(submission, group);
    let architecture = &description["system_under_test"]["solution"]["architecture"];
    let access = match architecture["benchmark_API"].as_str()? {
        "file" => Access::File,
        "object" => Access::Object,
        // Another rule reports other words.
        _ => return None,
    };
    Some((access, format!("benchmark_API of the system is {access}")))
}

/// The description of a result's system.
pub(super) fn description(submission: &Submission, group: &RunGroup) -> Value {
    let parts = group.system.as_deref().map(|path| path.split('/').collect::<Vec<_>>());
    match parts.as_deref() {
        Some([division, organisation, _, system]) => {
            let path = format!("{division}/{organisation}/systems/{system}.yaml");
            submission.tree.yaml(&path).value().clone()
        }
        _ => Value::Null,
    }
}

/// PROV-01: the stamp at `path` names the client library of a run on objects, and none of a run on
/// files. The official checker does not look.
pub(super) fn library_fault(leaf: &Leaf, path: &str) -> Option<Finding> {
    const REMEDY: &str = "copy it again as mlpstorage wrote it";
    let (access, fact) = access(leaf)?;
    let library = &leaf.provenance.value()["storage_library"];
    let fails = |fact: String| Some(failed(path, fact, REMEDY).officially(Official::Silent));
    let name = library["name"].as_str().filter(|name| !name.is_empty());
    let Some(name) = name else {
        return fails("it has no storage_library.name".to_string());
    };
    match access {
        Access::File if name == "none" => None,
        Access::File => fails(format!("its storage_library is {name}, but {fact}")),
        Access::Object if name == "none" => {
            fails(format!("its storage_library is none, but {fact}"))
        }
        Access::Object => {
            let options = leaf.parameter("storage", "storage_options");
            let used = leaf.set("storage.storage_options.storage_library");
            let used = used.or_else(|| options["storage_library"].as_str());
            if let Some(used) = used.filter(|used| *used != name) {
                return fails(format!("its storage_library is {name}, the parameters have {used}"));
            }
            match library["version"].as_str() {
                None | Some("") => fails(format!("it has no version of {name}")),
                Some("unknown") => {
                    Some(wish(path, format!("the version of {name} is unknown"), REMEDY))
                }
                Some(_) => None,
            }
        }
    }
}

/// 1.2: variables of the storage client that were set are declared in the run's configuration; else
/// the run is open. Files only show variables of commands and of the system's description.
pub(super) fn declared(submission: &Submission, group: &RunGroup) -> Vec<Finding> {
    let of_system = variables_in(&description(submission, group));
    let on_objects = |leaf: &&Leaf| matches!(access(leaf), Some((Access::Object, _)));
    let mut findings = Vec::new();
    for leaf in group.runs.iter().filter(|leaf| !leaf.is_of_stormlp()).filter(on_objects) {
        let mut set = of_system.clone();
        let mut declared = variables_in(leaf.config.value());
        declared.extend(variables_in(leaf.overrides_file.value()));
        for (section, value) in leaf.metadata.value().as_object().into_iter().flatten() {
            let is_configuration = CONFIGURATION.contains(&section.as_str());
            let names = if is_configuration { &mut declared } else { &mut set };
            names.extend(variables_in(value));
        }
        if set.is_empty() {
            let fact = "the files do not show the environment of the run";
            let remedy = "declare variables of the storage client in its configuration";
            findings.push(advice(leaf, fact, remedy));
            continue;
        }
        let undeclared = set.difference(&declared).map(|name| {
            let fact = format!("{name} is set, and the run's configuration does not declare it");
            if group.division_of(leaf) == Some("closed") {
                let remedy = "declare it or unset it, and run again, or submit to open";
                failed(leaf, fact, remedy)
            } else {
                passed_open(leaf, format!("{fact}: open"))
            }
        });
        findings.extend(or_passed(
            undeclared,
            leaf,
            "variables of the storage client are declared",
        ));
    }
    findings
}

/// The variables that `value` names, in a key or a text.
fn variables_in(value: &Value) -> BTreeSet<&'static str> {
    let text = plain(value);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| VARIABLES.into_iter().find(|known| *known == word)).collect()
}
