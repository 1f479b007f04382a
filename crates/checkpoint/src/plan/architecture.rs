//! A transformer's shape and the number of its parameters, as DLIO counts them.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use stormlp_core::names::{Named, unknown};

/// Maximum number of parameters of a model: far beyond any real model, and small enough that every
/// product in the formulas fits in 64 bits.
pub(super) const MOST_PARAMETERS: u128 = 10_000_000_000_000_000;

/// The shape of a transformer; MLPerf's keys `model.transformer` and `model.num_layers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Architecture {
    /// Vocabulary size, `V`.
    pub vocab_size: u64,
    /// Hidden size of the model, `h`.
    pub hidden_size: u64,
    /// Hidden size of the feed-forward network, `f`.
    pub ffn_hidden_size: u64,
    /// Number of layers, `L`.
    pub num_layers: u64,
    /// Number of attention heads, `a`.
    pub num_attention_heads: u64,
    /// Number of key/value heads, `g`.
    pub num_kv_heads: u64,
}

impl Architecture {
    /// Width of keys or values over all their heads: `(h div a)·g`. The division truncates, as in
    /// DLIO (a 1T model with 25872 / 192 = 134.75 has heads 134 wide).
    pub fn kv_size(&self) -> u64 {
        match self.num_attention_heads {
            0 => 0,
            heads => self.hidden_size / heads * self.num_kv_heads,
        }
    }

    /// Parameters of one layer: `h + h·(h + 2·kv) + h² + h + 3·f·h`.
    fn layer_parameters(&self) -> u128 {
        let (h, f, kv) = (
            u128::from(self.hidden_size),
            u128::from(self.ffn_hidden_size),
            u128::from(self.kv_size()),
        );
        h + h * (h + 2 * kv) + h * h + h + 3 * f * h
    }

    /// Total parameters: `N = 2·V·h + h + L·(one layer)`.
    pub fn parameters(&self) -> u128 {
        let (v, h) = (u128::from(self.vocab_size), u128::from(self.hidden_size));
        2 * v * h + h + u128::from(self.num_layers) * self.layer_parameters()
    }

    /// The same model with a different number of layers.
    #[must_use]
    pub fn with_layers(self, num_layers: u64) -> Self {
        Self { num_layers, ..self }
    }

    /// Everything that is wrong with the shape, in words; empty if it is valid.
    pub fn problems(&self) -> Vec<String> {
        let named = [
            ("model.transformer.vocab_size", self.vocab_size),
            ("model.transformer.hidden_size", self.hidden_size),
            ("model.transformer.ffn_hidden_size", self.ffn_hidden_size),
            ("model.num_layers", self.num_layers),
            ("model.transformer.num_attention_heads", self.num_attention_heads),
            ("model.transformer.num_kv_heads", self.num_kv_heads),
        ];
        let mut problems: Vec<String> = named
            .iter()
            .filter(|(_, value)| *value == 0)
            .map(|(key, _)| format!("{key} is 0; it must be at least 1"))
            .collect();
        if let Some((key, value)) = named.iter().find(|(_, value)| *value > u64::from(u32::MAX)) {
            problems.push(format!("{key} is {value}, which no model has"));
        } else if self.parameters() > MOST_PARAMETERS {
            problems.push(format!(
                "the model would have {} parameters; at most {MOST_PARAMETERS} are supported",
                self.parameters()
            ));
        }
        if self.num_attention_heads > self.hidden_size {
            problems.push(format!(
                "{} attention heads do not fit in a hidden size of {}",
                self.num_attention_heads, self.hidden_size
            ));
        }
        if self.num_kv_heads > self.num_attention_heads {
            problems.push(format!(
                "{} key-value heads for {} attention heads; there can be no more of them",
                self.num_kv_heads, self.num_attention_heads
            ));
        }
        problems
    }
}

/// An element type, named as in a workload file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum DataType {
    /// 8-bit float.
    Fp8,
    /// 16-bit float.
    Fp16,
    /// 16-bit brain float.
    Bf16,
    /// 32-bit float.
    Fp32,
    /// 64-bit float.
    Fp64,
    /// 8-bit integer.
    Int8,
    /// 8-bit unsigned integer.
    Uint8,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
}

impl Named for DataType {
    const WHAT: &'static str = "a type of elements";
}

impl DataType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp8 | Self::Int8 | Self::Uint8 => 1,
            Self::Fp16 | Self::Bf16 | Self::Int16 => 2,
            Self::Fp32 | Self::Int32 => 4,
            Self::Fp64 | Self::Int64 => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_as_wide_as_integer_division_makes_them() {
        let one_t = Architecture {
            vocab_size: 128_256,
            hidden_size: 25_872,
            ffn_hidden_size: 98_304,
            num_layers: 128,
            num_attention_heads: 192,
            num_kv_heads: 32,
        };
        assert_eq!(one_t.kv_size(), 134 * 32);
        assert_eq!(one_t.parameters(), 1_183_035_102_480);
        assert!(one_t.problems().is_empty());
    }

    #[test]
    fn absurd_shapes_are_named_one_by_one() {
        let absurd = Architecture {
            vocab_size: 0,
            hidden_size: 8,
            ffn_hidden_size: u64::MAX,
            num_layers: 0,
            num_attention_heads: 16,
            num_kv_heads: 17,
        };
        assert_eq!(absurd.problems().len(), 5, "{:#?}", absurd.problems());
    }
}
