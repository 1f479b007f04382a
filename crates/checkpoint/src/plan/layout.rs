//! Which rank writes which files of which size: everything about a checkpoint that follows from the
//! model and its parallelism.
//!
//! The formulas are DLIO's. Layers are numbered 0 to L+2: 0 is the embedding, 1 to L are the
//! transformer's, L+1 is the output head, L+2 the final norm. A tensor is divided by the tensor
//! parallelism (norms are not) and, under ZeRO 3, by the replicas. Every division truncates, and
//! tensors without elements are left out.

use derive_more::AddAssign;
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

/// Number of elements and tensors.
#[derive(Debug, Clone, Copy, Default, AddAssign)]
struct TensorCount {
    elements: u64,
    tensors: u64,
}

impl TensorCount {
    /// Counts tensors with the given elements; empty ones are not counted.
    fn of(tensors: &[u64]) -> Self {
        Self {
            elements: tensors.iter().sum(),
            tensors: tensors.iter().filter(|elements| **elements > 0).count() as u64,
        }
    }

    fn file(self, name: String, element_bytes: u64) -> CheckpointFile {
        CheckpointFile { name, bytes: self.elements * element_bytes, tensors: self.tensors }
    }
}

impl Layout {
    /// The files of `rank` in the order in which it writes and reads them: the model's by layer,
    /// then the optimizer's. A rank that owns nothing has none.
    pub fn rank_files(&self, rank: u64) -> Vec<CheckpointFile> {
        let at = self.parallelism.position(rank);
        let mut files = if self.owns_model(at) { self.model_files(at) } else { Vec::new() };
        if self.owns_optimizer(at) {
            let name = format!("zero_pp_rank_{}_mp_rank_{}_optim_states.pt", at.data, at.model);
            files.push(self.optimizer().file(name, self.optimizer_datatype.bytes()));
        }
        files.retain(|file| file.bytes > 0);
        files
    }

    /// The files of `rank`, with the size of their container.
    pub fn packed_files(&self, rank: u64, container: Container) -> Vec<CheckpointFile> {
        let mut files = self.rank_files(rank);
        if container == Container::Torch {
            for (file, tensors) in files.iter_mut().zip(self.rank_tensors(rank)) {
                file.bytes = FileFraming::of(&tensors).file_bytes;
            }
        }
        files
    }

    /// The contents of the files of `rank`, in the same order.
    pub fn rank_tensors(&self, rank: u64) -> Vec<FileTensors> {
        let at = self.parallelism.position(rank);
        let mut files = Vec::new();
        if self.owns_model(at) {
            let layers = self.stage_layers(at.pipeline).collect::<Vec<u64>>();
            let group = |layer: u64, named: bool| TensorGroup {
                layer: named.then_some(layer),
                elements: self.layer_tensors(layer),
            };
            let of_model = |groups| FileTensors { datatype: self.model_datatype, groups };
            if self.has_file_per_layer() {
                let each = layers.iter().map(|layer| of_model(vec![group(*layer, false)]));
                files.extend(each);
            } else {
                let all = layers.iter().map(|layer| group(*layer, true));
                files.push(of_model(all.collect()));
            }
        }
        if self.owns_optimizer(at) {
            files.push(FileTensors {
                datatype: self.optimizer_datatype,
                groups: vec![TensorGroup {
                    layer: None,
                    elements: self.optimizer_tensors().to_vec(),
                }],
            });
        }
        // Files without bytes are left out there too.
        files.retain(|file| {
            let mut elements = file.groups.iter().flat_map(|group| &group.elements);
            elements.any(|elements| *elements > 0)
        });
        files
    }

    /// Whether each layer has its own file.
    fn has_file_per_layer(&self) -> bool {
        let split = matches!(self.parallelism.zero_stage, ZeroStage::One | ZeroStage::Two);
        split && self.parallelism.pipeline > 1
    }

    /// Total bytes of the files of `rank`.
    pub fn rank_bytes(&self, rank: u64) -> u64 {
        let at = self.parallelism.position(rank);
        let mut bytes = 0;
        if self.owns_model(at) {
            bytes += self.stage(at.pipeline).elements * self.model_datatype.bytes();
        }
        if self.owns_optimizer(at) {
            bytes += self.optimizer().elements * self.optimizer_datatype.bytes();
        }
        bytes
    }

    /// Bytes of a whole checkpoint over all ranks. Ranks with the same tensor share and replica
    /// differ in nothing else, so one of each kind is computed.
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
        let model = self.stage(at.pipeline).elements * self.model_datatype.bytes();
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

    /// Number of parameters whose optimizer state one rank holds: `N div (DP·TP·PP)`, or `N div
    /// (TP·PP)` without ZeRO.
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

    fn optimizer(&self) -> TensorCount {
        TensorCount::of(&self.optimizer_tensors())
    }

    /// The model files of a rank.
    fn model_files(&self, at: Position) -> Vec<CheckpointFile> {
        let bytes = self.model_datatype.bytes();
        match self.parallelism.zero_stage {
            ZeroStage::Zero | ZeroStage::Three => {
                let name = format!("zero_pp_rank_{}_mp_rank_{}_model_states.pt", at.data, at.model);
                vec![self.stage(at.pipeline).file(name, bytes)]
            }
            ZeroStage::One | ZeroStage::Two if self.parallelism.pipeline == 1 => {
                let name = format!("model_{}_model_states.pt", at.model);
                vec![self.stage(at.pipeline).file(name, bytes)]
            }
            ZeroStage::One | ZeroStage::Two => self
                .stage_layers(at.pipeline)
                .map(|layer| {
                    let name = format!("layer_{layer}-model_{}_model_states.pt", at.model);
                    self.layer(layer).file(name, bytes)
                })
                .collect(),
        }
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

    /// All tensors of a stage. Its transformer layers are alike, so one is counted.
    fn stage(&self, stage: u64) -> TensorCount {
        let layers = self.architecture.num_layers;
        let own = self.parallelism.stage_layers(stage, layers);
        let one = self.layer(1);
        let many = own.end - own.start;
        let mut all = TensorCount { elements: one.elements * many, tensors: one.tensors * many };
        if stage == 0 {
            all += self.layer(0);
        }
        if stage + 1 == self.parallelism.pipeline {
            all += self.layer(layers + 1);
            all += self.layer(layers + 2);
        }
        all
    }

    /// The tensors of one numbered layer on one rank, counted.
    fn layer(&self, layer: u64) -> TensorCount {
        TensorCount::of(&self.layer_tensors(layer))
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
