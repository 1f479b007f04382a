//! The built-in models: the four of MLPerf Storage.

use super::parse::parse;
use super::workload::CheckpointWorkload;

/// Name and workload file of each built-in model.
const FILES: [(&str, &str); 4] = [
    ("llama3-8b", include_str!("../../../../configs/checkpoint/llama3-8b.yaml")),
    ("llama3-70b", include_str!("../../../../configs/checkpoint/llama3-70b.yaml")),
    ("llama3-405b", include_str!("../../../../configs/checkpoint/llama3-405b.yaml")),
    ("llama3-1t", include_str!("../../../../configs/checkpoint/llama3-1t.yaml")),
];

/// Names of the built-in models, smallest first.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The workload file of a built-in model, as YAML. MLPerf's spelling with underscores is accepted
/// too.
pub fn yaml(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-");
    FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in model.
pub fn load(name: &str) -> Option<CheckpointWorkload> {
    yaml(name).map(|text| parse(text, name).expect("the built-in files are checked by a test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_file_reads_and_bears_its_name() {
        for name in names() {
            let workload = load(name).unwrap();
            assert_eq!(workload.name, name);
            assert!(workload.architecture.problems().is_empty());
            assert_eq!((workload.writes, workload.reads), (Some(10), Some(10)));
        }
        assert!(load("llama3_70b").is_some());
        assert!(load("llama4").is_none());
    }
}
