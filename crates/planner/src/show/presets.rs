//! The list of storage presets.

use crate::plan::presets::Preset;

use stormlp_show::document::{Column, Document, Table};

/// The presets as a document.
pub fn presets(presets: &[Preset]) -> Document {
    let mut document = Document::new("Presets for --storage, with the figures of one drive");
    let mut table = Table::new([
        Column::words("name", 0),
        Column::words("drive", 1),
        Column::words("figures", 0),
        Column::words("source", 2),
    ]);
    for preset in presets {
        table.row(
            preset.name,
            vec![
                preset.name.into(),
                preset.description.as_str().into(),
                preset.storage.to_string().into(),
                preset.source.as_str().into(),
            ],
        );
    }
    document.table(table);
    document
}
