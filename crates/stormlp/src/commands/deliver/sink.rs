//! The output formats, and where they are written.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use stormlp_show::document::Document;
use stormlp_show::text;

use super::file::replace;
use crate::output;
use stormlp_core::failure::Failure;

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
    /// CSV over time: a line for each interval of each quantity, for plotting
    SeriesCsv,
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

/// Parses a format; help does not list `refused`, for which a command has a better answer than that
/// there is no such format.
pub(crate) fn formats_without(refused: &[Format]) -> impl TypedValueParser<Value = Format> + use<> {
    let values = Format::value_variants().iter().filter_map(|format| {
        let value = format.to_possible_value()?;
        Some(value.hide(refused.contains(format)))
    });
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .try_map(|text| Format::from_str(&text, false))
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
                replace("--output", path, &format!("{text}{end}"))
            }
        }
    }
}

/// The format for a file extension.
pub(super) fn of_file(path: &Path) -> Result<Format, Failure> {
    let name = path.to_string_lossy().to_ascii_lowercase();
    if name.ends_with(".series.csv") {
        return Ok(Format::SeriesCsv);
    }
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
            "{}: the extension is not that of a format: use .json, .csv, .series.csv, .md, .html, \
             .txt, .prom, .svg or .gdsio",
            path.display()
        ))),
    }
}
