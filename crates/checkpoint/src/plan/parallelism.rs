//! How a model is partitioned over ranks: tensor, pipeline and data parallelism, and ZeRO.

use serde::{Deserialize, Serialize};
use strum::FromRepr;

/// Maximum number of ranks of a job.
pub(super) const MOST_RANKS: u64 = 1 << 20;

/// Which part of the state is partitioned over the data-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, FromRepr)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "u8", into = "u8")]
#[repr(u8)]
pub enum ZeroStage {
    /// No partition: the first replica owns all of it.
    Zero,
    /// The optimizer state.
    One,
    /// The optimizer state and the gradients; files as in stage 1.
    Two,
    /// The optimizer state and the model.
    Three,
}

impl From<ZeroStage> for u8 {
    fn from(stage: ZeroStage) -> Self {
        stage as Self
    }
}

impl TryFrom<u8> for ZeroStage {
    type Error = String;

    fn try_from(stage: u8) -> Result<Self, String> {
        Self::from_repr(stage)
            .ok_or_else(|| format!("ZeRO stage {stage} does not exist: use 0, 1, 2 or 3"))
    }
}

/// The three degrees of parallelism and the ZeRO stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parallelism {
    /// Tensor parallelism, `TP`: ranks that share each tensor.
    pub tensor: u64,
    /// Pipeline parallelism, `PP`: stages that share the layers.
    pub pipeline: u64,
    /// Data parallelism, `DP`: replicas.
    pub data: u64,
    /// The state that is partitioned over the replicas.
    pub zero_stage: ZeroStage,
}

/// Position of a rank in the three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Index of the part of each tensor.
    pub tensor: u64,
    /// Index of the stage.
    pub pipeline: u64,
    /// Index of the replica.
    pub data: u64,
    /// Index of the model-parallel share: tensor and stage combined.
    pub model: u64,
}

impl Parallelism {
    /// Ranks that together hold one whole model: `TP·PP`.
    pub fn model_parallel(&self) -> u64 {
        self.tensor.saturating_mul(self.pipeline)
    }

    /// Ranks of the whole job: `TP·PP·DP`.
    pub fn ranks(&self) -> u64 {
        self.model_parallel().saturating_mul(self.data)
    }

    /// Position of `rank`: `tp = r mod TP`, `pp = (r div TP) mod PP`, `dp = r div (TP·PP)`.
    pub fn position(&self, rank: u64) -> Position {
        Position {
            tensor: rank % self.tensor,
            pipeline: rank / self.tensor % self.pipeline,
            data: rank / self.model_parallel(),
            model: rank % self.model_parallel(),
        }
    }

    /// The layers of a stage, `first..end`, where the first layer is numbered 1. They are
    /// contiguous; the first `L mod PP` stages have one more.
    pub fn stage_layers(&self, stage: u64, num_layers: u64) -> std::ops::Range<u64> {
        let (each, rest) = (num_layers / self.pipeline, num_layers % self.pipeline);
        let before = |stage: u64| stage * each + stage.min(rest);
        1 + before(stage)..1 + before(stage + 1)
    }

    /// Everything that is wrong with the numbers themselves; empty if they are valid.
    pub fn problems(&self) -> Vec<String> {
        let named = [("tensor", self.tensor), ("pipeline", self.pipeline), ("data", self.data)];
        let mut problems: Vec<String> = named
            .iter()
            .filter(|(_, value)| !(1..=MOST_RANKS).contains(value))
            .map(|(key, value)| {
                format!("model.parallelism.{key} is {value}; it must be 1 to {MOST_RANKS}")
            })
            .collect();
        if problems.is_empty() && self.ranks() > MOST_RANKS {
            problems.push(format!(
                "{} × {} × {} = {} ranks; at most {MOST_RANKS} are supported",
                self.tensor,
                self.pipeline,
                self.data,
                self.ranks()
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stages_cover_every_layer_once(pipeline in 1u64..70, num_layers in 0u64..300) {
            let spread = Parallelism { tensor: 1, pipeline, data: 1, zero_stage: ZeroStage::One };
            let layers: Vec<u64> =
                (0..pipeline).flat_map(|stage| spread.stage_layers(stage, num_layers)).collect();
            prop_assert_eq!(layers, (1..=num_layers).collect::<Vec<_>>());
        }

        #[test]
        fn no_two_ranks_stand_in_the_same_place(
            tensor in 1u64..9, pipeline in 1u64..9, data in 1u64..9
        ) {
            let spread = Parallelism { tensor, pipeline, data, zero_stage: ZeroStage::Three };
            for rank in 0..spread.ranks() {
                let at = spread.position(rank);
                prop_assert_eq!(
                    at.data * spread.model_parallel() + at.pipeline * tensor + at.tensor, rank
                );
                prop_assert_eq!(at.model, at.pipeline * tensor + at.tensor);
                prop_assert!(at.data < data);
            }
        }
    }
}
