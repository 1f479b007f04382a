//! Which rank writes which files of which size: everything about a checkpoint that follows from the
//! model and its parallelism.
//!
//! The formulas are DLIO's. Layers are numbered 0 to L+2: 0 is the embedding, 1 to L are the
//! transformer's, L+1 is the output head, L+2 the final norm. A tensor is divided by the tensor
//! parallelism (norms are not) and, under ZeRO 3, by the replicas. Every division truncates, and
//! tensors without elements are left out.

use serde::{Deserialize, Serialize};

use super::architecture::{Architecture, DataType};
use super::choice::Container;
use super::parallelism::{Parallelism, Position, ZeroStage};
use super::torch::{FileFraming, FileTensors, TensorGroup};

/// One file of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointFile {
    /// Its name in the folder of the checkpoint.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// One file of a rank.
    pub tensors: u64,
}

/// The sizes and names of a model's checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layout {
    /// The model.
    pub architecture: Architecture,
    /// How it is spread.
    pub parallelism: Parallelism,
    /// Its parallelism.
    pub model_datatype: DataType,
    /// Element type of the model.
    pub optimizer_datatype: DataType,
}

impl Layout {
    /// The files of `rank` in the order in which it writes and reads them. A rank that owns no
    /// tensor has none.
    pub fn rank_files(&self, rank: u64) -> Vec<CheckpointFile> {
        self.packed_files(rank, Container::Raw)
    }

    /// The files of `rank`, with the size of their container.
    pub fn packed_files(&self, rank: u64, container: Container) -> Vec<CheckpointFile> {
        let file = |file: FileTensors| CheckpointFile {
            bytes: match container {
                Container::Raw => file.bytes(),
                Container::Torch => FileFraming::of(&file).file_bytes,
            },
            tensors: file.elements().filter(|elements| *elements > 0).count() as u64,
            name: file.name,
        };
        self.rank_tensors(rank).into_iter().map(file).collect()
    }

    /// The contents of the files of `rank`: the model's by layer, then the optimizer's.
    pub fn rank_tensors(&self, rank: u64) -> Vec<FileTensors> {
        let at = self.parallelism.position(rank);
        let zero = format!("zero_pp_rank_{}_mp_rank_{}", at.data, at.model);
        let mut files = Vec::new();
        if self.owns_model(at) {
            let layers = self.stage_layers(at.pipeline);
            let is_by_model =
                matches!(self.parallelism.zero_stage, ZeroStage::One | ZeroStage::Two);
            let datatype = self.model_datatype;
            let group = |layer: Option<u64>, number: u64| TensorGroup {
                layer,
                elements: self.layer_tensors(number),
            };
            if is_by_model && self.parallelism.pipeline > 1 {
                files.extend(layers.map(|layer| FileTensors {
                    name: format!("layer_{layer}-model_{}_model_states.pt", at.model),
                    datatype,
                    groups: vec![group(None, layer)],
                }));
            } else {
                files.push(FileTensors {
                    name: match is_by_model {
                        true => format!("model_{}_model_states.pt", at.model),
                        false => format!("{zero}_model_states.pt"),
                    },
                    datatype,
                    groups: layers.map(|layer| group(Some(layer), layer)).collect(),
                });
            }
        }
        if self.owns_optimizer(at) {
            let elements = self.optimizer_tensors().to_vec();
            files.push(FileTensors {
                name: format!("{zero}_optim_states.pt"),
                datatype: self.optimizer_datatype,
                groups: vec![TensorGroup { layer: None, elements }],
            });
        }
        files.retain(|file| file.bytes() > 0);
        files
    }

    /// Total bytes of the files of `rank`.
    pub fn rank_bytes(&self, rank: u64) -> u64 {
        let at = self.parallelism.position(rank);
        let mut bytes = 0;
        if self.owns_model(at) {
            bytes += self.stage_elements(at.pipeline) * self.model_datatype.bytes();
        }
        if self.owns_optimizer(at) {
            let elements: u64 = self.optimizer_tensors().iter().sum();
            bytes += elements * self.optimizer_datatype.bytes();
        }
        bytes
    }

    /// Bytes of a whole checkpoint over all ranks. Ranks with the same tensor share and replica are
    /// equal, so one of each kind is computed.
    pub fn total_bytes(&self) -> u64 {
        self.first_ranks_bytes(self.parallelism.ranks())
    }

    /// Total bytes of the first `ranks` ranks.
    pub fn first_ranks_bytes(&self, ranks: u64) -> u64 {
        let spread = &self.parallelism;
        let group = spread.tensor;
        let whole: u64 =
            (0..ranks / group).map(|index| self.rank_bytes(index * group) * group).sum();
        whole + self.rank_bytes(ranks / group * group) * (ranks % group)
    }

    /// Bytes of the first `ranks` ranks in each of `folders` directories, which they use
    /// round-robin.
    pub fn first_ranks_bytes_by_folder(&self, ranks: u64, folders: u64) -> Vec<u64> {
        let mut by_folder = vec![0; folders as usize];
        let group = self.parallelism.tensor;
        // Ranks that differ only in their tensor share are alike, so one of each kind is computed.
        for first in (0..ranks).step_by(group as usize) {
            let bytes = self.rank_bytes(first);
            for rank in first..ranks.min(first + group) {
                by_folder[(rank % folders) as usize] += bytes;
            }
        }
        by_folder
    }

    /// Bytes of a rank as DLIO counts them. Under ZeRO 2 it lets every replica hold (and count) a
    /// model that only the first one writes, so it reports more than is written.
    pub fn rank_bytes_as_dlio_counts(&self, rank: u64) -> u64 {
        let at = self.parallelism.position(rank);
        let unwritten = self.parallelism.zero_stage == ZeroStage::Two && !self.owns_model(at);
        let model = self.stage_elements(at.pipeline) * self.model_datatype.bytes();
        self.rank_bytes(rank) + if unwritten { model } else { 0 }
    }

    /// Whether the rank writes model state.
    fn owns_model(&self, at: Position) -> bool {
        at.data == 0 || self.parallelism.zero_stage == ZeroStage::Three
    }

    /// Whether the rank writes optimizer state.
    fn owns_optimizer(&self, at: Position) -> bool {
        at.data == 0 || self.parallelism.zero_stage != ZeroStage::Zero
    }

    /// Number of parameters with optimizer state on one rank: `N div (DP·TP·PP)`, or
    /// `N div (TP·PP)` without ZeRO.
    pub fn optimizer_parameters(&self) -> u64 {
        let owners = match self.parallelism.zero_stage {
            ZeroStage::Zero => self.parallelism.model_parallel(),
            _ => self.parallelism.ranks(),
        };
        let share = self.architecture.parameters() / u128::from(owners.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Six tensors: the share and `5·h`, three times each.
    fn optimizer_tensors(&self) -> [u64; 6] {
        let share = self.optimizer_parameters();
        let small = 5 * self.architecture.hidden_size;
        [share, small, share, small, share, small]
    }

    /// The numbered layers of a stage. The first stage also has the embedding; the last also has
    /// the output head and the final norm.
    fn stage_layers(&self, stage: u64) -> impl Iterator<Item = u64> + use<> {
        let layers = self.architecture.num_layers;
        let first = (stage == 0).then_some(0);
        let last = (stage + 1 == self.parallelism.pipeline).then_some([layers + 1, layers + 2]);
        first
            .into_iter()
            .chain(self.parallelism.stage_layers(stage, layers))
            .chain(last.into_iter().flatten())
    }

    /// Elements of all tensors of a stage. Its transformer layers are alike, so one is counted.
    fn stage_elements(&self, stage: u64) -> u64 {
        let layers = self.architecture.num_layers;
        let elements = |layer: u64| self.layer_tensors(layer).iter().sum::<u64>();
        let own = self.parallelism.stage_layers(stage, layers);
        let mut all = elements(1) * (own.end - own.start);
        if stage == 0 {
            all += elements(0);
        }
        if stage + 1 == self.parallelism.pipeline {
            all += elements(layers + 1) + elements(layers + 2);
        }
        all
    }

    /// Elements of the tensors of one numbered layer on one rank.
    fn layer_tensors(&self, layer: u64) -> Vec<u64> {
        let model = &self.architecture;
        let (h, f, v) = (model.hidden_size, model.ffn_hidden_size, model.vocab_size);
        let replicas = match self.parallelism.zero_stage {
            ZeroStage::Three => self.parallelism.data,
            _ => 1,
        };
        let split = |elements: u64| elements / self.parallelism.tensor / replicas;
        let norm = h / replicas;
        match layer {
            0 => vec![split(h * v)],
            n if n == model.num_layers + 1 => vec![split(h * v)],
            n if n == model.num_layers + 2 => vec![norm],
            // Input norm, QKV, attention output, second norm, gate and up, down.
            _ => vec![
                norm,
                split(h * (h + 2 * model.kv_size())),
                split(h * h),
                norm,
                split(2 * h * f),
                split(h * f),
            ],
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
