//! Where results go: the saved report, stdout in some format, and exports by extension.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use stormlp_model::matrix::MatrixReport;
use stormlp_report::document::Document;
use stormlp_report::matrix::{Columns, columns as matrix_columns, document, gdsio_lines};
use stormlp_report::{csv, markdown, text};
use stormlp_transfer::storage;

use crate::commands::saved;
use crate::exit::Failure;
use crate::output;
use crate::session::Session;

/// Where reports are saved when nothing is said.
const DEFAULT_RESULTS: &str = "stormlp-results";
/// Says so for commands that have no option for it.
const RESULTS_VARIABLE: &str = "STORMLP_RESULTS_DIR";

/// How a matrix is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a terminal.
    #[value(alias = "table")]
    Text,
    /// gdsio's result line, one for each cell that ran.
    Gdsio,
    /// The saved report itself.
    Json,
    /// A line for each cell.
    Csv,
    /// A table for a README or a ticket.
    Markdown,
}

impl Format {
    /// The format that a file's extension names.
    fn of_file(path: &Path) -> Result<Self, String> {
        let extension = path.extension().and_then(|text| text.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("json") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("gdsio" | "log") => Ok(Self::Gdsio),
            Some("txt") => Ok(Self::Text),
            _ => Err(format!(
                "{}: the extension names no format: use .json, .csv, .md, .txt or .gdsio",
                path.display()
            )),
        }
    }
}

fn parse_columns(text: &str) -> Result<Columns, String> {
    match text {
        "standard" => Ok(Columns::Standard),
        "study-a" => Ok(Columns::StudyA),
        "study-b" => Ok(Columns::StudyB),
        _ => Err(format!(
            "`{text}` is not a set of columns: use standard, study-a or study-b"
        )),
    }
}

/// Options for what becomes of the result.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct OutputArgs {
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Columns of table and markdown: standard, study-a, study-b
    #[arg(long, value_name = "SET", default_value = "standard", value_parser = parse_columns)]
    columns: Columns,

    /// Write the result to a file too; .json, .csv (appended to), .md, .txt or .gdsio; repeatable
    #[arg(long, value_name = "FILE")]
    export: Vec<PathBuf>,

    /// An earlier report to compare with, cell by cell
    #[arg(long, value_name = "REPORT")]
    baseline: Option<PathBuf>,

    /// Folder for saved reports
    #[arg(long, value_name = "DIR", env = RESULTS_VARIABLE, default_value = DEFAULT_RESULTS)]
    results_dir: PathBuf,
}

/// The same, opened: formats known, baseline read. What is wrong shows before the run.
#[derive(Debug)]
pub(crate) struct Outputs {
    format: Format,
    columns: Columns,
    per_job: bool,
    exports: Vec<(PathBuf, Format)>,
    baseline: Option<MatrixReport>,
    results_dir: PathBuf,
}

impl OutputArgs {
    /// Reads the baseline and makes sure that every export can be written.
    ///
    /// # Errors
    /// When an extension names no format, or the baseline cannot be read.
    pub(crate) fn open(self) -> Result<Outputs, Failure> {
        let is_table = matches!(self.format, Format::Text | Format::Markdown);
        if self.columns != Columns::Standard && !is_table {
            return Err(Failure::usage(
                "--columns study-a and study-b go with --format table and markdown",
            ));
        }
        let exports = (self.export.into_iter())
            .map(|path| Format::of_file(&path).map(|format| (path, format)))
            .collect::<Result<Vec<_>, String>>()
            .map_err(Failure::usage)?;
        for (path, format) in &exports {
            check_folder(path)?;
            if *format == Format::Csv {
                check_header(path, &matrix_columns())?;
            }
        }
        let baseline = (self.baseline.as_deref()).map(saved::matrix).transpose()?;
        Ok(Outputs {
            format: self.format,
            columns: self.columns,
            per_job: false,
            exports,
            baseline,
            results_dir: self.results_dir,
        })
    }
}

impl Outputs {
    /// What `stormlp gdsio` prints: its result line, and a line for each job with `-J`.
    pub(crate) fn gdsio(per_job: bool) -> Self {
        Self {
            format: Format::Gdsio,
            columns: Columns::Standard,
            per_job,
            exports: Vec::new(),
            baseline: None,
            results_dir: std::env::var_os(RESULTS_VARIABLE)
                .map_or_else(|| PathBuf::from(DEFAULT_RESULTS), PathBuf::from),
        }
    }

    /// The format of stdout.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// A new folder under the results, and the report's place in it.
    ///
    /// # Errors
    /// With exit code 4 when the folder cannot be made.
    pub(crate) fn report_path(&self, name: &str, session: &Session) -> Result<PathBuf, Failure> {
        let stem = format!("gds-{}-{}", file_safe(name), session.file_stamp());
        fs::create_dir_all(&self.results_dir).map_err(|e| cannot_save(&self.results_dir, e))?;
        for attempt in 1..1000 {
            let folder = match attempt {
                1 => self.results_dir.join(&stem),
                again => self.results_dir.join(format!("{stem}-{again}")),
            };
            match fs::create_dir(&folder) {
                Ok(()) => return Ok(folder.join("report.json")),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_save(&folder, error)),
            }
        }
        Err(Failure::machine(anyhow::anyhow!(
            "{} is full of reports of this second",
            self.results_dir.display()
        )))
    }

    /// Prints the result and writes the exports.
    ///
    /// # Errors
    /// When stdout or a file cannot be written.
    pub(crate) fn write(&self, report: &MatrixReport) -> Result<(), Failure> {
        for (path, format) in &self.exports {
            let written = match format {
                Format::Csv => append_csv(path, &self.document(report)),
                _ => self.text(*format, None, report).and_then(|text| {
                    fs::write(path, text).map_err(|error| cannot_save(path, error))
                }),
            };
            written?;
        }
        output::print(&self.text(self.format, output::width(), report)?)
    }

    fn text(
        &self,
        format: Format,
        width: Option<usize>,
        report: &MatrixReport,
    ) -> Result<String, Failure> {
        let bug = |error| Failure::bug(anyhow::Error::new(error));
        match format {
            Format::Text => Ok(text::render(&self.document(report), width)),
            Format::Gdsio => Ok(gdsio_lines(report, self.per_job)),
            Format::Json => output::json(report),
            Format::Csv => csv::render(&self.document(report), true).map_err(bug),
            Format::Markdown => Ok(markdown::render(&self.document(report))),
        }
    }

    fn document(&self, report: &MatrixReport) -> Document {
        let mut shown = document(report, self.columns);
        if let Some(baseline) = &self.baseline {
            let earlier = document(baseline, self.columns);
            shown.compare(&earlier, &report.head, &baseline.head);
        }
        shown
    }
}

/// Writes the report so that it is whole at any moment.
pub(crate) fn save(report: &MatrixReport, path: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_vec_pretty(report)?;
    storage::write_atomically(path, &json)?;
    Ok(())
}

/// Adds the cells to a CSV file, below a header when the file is new.
fn append_csv(path: &Path, document: &Document) -> Result<(), Failure> {
    let is_new = fs::metadata(path).map_or(true, |metadata| metadata.len() == 0);
    let rows = csv::render(document, is_new).map_err(|e| Failure::bug(anyhow::Error::new(e)))?;
    fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(rows.as_bytes()))
        .map_err(|error| cannot_save(path, error))
}

/// A CSV file that is there is added to, so its columns must be these.
fn check_header(path: &Path, columns: &[&str]) -> Result<(), Failure> {
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(());
    };
    match text.lines().next() {
        Some(header) if header != columns.join(",") => Err(Failure::machine(anyhow::anyhow!(
            "--export {}: the file has other columns, so nothing can be added to it",
            path.display()
        ))
        .with_help("name another file, or remove this one")),
        _ => Ok(()),
    }
}

fn check_folder(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    match parent {
        Some(parent) if !parent.is_dir() => Err(Failure::machine(anyhow::anyhow!(
            "--export {}: there is no folder {}",
            path.display(),
            parent.display()
        ))
        .with_help(format!("mkdir -p {}", parent.display()))),
        _ => Ok(()),
    }
}

fn cannot_save(path: &Path, error: std::io::Error) -> Failure {
    Failure::machine(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
        .with_help("name a folder that you may write to: --results-dir DIR or STORMLP_RESULTS_DIR")
}

/// A name that is one folder's name everywhere.
fn file_safe(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    name.chars().map(safe).collect()
}
