//! The trials of a calibration: datasets, the client's runs, and the same by this program.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::Context as _;
use stormlp_core::failure::Failure;
use stormlp_core::shell::shell_word;
use stormlp_core::units::ByteSize;
use stormlp_dataset::section::DataFormat;
use stormlp_hosts::session::Session;
use stormlp_training::plan::calibration::{
    CheckpointPace, CpuCost, FormatCost, Observed, STEPS, Trial,
};
use stormlp_transfer::telemetry::CpuTimes;

use super::dlio::{Dlio, pace};
use crate::commands::process;
use crate::output;

/// A folder of its own for all that trials write; removed when dropped.
pub(super) struct Workplace<'a> {
    folder: PathBuf,
    session: &'a Session,
}

impl Drop for Workplace<'_> {
    fn drop(&mut self) {
        // What is left is in a folder with a telling name.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl<'a> Workplace<'a> {
    /// A new folder inside `dir`.
    pub(super) fn inside(dir: &Path, session: &'a Session) -> Result<Self, Failure> {
        let name = format!("stormlp-calibrate-{}", std::process::id());
        let cannot = || format!("cannot make a folder in {}", dir.display());
        // The trials run in folders of their own.
        let dir = dir.canonicalize().with_context(cannot).map_err(not_made)?;
        let folder = dir.join(name);
        fs::create_dir(&folder).with_context(cannot).map_err(not_made)?;
        Ok(Self { folder, session })
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn say(&self, line: &str) {
        if !self.session.quiet {
            output::say(line);
        }
    }

    /// Runs `words`; its output lies in the folder.
    pub(super) fn start(
        &self,
        words: &[String],
        variables: &[(&str, OsString)],
    ) -> Result<ExitStatus, Failure> {
        let command: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        let place = (Path::new("."), variables);
        let ended = process::run(&command.join(" "), place, &self.folder, &self.session.stop);
        let status = ended.map_err(|error| not_made(error.into()))?;
        if self.session.stop.is_stopped() {
            return Err(Failure::stopped("stopped by the user"));
        }
        Ok(status)
    }

    /// Runs `words`, which must succeed. The CPU seconds of all its processes.
    pub(super) fn run(
        &self,
        words: &[String],
        variables: &[(&str, OsString)],
    ) -> Result<f64, Failure> {
        let before = CpuTimes::of_children();
        let status = self.start(words, variables)?;
        if !status.success() && status.code() != Some(MISSED) {
            let named: Vec<_> =
                words.iter().take(NAMED_WORDS).map(|word| shell_word(word)).collect();
            return Err(Failure::machine(anyhow::anyhow!(
                "`{} …` ended with {status}: {}",
                named.join(" "),
                self.last_words().unwrap_or_default()
            )));
        }
        Ok(CpuTimes::of_children().since(before).total_seconds())
    }

    /// Runs this program with `words` and `options`, as [`Self::run`].
    fn own(&self, words: &[String], options: &str) -> Result<f64, Failure> {
        let program = self.session.executable()?.display().to_string();
        let results = format!("--results-dir={}", self.path("results").display());
        let options = options.split_whitespace().map(str::to_string);
        let words: Vec<String> =
            [program].into_iter().chain(words.to_vec()).chain(options).collect();
        match words[1].as_str() {
            "datagen" => self.run(&words, &[]),
            _ => self.run(&[words, vec![results, "--quiet".to_string()]].concat(), &[]),
        }
    }

    /// The last words of the last command.
    pub(super) fn last_words(&self) -> Option<String> {
        process::last_words(&self.folder)
    }
}

/// A command is named by its first words: its options fill a screen.
const NAMED_WORDS: usize = 3;

/// The exit code of a run of this program that missed its target.
const MISSED: i32 = 6;

fn not_made(error: anyhow::Error) -> Failure {
    Failure::machine(error).with_help("name a folder that you may write to with --dir")
}

/// The workload of theirs that reads `format`, which names loader, threads and decoded size.
pub(super) fn base(format: DataFormat) -> &'static str {
    if format == DataFormat::Tfrecord { "cosmoflow" } else { "unet3d" }
}

/// Measures the cost of `format`.
pub(super) fn format(
    format: DataFormat,
    dlio: &Dlio,
    work: &Workplace<'_>,
) -> Result<FormatCost, Failure> {
    let mut observed = Vec::with_capacity(4);
    let mut own = Vec::with_capacity(4);
    for (nth, trial) in Trial::all(format).into_iter().enumerate() {
        let record = ByteSize(trial.record_bytes);
        let batch = trial.batch_size;
        work.say(&format!("{format}, trial {} of 4: {STEPS} steps of {batch} x {record}", nth + 1));
        let folder = dataset(format, trial, dlio, work)?;
        let bytes = bytes_of(&folder, trial).map_err(|error| not_made(error.into()))?;
        let of_client = dlio.trial(format, trial, &folder, work)?;
        observed.push(Observed { bytes, ..of_client });
        // The time of a step decides nothing here, as long as readers do not spin.
        let compute = trial.compute_seconds / 4.0;
        let words = ["train".to_string(), format!("--data-dir={}", folder.display())];
        let options = format!(
            "{} --files={} --steps={STEPS} --epochs=1 --compute-time={compute}",
            options(format, trial),
            trial.samples(),
        );
        own.push((trial.samples(), bytes as f64 / GIB, work.own(&words, &options)?));
        // The smaller ones share a folder.
        if nth > 1 {
            fs::remove_dir_all(&folder).map_err(|error| not_made(error.into()))?;
        }
    }
    let [one, some, large] = [1, 2, 3].map(|nth: usize| own[nth]);
    let own = CpuCost::of((one.0, one.2), (some.0, some.2), (large.1, large.2), some.1);
    let observed = [observed[0], observed[1], observed[2], observed[3]];
    Ok(FormatCost::of(format, &observed, own))
}

const GIB: f64 = stormlp_core::units::GIB as f64;

/// The folder with the files of `trial`. Those of the smaller batch are some of the larger one's.
fn dataset(
    format: DataFormat,
    trial: Trial,
    dlio: &Dlio,
    work: &Workplace<'_>,
) -> Result<PathBuf, Failure> {
    let folder = work.path(&format!("{format}-{}", trial.record_bytes));
    let [.., most, _] = Trial::all(format);
    let files = most.samples();
    if folder.exists() {
        return Ok(folder);
    }
    if format == DataFormat::Jpeg {
        // A picture of stormlp's has few pixels, and costs less to decode.
        dlio.generate(format, trial, files, &folder, work)?;
        return Ok(folder);
    }
    let words = ["datagen".to_string(), format!("--data-dir={}", folder.display())];
    work.own(&words, &format!("{} --files={files}", options(format, trial)))?;
    // DLIO wants both.
    fs::create_dir_all(folder.join("valid")).map_err(|error| not_made(error.into()))?;
    Ok(folder)
}

/// The workload of this program over the files of `trial`.
fn options(format: DataFormat, trial: Trial) -> String {
    format!(
        "{} --accelerator=h100 --profile=v2 --params=dataset.format={format} \
         --params=dataset.num_samples_per_file=1 --params=reader.batch_size={} \
         --params=dataset.record_length_bytes={} --params=dataset.record_length_bytes_stdev=0 \
         --params=workflow.checkpoint=False",
        base(format),
        trial.batch_size,
        trial.record_bytes,
    )
}

/// Model of the checkpoint that is saved and restored, 448 MiB with its optimizer. It has a layer and
/// ZeRO stage 3: v2.0's DLIO cannot restore what has no layers.
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

/// The same checkpoints by this program, as v2.0's client saves them.
pub(super) fn own_checkpoint(work: &Workplace<'_>) -> Result<CheckpointPace, Failure> {
    let file = work.path("model.yaml");
    let mut workload = serde_json::Value::Null;
    for (key, value) in MODEL {
        let place = key.split('.').fold(&mut workload["model"], |section, key| &mut section[key]);
        *place = value.parse::<u64>().map_or(value.into(), Into::into);
    }
    // JSON is YAML, too.
    fs::write(&file, workload.to_string()).map_err(|error| not_made(error.into()))?;
    let words = [
        "checkpoint".to_string(),
        file.display().to_string(),
        format!("--dir={}", work.path("own-checkpoints").display()),
    ];
    let options = "--profile=v2 --container=torch --ranks=1 --scale=1 --writes=2 --reads=2 --pause=0 \
                   --format=json";
    work.own(&words, options)?;
    let said = fs::read_to_string(work.path("stdout")).map_err(Failure::machine)?;
    let report = serde_json::from_str(&said).map_err(Failure::bug)?;
    let places =
        ["save", "restore"].map(|phase| format!("/summary/{phase}/dlio/gib_per_second/mean"));
    pace(&report, &places).ok_or_else(|| Failure::bug(anyhow::anyhow!("no rates of checkpoints")))
}

/// Bytes of the files that a trial reads.
fn bytes_of(folder: &Path, trial: Trial) -> std::io::Result<u64> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(folder.join("train"))? {
        sizes.push(entry?.metadata()?.len());
    }
    let mean = sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64;
    Ok((mean * trial.samples() as f64) as u64)
}
