#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_mlperf::submission::tree::{Entry, Tree};
use stormlp_mlperf::submission::{Submission, check, system_yaml};

// Trees of a training and a checkpointing result with parts of the input in their files, and the
// input as a description of a system.
fuzz_target!(|text: &str| {
    let _ = system_yaml::faults(text);
    let mut parts = text.split('\0').cycle();
    for above in ["closed/a", "Open/a"] {
        let mut tree = Tree::default();
        let training = format!("{above}/results/s/training/unet3d");
        let checkpointing = format!("{above}/results/s/checkpointing/llama3-8b");
        for leaf in [
            format!("{training}/run/20260101_000000"),
            format!("{training}/run/20260101_001000"),
            format!("{training}/datagen/20260101_000000"),
            format!("{checkpointing}/20260101_000000"),
            format!("{checkpointing}/20260101_001000"),
        ] {
            for name in [
                "summary.json",
                "x_metadata.json",
                "provenance.json",
                "fs_separation.json",
                "0_output.json",
                "0_per_epoch_stats.json",
                "1_per_epoch_stats.json",
                "training_run.stdout.log",
                "dlio.log",
                "dlio_config/overrides.yaml",
                "dlio_config/config.yaml",
                "dlio_config/hydra.yaml",
            ] {
                add(&mut tree, &format!("{leaf}/{name}"), parts.next());
            }
        }
        for path in [
            format!("{training}/run/results.json"),
            format!("{checkpointing}/results.json"),
            format!("{above}/systems/s.yaml"),
        ] {
            add(&mut tree, &path, parts.next());
        }
        let _ = check(&Submission::survey(tree));
    }
});

/// Adds a file, and the folders above it, as they are read from a disk.
fn add(tree: &mut Tree, path: &str, text: Option<&str>) {
    for (at, _) in path.match_indices('/') {
        tree.add(&path[..at], Entry::Folder);
    }
    tree.add(path, Entry::of(path, text.unwrap_or_default().to_string()));
}
