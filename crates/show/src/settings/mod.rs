//! What makes two runs the same work: their numbers compare only where all of it is the same.
//!
//! Settings that people know by a name are told under it. All others of a plan count as well, each
//! by its place, but for those that are listed as no part of the work: so a field that is new to a
//! plan counts until somebody says that it does not.

mod places;

use std::collections::BTreeMap;

use serde::Serialize;
use stormlp_core::report::Report;
use stormlp_core::units::counted;
use stormlp_core::warning::WarningKind;

use crate::document::Facts;

/// More settings that differ are counted in a sentence.
const MOST_TOLD: usize = 8;
/// A longer value is cut in a sentence.
const MOST_LETTERS: usize = 100;

/// A setting in which two runs are not the same work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which one: `I/O sizes`, or its place in the report: `plan.transport.engine`.
    pub setting: String,
    /// What it was before.
    pub baseline: String,
    /// What it is now.
    pub value: String,
}

/// A setting that has a name.
#[derive(Debug, Clone)]
struct Setting {
    name: &'static str,
    words: String,
    /// The places of the plan that follow from it.
    explains: &'static [&'static str],
}

/// All that two runs must share to be the same work.
#[derive(Debug, Clone)]
pub struct Work {
    named: Vec<Setting>,
    /// What the plan has at every place, or what else belongs to the work.
    places: BTreeMap<String, String>,
}

impl Work {
    /// What a plan is, by its places alone, but for those that are `apart`.
    pub fn of_plan(plan: &impl Serialize, apart: &[&str]) -> Self {
        Self { named: Vec::new(), places: places::in_plan(plan, apart) }
    }

    /// Adds a setting that has a name; what `explains` lists of the plan follows from it.
    pub fn add(
        &mut self,
        name: &'static str,
        words: impl ToString,
        explains: &'static [&'static str],
    ) {
        self.named.push(Setting { name, words: words.to_string(), explains });
    }

    /// With something else that belongs to the work.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.places.insert(name.to_string(), value.to_string());
        self
    }

    /// With how the program was built and what was done to the storage.
    pub(crate) fn of_run<P, R>(mut self, report: &Report<P, R>) -> Self {
        let build = if report.head.host.release_build { "release" } else { "debug" };
        self.add("build", build, &[]);
        let impaired: Vec<&str> = (report.warnings.iter())
            .filter(|w| w.kind == WarningKind::Impaired)
            .map(|warning| &*warning.fact)
            .collect();
        let words = if impaired.is_empty() {
            "none".to_string()
        } else {
            format!("({})", impaired.join("; "))
        };
        self.add("impairment", words, &[]);
        self
    }

    /// The settings that have a name, for a page.
    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        for setting in &self.named {
            facts.add(setting.name, &setting.words);
        }
        facts
    }
}

/// `on` or `off`.
pub fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Where two runs are not the same work. What follows from a setting that differs is not told again.
pub fn differences(baseline: &Work, now: &Work) -> Vec<Difference> {
    let mut differences: Vec<Difference> = Vec::new();
    let mut explained: Vec<&str> = Vec::new();
    for setting in baseline.named.iter().chain(&now.named) {
        let words = |work: &Work| {
            let found = work.named.iter().find(|other| other.name == setting.name);
            found.map(|found| found.words.clone())
        };
        let known = differences.iter().any(|known| known.setting == setting.name);
        if words(baseline) != words(now) && !known {
            explained.extend(setting.explains);
            differences.push(difference(setting.name, words(baseline), words(now)));
        }
    }
    let follows = |place: &str| explained.iter().any(|of| places::is_within(place, of));
    let mut others: Vec<&String> = baseline.places.keys().chain(now.places.keys()).collect();
    others.sort();
    others.dedup();
    for place in others {
        let value = |work: &Work| work.places.get(place).cloned();
        if value(baseline) != value(now) && !follows(place) {
            differences.push(difference(place, value(baseline), value(now)));
        }
    }
    differences
}

fn difference(setting: &str, baseline: Option<String>, value: Option<String>) -> Difference {
    let or_not = |value: Option<String>| value.unwrap_or_else(|| "not set".to_string());
    Difference { setting: setting.to_string(), baseline: or_not(baseline), value: or_not(value) }
}

/// The same as a reader is told it; `None` where nothing differs.
pub(crate) fn difference_words(differences: &[Difference]) -> Option<String> {
    let told = differences.iter().take(MOST_TOLD).map(|one| {
        let (value, baseline) = (short(&one.value), short(&one.baseline));
        format!("{} {value} against {baseline}", one.setting)
    });
    let mut words: Vec<String> = told.collect();
    let left = differences.len().saturating_sub(MOST_TOLD);
    if left > 0 {
        words.push(format!("and {} more", counted(left as u64, "setting")));
    }
    (!words.is_empty()).then(|| format!("not the same work: {}", words.join("; ")))
}

fn short(value: &str) -> String {
    match value.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

/// Fields of `apart` that `plan` does not have: lists of what is not part of the work must not outlive
/// the fields that they name.
#[cfg(feature = "fixtures")]
pub fn absent_fields<'a>(plan: &impl Serialize, apart: &[&'a str]) -> Vec<&'a str> {
    let all = places::in_plan(plan, &[]);
    let absent = |field: &&&str| !all.keys().any(|place| places::is_within(place, field));
    apart.iter().filter(absent).copied().collect()
}
