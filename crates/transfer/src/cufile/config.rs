//! The switches of PCI peer-to-peer DMA in cufile.json: it takes two, and libcufile ignores in silence
//! one that is missing or in the wrong place.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// The switches for local NVMe drives. Those in a RAID 0 and those over fabrics need `block.raid` and
/// `block.nvmeof` in the place of `block.nvme`.
const SWITCHES: [&str; 2] = ["properties.use_pci_p2pdma", "block.nvme.use_pci_p2pdma"];

/// The switches that the file in use lacks, in a sentence; `None` if it has both, or cannot be
/// understood.
pub(super) fn lacks_p2pdma() -> Option<String> {
    let named = std::env::var_os("CUFILE_ENV_PATH_JSON").filter(|path| !path.is_empty());
    let file = named.map_or_else(|| PathBuf::from("/etc/cufile.json"), PathBuf::from);
    // Without a file all of them are off.
    let lacking = lacking(&fs::read_to_string(&file).unwrap_or_else(|_| "{}".to_string()))?;
    Some(format!("{} does not set {lacking} to true", file.display()))
}

/// The switches that this text of a configuration lacks.
fn lacking(text: &str) -> Option<String> {
    let is_comment = |line: &str, at: usize| line[..at].matches('"').count().is_multiple_of(2);
    let bare = |line: &'_ str| {
        let comment = line.match_indices("//").find(|(at, _)| is_comment(line, *at));
        line[..comment.map_or(line.len(), |(at, _)| at)].to_string()
    };
    let config: Value = serde_json::from_str(&text.lines().map(bare).collect::<String>()).ok()?;
    let is_off = |switch: &&str| {
        config.pointer(&format!("/{}", switch.replace('.', "/"))) != Some(&Value::Bool(true))
    };
    let off = Vec::from_iter(SWITCHES.into_iter().filter(is_off));
    (!off.is_empty()).then(|| off.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_switches_count_at_their_places_alone() {
        let both = format!("{} and {}", SWITCHES[0], SWITCHES[1]);
        assert_eq!(lacking("{}"), Some(both));
        let properties = r#""properties": {"use_pci_p2pdma": true, "x": "//no comment"}"#;
        let of = |rest: &str| lacking(&format!("{{ // a comment: \"\n {properties}{rest} }}"));
        assert_eq!(of("").as_deref(), Some(SWITCHES[1]));
        let block = r#""block": {"nvme": {"use_pci_p2pdma": true}}"#;
        assert_eq!(of(&format!(", {block}")), None);
        assert_eq!(of(&format!(", \"fs\": {{{block}}}")).as_deref(), Some(SWITCHES[1]));
        assert_eq!(
            of(", \"block\": {\"nvme\": {\"use_pci_p2pdma\": 1}}").as_deref(),
            Some(SWITCHES[1])
        );
        assert_eq!(lacking("not a configuration"), None);
    }
}
