//! Client overhead: work of the official client (DLIO) that stormlp does not do.
//!
//! DLIO spends Python time in every step and CPU time on every byte its workers read (checksums,
//! copies, collation). Near the threshold on fast storage this decides the official result, so a
//! run can be asked to account for it.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::plan::train_plan::TrainPlan;
use stormlp_core::names::{Named, unknown};
use stormlp_core::units::GIB;

/// The client to account for.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
    Serialize,
    Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Client {
    /// No client: storage and compute only.
    #[default]
    None,
    /// DLIO.
    Dlio,
}

impl Named for Client {
    const WHAT: &'static str = "a client";
}

/// The overhead of a client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientCost {
    /// Seconds per step that are neither loading nor compute.
    pub step_seconds: f64,
    /// Worker CPU seconds per GiB read.
    pub cpu_seconds_per_gib: f64,
    /// CPUs shared by the workers of all accelerators.
    pub cpus: usize,
    /// Whether the times were measured on another host, which makes them an estimate.
    pub estimated: bool,
}

impl ClientCost {
    /// No overhead.
    pub const NONE: Self =
        Self { step_seconds: 0.0, cpu_seconds_per_gib: 0.0, cpus: 1, estimated: false };

    /// DLIO's overhead as measured on one machine (Python 3.11, PyTorch's loader, npz, a Xeon at
    /// 2.1 GHz), for one CPU.
    pub const DLIO: Self =
        Self { step_seconds: 0.001_25, cpu_seconds_per_gib: 0.9, cpus: 1, estimated: true };

    /// The same overhead on a host with `cpus` CPUs.
    pub fn on(self, cpus: u32) -> Self {
        let cpus = cpus.max(1) as usize;
        Self { cpus, ..self }
    }

    /// Worker CPU seconds for this many bytes.
    pub fn worker_seconds(&self, bytes: f64) -> f64 {
        self.cpu_seconds_per_gib * bytes / GIB as f64
    }

    /// The AU that `plan`, which reached `au_percent` without a client, can reach with this client:
    /// its step time is added to each step, and workers are limited by their CPU time.
    pub fn bound_percent(&self, plan: &TrainPlan, au_percent: f64) -> f64 {
        let compute = plan.compute.mean_seconds();
        if compute <= 0.0 || au_percent <= 0.0 {
            return au_percent;
        }
        let batch_bytes = f64::from(plan.batch_size) * plan.data.read_sample_bytes;
        let work = self.worker_seconds(batch_bytes);
        let workers = plan.loader.concurrent_reads().max(1) as f64;
        let of_workers = work / workers;
        let of_cpus = work * f64::from(plan.most_accelerators()) / self.cpus.max(1) as f64;
        let step = (compute * 100.0 / au_percent).max(of_workers).max(of_cpus);
        100.0 * compute / (step + self.step_seconds)
    }
}

impl fmt::Display for ClientCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} ms a step, {:.2} CPU s/GiB{}",
            self.step_seconds * 1e3,
            self.cpu_seconds_per_gib,
            if self.estimated { " (estimated)" } else { "" }
        )
    }
}
