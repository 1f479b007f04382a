//! Whether this machine has a direct route to the folder, and what can prove it.

use serde_json::Value;

use crate::report::Report;
use crate::route::{Claim, Expected, Finding, Route};
use crate::scene::Scene;

/// The direct route, found by one transfer that may fall back and one that must not.
#[derive(Debug, Clone)]
pub(crate) struct Direct {
    /// What proves that it is there, or why it is not.
    there: Result<String, String>,
    /// What tells the route of transfers that may fall back: `counters`, `nvidia-fs` or nothing.
    told_by: Option<String>,
    /// What cuFile says that it has a direct route to; an error where it moved nothing at all.
    targets: Result<Option<String>, String>,
    /// Version of libcufile, `(1, 20)`.
    version: (u32, u32),
}

impl Direct {
    /// Tries it in a folder of the scene.
    pub(crate) fn find(scene: &Scene) -> Self {
        let folder = scene.folder("direct").display().to_string();
        let cell = |more: &str| {
            let words = format!(
                "gds --dir {folder} --path gds --device cuda:0 --threads 1 --passes 1 \
                 --file-size 16M --cache as-is {more}"
            );
            let run = scene.report_of(&words)?;
            let cell = run["cells"][0].clone();
            match cell["status"] == "ok" {
                true => Ok(cell),
                false => Err(cell["reason"].to_string()),
            }
        };
        let allowed = cell("");
        let there = match cell("--require-gds") {
            Err(why) => Err(why),
            Ok(cell) => match proven(&cell, Expected::Direct) {
                Ok(Some((_, proof))) => Ok(proof),
                Ok(None) => Err("nothing proves it".to_string()),
                Err(why) => Err(why),
            },
        };
        let told = allowed
            .as_ref()
            .ok()
            .and_then(|cell| proven(cell, Expected::Either).ok().flatten());
        let cufile = allowed.map(|cell| cell["evidence"]["cufile"].clone());
        let known = cufile.as_ref().ok();
        let number = known.and_then(|cufile| cufile["library_version"].as_str());
        Self {
            there,
            told_by: told.map(|(_, proof)| proof),
            version: version(number.unwrap_or_default()),
            targets: cufile.map(|cufile| targets(&cufile["properties"])),
        }
    }

    /// The route that aligned transfers to and from GPU memory must take.
    pub(crate) fn expected(&self) -> Expected {
        match self.there {
            Ok(_) => Expected::Direct,
            Err(_) => Expected::Compat,
        }
    }

    /// The same for transfers of which some are not aligned, such as the ends of files.
    pub(crate) fn expected_in_part(&self) -> Expected {
        match self.expected() {
            Expected::Direct => Expected::SomeDirect,
            other => other,
        }
    }

    /// For batches with entries of so many bytes: before 1.18 cuFile moves those above its cache
    /// (1 MiB for each buffer) by POSIX calls.
    pub(crate) fn expected_of_batches(&self, bytes: u64) -> Expected {
        match bytes > 1 << 20 && self.version < (1, 18) {
            true => Expected::Either,
            false => self.expected(),
        }
    }

    /// What proves the routes of `paths` that nothing would tell otherwise: a fallback is made an
    /// error. It goes with cuFile's paths alone.
    pub(crate) fn option_of(&self, paths: &str) -> &'static str {
        match (&self.there, &self.told_by) {
            (Ok(_), None) if paths.starts_with("gds") => "--require-gds",
            _ => "",
        }
    }

    /// Whether cuFile counts routes itself.
    pub(crate) fn counts(&self) -> bool {
        self.told_by.as_deref() == Some("counters")
    }

    /// Tells what was found.
    pub(crate) fn tell(&self, report: &mut Report) {
        let what = "the direct route to this folder";
        match (&self.there, &self.targets) {
            (Ok(proof), _) => report.pass(what, format!("proven by {proof}")),
            (Err(_), Err(why)) => report.fail(what, format!("cuFile moved nothing: {why}")),
            (Err(why), Ok(Some(targets))) => report.fail(
                what,
                format!(
                    "cuFile names direct targets ({targets}), and it was not taken: {why}. Is the \
                     folder of --dir on such storage?"
                ),
            ),
            (Err(why), Ok(None)) => report.not_proven(
                what,
                format!("cuFile names no direct target on this machine: {why}"),
            ),
        }
        let how = match &self.told_by {
            Some(proof) => format!("told by {proof}"),
            None => match self.there {
                Ok(_) => "nothing tells it where cuFile may fall back, so cells run with \
                          --require-gds; docs/acceptance.md says how nvidia-fs is made to count"
                    .to_string(),
                Err(_) => "nothing tells it".to_string(),
            },
        };
        report.note("the route of a transfer", how);
    }
}

/// The route of a cell with its proof; `None` where it is not proven.
fn proven(cell: &Value, expected: Expected) -> Result<Option<(Route, String)>, String> {
    let claim = Claim {
        asked: "gds",
        evidence: &cell["evidence"],
        transfers: None,
    };
    Ok(match claim.judge(expected)? {
        Finding::Proven(route, proof) => Some((route, proof)),
        Finding::NotProven(_) => None,
    })
}

/// The direct targets among what cuFile says of itself.
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
