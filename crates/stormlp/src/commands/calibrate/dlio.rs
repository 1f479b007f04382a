//! Runs of DLIO, and the contents of its output files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use stormlp_core::failure::Failure;
use stormlp_core::shell::shell_word;
use stormlp_core::stats;
use stormlp_dataset::section::DataFormat;
use stormlp_training::plan::calibration::{CheckpointPace, Observed, STEPS, Trial};

use super::workplace::Workplace;

const HOW: &str = "name a checked-out tree of DLIO with --dlio, and a Python that has its requirements \
                   (numpy, h5py, pandas, torch, tensorflow, mpi4py, hydra-core) with --python";
/// The DLIO of MLPerf Storage v2.0.
const SOURCE: &str = "git+https://github.com/argonne-lcf/dlio_benchmark@392621b";

/// Model of the checkpoint that is saved and restored, 448 MiB with its optimizer. It has a layer
/// and ZeRO stage 3: v2.0's DLIO cannot restore a model without layers.
pub(super) const MODEL: [(&str, &str); 10] = [
    ("type", "transformer"),
    ("num_layers", "1"),
    ("parallelism.tensor", "1"),
    ("parallelism.pipeline", "1"),
    ("parallelism.zero_stage", "3"),
    ("transformer.vocab_size", "8192"),
    ("transformer.hidden_size", "1024"),
    ("transformer.ffn_hidden_size", "4096"),
    ("transformer.num_attention_heads", "16"),
    ("transformer.num_kv_heads", "16"),
];

/// DLIO, ready to run.
pub(super) struct Dlio {
    python: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    /// Its place and its Python.
    pub(super) description: String,
}

impl Dlio {
    /// DLIO of `tree`, or the one that `python` finds.
    pub(super) fn found(
        python: PathBuf,
        tree: Option<&Path>,
        work: &Workplace<'_>,
    ) -> Result<Self, Failure> {
        let mut variables: Vec<(&str, OsString)> = vec![
            ("TF_CPP_MIN_LOG_LEVEL", "3".into()),
            // As root Open MPI wants to be asked twice, even for one process.
            ("OMPI_ALLOW_RUN_AS_ROOT", "1".into()),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".into()),
        ];
        let shown = python.display().to_string();
        if let Some(tree) = tree {
            let what = || format!("cannot use DLIO in {}", tree.display());
            let help = how_to_have_it(&shown, None);
            let found = tree.canonicalize().with_context(what);
            let found = found.map_err(|error| Failure::machine(error).with_help(help))?;
            variables.push(("PYTHONPATH", found.into()));
        }
        let says = "import platform, dlio_benchmark; print('DLIO in', dlio_benchmark.__path__[0] + \
                    ', Python', platform.python_version())";
        let words = [shown.clone(), "-c".to_string(), says.to_string()];
        let ended = work.start(&words, &variables)?;
        if ended.success() {
            let said = fs::read_to_string(work.path("stdout")).map_err(Failure::machine)?;
            return Ok(Self { python, variables, description: said.trim().to_string() });
        }
        let why = work.last_words().unwrap_or_else(|| ended.to_string());
        let help = match ended.code() {
            Some(126 | 127) => HOW.to_string(),
            _ => how_to_have_it(&shown, tree),
        };
        Err(Failure::machine(anyhow!("{shown} does not run DLIO: {why}")).with_help(help))
    }

    /// Runs it with `keys` of its configuration; its output lies in the returned folder.
    fn run(
        &self,
        workload: &str,
        keys: &[String],
        work: &Workplace<'_>,
    ) -> Result<(PathBuf, f64), Failure> {
        let out = work.path("dlio-out");
        if out.exists() {
            fs::remove_dir_all(&out).map_err(Failure::machine)?;
        }
        let mut words = vec![
            self.python.display().to_string(),
            "-m".to_string(),
            "dlio_benchmark.main".to_string(),
            format!("workload={workload}_h100"),
        ];
        words.extend(keys.iter().map(|key| format!("++workload.{key}")));
        words.push(format!("hydra.run.dir={}", out.display()));
        let cpu = work.run(&words, &self.variables).map_err(|failure| failure.with_help(HOW))?;
        Ok((out, cpu))
    }

    /// Has it make `files` of `trial`.
    pub(super) fn generate(
        &self,
        format: DataFormat,
        trial: Trial,
        files: u64,
        folder: &Path,
        work: &Workplace<'_>,
    ) -> Result<(), Failure> {
        let mut keys = keys(format, trial, files, folder);
        keys.extend(["workflow.generate_data=True", "workflow.train=False"].map(str::to_string));
        self.run(base(format), &keys, work).map(|_| ())
    }

    /// The steps of `trial` over the files in `folder`; the caller fills in their bytes.
    pub(super) fn trial(
        &self,
        format: DataFormat,
        trial: Trial,
        folder: &Path,
        work: &Workplace<'_>,
    ) -> Result<Observed, Failure> {
        let (out, cpu_seconds) =
            self.run(base(format), &keys(format, trial, trial.samples(), folder), work)?;
        let times = read_json(&out.join("0_output.json"))?;
        let (step_seconds, oversleep_seconds) =
            of_steps(&times, trial.compute_seconds).ok_or_else(|| unknown("0_output.json"))?;
        Ok(Observed { trial, bytes: 0, cpu_seconds, step_seconds, oversleep_seconds })
    }

    /// Saves and restores a checkpoint without syncing, so that storage has little part in it.
    pub(super) fn checkpoint(&self, work: &Workplace<'_>) -> Result<CheckpointPace, Failure> {
        let mut keys = vec![
            "workflow.train=False".to_string(),
            "workflow.generate_data=False".to_string(),
            "workflow.checkpoint=True".to_string(),
            "checkpoint.num_checkpoints_write=2".to_string(),
            "checkpoint.num_checkpoints_read=2".to_string(),
            format!("checkpoint.checkpoint_folder={}", work.path("checkpoints").display()),
        ];
        keys.extend(MODEL.map(|(key, value)| format!("model.{key}={value}")));
        let (out, _) = self.run("unet3d", &keys, work)?;
        let summary = read_json(&out.join("summary.json"))?;
        let places =
            ["save", "load"].map(|what| format!("/metric/{what}_checkpoint_io_mean_GB_per_second"));
        pace(&summary, &places).ok_or_else(|| unknown("summary.json"))
    }
}

/// The command that gives `python` a DLIO, or those options that name another.
fn how_to_have_it(python: &str, tree: Option<&Path>) -> String {
    match tree {
        Some(_) => HOW.to_string(),
        None => format!("`{} -m pip install {SOURCE}`, or {HOW}", shell_word(python)),
    }
}

/// The workload of theirs that reads `format`, which names loader, threads and decoded size.
pub(super) fn base(format: DataFormat) -> &'static str {
    if format == DataFormat::Tfrecord { "cosmoflow" } else { "unet3d" }
}

/// The keys of a trial; sizes by the names of v2.0 and of v1.0.
fn keys(format: DataFormat, trial: Trial, files: u64, folder: &Path) -> Vec<String> {
    let bytes = trial.record_bytes;
    let mut keys = vec![
        format!("dataset.data_folder={}", folder.display()),
        format!("dataset.format={format}"),
        format!("dataset.num_files_train={files}"),
        "dataset.num_samples_per_file=1".to_string(),
    ];
    for name in ["record_length", "record_length_bytes"] {
        keys.push(format!("dataset.{name}={bytes}"));
        keys.push(format!("dataset.{name}_stdev=0"));
    }
    keys.extend([
        format!("reader.batch_size={}", trial.batch_size),
        format!("train.total_training_steps={STEPS}"),
        format!("train.computation_time={}", trial.compute_seconds),
        "train.epochs=1".to_string(),
        "workflow.checkpoint=False".to_string(),
    ]);
    keys
}

/// The seconds for a GiB from the rates at `places` of a result: of saves and of restores.
pub(super) fn pace(result: &Value, places: &[String; 2]) -> Option<CheckpointPace> {
    let seconds = |place: &String| {
        let rate = result.pointer(place)?.as_f64().filter(|rate| *rate > 0.0)?;
        Some(1.0 / rate)
    };
    let [saves, restores] = places.each_ref().map(seconds);
    Some(CheckpointPace { save_seconds_per_gib: saves?, restore_seconds_per_gib: restores? })
}

fn read_json(file: &Path) -> Result<Value, Failure> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("DLIO left no {}", file.display()))
        .map_err(|error| Failure::machine(error).with_help(HOW))?;
    serde_json::from_str(&text).map_err(|_| unknown(&file.display().to_string()))
}

fn unknown(file: &str) -> Failure {
    Failure::machine(anyhow!("{file} of DLIO is of an unknown version")).with_help(HOW)
}

/// Time of a step in addition to its compute, and how much longer than `asked_seconds` a step
/// computes. The first step is in neither figure, as in AU.
fn of_steps(times: &Value, asked_seconds: f64) -> Option<(f64, f64)> {
    let computes = times.pointer("/1/compute/block1")?.as_array()?.get(1..)?;
    let computes: Vec<f64> = computes.iter().filter_map(Value::as_f64).collect();
    let au = times.pointer("/1/au/block1")?.as_f64().filter(|au| *au > 0.0)?;
    let mean = (!computes.is_empty()).then(|| stats::mean(&computes))?;
    Some(((mean * 100.0 / au - mean).max(0.0), (mean - asked_seconds).max(0.0)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_python_without_dlio_is_told_the_command_that_installs_it() {
        let help = how_to_have_it("/opt/my python", None);
        assert!(help.starts_with("`'/opt/my python' -m pip install git+https"), "{help}");
        assert!(!how_to_have_it("python3", Some(Path::new("dlio"))).contains("pip"));
    }

    #[test]
    fn a_step_takes_what_au_says_and_no_compute() {
        let text = r#"{"hostname": "a", "1": {
            "load": {"block1": [1.0, 0.0, 0.0]}, "compute": {"block1": [0.5, 0.022, 0.02]},
            "au": {"block1": 84.0}}}"#;
        let output: Value = serde_json::from_str(text).unwrap();
        let (step, oversleep) = of_steps(&output, 0.02).unwrap();
        assert!((step - 0.004).abs() < 1e-9, "{step}");
        assert!((oversleep - 0.001).abs() < 1e-9, "{oversleep}");
        assert_eq!(of_steps(&Value::Null, 0.02), None);
    }
}
