//! The built-in models as a section of a document.

use stormlp_core::units::ByteSize;
use stormlp_show::document::{Section, Table, number, word};

use crate::plan::{CheckpointWorkload, Layout};

/// A row per model: its size, and the job that saves it.
pub fn models(models: &[CheckpointWorkload]) -> Section {
    let layout =
        |one: &CheckpointWorkload| -> Layout { one.layout(one.parallelism_of_all_ranks()) };
    let table = Table::of(
        models,
        |_| String::new(),
        vec![
            word("model", 0, |one: &&CheckpointWorkload| one.name.clone()),
            number("parameters", 0, |one: &&CheckpointWorkload| {
                format!("{:.1} billion", one.architecture.parameters() as f64 / 1e9)
            }),
            number("ranks", 0, |one: &&CheckpointWorkload| one.parallelism_of_all_ranks().ranks()),
            number("checkpoint", 0, |one: &&CheckpointWorkload| {
                ByteSize(layout(one).total_bytes()).to_string()
            }),
        ],
    );
    let title = "Checkpoints: stormlp checkpoint MODEL".to_string();
    Section { title, table: Some(table), ..Section::default() }
}
