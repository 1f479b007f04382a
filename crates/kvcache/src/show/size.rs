//! The sizes of a model's caches as a document.

use stormlp_show::document::{Document, Section, Table, number, word};

use super::size_of as of;
use crate::plan::{Attention, Fits, Model, ObjectSize, Size};

/// The sizes of the caches, and the number that fits.
pub fn size(size: &Size) -> Document {
    let model = &size.model;
    let mean = size.objects.first();
    let of_mean = mean.map_or(String::new(), |mean| {
        format!("; {} for the mean request of {} tokens", of(mean.bytes), mean.tokens)
    });
    let headline = format!(
        "{}: {} ({} bytes) for each token{of_mean}",
        model.name,
        of(size.bytes_per_token),
        size.bytes_per_token
    );
    let mut document = Document::new(headline);
    let kept = kept(model);
    let of_layer = size.bytes_per_token_and_layer;
    let layers = format!("{} × {kept}, float16: {of_layer} bytes a token each", model.layers);
    document.brief.add("layers", layers);
    if let Some(Fits { capacity_bytes, tokens, mean_objects }) = size.fits {
        let space = of(capacity_bytes);
        let what = format!("{space} holds {tokens} tokens, or {mean_objects} mean requests");
        document.brief.add("capacity", what);
    }
    objects(size, &mut document);
    document
}

/// What each layer keeps for a token.
fn kept(model: &Model) -> String {
    match model.attention {
        Attention::Heads { heads, dimension } => {
            format!("key and value of {heads} heads × {dimension}")
        }
        Attention::Latent { elements } => format!("one vector of {elements} for all heads"),
    }
}

/// A row per model: the size of its caches.
pub fn models(models: &[Model]) -> Section {
    let table = Table::of(
        models,
        |_| String::new(),
        vec![
            word("model", 0, |one: &&Model| one.name.clone()),
            number("layers", 0, |one: &&Model| one.layers),
            word("cached per layer", 1, |one: &&Model| kept(one)),
            number("per token", 0, |one: &&Model| of(one.bytes_per_token())),
            number("128K tokens", 0, |one: &&Model| of(one.bytes_per_token() << 17)),
        ],
    );
    let title = "KV caches: stormlp kvcache mlperf MODEL, or serving MODEL".to_string();
    Section { title, table: Some(table), ..Section::default() }
}

/// The files of typical requests, and of those asked for.
fn objects(size: &Size, document: &mut Document) {
    let name = |one: &&ObjectSize| if one.name.is_empty() { "asked for" } else { one.name };
    let table = Table::of(
        &size.objects,
        |one| format!("{} {}", name(one), one.tokens),
        vec![
            word("request", 0, name),
            number("tokens", 0, |one: &&ObjectSize| one.tokens),
            number("size", 0, |one: &&ObjectSize| of(one.bytes)),
            number("bytes", 1, |one: &&ObjectSize| one.bytes),
        ],
    );
    document.section("Objects, one file each", Some(table));
}

#[cfg(test)]
mod tests {
    use stormlp_show::text;

    use super::*;
    use crate::plan::{SizeRequest, size as computed};

    #[test]
    fn the_answer_is_last_on_one_screen() {
        for model in ["llama3.1-70b-instruct", "deepseek-v3"] {
            let request = SizeRequest {
                model: model.to_string(),
                tokens: vec![256],
                capacity_bytes: Some(8 << 40),
            };
            let text = text::screen(&size(&computed(&request).unwrap()), 80);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.ends_with("for the mean request of 5623 tokens"), "{text}");
            assert!(words.contains("8.00 TiB holds"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.lines().count() <= 24, "{text}");
        }
    }
}
