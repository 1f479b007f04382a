//! The sizes of a model's caches.

use serde::Serialize;
use stormlp_core::numbers::whole;
use stormlp_core::units::parse_some_bytes;

use super::content::file_bytes;
use super::model::Model;

/// Contexts of requests in tokens: mean and 95th percentile over users drawn uniformly, computed from
/// 200,000 draws, and the bounds of all users.
const CONTEXTS: [(&str, u64); 4] =
    [("mean", 5623), ("P95", 15_043), ("largest", 25_000), ("smallest", 128)];

/// The model and the prompt to compute sizes for.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct SizeRequest {
    /// Model; `stormlp workloads` lists them
    #[arg(value_name = "MODEL", default_value = "llama3.1-8b")]
    pub model: String,

    /// Also show the object of N tokens; repeatable
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=1 << 32))]
    pub tokens: Vec<u64>,

    /// Also show how many tokens and requests fit in SIZE
    #[arg(long = "capacity", value_name = "SIZE",
        value_parser = parse_some_bytes)]
    pub capacity_bytes: Option<u64>,
}

/// The file of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObjectSize {
    /// Which request: `mean`; empty for a number of tokens that was asked for.
    pub name: &'static str,
    /// Its tokens.
    pub tokens: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The contents that fit in a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// The space in bytes.
    pub capacity_bytes: u64,
    /// Tokens.
    pub tokens: u64,
    /// Objects of the mean request.
    pub mean_objects: u64,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Size {
    /// The model.
    pub model: Model,
    /// Bytes kept for a token by all layers.
    pub bytes_per_token: u64,
    /// Bytes kept for a token by one layer.
    pub bytes_per_token_and_layer: u64,
    /// Objects of typical requests, and those asked for.
    pub objects: Vec<ObjectSize>,
    /// The contents that fit in the given space.
    pub fits: Option<Fits>,
}

/// Computes the answer.
///
/// # Errors
/// If there is no such model.
pub fn size(request: &SizeRequest) -> Result<Size, String> {
    let model = Model::named(&request.model)?;
    let object = |name, tokens| ObjectSize { name, tokens, bytes: file_bytes(&model, tokens) };
    let typical = CONTEXTS.map(|(name, tokens)| object(name, tokens));
    let [mean, ..] = &typical;
    let fits = request.capacity_bytes.map(|capacity_bytes| Fits {
        capacity_bytes,
        tokens: capacity_bytes / model.bytes_per_token(),
        mean_objects: capacity_bytes / mean.bytes,
    });
    let asked = request.tokens.iter().map(|tokens| object("", *tokens));
    let objects: Vec<ObjectSize> = typical.iter().cloned().chain(asked).collect();
    Ok(Size {
        bytes_per_token: model.bytes_per_token(),
        bytes_per_token_and_layer: model.bytes_per_token() / model.layers,
        objects,
        fits,
        model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(model: &str) -> SizeRequest {
        SizeRequest { model: model.to_string(), tokens: vec![256], capacity_bytes: Some(1 << 40) }
    }

    #[test]
    fn the_mean_request_of_8b_takes_703_mib() {
        let size = size(&request("llama3.1-8b")).unwrap();
        assert_eq!(size.bytes_per_token_and_layer, 4096);
        let objects: Vec<(u64, u64)> =
            size.objects.iter().map(|one| (one.tokens, one.bytes >> 20)).collect();
        assert_eq!(objects, [(5623, 702), (15_043, 1880), (25_000, 3125), (128, 16), (256, 32)]);
        let fits = size.fits.unwrap();
        assert_eq!((fits.tokens, fits.mean_objects), (8_388_608, 1491));
    }

    #[test]
    fn an_unknown_model_is_an_error() {
        assert!(size(&request("llama4")).is_err());
    }
}
