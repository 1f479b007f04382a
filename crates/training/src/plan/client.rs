//! Client overhead: work of the official client (DLIO) that stormlp does not do.
//!
//! DLIO spends Python time in every step and CPU time on every byte its workers read (checksums,
//! copies, collation). Near the threshold on fast storage this decides the official result, so a
//! run can be asked to account for it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::units::GIB;
use stormlp_dataset::section::DataFormat;

/// The machine with known costs, without a calibration.
pub const KNOWN_HOST: &str = "another machine (two CPUs of an AMD EPYC, Python 3.11)";

/// The client to account for: `none`, `dlio`, or the file of a calibration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub enum Client {
    /// No client: storage and compute only.
    #[default]
    None,
    /// DLIO, at the cost that [`KNOWN_HOST`] showed for the workload's format.
    Dlio,
    /// DLIO, at the cost that `stormlp calibrate-dlio` measured and saved in this file.
    Calibrated(PathBuf),
}

impl Client {
    /// The names, in addition to files.
    pub const NAMES: [&str; 2] = ["none", "dlio"];

    /// The file of its calibration, if it has one.
    pub fn calibration(&self) -> Option<&Path> {
        match self {
            Self::Calibrated(file) => Some(file),
            Self::None | Self::Dlio => None,
        }
    }
}

impl From<String> for Client {
    fn from(text: String) -> Self {
        match text.as_str() {
            "none" => Self::None,
            "dlio" => Self::Dlio,
            _ => Self::Calibrated(text.into()),
        }
    }
}

impl From<Client> for String {
    fn from(client: Client) -> Self {
        client.to_string()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Dlio => f.write_str("dlio"),
            Self::Calibrated(file) => write!(f, "{}", file.display()),
        }
    }
}

/// The overhead of a client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientCost {
    /// Seconds per step that are neither loading nor compute.
    pub step_seconds: f64,
    /// Seconds that each sample of a step adds to that.
    #[serde(default)]
    pub step_seconds_per_sample: f64,
    /// Worker CPU seconds per sample, whatever its size.
    #[serde(default)]
    pub cpu_seconds_per_sample: f64,
    /// Worker CPU seconds per GiB read.
    pub cpu_seconds_per_gib: f64,
    /// How much longer than asked the client sleeps in each step, which counts as compute; `None` if
    /// that was not measured.
    #[serde(default)]
    pub oversleep_seconds: Option<f64>,
    /// CPUs shared by the workers of all accelerators.
    pub cpus: usize,
    /// Whether the times were measured on another host, which makes them an estimate.
    pub estimated: bool,
}

impl ClientCost {
    /// No overhead.
    pub const NONE: Self = Self {
        step_seconds: 0.0,
        step_seconds_per_sample: 0.0,
        cpu_seconds_per_sample: 0.0,
        cpu_seconds_per_gib: 0.0,
        oversleep_seconds: None,
        cpus: 1,
        estimated: false,
    };

    /// DLIO's overhead for files of `format` as [`KNOWN_HOST`] showed it, for one CPU:
    /// docs/training.md has the table. `None` for formats that are not in it: costs of one format say
    /// nothing about another.
    pub fn known(format: DataFormat) -> Option<Self> {
        let (step, of_sample, cpu_of_sample, cpu_of_gib) = match format {
            DataFormat::Tfrecord => (0.000_55, 0.0, 0.0, 0.85),
            DataFormat::Hdf5 => (0.000_70, 0.000_34, 0.002_93, 0.26),
            DataFormat::Csv => (0.000_45, 0.000_46, 0.003_55, 2174.0),
            DataFormat::Jpeg => (0.000_91, 0.000_27, 0.002_55, 8.04),
            DataFormat::Npz => (0.000_71, 0.000_34, 0.002_60, 0.90),
            DataFormat::Npy | DataFormat::Png | DataFormat::IndexedBinary | DataFormat::Parquet => {
                return None;
            }
        };
        Some(Self {
            step_seconds: step,
            step_seconds_per_sample: of_sample,
            cpu_seconds_per_sample: cpu_of_sample,
            cpu_seconds_per_gib: cpu_of_gib,
            estimated: true,
            ..Self::NONE
        })
    }

    /// The same overhead on a host with `cpus` CPUs.
    pub fn on(self, cpus: u32) -> Self {
        let cpus = cpus.max(1) as usize;
        Self { cpus, ..self }
    }

    /// Whether it costs any time.
    pub fn takes_time(&self) -> bool {
        let oversleep = self.oversleep_seconds.unwrap_or(0.0);
        self.step_seconds_of(1) + self.worker_seconds(1.0, GIB as f64) + oversleep > 0.0
    }

    /// Seconds of a step of `batch_size` samples that are neither loading nor compute.
    pub fn step_seconds_of(&self, batch_size: u32) -> f64 {
        self.step_seconds + self.step_seconds_per_sample * f64::from(batch_size)
    }

    /// Worker CPU seconds for `samples` of `sample_bytes` each.
    pub fn worker_seconds(&self, samples: f64, sample_bytes: f64) -> f64 {
        let of_bytes = self.cpu_seconds_per_gib * sample_bytes / GIB as f64;
        samples * (self.cpu_seconds_per_sample + of_bytes)
    }
}

/// Why `--client-overhead dlio` has no cost for files of `format`; `None` where it has one.
pub fn unknown_cost(format: DataFormat) -> Option<String> {
    ClientCost::known(format).is_none().then(|| {
        format!(
            "DLIO's cost is not known for {format}, and `stormlp calibrate-dlio` cannot measure it"
        )
    })
}

/// Where DLIO's cost was measured: in a calibration, or on [`KNOWN_HOST`].
pub fn measured_where(origin: Option<&CalibrationOrigin>) -> String {
    match origin {
        Some(origin) => format!("DLIO's own work is added, {origin}"),
        None => format!(
            "DLIO's own work is added, as measured on {KNOWN_HOST}: run `stormlp calibrate-dlio` here"
        ),
    }
}

impl fmt::Display for ClientCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ms a step", self.step_seconds * 1e3)?;
        if self.step_seconds_per_sample > 0.0 {
            write!(f, " and {:.3} for each of its samples", self.step_seconds_per_sample * 1e3)?;
        }
        if self.cpu_seconds_per_sample > 0.0 {
            write!(f, ", {:.3} CPU ms/sample", self.cpu_seconds_per_sample * 1e3)?;
        }
        write!(f, ", {:.2} CPU s/GiB", self.cpu_seconds_per_gib)?;
        if let Some(oversleep) = self.oversleep_seconds {
            write!(f, ", {:.2} ms asleep too long", oversleep * 1e3)?;
        }
        f.write_str(if self.estimated { " (estimated)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray as _;

    #[test]
    fn a_client_has_a_name_or_a_file() {
        for text in ["none", "dlio", "/srv/dlio.json"] {
            let client: Client = text.to_string().into();
            assert_eq!(client.to_string(), text);
            assert_eq!(client.calibration().is_some(), text.contains('/'));
            let json = serde_json::to_string(&client).unwrap_or_default();
            assert_eq!(json, format!("\"{text}\""));
        }
    }

    #[test]
    fn each_format_has_a_cost_of_its_own() {
        let cost = |format| ClientCost::known(format).unwrap_or(ClientCost::NONE);
        let step = |format| cost(format).step_seconds_of(8);
        assert!(step(DataFormat::Tfrecord) < step(DataFormat::Npz));
        assert!(cost(DataFormat::Hdf5).estimated && cost(DataFormat::Hdf5).takes_time());
    }

    #[test]
    fn the_costs_that_are_known_are_those_that_a_calibration_measures() {
        for format in DataFormat::VARIANTS {
            let is_measured = crate::plan::calibration::FORMATS.contains(format);
            assert_eq!(ClientCost::known(*format).is_some(), is_measured, "{format}");
            assert_eq!(unknown_cost(*format).is_none(), is_measured, "{format}");
        }
    }

    #[test]
    fn cost_grows_with_samples_and_bytes() {
        let cost = ClientCost {
            step_seconds: 0.001,
            step_seconds_per_sample: 0.000_1,
            cpu_seconds_per_sample: 0.002,
            cpu_seconds_per_gib: 0.5,
            ..ClientCost::NONE
        };
        assert_eq!(cost.step_seconds_of(10), 0.002);
        assert_eq!(cost.worker_seconds(4.0, GIB as f64), 4.0 * 0.502);
        assert!(cost.takes_time() && !ClientCost::NONE.takes_time());
    }
}
