//! Storage presets: figures from public data sheets, kept as YAML in `configs/storage/` and built
//! into the program. Each file names its source.

use serde::{Deserialize, Serialize};

use super::storage::StorageModel;
use stormlp_core::failure::Problems;
use stormlp_core::names::nearest;
use stormlp_core::printable::printable;

const PRESETS: [(&str, &str); 8] = [
    ("solidigm-d7-ps1010", include_str!("../../../../configs/storage/solidigm-d7-ps1010.yaml")),
    ("solidigm-d7-p5810", include_str!("../../../../configs/storage/solidigm-d7-p5810.yaml")),
    ("solidigm-d5-p5336", include_str!("../../../../configs/storage/solidigm-d5-p5336.yaml")),
    ("solidigm-d3-s4520", include_str!("../../../../configs/storage/solidigm-d3-s4520.yaml")),
    ("samsung-pm9a3", include_str!("../../../../configs/storage/samsung-pm9a3.yaml")),
    ("micron-9400", include_str!("../../../../configs/storage/micron-9400.yaml")),
    ("kioxia-cm7-r", include_str!("../../../../configs/storage/kioxia-cm7-r.yaml")),
    ("kingston-dc600m", include_str!("../../../../configs/storage/kingston-dc600m.yaml")),
];

/// A device with published figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preset {
    /// Name for `--storage`.
    pub name: &'static str,
    /// One-line description.
    pub description: String,
    /// Source of the figures.
    pub source: String,
    /// One such device.
    pub storage: StorageModel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetFile {
    description: String,
    source: String,
    /// The figures in the syntax of `--storage`.
    storage: String,
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The preset of this name.
///
/// # Errors
/// If there is none; the error suggests the nearest name.
///
/// # Panics
/// If a preset that is built in is invalid.
pub fn find(name: &str) -> Result<Preset, Problems> {
    let mut problems = Problems::default();
    let lower = name.to_ascii_lowercase();
    let Some((name, text)) = PRESETS.iter().find(|(known, _)| *known == lower) else {
        // `d7-ps1010` is recognised, too, but the vendor has to be given.
        let ending = names().find(|known| known.ends_with(&format!("-{lower}")));
        let meant = ending
            .or_else(|| nearest(&lower, names()))
            .map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        problems.plan(
            format!("--storage: there is no preset `{}`{meant}", printable(name)),
            format!(
                "use one of {}, or figures such as read=14.5GB/s,latency=80us",
                names().collect::<Vec<_>>().join(", ")
            ),
        );
        return Err(problems);
    };
    // They are built in, and a test reads all of them.
    let file: PresetFile = serde_yaml::from_str(text).expect("a preset is valid YAML");
    let storage = file.storage.parse().expect("a preset has valid figures");
    Ok(Preset { name, description: file.description, source: file.source, storage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_one_device_with_a_source() {
        for name in names() {
            let preset = find(name).unwrap();
            assert_eq!(preset.storage.devices, 1, "{name}");
            assert!(preset.storage.problems().is_empty(), "{name}");
            assert!(!preset.source.is_empty(), "{name}");
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        for (typed, meant) in
            [("solidigm-d7-ps1011", "solidigm-d7-ps1010"), ("PM9A3", "samsung-pm9a3")]
        {
            let message = find(typed).unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean `{meant}`?")), "{message}");
        }
        assert!(!find("tape").unwrap_err().to_string().contains("mean"));
    }
}
