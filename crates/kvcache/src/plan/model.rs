//! Language models, and the bytes of the cache of a token.

use serde::{Deserialize, Serialize};
use stormlp_core::names::unknown_among;

/// Bytes of an element; all caches are 16-bit floating point.
pub(super) const ELEMENT_BYTES: u64 = 2;

/// The cache of each token in each layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// A key and a value for each of these heads (MHA, GQA).
    Heads {
        /// Heads with separate keys and values.
        heads: u64,
        /// Elements of each.
        dimension: u64,
    },
    /// One compressed vector for all heads (MLA): its rank plus the rotary part.
    Latent {
        /// Elements of the vector.
        elements: u64,
    },
}

/// A model: the figures that determine the size of its cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Layers.
    pub layers: u64,
    /// The cache of a token in each layer.
    pub attention: Attention,
}

/// Name, layers, heads with key and value, dimension of each.
const WITH_HEADS: [(&str, u64, u64, u64); 8] = [
    ("tiny-1b", 12, 4, 128),
    ("mistral-7b", 32, 8, 128),
    ("llama2-7b", 32, 32, 128),
    ("llama3.1-8b", 32, 8, 128),
    ("llama3.1-70b-instruct", 80, 8, 128),
    ("qwen3-32b", 64, 8, 128),
    ("gpt-oss-120b", 36, 8, 64),
    ("gpt-oss-20b", 24, 8, 64),
];
/// Name, layers, elements a token.
const LATENT: (&str, u64, u64) = ("deepseek-v3", 61, 512 + 64);

/// Models of checkpoints, and those of the same language model here.
pub const CHECKPOINT_MODELS: [(&str, &str); 2] =
    [("llama3-8b", "llama3.1-8b"), ("llama3-70b", "llama3.1-70b-instruct")];

impl Model {
    /// The names of all models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        WITH_HEADS.iter().map(|model| model.0).chain([LATENT.0])
    }

    /// The models, in the order of the original benchmark.
    pub fn all() -> Vec<Self> {
        let with_heads = WITH_HEADS.map(|(name, layers, heads, dimension)| Self {
            name: name.to_string(),
            layers,
            attention: Attention::Heads { heads, dimension },
        });
        let (name, layers, elements) = LATENT;
        let latent =
            Self { name: name.to_string(), layers, attention: Attention::Latent { elements } };
        with_heads.into_iter().chain([latent]).collect()
    }

    /// The model of this name.
    ///
    /// # Errors
    /// A message with the names, if there is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let all = Self::all();
        let names: Vec<&str> = all.iter().map(|model| model.name.as_str()).collect();
        let found = all.iter().find(|model| model.name == name);
        found.cloned().ok_or_else(|| unknown_among(&names, "a model", name))
    }

    /// Elements that all layers keep for one token.
    pub fn elements_per_token(&self) -> u64 {
        let of_layer = match self.attention {
            Attention::Heads { heads, dimension } => 2 * heads * dimension,
            Attention::Latent { elements } => elements,
        };
        self.layers * of_layer
    }

    /// Bytes that all layers keep for one token.
    pub fn bytes_per_token(&self) -> u64 {
        self.elements_per_token() * ELEMENT_BYTES
    }

    /// The dimensions of a cache of `tokens`, as numpy prints a shape.
    pub(super) fn shape(&self, tokens: u64) -> String {
        let (before, after) = self.around_tokens();
        format!("{before}{tokens}{after}")
    }

    /// The text before and after the number of tokens in such a shape.
    pub(super) fn around_tokens(&self) -> (String, String) {
        let layers = self.layers;
        match self.attention {
            Attention::Heads { heads, dimension } => {
                (format!("({layers}, 2, "), format!(", {heads}, {dimension})"))
            }
            Attention::Latent { elements } => (format!("({layers}, "), format!(", {elements})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_per_token_follow_from_layers_and_heads() {
        let bytes = |name: &str| Model::named(name).unwrap().bytes_per_token();
        assert_eq!(bytes("tiny-1b"), 24_576);
        assert_eq!(bytes("mistral-7b"), 131_072);
        assert_eq!(bytes("llama2-7b"), 524_288);
        assert_eq!(bytes("llama3.1-8b"), 131_072);
        assert_eq!(bytes("llama3.1-70b-instruct"), 327_680);
        assert_eq!(bytes("deepseek-v3"), 70_272);
        assert_eq!(bytes("qwen3-32b"), 262_144);
        assert_eq!(bytes("gpt-oss-120b"), 73_728);
        assert_eq!(bytes("gpt-oss-20b"), 49_152);
    }

    #[test]
    fn an_unknown_model_is_told_the_names() {
        let message = Model::named("llama3.1").unwrap_err();
        assert!(message.contains("did you mean `llama3.1-8b`?"), "{message}");
        assert!(CHECKPOINT_MODELS.iter().all(|(_, own)| Model::named(own).is_ok()));
    }
}
