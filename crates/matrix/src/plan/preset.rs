//! Presets: named matrices as YAML, in `configs/matrix/` and embedded in the program.
//!
//! The keys are option names of `stormlp gds`; options on the command line override a preset's
//! entries.

use serde::Deserialize;

use super::choice::{IoSize, PathChoice, Span};
use super::request::MatrixRequest;
use stormlp_core::operation::Operation;
use stormlp_core::printable::printable;
use stormlp_core::units::{parse_duration, parse_size_sweep};

const PRESETS: [(&str, &str); 5] = [
    ("quick", include_str!("../../../../configs/matrix/quick.yaml")),
    ("data-preparation", include_str!("../../../../configs/matrix/data-preparation.yaml")),
    ("training", include_str!("../../../../configs/matrix/training.yaml")),
    ("inference", include_str!("../../../../configs/matrix/inference.yaml")),
    ("full", include_str!("../../../../configs/matrix/full.yaml")),
];

/// Why a preset cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("`{0}` is not a preset: use one of{list}", list = described())]
    Unknown(String),
    /// Its YAML is invalid.
    #[error("the preset `{name}` cannot be read: {fault}")]
    Malformed {
        /// Its name.
        name: String,
        /// What is wrong with it.
        fault: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PresetFile {
    description: String,
    path: Vec<String>,
    op: Vec<Operation>,
    io_size: Vec<String>,
    threads: Vec<u32>,
    queue_depth: Option<Vec<u32>>,
    duration: Option<String>,
    passes: Option<u32>,
}

/// The names of all presets.
pub fn preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// The presets and what each measures, one per line.
fn described() -> String {
    let line = |(name, text): &(&str, &str)| {
        let description = serde_yaml::from_str::<PresetFile>(text).map(|file| file.description);
        format!("\n  {name:<17} {}", description.unwrap_or_default())
    };
    PRESETS.iter().map(line).collect()
}

/// Applies the preset `name` to `request`.
///
/// # Errors
/// If there is no such preset.
pub fn apply_preset(name: &str, request: &mut MatrixRequest) -> Result<(), PresetError> {
    let (_, text) = (PRESETS.iter())
        .find(|(known, _)| *known == name)
        .ok_or_else(|| PresetError::Unknown(printable(name).into_owned()))?;
    apply_text(name, text, request)
}

/// Applies the YAML `text` of a preset called `name` to `request`.
///
/// # Errors
/// If the text is not a valid preset.
pub fn apply_text(name: &str, text: &str, request: &mut MatrixRequest) -> Result<(), PresetError> {
    let malformed = |fault: String| PresetError::Malformed { name: name.to_string(), fault };
    let file: PresetFile = serde_yaml::from_str(text).map_err(|e| malformed(e.to_string()))?;
    request.name = name.to_string();
    request.fit_files = true;
    request.paths = match file.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["auto"] => PathChoice::Auto,
        ["all"] => PathChoice::All,
        ref names => {
            let paths: Result<_, String> = names.iter().map(|name| name.parse()).collect();
            PathChoice::Wanted(paths.map_err(malformed)?)
        }
    };
    request.ops = file.op;
    request.threads = file.threads;
    let mut io_sizes = Vec::new();
    for text in &file.io_size {
        let sizes = parse_size_sweep(text).map_err(|e| malformed(e.to_string()))?;
        io_sizes.extend(sizes.into_iter().map(|size| IoSize::fixed(size.0)));
    }
    request.io_sizes = io_sizes;
    if let Some(depths) = file.queue_depth {
        request.queue_depths = depths;
    }
    if let Some(duration) = file.duration {
        let duration = parse_duration(&duration).map_err(|e| malformed(e.to_string()))?;
        request.span = Span::Seconds(duration.as_secs_f64());
    }
    if let Some(passes) = file.passes {
        request.span = Span::Passes(passes);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;
    use stormlp_core::path::PathKind;

    fn preset(name: &str) -> MatrixRequest {
        let mut request = MatrixRequest::plain(PathBuf::from("data"));
        apply_preset(name, &mut request).unwrap();
        request
    }

    #[test]
    fn every_preset_is_a_matrix() {
        for name in preset_names() {
            let request = preset(name);
            assert_eq!(request.name, name);
            assert!(!request.io_sizes.is_empty() && !request.threads.is_empty());
            assert!(!matches!(request.paths, PathChoice::Named(_)), "{name}");
        }
        let full = preset("full");
        assert_eq!(full.paths.paths(), [PathKind::Gds, PathKind::CpuGpu, PathKind::PageCache]);
        let cells = full.ops.len() * full.io_sizes.len() * full.threads.len() * 3;
        assert_eq!(cells, 432);
    }

    #[test]
    fn unknown_presets_and_keys_are_refused_by_name() {
        let mut request = MatrixRequest::plain(PathBuf::from("data"));
        let error = apply_preset("fast", &mut request).unwrap_err().to_string();
        assert!(
            error.contains("`fast`") && error.contains("\n  quick             small and large"),
            "{error}"
        );
        let text =
            "description: x\npath: [cpu]\nop: [read]\nio-size: [1M]\nthreads: [1]\nthread: 1\n";
        let error = apply_text("mine", text, &mut request).unwrap_err().to_string();
        assert!(error.contains("thread"), "{error}");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let mut request = MatrixRequest::plain(PathBuf::from("data"));
            let _ = apply_text("x", &text, &mut request);
        }
    }
}
