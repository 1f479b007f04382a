//! Checks and their findings, as one Markdown file that is written line by line.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::route::Tally;

/// The exit code if no check failed and some routes are not proven, or there was no check.
const NOT_PROVEN: u8 = 3;

/// The report as it grows.
pub(crate) struct Report {
    begun: Instant,
    path: PathBuf,
    file: File,
    /// The error that kept a line from being written.
    unwritten: Option<io::Error>,
    passed: u32,
    failed: Vec<String>,
    missed: Vec<String>,
    skipped: Vec<String>,
    not_proven: Vec<String>,
    /// The routes of all cells and runs.
    routes: Tally,
    part: String,
}

impl Report {
    /// Begins the file of a run that works in the folder `work`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn new(path: &Path, emulated: bool, work: &Path) -> Result<Self, String> {
        let (title, note) = if emulated {
            (
                "EMULATED acceptance run of stormlp: no GPU took part",
                "A double stands for libcuda and libcufile. It shows that the run works and that \
                 stormlp's output is consistent. No figure here describes a GPU.",
            )
        } else {
            (
                "Acceptance run of stormlp on a GPU",
                "Overheads are pairs in the order A B B A, with both waiting by spinning.",
            )
        };
        println!("{title}");
        let unwritable =
            |error| format!("the report {} cannot be written: {error}", path.display());
        let mut report = Self {
            begun: Instant::now(),
            path: path.to_path_buf(),
            file: File::create(path).map_err(unwritable)?,
            unwritten: None,
            passed: 0,
            failed: Vec::new(),
            missed: Vec::new(),
            skipped: Vec::new(),
            not_proven: Vec::new(),
            routes: Tally::default(),
            part: String::new(),
        };
        let work = work.display();
        report.write(&format!(
            "# {title}\n\n{note}\n\nWithout a summary at its end this report is from an interrupted \
             run, which may have left files in {work}.\n"
        ));
        match report.unwritten.take() {
            Some(error) => Err(unwritable(error)),
            None => Ok(report),
        }
    }

    /// Adds to the file at once, so that a run that is interrupted has its lines there.
    fn write(&mut self, text: &str) {
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            self.unwritten.get_or_insert(error);
        }
    }

    /// Begins a part.
    pub(crate) fn part(&mut self, name: &str) {
        println!("-- {name} ({:.0} s)", self.begun.elapsed().as_secs_f64());
        self.part = name.to_string();
        self.write(&format!("\n## {name}\n\n"));
    }

    fn line(&mut self, verdict: &str, what: &str, detail: &str) {
        println!("{verdict:7} {what}: {detail}");
        self.write(&format!("- **{verdict}** {what}: {detail}\n"));
    }

    /// Something that holds.
    pub(crate) fn pass(&mut self, what: &str, detail: impl AsRef<str>) {
        self.passed += 1;
        self.line("ok", what, detail.as_ref());
    }

    /// Something that does not hold.
    pub(crate) fn fail(&mut self, what: &str, detail: impl AsRef<str>) {
        self.failed.push(format!("{}: {what}: {}", self.part, detail.as_ref()));
        self.line("FAILED", what, detail.as_ref());
    }

    /// A goal of speed that was not reached; no fault of the bytes.
    pub(crate) fn miss(&mut self, what: &str, detail: impl AsRef<str>) {
        self.missed.push(format!("{what}: {}", detail.as_ref()));
        self.line("MISSED", what, detail.as_ref());
    }

    /// Something that this machine has not.
    pub(crate) fn skip(&mut self, what: &str, detail: impl AsRef<str>) {
        self.skipped.push(format!("{what}: {}", detail.as_ref()));
        self.line("skipped", what, detail.as_ref());
    }

    /// A fact or a figure that is neither right nor wrong.
    pub(crate) fn note(&mut self, what: &str, detail: impl AsRef<str>) {
        self.line("fact", what, detail.as_ref());
    }

    /// Routes without evidence, which is not the same as a fault.
    pub(crate) fn not_proven(&mut self, what: &str, detail: impl AsRef<str>) {
        self.not_proven.push(format!("{what}: {}", detail.as_ref()));
        self.line("NOT PROVEN", what, detail.as_ref());
    }

    /// The routes of `what`, with `detail` on the other checks. Unproven ones are listed
    /// separately.
    pub(crate) fn routes(&mut self, what: &str, tally: &Tally, detail: &str) {
        self.routes.merge(tally);
        if tally.proven() > 0 {
            self.pass(what, format!("{detail}routes {}", tally.to_text()));
        }
        if let Some((count, why)) = tally.unproven() {
            self.not_proven(what, format!("{count} without a proven route: {why}"));
        }
    }

    /// Whether something holds, with the reason where it does not.
    pub(crate) fn check(&mut self, what: &str, verdict: Result<String, String>) {
        match verdict {
            Ok(detail) => self.pass(what, detail),
            Err(why) => self.fail(what, why),
        }
    }

    /// Ends the report of a run of so many processes; the exit code says whether all holds.
    pub(crate) fn finish(mut self, processes: u32) -> ExitCode {
        if self.passed == 0 && self.failed.is_empty() && self.missed.is_empty() {
            self.not_proven("the run", "nothing was checked");
        }
        let summary = self.summary(processes);
        println!("{summary}");
        self.write(&summary);
        if let Some(error) = &self.unwritten {
            println!("{} cannot be written: {error}", self.path.display());
            return ExitCode::FAILURE;
        }
        println!("report: {}", self.path.display());
        match (self.failed.is_empty(), self.not_proven.is_empty()) {
            (false, _) => ExitCode::FAILURE,
            (true, true) => ExitCode::SUCCESS,
            (true, false) => ExitCode::from(NOT_PROVEN),
        }
    }

    fn summary(&self, processes: u32) -> String {
        let unproven = self.routes.unproven().map_or(0, |(count, _)| count);
        let mut summary = format!(
            "\n## Summary\n\n{} checks hold, {} do not, {} goals were missed, {} were skipped, in \
             {:.0} s with {processes} processes.\n\nRoutes of cells and runs: {}.\n\nNot proven: {unproven} \
             cells and runs.\n\n",
            self.passed,
            self.failed.len(),
            self.missed.len(),
            self.skipped.len(),
            self.begun.elapsed().as_secs_f64(),
            self.routes.to_text(),
        );
        for (name, lines) in [
            ("FAILED", &self.failed),
            ("NOT PROVEN", &self.not_proven),
            ("MISSED", &self.missed),
            ("skipped", &self.skipped),
        ] {
            for line in lines {
                let _ = writeln!(summary, "- **{name}** {line}");
            }
        }
        summary
    }
}
