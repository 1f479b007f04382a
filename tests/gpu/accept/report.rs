//! What was checked and what came out, as one Markdown file.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use crate::scene::Scene;

/// The report as it grows.
pub(crate) struct Report {
    begun: Instant,
    text: String,
    passed: u32,
    failed: Vec<String>,
    missed: Vec<String>,
    skipped: Vec<String>,
    part: String,
}

impl Report {
    pub(crate) fn new(scene: &Scene) -> Self {
        let (title, note) = match scene.emulated {
            true => (
                "EMULATED acceptance run of stormlp: no GPU took part",
                "A double stands for libcuda and libcufile. It shows that the run works and that \
                 what stormlp says is consistent. No figure here is one of a GPU.",
            ),
            false => (
                "Acceptance run of stormlp on a GPU",
                "Overheads are pairs in the order A B B A, with both waiting by spinning.",
            ),
        };
        println!("{title}");
        Self {
            begun: Instant::now(),
            text: format!("# {title}\n\n{note}\n"),
            passed: 0,
            failed: Vec::new(),
            missed: Vec::new(),
            skipped: Vec::new(),
            part: String::new(),
        }
    }

    /// Begins a part.
    pub(crate) fn part(&mut self, name: &str) {
        println!("-- {name} ({:.0} s)", self.begun.elapsed().as_secs_f64());
        self.part = name.to_string();
        let _ = write!(self.text, "\n## {name}\n\n");
    }

    fn line(&mut self, verdict: &str, what: &str, detail: &str) {
        println!("{verdict:7} {what}: {detail}");
        let _ = writeln!(self.text, "- **{verdict}** {what}: {detail}");
    }

    /// Something that holds.
    pub(crate) fn pass(&mut self, what: &str, detail: impl AsRef<str>) {
        self.passed += 1;
        self.line("ok", what, detail.as_ref());
    }

    /// Something that does not hold.
    pub(crate) fn fail(&mut self, what: &str, detail: impl AsRef<str>) {
        self.failed
            .push(format!("{}: {what}: {}", self.part, detail.as_ref()));
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

    /// Whether something holds, with the reason where it does not.
    pub(crate) fn check(&mut self, what: &str, verdict: Result<String, String>) {
        match verdict {
            Ok(detail) => self.pass(what, detail),
            Err(why) => self.fail(what, why),
        }
    }

    /// Writes the report; the exit code says whether all holds.
    pub(crate) fn finish(mut self, scene: &Scene) -> ExitCode {
        let seconds = self.begun.elapsed().as_secs_f64();
        let mut summary = format!(
            "\n## Summary\n\n{} checks hold, {} do not, {} goals were missed, {} were skipped, in \
             {seconds:.0} s.\n\n",
            self.passed,
            self.failed.len(),
            self.missed.len(),
            self.skipped.len()
        );
        for (name, lines) in [
            ("FAILED", &self.failed),
            ("MISSED", &self.missed),
            ("skipped", &self.skipped),
        ] {
            for line in lines {
                let _ = writeln!(summary, "- **{name}** {line}");
            }
        }
        println!("{summary}");
        self.text.push_str(&summary);
        if let Err(error) = std::fs::write(&scene.report, &self.text) {
            println!("{} cannot be written: {error}", scene.report.display());
            return ExitCode::FAILURE;
        }
        println!("report: {}", scene.report.display());
        match self.failed.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
