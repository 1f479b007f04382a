//! Whether this machine has a direct route to the folder, and its possible proof.

use std::path::Path;

use serde_json::Value;

use crate::report::Report;
use crate::route::{Claim, Expected, Finding};

/// The direct route, found by one transfer that may fall back and one that must not.
#[derive(Debug, Clone)]
pub(crate) struct Direct {
    there: There,
    /// The source that shows the route of transfers that may fall back: `counters`, `nvidia-fs` or
    /// none.
    told_by: Option<String>,
    /// The direct targets that cuFile lists; an error if it moved no byte.
    targets: Result<Option<String>, String>,
    /// Version of libcufile, `(1, 20)`.
    version: (u32, u32),
    /// cuFile's buffer for an entry of a batch.
    buffer_bytes: u64,
}

/// Whether the direct route is there.
#[derive(Debug, Clone)]
enum There {
    /// By this proof.
    Proven(String),
    /// Bytes moved with fallbacks forbidden, without a proof of the route.
    NotProven(String),
    /// It could not be taken, with the reason.
    No(String),
}

/// cuFile's buffer where stormlp does not tell it: as it is without a `cufile.json`.
const DEFAULT_BUFFER_BYTES: u64 = 1 << 20;

impl Direct {
    /// Tries it in a folder; `report_of` runs stormlp with these words.
    pub(crate) fn find(folder: &Path, report_of: impl Fn(&str) -> Result<Value, String>) -> Self {
        let folder = folder.display();
        let cell = |more: &str| {
            let words = format!(
                "gds --dir {folder} --path gds --device cuda:0 --threads 1 --duration 1x \
                 --file-size 16M --cache as-is {more}"
            );
            let run = report_of(&words)?;
            let cell = run["cells"][0].clone();
            if cell["status"] == "ok" {
                Ok((cell, run["host"]["cufile_buffer_bytes"].as_u64()))
            } else {
                Err(cell["reason"].to_string())
            }
        };
        let allowed = cell("");
        let there = match cell("--require gds") {
            Err(why) => There::No(why),
            Ok((cell, _)) => match judge(&cell, Expected::Direct) {
                Ok(Finding::Proven(_, proof)) => There::Proven(proof),
                Ok(Finding::NotProven(why)) => There::NotProven(why),
                Err(why) => There::No(why),
            },
        };
        let known = allowed.as_ref().ok();
        let told_by = known.and_then(|(cell, _)| match judge(cell, Expected::Either) {
            Ok(Finding::Proven(_, proof)) => Some(proof),
            _ => None,
        });
        let buffer = known.and_then(|(_, buffer)| *buffer);
        let cufile = allowed.map(|(cell, _)| cell["evidence"]["direct_storage"].clone());
        let known = cufile.as_ref().ok();
        let number = known.and_then(|cufile| cufile["library_version"].as_str());
        Self {
            there,
            told_by,
            buffer_bytes: buffer.unwrap_or(DEFAULT_BUFFER_BYTES),
            version: version(number.unwrap_or_default()),
            targets: cufile.map(|cufile| targets(&cufile["properties"])),
        }
    }

    /// The route that aligned transfers to and from GPU memory must use.
    pub(crate) fn expected(&self) -> Expected {
        match self.there {
            There::Proven(_) => Expected::Direct,
            There::NotProven(_) => Expected::Either,
            There::No(_) => Expected::Compat,
        }
    }

    /// The same for transfers of which some are not aligned, such as the ends of files.
    pub(crate) fn expected_in_part(&self) -> Expected {
        match self.expected() {
            Expected::Direct => Expected::SomeDirect,
            other => other,
        }
    }

    /// For batches with entries of so many bytes: before 1.18 cuFile moves those above its buffer
    /// for one by POSIX calls.
    pub(crate) fn expected_of_batches(&self, bytes: u64) -> Expected {
        if bytes > self.buffer_bytes && self.version < (1, 18) {
            Expected::Either
        } else {
            self.expected()
        }
    }

    /// The option that proves the routes of `paths` without other evidence: a fallback becomes an
    /// error. Only for cuFile's paths.
    pub(crate) fn option_of(&self, paths: &str) -> &'static str {
        match (&self.there, &self.told_by) {
            (There::Proven(_), None) if paths.starts_with("gds") => "--require gds",
            _ => "",
        }
    }

    /// Whether cuFile counts routes itself.
    pub(crate) fn counts(&self) -> bool {
        self.told_by.as_deref() == Some("counters")
    }

    /// Reports the findings; `due` says why there should be a direct route, if so.
    pub(crate) fn tell(&self, due: Option<&str>, report: &mut Report) {
        let what = "the direct route to this folder";
        match (&self.there, &self.targets) {
            (There::Proven(proof), _) => report.pass(what, format!("proven by {proof}")),
            (There::NotProven(why), _) => report.not_proven(what, why),
            (There::No(_), Err(why)) => report.fail(what, format!("cuFile moved nothing: {why}")),
            (There::No(why), Ok(Some(targets))) => report.fail(
                what,
                format!(
                    "cuFile names direct targets ({targets}), but it was not used: {why}. Is the \
                     folder of --dir on such storage?"
                ),
            ),
            (There::No(why), Ok(None)) if due.is_some() => report.fail(
                what,
                format!(
                    "cells should be direct ({}), but were not: {why}",
                    due.unwrap_or_default()
                ),
            ),
            (There::No(why), Ok(None)) => report
                .not_proven(what, format!("cuFile names no direct target on this machine: {why}")),
        }
        let how = match &self.told_by {
            Some(proof) => format!("shown by {proof}"),
            None => match self.there {
                There::Proven(_) => {
                    "unknown where cuFile may fall back, so cells run with --require gds; \
                          tests/gpu/accept/README.md shows how to enable nvidia-fs's counters"
                        .to_string()
                }
                There::NotProven(_) | There::No(_) => "unknown".to_string(),
            },
        };
        report.note("the route of a transfer", how);
    }
}

/// The finding of a cell's evidence.
pub(crate) fn judge(cell: &Value, expected: Expected) -> Result<Finding, String> {
    let claim = Claim { asked: "gds", evidence: &cell["evidence"], transfers: None };
    claim.judge(expected)
}

/// The direct targets among cuFile's properties.
fn targets(properties: &Value) -> Option<String> {
    let said = properties.as_array()?.iter();
    let mut named = said.filter_map(|words| words.as_str()?.strip_prefix("direct targets: "));
    let targets = named.find(|targets| *targets != "none");
    targets.map(ToString::to_string)
}

/// A version such as `1.20` in numbers, which compare as they should.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
