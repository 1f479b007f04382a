//! The official client's cost on a host, by format: the trials of `stormlp calibrate-dlio`, their
//! conclusions, and the file that keeps them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::client::ClientCost;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::stats;
use stormlp_core::units::GIB;
use stormlp_dataset::section::DataFormat;

/// The formats that a calibration measures unless formats are named.
pub const FORMATS: [DataFormat; 5] =
    [DataFormat::Npz, DataFormat::Tfrecord, DataFormat::Hdf5, DataFormat::Csv, DataFormat::Jpeg];
/// Version of the saved file.
pub const FORMAT_VERSION: u32 = 2;
/// Steps of a trial.
pub const STEPS: u64 = 150;
/// Emulated compute of a trial's step: long enough for small samples to be ready in time.
pub const COMPUTE_SECONDS: f64 = 0.02;
/// The same of the trial of short steps. The overhead of a step depends on how long the client
/// slept before: a CPU that idled for longer goes on more slowly. On two CPUs of an AMD EPYC a step
/// of tfrecord cost 0.34 ms where it computed for 3.5 or 5 ms, 0.63 ms for 20 ms, and 1.1 ms for
/// 200 ms.
pub const SHORT_COMPUTE_SECONDS: f64 = 0.005;
/// Samples a step of the larger trials.
pub const LARGE_BATCH: u32 = 8;

/// A trial: some steps over a dataset of one sample a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Samples a step.
    pub batch_size: u32,
    /// Bytes of a sample as the workload states them.
    pub record_bytes: u64,
    /// Emulated compute of a step.
    pub compute_seconds: f64,
}

impl Trial {
    /// The trials of a format: small samples one a step, in short steps and in longer ones, several a
    /// step, then large ones.
    pub fn all(format: DataFormat) -> [Self; 4] {
        // pandas parses every column, about 20 µs each, so that its samples are smaller.
        let (small, large) = match format {
            DataFormat::Csv => (64, 1 << 10),
            _ => (4 << 10, 1 << 20),
        };
        let long = COMPUTE_SECONDS;
        [
            (1, small, SHORT_COMPUTE_SECONDS),
            (1, small, long),
            (LARGE_BATCH, small, long),
            (LARGE_BATCH, large, long),
        ]
        .map(|(batch_size, record_bytes, compute_seconds)| Self {
            batch_size,
            record_bytes,
            compute_seconds,
        })
    }

    /// Samples that it reads, each from a separate file.
    pub fn samples(&self) -> u64 {
        STEPS * u64::from(self.batch_size)
    }
}

/// The work of a client in a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// The trial.
    pub trial: Trial,
    /// Bytes of its files.
    pub bytes: u64,
    /// CPU time of all its processes, start included.
    pub cpu_seconds: f64,
    /// Time of a step in addition to its compute.
    pub step_seconds: f64,
    /// How much longer than asked a step computed.
    pub oversleep_seconds: f64,
}

impl Observed {
    fn gib(&self) -> f64 {
        self.bytes as f64 / GIB as f64
    }
}

/// CPU time per sample and per GiB.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuCost {
    /// CPU seconds per sample.
    pub seconds_per_sample: f64,
    /// CPU seconds per GiB.
    pub seconds_per_gib: f64,
}

impl CpuCost {
    /// From CPU seconds of `few` samples, of `many`, and of as many large ones; the start of a
    /// process is in all of them and cancels out. Noise can make a difference negative: no cost.
    pub fn of(few: (u64, f64), many: (u64, f64), large: (f64, f64), small_gib: f64) -> Self {
        let samples = many.0.saturating_sub(few.0).max(1) as f64;
        let (gib, seconds) = large;
        Self {
            seconds_per_sample: ((many.1 - few.1) / samples).max(0.0),
            seconds_per_gib: ((seconds - many.1) / (gib - small_gib).max(f64::MIN_POSITIVE))
                .max(0.0),
        }
    }
}

/// The time of a step in addition to loading and compute, without its samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Seconds in addition to loading and compute.
    pub seconds: f64,
    /// How much longer than asked the client sleeps, in seconds.
    pub oversleep_seconds: f64,
}

/// The cost of one format.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FormatCost {
    /// The format.
    pub format: DataFormat,
    /// A step that computes for [`SHORT_COMPUTE_SECONDS`].
    pub short_step: StepCost,
    /// A step that computes for [`COMPUTE_SECONDS`].
    pub step: StepCost,
    /// Seconds that each sample of a step adds to that.
    pub step_seconds_per_sample: f64,
    /// The client's workers.
    pub workers: CpuCost,
    /// The loops of this program for the same reads, which `train` really performs.
    pub own: CpuCost,
}

impl FormatCost {
    /// From the trials of the client, in the order of [`Trial::all`], and the loops of this program.
    pub fn of(format: DataFormat, [short, one, some, large]: &[Observed; 4], own: CpuCost) -> Self {
        let more = f64::from(some.trial.batch_size - one.trial.batch_size).max(1.0);
        let per_sample = ((some.step_seconds - one.step_seconds) / more).max(0.0);
        let step = |of: &Observed, oversleeps: &[f64]| StepCost {
            seconds: (of.step_seconds - f64::from(of.trial.batch_size) * per_sample).max(0.0),
            oversleep_seconds: stats::mean(oversleeps).max(0.0),
        };
        Self {
            format,
            short_step: step(short, &[short.oversleep_seconds]),
            step: step(one, &[one.oversleep_seconds, some.oversleep_seconds]),
            step_seconds_per_sample: per_sample,
            workers: CpuCost::of(
                (one.trial.samples(), one.cpu_seconds),
                (some.trial.samples(), some.cpu_seconds),
                (large.gib(), large.cpu_seconds),
                some.gib(),
            ),
            own,
        }
    }

    /// A step that computes for so long: between the two trials by the logarithm of that time, outside
    /// of them as the nearer one.
    fn step_of(&self, compute_seconds: f64) -> StepCost {
        let (least, most) = (SHORT_COMPUTE_SECONDS, COMPUTE_SECONDS);
        let share = (compute_seconds.clamp(least, most) / least).ln() / (most / least).ln();
        let between = |short: f64, long: f64| short + share * (long - short);
        StepCost {
            seconds: between(self.short_step.seconds, self.step.seconds),
            oversleep_seconds: between(
                self.short_step.oversleep_seconds,
                self.step.oversleep_seconds,
            ),
        }
    }

    /// The whole cost where a step computes for so long, for a run without reads.
    pub fn whole(&self, compute_seconds: f64) -> ClientCost {
        let step = self.step_of(compute_seconds);
        ClientCost {
            step_seconds: step.seconds,
            step_seconds_per_sample: self.step_seconds_per_sample,
            cpu_seconds_per_sample: self.workers.seconds_per_sample,
            cpu_seconds_per_gib: self.workers.seconds_per_gib,
            oversleep_seconds: Some(step.oversleep_seconds),
            ..ClientCost::NONE
        }
    }

    /// The client's time beyond the loops of this program, for a run that really reads.
    pub fn beyond_own(&self, compute_seconds: f64) -> ClientCost {
        let beyond = |client: f64, own: f64| (client - own).max(0.0);
        ClientCost {
            cpu_seconds_per_sample: beyond(
                self.workers.seconds_per_sample,
                self.own.seconds_per_sample,
            ),
            cpu_seconds_per_gib: beyond(self.workers.seconds_per_gib, self.own.seconds_per_gib),
            ..self.whole(compute_seconds)
        }
    }
}

/// A rank's time for checkpoints in the page cache, without storage that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckpointPace {
    /// Seconds in which it saves a GiB.
    pub save_seconds_per_gib: f64,
    /// Seconds in which it restores a GiB.
    pub restore_seconds_per_gib: f64,
}

/// The cost of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CheckpointCost {
    /// In the client.
    #[serde(flatten)]
    pub client: CheckpointPace,
    /// In this program, which really saves and restores.
    pub own: CheckpointPace,
}

impl CheckpointCost {
    /// The client's time beyond this program's.
    pub fn beyond_own(&self) -> CheckpointPace {
        let Self { client, own } = self;
        let beyond = |client: f64, own: f64| (client - own).max(0.0);
        CheckpointPace {
            save_seconds_per_gib: beyond(client.save_seconds_per_gib, own.save_seconds_per_gib),
            restore_seconds_per_gib: beyond(
                client.restore_seconds_per_gib,
                own.restore_seconds_per_gib,
            ),
        }
    }
}

/// A calibration as it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`FORMAT_VERSION`].
    pub calibration_version: u32,
    /// When it began.
    pub started_at: String,
    /// The host.
    pub hostname: String,
    /// Its processor.
    pub cpu_model: String,
    /// Its CPUs.
    pub cpus: u32,
    /// Load average over the minute before it began: a busy host makes the client slower.
    pub load_before: f64,
    /// The client, its place and its Python.
    pub client: String,
    /// The costs.
    pub formats: Vec<FormatCost>,
    /// The costs of checkpoints; `None` if not measured.
    pub checkpoint: Option<CheckpointCost>,
}

impl Calibration {
    /// Reads the text of a saved one.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let found = Self::deserialize(&value).map_err(|error| error.to_string())?;
        if found.calibration_version != FORMAT_VERSION {
            let version = found.calibration_version;
            return Err(format!("its version is {version}, not {FORMAT_VERSION}"));
        }
        let mut costs = [&value["formats"], &value["checkpoint"]].into_iter().flat_map(figures);
        match costs.find(|cost| !(0.0..=3600.0).contains(cost)) {
            Some(figure) => Err(format!("it has a figure of {figure}, which cannot be")),
            None => Ok(found),
        }
    }

    /// Where its costs come from, as the saved `file`.
    pub fn origin(&self, file: String) -> CalibrationOrigin {
        CalibrationOrigin {
            file,
            hostname: self.hostname.clone(),
            cpus: self.cpus,
            started_at: self.started_at.clone(),
            load_before: self.load_before,
        }
    }

    /// The cost of `format`.
    ///
    /// # Errors
    /// The formats that it has, if this one is not among them.
    pub fn of(&self, format: DataFormat) -> Result<&FormatCost, String> {
        let found = self.formats.iter().find(|cost| cost.format == format);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.formats.iter().map(|cost| cost.format.name()).collect();
            format!("it has the costs of {}, not of {format}", names.join(", "))
        })
    }
}

/// All numbers in a saved calibration.
fn figures(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(figures).collect(),
        Value::Object(fields) => fields.values().flat_map(figures).collect(),
        value => value.as_f64().into_iter().collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn observed(trial: Trial, cost: &FormatCost, start_seconds: f64) -> Observed {
        let bytes = trial.samples() * trial.record_bytes;
        let per_sample = trial.samples() as f64 * cost.workers.seconds_per_sample;
        let batch = f64::from(trial.batch_size);
        Observed {
            trial,
            bytes,
            cpu_seconds: start_seconds
                + per_sample
                + bytes as f64 / GIB as f64 * cost.workers.seconds_per_gib,
            step_seconds: cost.step_of(trial.compute_seconds).seconds
                + batch * cost.step_seconds_per_sample,
            oversleep_seconds: cost.step_of(trial.compute_seconds).oversleep_seconds,
        }
    }

    fn cost(format: DataFormat, [a, b, c, d]: [f64; 4]) -> FormatCost {
        FormatCost {
            format,
            short_step: StepCost { seconds: a / 2.0, oversleep_seconds: 0.0005 },
            step: StepCost { seconds: a, oversleep_seconds: 0.001 },
            step_seconds_per_sample: b,
            workers: CpuCost { seconds_per_sample: c, seconds_per_gib: d },
            own: CpuCost::default(),
        }
    }

    proptest! {
        #[test]
        fn the_costs_that_made_the_trials_are_found_again(
            step in 0.0..0.01_f64, of_sample in 0.0..0.001_f64,
            per_sample in 0.0..0.01_f64, per_gib in 0.0..10.0_f64, start in 0.5..20.0_f64,
        ) {
            for format in FORMATS {
                let truth = cost(format, [step, of_sample, per_sample, per_gib]);
                let trials = Trial::all(format).map(|trial| observed(trial, &truth, start));
                let found = FormatCost::of(format, &trials, CpuCost::default());
                let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within;
                prop_assert!(near(found.step.seconds, step, 1e-9));
                prop_assert!(near(found.short_step.seconds, step / 2.0, 1e-9));
                prop_assert!(near(found.step_seconds_per_sample, of_sample, 1e-9));
                prop_assert!(near(found.workers.seconds_per_gib, per_gib, 1e-3 + 1e-3 * per_gib));
                // The bytes of small samples are counted as part of the samples.
                prop_assert!(near(found.workers.seconds_per_sample, per_sample, 5e-5));
            }
        }
    }

    #[test]
    fn what_this_program_reads_itself_is_not_added_again() {
        let own = CpuCost { seconds_per_sample: 0.001, seconds_per_gib: 0.2 };
        let cost = FormatCost { own, ..cost(DataFormat::Npz, [0.0, 0.0, 0.003, 0.1]) };
        assert_eq!(cost.beyond_own(0.1).cpu_seconds_per_sample, 0.002);
        assert_eq!(cost.beyond_own(0.1).cpu_seconds_per_gib, 0.0);
        assert_eq!(cost.whole(0.1).cpu_seconds_per_gib, 0.1);
        assert_eq!(cost.whole(0.1).oversleep_seconds, Some(0.001));
    }

    #[test]
    fn a_step_costs_what_one_of_its_length_did() {
        let cost = cost(DataFormat::Tfrecord, [0.004, 0.0, 0.0, 0.0]);
        let found =
            [0.0, 0.001, 0.005, 0.01, 0.02, 1.0].map(|compute| cost.step_of(compute).seconds);
        let wanted = [0.002, 0.002, 0.002, 0.003, 0.004, 0.004];
        assert!(
            found.iter().zip(wanted).all(|(one, other)| (one - other).abs() < 1e-12),
            "{found:?}"
        );
    }

    #[test]
    fn checkpoints_take_what_the_client_takes_beyond_this_program() {
        let pace = |save: f64, restore: f64| CheckpointPace {
            save_seconds_per_gib: save,
            restore_seconds_per_gib: restore,
        };
        let cost = CheckpointCost { client: pace(1.5, 0.25), own: pace(0.5, 0.5) };
        assert_eq!(cost.beyond_own(), pace(1.0, 0.0));
    }

    #[test]
    fn a_saved_calibration_is_not_trusted() {
        let whole = Calibration {
            calibration_version: FORMAT_VERSION,
            started_at: String::new(),
            hostname: String::new(),
            cpu_model: String::new(),
            cpus: 2,
            load_before: 0.5,
            client: "DLIO".to_string(),
            formats: vec![cost(DataFormat::Npz, [0.001; 4])],
            checkpoint: None,
        };
        let text = serde_json::to_string(&whole).unwrap();
        let found = Calibration::parse(&text).unwrap();
        assert_eq!(found, whole);
        assert!(found.of(DataFormat::Npz).is_ok());
        let missing = found.of(DataFormat::Csv).unwrap_err();
        assert_eq!(missing, "it has the costs of npz, not of csv");
        let earlier = text.replace("\"calibration_version\":2", "\"calibration_version\":1");
        assert!(Calibration::parse(&earlier).is_err());
        for rate in ["-1.0", "null", "1e300", "-1e-9"] {
            let wrong = text.replacen("\"seconds\":0.0005", &format!("\"seconds\":{rate}"), 1);
            assert_ne!(wrong, text);
            assert!(Calibration::parse(&wrong).is_err(), "{rate}");
        }
    }
}
