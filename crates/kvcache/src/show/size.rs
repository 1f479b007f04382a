//! The sizes of a model's caches as a document.

use stormlp_core::units::{GIB, format_duration};
use stormlp_show::document::{Document, Quantity, Table, number, word};

use super::size_of as of;
use crate::plan::{
    Attention, Fits, ObjectSize, Offered, READ_PER_WRITTEN, SECONDS, SEED, Size, Written,
};

/// What the caches take, what fits, what a run writes, and what MLPerf's options ask for.
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
    let kept = match model.attention {
        Attention::Heads { heads, dimension } => {
            format!("key and value of {heads} heads × {dimension}")
        }
        Attention::Latent { elements } => format!("one vector of {elements} for all heads"),
    };
    let of_layer = size.bytes_per_token_and_layer;
    let layers = format!("{} × {kept}, float16: {of_layer} bytes a token each", model.layers);
    document.brief.add("layers", layers);
    if let Some(Fits { capacity_bytes, tokens, mean_objects }) = size.fits {
        let space = of(capacity_bytes);
        let what = format!("{space} holds {tokens} tokens, or {mean_objects} mean requests");
        document.brief.add("capacity", what);
    }
    if let Some(Written { rate_bytes_per_second, duration_seconds, bytes: [from, to] }) =
        size.written
    {
        let [fewest, most] = READ_PER_WRITTEN;
        document.brief.add(
            "written",
            format!(
                "{} to {} in {} at {}/s, if {fewest} to {most} bytes are read for each written, as \
                 published runs did",
                of(from),
                of(to),
                format_duration(duration_seconds),
                of(rate_bytes_per_second)
            ),
        );
    }
    objects(size, &mut document);
    options(size, &mut document);
    document
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

/// What the users of MLPerf's options with this model ask for.
fn options(size: &Size, document: &mut Document) {
    if size.options.is_empty() {
        return;
    }
    let gib = |bytes: f64| Quantity::neutral(bytes / GIB as f64, "GiB/s");
    let table = Table::of(
        &size.options,
        |one| one.option.number.to_string(),
        vec![
            word("option", 0, |one: &&Offered| {
                format!("{} {}", one.option.number, one.option.name)
            }),
            number("users", 0, |one: &&Offered| one.option.users),
            number("req/s", 0, |one: &&Offered| format!("{:.0}", one.requests_per_second)),
            number("write GiB/s", 0, move |one: &&Offered| gib(one.written_bytes_per_second)),
            number("read GiB/s", 0, move |one: &&Offered| gib(one.read_bytes_per_second)),
            number("memory", 1, |one: &&Offered| of(one.original_memory_bytes)),
        ],
    );
    let title = "MLPerf Storage v3.0: what users ask for, and what its client estimates to take";
    document.section(title, Some(table)).lines = vec![format!(
        "One client, seed {SEED}, {SECONDS} s; users never wait, so a small part is served."
    )];
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
                rate_bytes_per_second: None,
                duration_seconds: SECONDS,
            };
            let text = text::screen(&size(&computed(&request).unwrap()), 80);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.ends_with("for the mean request of 5623 tokens"), "{text}");
            assert!(words.contains("8.00 TiB holds"), "{text}");
            let has_option = words.contains("3 Large Model (70B) 70 175 215 1,047");
            assert_eq!(has_option, model == "llama3.1-70b-instruct", "{text}");
            assert!(!words.contains("Max Storage Stress"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.lines().count() <= 24, "{text}");
        }
    }
}
