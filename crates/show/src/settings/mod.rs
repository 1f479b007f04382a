//! What makes two runs the same work: numbers are comparable only if all of it matches.
//!
//! Well-known settings are shown by name. All other fields of a plan are compared by their place,
//! except those listed as not part of the work: so a new field of a plan is compared unless it is
//! explicitly excluded.

mod places;

use std::collections::BTreeMap;

use serde::Serialize;
use stormlp_core::report::Report;
use stormlp_core::units::counted;
use stormlp_core::warning::WarningKind;

use crate::document::Facts;

/// Maximum number of differing settings in a sentence; more are counted.
const MOST_TOLD: usize = 8;
/// Longer values are truncated in a sentence.
const MOST_LETTERS: usize = 100;

/// A setting that makes two runs different work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting: `I/O sizes`, or its place in the report: `plan.transport.engine`.
    pub setting: String,
    /// Its baseline value.
    pub baseline: String,
    /// Its current value.
    pub value: String,
}

/// A named setting.
#[derive(Debug, Clone)]
struct NamedSetting {
    name: &'static str,
    words: String,
    /// The places in the plan that follow from it.
    explains: &'static [&'static str],
}

/// Everything that must match for two runs to be the same work.
#[derive(Debug, Clone)]
pub struct Work {
    named: Vec<NamedSetting>,
    /// The values at every place of the plan, and other parts of the work.
    places: BTreeMap<String, String>,
}

impl Work {
    /// The work of a plan by its places, except those in `apart`.
    pub fn of_plan(plan: &impl Serialize, apart: &[&str]) -> Self {
        Self { named: Vec::new(), places: places::in_plan(plan, apart) }
    }

    /// Adds a named setting; the plan's places in `explains` follow from it.
    pub fn add(
        &mut self,
        name: &'static str,
        words: impl ToString,
        explains: &'static [&'static str],
    ) {
        self.named.push(NamedSetting { name, words: words.to_string(), explains });
    }

    /// Adds something else that is part of the work.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.places.insert(name.to_string(), value.to_string());
        self
    }

    /// Adds how the program was built and the state of the storage.
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

    /// The named settings, for a page.
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

/// The differences between the work of two runs. Consequences of a differing setting are omitted.
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

/// The differences as text; `None` if there are none.
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

/// Fields of `apart` that `plan` lacks: exclusion lists must not outlive the fields that they name.
#[cfg(feature = "fixtures")]
pub fn absent_fields<'a>(plan: &impl Serialize, apart: &[&'a str]) -> Vec<&'a str> {
    let all = places::in_plan(plan, &[]);
    let absent = |field: &&&str| !all.keys().any(|place| places::is_within(place, field));
    apart.iter().filter(absent).copied().collect()
}
