//! The list of storage presets.

use crate::plan::presets::Preset;

use stormlp_show::document::{Document, Table, word};
use stormlp_show::records::Records;

/// The presets as a document.
pub fn presets(presets: &[Preset]) -> Document {
    let mut document = Document::new("Presets for --storage, with the figures of one drive");
    document.table(Table::of(
        presets,
        |preset| preset.name.to_string(),
        vec![
            word("name", 0, |preset: &&Preset| preset.name),
            word("drive", 1, |preset: &&Preset| preset.description.as_str()),
            word("figures", 0, |preset: &&Preset| preset.storage.to_string()),
            word("source", 2, |preset: &&Preset| preset.source.as_str()),
        ],
    ));
    let row = |preset: &Preset| {
        let figures = preset.storage.to_string();
        vec![preset.name.into(), preset.description.clone().into(), figures.into()]
    };
    let columns = vec!["name", "drive", "figures"];
    document.records = Records { columns, rows: presets.iter().map(row).collect() };
    document
}
