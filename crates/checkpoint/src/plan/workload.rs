//! A checkpoint workload: the contents of a workload file, under MLPerf's key names.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use stormlp_core::names::{Named, unknown};
use stormlp_core::numbers::whole;
use stormlp_core::workload_file::KeyNote;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::architecture::{Architecture, DataType};
use super::layout::Layout;
use super::parallelism::{Parallelism, ZeroStage};

/// Ranks per host in MLPerf's checkpoints.
pub const HOST_RANKS: u64 = 8;

/// A checkpoint workload with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointWorkload {
    /// The model's name.
    pub name: String,
    /// The model's shape.
    pub architecture: Architecture,
    /// `model.parallelism.tensor`.
    pub tensor: u64,
    /// `model.parallelism.pipeline`.
    pub pipeline: u64,
    /// `model.parallelism.data`; `None` if the number of ranks determines it.
    pub data: Option<u64>,
    /// `model.parallelism.zero_stage`.
    pub zero_stage: ZeroStage,
    /// `model.model_datatype`.
    pub model_datatype: DataType,
    /// `model.optimizer_datatype`.
    pub optimizer_datatype: DataType,
    /// `checkpoint.mode`.
    pub mode: Mode,
    /// `checkpoint.num_checkpoints_write`.
    pub writes: Option<u32>,
    /// `checkpoint.num_checkpoints_read`.
    pub reads: Option<u32>,
    /// `checkpoint.time_between_checkpoints`, in seconds.
    pub pause_seconds: Option<f64>,
    /// Keys that were accepted but have no effect here.
    pub without_effect: Vec<KeyNote>,
}

/// Which of a job's ranks participate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Mode {
    /// All of them: the number of ranks determines the number of replicas.
    #[default]
    Default,
    /// The first few, writing their share of a full-size job.
    Subset,
}

impl Named for Mode {
    const WHAT: &'static str = "a mode";
}

impl Mode {
    /// The name on the command line and in workload files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The ranks of a run: `8`, or `8/64` for the first 8 of a job of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranks {
    /// The number of ranks that participate.
    pub participating: u64,
    /// The number of ranks of the job, if only some of them participate.
    pub of: Option<u64>,
}

impl From<u64> for Ranks {
    fn from(participating: u64) -> Self {
        Self { participating, of: None }
    }
}

impl FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = whole::<u64>(..);
        match text.split_once('/') {
            Some((some, all)) => Ok(Self { participating: count(some)?, of: Some(count(all)?) }),
            None => count(text).map(Self::from),
        }
    }
}

impl CheckpointWorkload {
    /// The parallelism of the full-size job, as the file describes it.
    pub fn parallelism_of_all_ranks(&self) -> Parallelism {
        self.parallelism(self.data.unwrap_or(1))
    }

    /// The parallelism with `data` replicas.
    pub fn parallelism(&self, data: u64) -> Parallelism {
        Parallelism {
            tensor: self.tensor,
            pipeline: self.pipeline,
            data,
            zero_stage: self.zero_stage,
        }
    }

    /// Files and sizes under `parallelism`.
    pub fn layout(&self, parallelism: Parallelism) -> Layout {
        Layout {
            architecture: self.architecture,
            parallelism,
            model_datatype: self.model_datatype,
            optimizer_datatype: self.optimizer_datatype,
        }
    }
}

/// DLIO's defaults.
impl Default for CheckpointWorkload {
    fn default() -> Self {
        Self {
            name: "default".to_string(),
            architecture: Architecture {
                vocab_size: 32_000,
                hidden_size: 2048,
                ffn_hidden_size: 8192,
                num_layers: 1,
                num_attention_heads: 32,
                num_kv_heads: 8,
            },
            tensor: 1,
            pipeline: 1,
            data: None,
            zero_stage: ZeroStage::Zero,
            model_datatype: DataType::Fp16,
            optimizer_datatype: DataType::Fp32,
            mode: Mode::Default,
            writes: None,
            reads: None,
            pause_seconds: None,
            without_effect: Vec::new(),
        }
    }
}
