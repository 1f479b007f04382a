//! The editions that MLCommons knows, and their comparability classes: the rows of its table.

/// Every edition of the table. Only the last has rules in the newest checker.
pub(super) const EDITIONS: [&str; 4] = ["0.5", "1.0", "2.0", "3.0"];
/// The edition that the newest checker has rules of.
pub(super) const CHECKED: &str = "3.0";

/// DLIO's commits that closed results of v3.0 ran, by their first digits.
const DLIO_OF_V3: [&str; 10] = [
    "edaf4bb", "24b13d7", "a7d56e7", "f6796ed", "252a54b", "86945a7", "c338e07", "95c6a9d",
    "17d982a", "21c0723",
];

/// Whether results of `edition` may have run this commit of DLIO; editions without a list accept
/// any.
pub(super) fn accepts_dlio(edition: &str, commit: &str) -> bool {
    edition != CHECKED || DLIO_OF_V3.iter().any(|known| commit.starts_with(known))
}

/// A comparability class of the closed division: runs of one family and model on one accelerator
/// whose configuration has one of these hashes are the same workload in these editions.
pub(super) struct Class {
    pub(super) name: &'static str,
    family: &'static str,
    model: &'static str,
    /// `None` stands for any, or none.
    accelerator: Option<&'static str>,
    hashes: &'static [&'static str],
    editions: &'static [&'static str],
}

const fn class(
    name: &'static str,
    family: &'static str,
    model: &'static str,
    accelerator: Option<&'static str>,
    hashes: &'static [&'static str],
    editions: &'static [&'static str],
) -> Class {
    Class { name, family, model, accelerator, hashes, editions }
}

const TRAINING: &str = "training";
const CHECKPOINTING: &str = "checkpointing";
const V1_AND_V2: &[&str] = &["1.0", "2.0"];

#[rustfmt::skip]
const CLASSES: [Class; 19] = [
    class("unet3d-a100-A", TRAINING, "unet3d", Some("a100"), &["4c86124e6f33db13", "691cea309c4f2f52"], V1_AND_V2),
    class("unet3d-h100-A", TRAINING, "unet3d", Some("h100"), &["f4d46006aa421634", "0f3dd7a4bf6433a3"], V1_AND_V2),
    class("unet3d-b200-A", TRAINING, "unet3d", Some("b200"), &["0d3ad0dec188becd", "f636f5a57473fca2"], &["3.0"]),
    class("resnet50-a100-A", TRAINING, "resnet50", Some("a100"), &["61ae77b994223584", "4a03838105aa5808"], V1_AND_V2),
    class("resnet50-h100-A", TRAINING, "resnet50", Some("h100"), &["c8ec10780f4c9bd7", "03a7be3df904e1e7"], V1_AND_V2),
    class("cosmoflow-a100-A", TRAINING, "cosmoflow", Some("a100"), &["329a3541eb5c1a36", "b49b896e947a408b"], V1_AND_V2),
    class("cosmoflow-h100-A", TRAINING, "cosmoflow", Some("h100"), &["54541a1d49e87763", "4b7b36339a2a5b0d"], V1_AND_V2),
    class("retinanet-b200-A", TRAINING, "retinanet", Some("b200"), &["20c73f53486caba0"], &["3.0"]),
    class("retinanet-mi355-A", TRAINING, "retinanet", Some("mi355"), &["66c43604eb650987"], &["3.0"]),
    class("llama3-8b-A", CHECKPOINTING, "llama3-8b", None, &["68df04b7240e3fb0"], &["2.0", "3.0"]),
    class("llama3-70b-A", CHECKPOINTING, "llama3-70b", None, &["3c53fe70d64f91d4"], &["3.0"]),
    class("llama3-70b-B", CHECKPOINTING, "llama3-70b", None, &["c48a92d225d70ce8"], &["2.0"]),
    class("llama3-405b-A", CHECKPOINTING, "llama3-405b", None, &["7adcfa87a5c4c8e6"], &["3.0"]),
    class("llama3-405b-B", CHECKPOINTING, "llama3-405b", None, &["7e9f853cebd52aa6"], &["2.0"]),
    class("llama3-1t-A", CHECKPOINTING, "llama3-1t", None, &["45fd627ad9dc5f4c"], &["3.0"]),
    class("llama3-1t-B", CHECKPOINTING, "llama3-1t", None, &["0918b2db633242db"], &["2.0"]),
    class("llama3.1-8b-A", "kv_cache", "llama3.1-8b", None, &["04b508c33b9e34c8"], &["3.0"]),
    class("milvus-diskann-A", "vector_database", "milvus", None, &["ca2c35c3ac5e1435"], &["3.0"]),
    class("milvus-diskann-B", "vector_database", "milvus", None, &["dc1cbde618673c2f"], &["3.0"]),
];

/// The class of a closed run.
pub(super) fn find(
    (family, model): (&str, &str),
    accelerator: Option<&str>,
    hash: &str,
    edition: &str,
) -> Option<&'static Class> {
    CLASSES.iter().find(|class| {
        (class.family, class.model) == (family, model)
            && (class.accelerator.is_none() || class.accelerator == accelerator)
            && class.hashes.contains(&hash)
            && class.editions.contains(&edition)
    })
}
