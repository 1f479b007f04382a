//! The files of a rehearsal: a tree of the shape that is submitted, in which every file that can
//! say so says that stormlp made it.

use serde_json::{Map, Value, json};
use stormlp_model::checkpoint::{CheckpointProfile, CheckpointReport};
use stormlp_model::names::file_name;
use stormlp_model::submission::{Edition, NOTICE, REHEARSAL_ORGANISATION};
use stormlp_model::training::datasize::{SizeRequest, datasize};
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::workload::Workload;
use stormlp_model::units::GIB;

use super::columns::{self, Row};
use crate::mlperf::{OutputFile, pretty, run_moment};
use crate::stamp;
use crate::{checkpoint, training};

/// What a rehearsal is of, beside what was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// The system, which names folders and files.
    pub system: String,
    /// A description of it, which is written where there is none.
    pub description: String,
}

impl Rehearsal {
    /// The folder of the results of the system, below the folder of the rehearsal.
    fn results(&self) -> String {
        let system = file_name(&self.system, "system");
        format!("rehearsal/closed/{REHEARSAL_ORGANISATION}/results/{system}")
    }

    /// The folder of a training workload.
    pub fn training_folder(&self, workload: &str) -> String {
        format!("{}/training/{workload}", self.results())
    }

    /// The folder of a checkpoint model.
    pub fn checkpointing_folder(&self, model: &str) -> String {
        format!(
            "{}/checkpointing/{}",
            self.results(),
            file_name(model, "model")
        )
    }

    /// The description of the system, unless it is there.
    fn system_file(&self, taken: &dyn Fn(&str) -> bool) -> Option<OutputFile> {
        let system = file_name(&self.system, "system");
        let path = format!("rehearsal/closed/{REHEARSAL_ORGANISATION}/systems/{system}.yaml");
        (!taken(&path)).then(|| file(path, self.description.clone()))
    }
}

/// The files of a training result. `separate` says whether dataset and tree lie on different file
/// systems, where that is known.
#[must_use]
pub fn training(
    report: &TrainReport,
    workload: &Workload,
    rehearsal: &Rehearsal,
    separate: Option<bool>,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let plan = &report.plan;
    let edition = Edition::of_profile(plan.profile);
    let of_run = Leaf {
        version: &report.head.host.stormlp_version,
        edition,
        stem: "training_run",
        separate,
    };
    let steps = &report.results.steps;
    let mut files =
        training::mlperf::files_below(&rehearsal.results(), report, workload, steps, taken);
    let summaries = of_run.complete(&mut files);
    let folder = rehearsal.training_folder(&plan.workload);
    let of_datagen = Leaf {
        stem: "training_datagen",
        separate: None,
        ..of_run
    };
    files.extend(preparation(report, &folder, &of_datagen, &files));
    let scored = summaries.iter().skip(usize::from(plan.runs > 1));
    let rates: Option<Vec<f64>> = scored
        .map(|(_, summary)| summary["metric"]["train_io_mean_MB_per_second"].as_f64())
        .collect();
    let row = Row::training(plan, &rehearsal.system, of_run.version, rates.as_deref());
    files.extend(reported(
        &format!("{folder}/run"),
        "training",
        &plan.workload,
        &summaries,
        &row,
    ));
    files.extend(rehearsal.system_file(taken));
    files
}

/// The files of a checkpointing result.
#[must_use]
pub fn checkpointing(
    report: &CheckpointReport,
    rehearsal: &Rehearsal,
    separate: Option<bool>,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let plan = &report.plan;
    let leaf = Leaf {
        version: &report.head.host.stormlp_version,
        edition: match plan.profile {
            CheckpointProfile::V2 => Some(Edition::V2),
            CheckpointProfile::V3 => Some(Edition::V3),
            CheckpointProfile::Native => None,
        },
        stem: "checkpointing_run",
        separate,
    };
    let mut files = checkpoint::mlperf_files_below(&rehearsal.results(), report, taken);
    let summaries = leaf.complete(&mut files);
    let folder = rehearsal.checkpointing_folder(&plan.model);
    let metric = summaries
        .first()
        .map_or(Value::Null, |(_, summary)| summary["metric"].clone());
    let row = Row::checkpointing(plan, &rehearsal.system, leaf.version, &metric);
    files.extend(reported(
        &folder,
        "checkpointing",
        &plan.model,
        &summaries,
        &row,
    ));
    files.extend(rehearsal.system_file(taken));
    files
}

fn file(path: String, content: String) -> OutputFile {
    OutputFile { path, content }
}

/// What the folder of each run has beside DLIO's files.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    version: &'a str,
    edition: Option<Edition>,
    /// What logs begin with: `training_run`.
    stem: &'static str,
    separate: Option<bool>,
}

impl Leaf<'_> {
    /// Adds what each folder of a run lacks, and gives those folders with their summaries.
    fn complete(&self, files: &mut Vec<OutputFile>) -> Vec<(String, Value)> {
        let summaries = files.iter().filter_map(|one| {
            let folder = one.path.strip_suffix("/summary.json")?;
            let summary = serde_json::from_str(&one.content).unwrap_or_default();
            Some((folder.to_string(), summary))
        });
        let summaries: Vec<(String, Value)> = summaries.collect();
        for (folder, _) in &summaries {
            files.extend(self.beside(folder));
        }
        summaries
    }

    fn beside(&self, folder: &str) -> Vec<OutputFile> {
        // Nobody may take them for logs of the official tool or of DLIO.
        let log = format!(
            "REHEARSAL by stormlp {}: no output of DLIO. {NOTICE}\n",
            self.version
        );
        let names = [
            format!("{}.stdout.log", self.stem),
            format!("{}.stderr.log", self.stem),
            "dlio.log".to_string(),
        ];
        let mut files: Vec<OutputFile> = names
            .iter()
            .map(|name| file(format!("{folder}/{name}"), log.clone()))
            .collect();
        files.push(file(format!("{folder}/provenance.json"), self.provenance()));
        if let Some(separate) = self.separate {
            let content = pretty(&json!({
                "generator": "stormlp",
                "method": "st_dev",
                "same_filesystem": !separate,
            }));
            files.push(file(format!("{folder}/fs_separation.json"), content));
        }
        files
    }

    fn provenance(&self) -> String {
        pretty(&json!({
            "schema": "stormlp-rehearsal-provenance/1",
            "rules_edition": self.edition.map_or("n/a".to_string(), |edition| edition.to_string()),
            "tool": {
                "name": "stormlp",
                "version": self.version,
                "git_sha": "unknown",
                "code_image": "n/a",
            },
            "dlio": {"version": "n/a", "source": "n/a", "commit": "n/a"},
            "storage_library": {"name": "none"},
            "note": NOTICE,
        }))
    }
}

/// Sizing and generation: what the rules ask for, and the dataset that was read.
fn preparation(
    report: &TrainReport,
    folder: &str,
    leaf: &Leaf<'_>,
    runs: &[OutputFile],
) -> Vec<OutputFile> {
    let (plan, host) = (&report.plan, &report.head.host);
    let moment = run_moment(stamp::unix_seconds(&report.head.started_at));
    let needed = datasize(&SizeRequest::of_plan(plan, host));
    let metadata = |command: &str, dataset: Value| {
        let content = pretty(&json!({
            "benchmark_type": "training",
            "generator": "stormlp",
            "verification": "REHEARSAL",
            "args": {
                "command": command,
                "model": plan.workload,
                "accelerator_type": plan.accelerator,
                "max_accelerators": plan.accelerators,
                "client_host_memory_in_gb": host.usable_memory_bytes() / GIB,
                "data_dir": plan.data.folder,
            },
            "parameters": {"dataset": dataset},
            "note": NOTICE,
        }));
        let path = format!("{folder}/{command}/{moment}/training_{moment}_metadata.json");
        file(path, content)
    };
    let mut files = Vec::new();
    if let Ok(needed) = needed {
        files.push(metadata(
            "datasize",
            json!({
                "num_files_train": needed.files,
                "num_subfolders_train": needed.subfolders,
                "total_disk_bytes": needed.bytes,
            }),
        ));
    }
    files.push(metadata(
        "datagen",
        json!({ "num_files_train": plan.data.files }),
    ));
    let datagen = format!("{folder}/datagen/{moment}");
    files.extend(leaf.beside(&datagen));
    // As the first run has it: the workload is the same.
    let configs = runs.iter().filter_map(|one| {
        let (_, name) = one.path.split_once("/dlio_config/")?;
        Some((name, &one.content))
    });
    let configs = configs.take(3);
    files.extend(
        configs
            .map(|(name, content)| file(format!("{datagen}/dlio_config/{name}"), content.clone())),
    );
    files
}

/// `results.json` and `results.csv`, as the report generator lays them out.
fn reported(
    folder: &str,
    benchmark: &str,
    model: &str,
    summaries: &[(String, Value)],
    row: &Row,
) -> Vec<OutputFile> {
    let entries = summaries.iter().map(|(leaf, summary)| {
        json!({
            "run_id": leaf.rsplit('/').next(),
            "generator": "stormlp",
            "verification": "REHEARSAL",
            "benchmark_type": benchmark,
            "model": model,
            "command": "run",
            "parameters": Map::new(),
            "metrics": summary["metric"],
        })
    });
    let entries: Vec<Value> = entries.collect();
    vec![
        file(format!("{folder}/results.json"), pretty(&entries.into())),
        file(format!("{folder}/results.csv"), columns::csv(row)),
    ]
}
