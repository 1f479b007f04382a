//! The trials of a calibration: datasets, the client's runs, and the same by this program.

use std::fs;
use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::units::{ByteSize, GIB};
use stormlp_dataset::section::DataFormat;
use stormlp_training::plan::calibration::{
    CheckpointPace, CpuCost, FormatCost, Observed, STEPS, Trial,
};

use super::dlio::{Dlio, MODEL, base, pace};
use super::workplace::{Workplace, not_made};

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
        // The time of a step does not matter here, as long as readers do not spin.
        let compute = trial.compute_seconds / 4.0;
        let words = ["train".to_string(), format!("--dir={}", folder.display())];
        let options = format!(
            "{} --files={} --steps={STEPS} --epochs=1 --compute-time={compute}",
            options(format, trial),
            trial.samples(),
        );
        own.push((trial.samples(), bytes as f64 / GIB as f64, work.own(&words, &options)?));
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

/// The folder with the files of `trial`. The smaller batch's are some of the larger one's.
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
    let words = ["datagen".to_string(), format!("--dir={}", folder.display())];
    work.own(&words, &format!("{} --files={files}", options(format, trial)))?;
    // DLIO wants both.
    fs::create_dir_all(folder.join("valid")).map_err(|error| not_made(error.into()))?;
    Ok(folder)
}

/// The workload of this program over the files of `trial`.
fn options(format: DataFormat, trial: Trial) -> String {
    format!(
        "{} --accelerator=h100 --edition=2.0 --params=dataset.format={format} \
         --params=dataset.num_samples_per_file=1 --params=reader.batch_size={} \
         --params=dataset.record_length_bytes={} --params=dataset.record_length_bytes_stdev=0 \
         --params=workflow.checkpoint=False",
        base(format),
        trial.batch_size,
        trial.record_bytes,
    )
}

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
    let options = "--container=torch --ranks=1 --scale=1 --saves=2 --restores=2 --pause=0 --cache=as-is \
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
