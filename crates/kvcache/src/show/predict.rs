//! A prediction for KV caches as a document.

use stormlp_core::units::GIB;
use stormlp_show::document::{Cell, Column, Document, Quantity, Table};

use super::size_of;
use crate::plan::{Predicted, READ_PER_WRITTEN};

/// The times to load prefixes, what prompts storage feeds, and what MLPerf's options come to.
pub fn predict(found: &Predicted) -> Document {
    let request = &found.request;
    let longest = found.loads.iter().max_by_key(|load| load.prefix_tokens);
    let longest = longest.map_or(String::new(), |load| {
        format!(
            "a prefix of {} tokens in {} alone, {} with {} at a time; ",
            load.prefix_tokens,
            time(load.alone_seconds),
            time(load.together_seconds),
            request.threads
        )
    });
    let bound = if found.write_bytes_per_second.is_none() { "fewer than " } else { "at most " };
    let mut document = Document::new(format!(
        "kvcache {}, predicted: {longest}{bound}{:.2} prompts/s{}",
        request.model,
        found.prompts_per_second,
        found.servers.map_or(String::new(), |servers| format!(", which is {servers:.1} servers"))
    ));
    let gib = |bytes: f64| format!("{:.3} GiB/s", bytes / GIB as f64);
    let writes = match found.write_bytes_per_second {
        Some(rate) => gib(rate),
        None => "unknown, taken to cost nothing (write= is missing)".to_string(),
    };
    document.brief.add("storage", &found.storage);
    document
        .brief
        .add("rates", format!("reads {}, writes {writes}", gib(found.read_bytes_per_second)));
    document.brief.add(
        "prompts",
        format!(
            "chunks of {} tokens, {} reads for each prefix written, {} new tokens",
            request.chunk_tokens, request.reads_per_prefix, request.new_tokens
        ),
    );
    document.brief.add(
        "assumes",
        "nothing was run: every prefix is found, loads share bandwidth alike, reads and writes take \
         turns, and the client costs no time",
    );
    loads(found, &mut document);
    options(found, &mut document);
    document
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

fn loads(found: &Predicted, document: &mut Document) {
    let mut table = Table::new([
        Column::numbers("tokens", 0),
        Column::numbers("size", 0),
        Column::numbers("alone ms", 0),
        Column::numbers("together ms", 0).leading(),
        Column::numbers("% of first token", 0),
        Column::numbers("faster than computing", 0),
    ]);
    let known = |value: Option<f64>, unit| match value {
        Some(value) => Cell::from(Quantity::neutral(value, unit)),
        None => "-".into(),
    };
    for load in &found.loads {
        let cells = vec![
            load.prefix_tokens.to_string().into(),
            size_of(load.bytes).into(),
            Quantity::lower(load.alone_seconds * 1e3, "ms").into(),
            Quantity::lower(load.together_seconds * 1e3, "ms").into(),
            known(load.storage_share.map(|share| share * 100.0), "%"),
            known(load.saves_times, "times"),
        ];
        table.row(load.prefix_tokens.to_string(), cells);
    }
    document.section("Time to load a prefix", Some(table));
}

fn options(found: &Predicted, document: &mut Document) {
    let mut table = Table::new([
        Column::words("option", 0),
        Column::numbers("users", 0),
        Column::numbers("asked read GiB/s", 0),
        Column::numbers("predicted", 0),
        Column::numbers("to", 0),
    ]);
    let gib = |bytes: f64| Cell::from(Quantity::neutral(bytes / GIB as f64, "GiB/s"));
    for one in &found.options {
        let (option, asked) = (&one.offered.option, one.offered.read_bytes_per_second);
        let [lowest, highest] = match one.read_bytes_per_second {
            Some(rates) => rates.map(|rate| gib(rate.min(asked))),
            None => ["?", "?"].map(Cell::from),
        };
        let name = format!("{} {}", option.number, option.name);
        let cells = vec![name.into(), option.users.to_string().into(), gib(asked), lowest, highest];
        table.row(option.number.to_string(), cells);
    }
    let [fewest, most] = READ_PER_WRITTEN;
    document.section("MLPerf Storage v3.0: read GiB/s of one client", Some(table)).lines =
        vec![format!("With {fewest} to {most} bytes read for each written, as in published runs.")];
}
