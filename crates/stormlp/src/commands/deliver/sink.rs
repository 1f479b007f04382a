//! The output formats, and the files they are written to.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use stormlp_show::document::Document;
use stormlp_show::text;

use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::saver::room_help;

/// How a result is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people, as wide as the terminal
    #[value(alias = "table")]
    Text,
    /// The whole report, for scripts
    Json,
    /// A line for each cell, epoch or checkpoint
    Csv,
    /// For a README or a ticket
    Markdown,
    /// gdsio's result lines, only for `stormlp gds`
    Gdsio,
    /// One self-contained page with charts, tables and evidence
    Html,
    /// For a site's monitoring
    Openmetrics,
    /// The first chart alone, for a README
    Svg,
}

impl Format {
    /// Whether it is a rendered document for people.
    pub(super) fn is_drawn(self) -> bool {
        matches!(self, Self::Text | Self::Markdown | Self::Html)
    }
}

/// The destination of the output: stdout, or the file of `--output`.
#[derive(Debug)]
pub(crate) struct Sink(pub(super) Option<PathBuf>);

impl Sink {
    /// Renders a document as text: for a terminal what fits, for a file everything.
    pub(crate) fn drawn(&self, document: &Document) -> String {
        match self.0 {
            None => output::drawn(document),
            Some(_) => text::render(document, None),
        }
    }

    /// Writes the output.
    ///
    /// # Errors
    /// If stdout or the file cannot be written.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        match &self.0 {
            None => output::print(text),
            Some(path) => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                fs::write(path, format!("{text}{end}"))
                    .map_err(|error| cannot_write("--output", path, error))
            }
        }
    }
}

/// The format for a file extension.
pub(super) fn of_file(path: &Path) -> Result<Format, Failure> {
    let extension = path.extension().and_then(|text| text.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("md" | "markdown") => Ok(Format::Markdown),
        Some("gdsio" | "log") => Ok(Format::Gdsio),
        Some("txt") => Ok(Format::Text),
        Some("html" | "htm") => Ok(Format::Html),
        Some("prom" | "openmetrics") => Ok(Format::Openmetrics),
        Some("svg") => Ok(Format::Svg),
        _ => Err(Failure::usage(format!(
            "{}: the extension is not that of a format: use .json, .csv, .md, .html, .txt, \
             .prom, .svg or .gdsio",
            path.display()
        ))),
    }
}

/// Checks that the folder for the file of an option exists.
///
/// # Errors
/// With exit code 4 if it does not.
pub(super) fn check_folder(option: &str, path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    match parent {
        Some(parent) if !parent.is_dir() => Err(Failure::machine(anyhow::anyhow!(
            "{option} {}: folder {} does not exist",
            path.display(),
            parent.display()
        ))
        .with_help(format!("mkdir -p {}", parent.display()))),
        _ => Ok(()),
    }
}

/// The failure to write the file of an option.
pub(super) fn cannot_write(option: &str, path: &Path, error: std::io::Error) -> Failure {
    let error = anyhow::Error::new(error).context(format!("cannot write {}", path.display()));
    let help = room_help(&error, &format!("a file elsewhere: {option} FILE"))
        .unwrap_or_else(|| format!("name a file that you may write to with {option}"));
    Failure::machine(error).with_help(help)
}
