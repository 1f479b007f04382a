//! The files of a rehearsal: a tree in the layout of a submission, in which every file that can be
//! marked names stormlp as its maker.

use std::path::{Path, PathBuf};

use crate::submission::{Edition, NOTICE, REHEARSAL_ORGANISATION};
use serde_json::{Map, Value, json};
use stormlp_checkpoint::plan::CheckpointProfile;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_core::names::file_name;
use stormlp_core::path::PathKind;
use stormlp_core::report::Head;
use stormlp_core::units::GIB;
use stormlp_training::plan::datasize::{SizeRequest, datasize};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;

use super::columns::{self, ResultRow};
use super::in_tree::RunInTree;
use crate::official::{OutputFile, pretty, results_dir, run_moment};
use crate::training::Which;
use stormlp_show::stamp;

/// The last file of a run folder; it has the settings of the run.
pub const PROVENANCE: &str = "provenance.json";

/// The system of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// Its name, used in folders and files.
    pub system: String,
    /// Its description, written where the tree has none.
    pub description: String,
    /// The parent of the folder `rehearsal`.
    pub tree: PathBuf,
}

impl Rehearsal {
    /// The folder of the system's results.
    fn results(&self) -> String {
        let system = file_name(&self.system, "system");
        format!("rehearsal/closed/{REHEARSAL_ORGANISATION}/results/{system}")
    }

    /// The folder of results, as metadata names it.
    fn results_dir(&self) -> PathBuf {
        self.tree.join("rehearsal")
    }

    /// The folder of a training workload.
    pub fn training_folder(&self, workload: &str) -> String {
        format!("{}/training/{workload}", self.results())
    }

    /// The folder of a checkpoint model.
    pub fn checkpointing_folder(&self, model: &str) -> String {
        format!("{}/checkpointing/{}", self.results(), file_name(model, "model"))
    }

    /// The system's description, unless the tree has it.
    fn system_file(&self, taken: &dyn Fn(&str) -> bool) -> Option<OutputFile> {
        let system = file_name(&self.system, "system");
        let path = format!("rehearsal/closed/{REHEARSAL_ORGANISATION}/systems/{system}.yaml");
        (!taken(&path)).then(|| file(path, self.description.clone()))
    }
}

/// The files of a training result: of complete runs of `report` that are not `in_tree`, and of the
/// result. Without new runs there are none. New runs are added to `in_tree`. `separate` is whether
/// dataset and tree are on separate file systems, where known.
pub fn training(
    report: &TrainReport,
    workload: &Workload,
    rehearsal: &Rehearsal,
    separate: Option<bool>,
    in_tree: &mut Vec<RunInTree>,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let (plan, host) = (&report.plan, &report.head.host);
    let of_run = RunExtras {
        version: &host.stormlp_version,
        edition: Edition::of_profile(plan.profile),
        stem: "training_run",
        separate,
        objects: plan.transport.path == PathKind::S3,
        rehearsed: rehearsed(Some(plan), &report.head),
    };
    let written = Which::CompleteAfter(in_tree.len() as u32);
    let (made, results) = (rehearsal.results_dir(), rehearsal.results());
    let (place, steps) = ((&*made, &*results), &report.results.steps);
    let mut runs = crate::training::files_below(place, report, workload, steps, written, taken);
    if runs.is_empty() {
        return Vec::new();
    }
    let folder = rehearsal.training_folder(&plan.workload);
    let mut files = if in_tree.is_empty() {
        preparation(report, (&made, &folder), &of_run, &runs)
    } else {
        Vec::new()
    };
    in_tree.extend(of_run.complete(&mut runs));
    files.extend(runs);
    let version = of_run.version;
    files.extend(training_reports(plan, rehearsal, version, in_tree));
    files.extend(rehearsal.system_file(taken));
    files
}

/// `results.json` and `results.csv` of the runs of a training result.
#[must_use]
pub fn training_reports(
    plan: &TrainPlan,
    rehearsal: &Rehearsal,
    version: &str,
    runs: &[RunInTree],
) -> Vec<OutputFile> {
    let scored = runs.iter().skip(usize::from(plan.runs > 1));
    let rates: Option<Vec<f64>> =
        scored.map(|run| run.summary["metric"]["train_io_mean_MB_per_second"].as_f64()).collect();
    let row = ResultRow::training(plan, &rehearsal.system, version, rates.as_deref());
    let folder = format!("{}/run", rehearsal.training_folder(&plan.workload));
    reported(&folder, "training", &plan.workload, runs, &row)
}

/// The settings of a run, for `--resume`: of training the plan; a checkpointing result is one run.
fn rehearsed(plan: Option<&TrainPlan>, head: &Head) -> Value {
    json!({
        "command": head.command,
        "host": head.host.hostname,
        "plan": plan,
    })
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
    let extras = RunExtras {
        version: &report.head.host.stormlp_version,
        edition: match plan.profile {
            CheckpointProfile::V2 => Some(Edition::V2),
            CheckpointProfile::V3 => Some(Edition::V3),
            CheckpointProfile::Native => None,
        },
        stem: "checkpointing_run",
        separate,
        objects: plan.path() == PathKind::S3,
        rehearsed: rehearsed(None, &report.head),
    };
    let place = (&*rehearsal.results_dir(), &*rehearsal.results());
    let mut files = crate::checkpoint::files_below(place, report, taken);
    let runs = extras.complete(&mut files);
    let folder = rehearsal.checkpointing_folder(&plan.model);
    let metric = runs.first().map_or(Value::Null, |run| run.summary["metric"].clone());
    let row = ResultRow::checkpointing(plan, &rehearsal.system, extras.version, &metric);
    files.extend(reported(&folder, "checkpointing", &plan.model, &runs, &row));
    files.extend(rehearsal.system_file(taken));
    files
}

fn file(path: String, content: String) -> OutputFile {
    OutputFile { path, content }
}

/// Files of a run folder besides DLIO's.
#[derive(Clone)]
struct RunExtras<'a> {
    version: &'a str,
    edition: Option<Edition>,
    /// The start of the logs' names: `training_run`.
    stem: &'static str,
    separate: Option<bool>,
    /// Whether the data are objects.
    objects: bool,
    /// The settings of the run.
    rehearsed: Value,
}

impl RunExtras<'_> {
    /// Adds them to each run folder, and returns the runs.
    fn complete(&self, files: &mut Vec<OutputFile>) -> Vec<RunInTree> {
        let runs: Vec<RunInTree> = files
            .iter()
            .filter_map(|one| {
                let folder = one.path.strip_suffix("/summary.json")?;
                Some(RunInTree {
                    folder: folder.to_string(),
                    summary: serde_json::from_str(&one.content).unwrap_or_default(),
                    provenance: self.provenance(),
                })
            })
            .collect();
        for run in &runs {
            files.extend(self.beside(&run.folder));
        }
        runs
    }

    /// Provenance is last: a folder that has it is complete.
    fn beside(&self, folder: &str) -> Vec<OutputFile> {
        // They must not pass for logs of the official tool or of DLIO.
        let log = format!("REHEARSAL by stormlp {}: not DLIO's output. {NOTICE}\n", self.version);
        let names = [
            format!("{}.stdout.log", self.stem),
            format!("{}.stderr.log", self.stem),
            "dlio.log".to_string(),
        ];
        let mut files: Vec<OutputFile> =
            names.iter().map(|name| file(format!("{folder}/{name}"), log.clone())).collect();
        if let Some(separate) = self.separate {
            let content = pretty(&json!({
                "generator": "stormlp",
                "method": "st_dev",
                "same_filesystem": !separate,
            }));
            files.push(file(format!("{folder}/fs_separation.json"), content));
        }
        let provenance = pretty(&self.provenance());
        files.push(file(format!("{folder}/{PROVENANCE}"), provenance));
        files
    }

    fn provenance(&self) -> Value {
        json!({
            "schema": "stormlp-rehearsal-provenance/1",
            "rules_edition": self.edition.map_or("n/a".to_string(), |edition| edition.to_string()),
            "tool": {
                "name": "stormlp",
                "version": self.version,
                "git_sha": "unknown",
                "code_image": "n/a",
            },
            "dlio": {"version": "n/a", "source": "n/a", "commit": "n/a"},
            "storage_library": if self.objects {
                json!({"name": "stormlp", "version": self.version})
            } else {
                json!({"name": "none"})
            },
            "rehearsed": self.rehearsed,
            "note": NOTICE,
        })
    }
}

/// Files of `datasize` and `datagen`: what the rules require, and the dataset that was read.
fn preparation(
    report: &TrainReport,
    (results, folder): (&Path, &str),
    of_run: &RunExtras<'_>,
    runs: &[OutputFile],
) -> Vec<OutputFile> {
    let extras = RunExtras { stem: "training_datagen", separate: None, ..of_run.clone() };
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
                "results_dir": results_dir(results),
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
    files.push(metadata("datagen", json!({ "num_files_train": plan.data.files })));
    let datagen = format!("{folder}/datagen/{moment}");
    files.extend(extras.beside(&datagen));
    // That of the first run: the workload is the same.
    let configs = runs
        .iter()
        .filter_map(|one| {
            let (_, name) = one.path.split_once("/dlio_config/")?;
            Some((name, &one.content))
        })
        .take(3);
    files.extend(
        configs
            .map(|(name, content)| file(format!("{datagen}/dlio_config/{name}"), content.clone())),
    );
    files
}

/// `results.json` and `results.csv` in the report generator's layout.
fn reported(
    folder: &str,
    benchmark: &str,
    model: &str,
    runs: &[RunInTree],
    row: &ResultRow,
) -> Vec<OutputFile> {
    let entries: Vec<Value> = runs
        .iter()
        .map(|run| {
            json!({
                "run_id": run.folder.rsplit('/').next(),
                "generator": "stormlp",
                "verification": "REHEARSAL",
                "benchmark_type": benchmark,
                "model": model,
                "command": "run",
                "parameters": Map::new(),
                "metrics": run.summary["metric"],
            })
        })
        .collect();
    vec![
        file(format!("{folder}/results.json"), pretty(&entries.into())),
        file(format!("{folder}/results.csv"), columns::csv(row)),
    ]
}
