//! The files of a rehearsal: a tree of the shape that is submitted, in which every file that can
//! say so says that stormlp made it.

use crate::submission::{Edition, NOTICE, REHEARSAL_ORGANISATION};
use serde_json::{Map, Value, json};
use stormlp_checkpoint::plan::{CheckpointProfile, CheckpointReport};
use stormlp_core::names::file_name;
use stormlp_core::report::Head;
use stormlp_core::units::GIB;
use stormlp_training::plan::datasize::{SizeRequest, datasize};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;
use stormlp_training::report::TrainReport;

use super::columns::{self, Row};
use super::in_tree::RunInTree;
use crate::official::{OutputFile, pretty, run_moment};
use crate::training::Which;
use stormlp_show::stamp;

/// The file that a folder of a run has when it is whole, and that says what the run is of.
pub const PROVENANCE: &str = "provenance.json";

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
        format!("{}/checkpointing/{}", self.results(), file_name(model, "model"))
    }

    /// The description of the system, unless it is there.
    fn system_file(&self, taken: &dyn Fn(&str) -> bool) -> Option<OutputFile> {
        let system = file_name(&self.system, "system");
        let path = format!("rehearsal/closed/{REHEARSAL_ORGANISATION}/systems/{system}.yaml");
        (!taken(&path)).then(|| file(path, self.description.clone()))
    }
}

/// The files of a training result: those of the runs of `report` that came to their end and are not
/// `in_tree`, to which they are added, with what follows from all of them; none where there is no such
/// run. `separate` says whether dataset and tree lie on different file systems, where that is known.
pub fn training(
    report: &TrainReport,
    workload: &Workload,
    rehearsal: &Rehearsal,
    separate: Option<bool>,
    in_tree: &mut Vec<RunInTree>,
    taken: &dyn Fn(&str) -> bool,
) -> Vec<OutputFile> {
    let (plan, host) = (&report.plan, &report.head.host);
    let of_run = Leaf {
        version: &host.stormlp_version,
        edition: Edition::of_profile(plan.profile),
        stem: "training_run",
        separate,
        rehearsed: rehearsed(Some(plan), &report.head),
    };
    let written = Which::EndedBeyond(in_tree.len() as u32);
    let (results, steps) = (rehearsal.results(), &report.results.steps);
    let mut runs = crate::training::files_below(&results, report, workload, steps, written, taken);
    if runs.is_empty() {
        return Vec::new();
    }
    let folder = rehearsal.training_folder(&plan.workload);
    let mut files =
        if in_tree.is_empty() { preparation(report, &folder, &of_run, &runs) } else { Vec::new() };
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
    let row = Row::training(plan, &rehearsal.system, version, rates.as_deref());
    let folder = format!("{}/run", rehearsal.training_folder(&plan.workload));
    reported(&folder, "training", &plan.workload, runs, &row)
}

/// What a run is of, for one that is to be taken up again: training by its plan, checkpoints, which are
/// one run, by their command.
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
    let leaf = Leaf {
        version: &report.head.host.stormlp_version,
        edition: match plan.profile {
            CheckpointProfile::V2 => Some(Edition::V2),
            CheckpointProfile::V3 => Some(Edition::V3),
            CheckpointProfile::Native => None,
        },
        stem: "checkpointing_run",
        separate,
        rehearsed: rehearsed(None, &report.head),
    };
    let mut files = crate::checkpoint::files_below(&rehearsal.results(), report, taken);
    let runs = leaf.complete(&mut files);
    let folder = rehearsal.checkpointing_folder(&plan.model);
    let metric = runs.first().map_or(Value::Null, |run| run.summary["metric"].clone());
    let row = Row::checkpointing(plan, &rehearsal.system, leaf.version, &metric);
    files.extend(reported(&folder, "checkpointing", &plan.model, &runs, &row));
    files.extend(rehearsal.system_file(taken));
    files
}

fn file(path: String, content: String) -> OutputFile {
    OutputFile { path, content }
}

/// What the folder of each run has beside DLIO's files.
#[derive(Clone)]
struct Leaf<'a> {
    version: &'a str,
    edition: Option<Edition>,
    /// What logs begin with: `training_run`.
    stem: &'static str,
    separate: Option<bool>,
    /// What the run is of.
    rehearsed: Value,
}

impl Leaf<'_> {
    /// Adds what each folder of a run lacks, and gives those runs.
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

    /// The provenance comes last: a folder that has one is whole.
    fn beside(&self, folder: &str) -> Vec<OutputFile> {
        // Nobody may take them for logs of the official tool or of DLIO.
        let log = format!("REHEARSAL by stormlp {}: no output of DLIO. {NOTICE}\n", self.version);
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
            "storage_library": {"name": "none"},
            "rehearsed": self.rehearsed,
            "note": NOTICE,
        })
    }
}

/// Sizing and generation: what the rules ask for, and the dataset that was read.
fn preparation(
    report: &TrainReport,
    folder: &str,
    of_run: &Leaf<'_>,
    runs: &[OutputFile],
) -> Vec<OutputFile> {
    let leaf = Leaf { stem: "training_datagen", separate: None, ..of_run.clone() };
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
    files.push(metadata("datagen", json!({ "num_files_train": plan.data.files })));
    let datagen = format!("{folder}/datagen/{moment}");
    files.extend(leaf.beside(&datagen));
    // As the first run has it: the workload is the same.
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

/// `results.json` and `results.csv`, as the report generator lays them out.
fn reported(
    folder: &str,
    benchmark: &str,
    model: &str,
    runs: &[RunInTree],
    row: &Row,
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
