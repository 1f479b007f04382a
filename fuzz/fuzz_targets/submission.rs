#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_model::submission::tree::{Content, Entry, Tree};
use stormlp_model::submission::{RankFigures, Submission, check, system_yaml};

// A tree whose files hold parts of the input, and the input as each of the files that are parsed.
fuzz_target!(|text: &str| {
    let _ = RankFigures::parse(text);
    let _ = system_yaml::faults(text);
    let mut tree = Tree::default();
    let leaf = "closed/a/results/s/training/unet3d/run/20260101_000000";
    let folders = leaf.match_indices('/').map(|(at, _)| &leaf[..at]);
    for folder in folders.chain([leaf]) {
        tree.add(folder, Entry::Folder);
    }
    let names = [
        "summary.json",
        "x_metadata.json",
        "provenance.json",
        "fs_separation.json",
        "dlio_config/overrides.yaml",
        "dlio_config/config.yaml",
    ];
    for (name, part) in names.iter().zip(text.split('\0').cycle()) {
        let content = Content::Text(part.to_string());
        let bytes = part.len() as u64;
        tree.add(format!("{leaf}/{name}"), Entry::File { bytes, content });
    }
    let _ = check(&Submission::survey(tree, None));
});
