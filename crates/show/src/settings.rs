//! The settings that make two runs the same work: numbers are comparable only if all of it matches.
//!
//! Well-known settings are shown by name. All other fields of a plan are compared by their place,
//! except those listed as not part of the work: so a new field of a plan is compared unless it is
//! explicitly excluded.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::document::Facts;
use serde::Serialize;
use serde_json::Value;
use stormlp_core::facts::StorageOfRun;
use stormlp_core::pattern::fnv1a;
use stormlp_core::report::Report;
use stormlp_core::units::counted;
use stormlp_core::warning::WarningKind;

/// Maximum number of differing settings that are listed; more are counted.
const MOST_TOLD: usize = 8;
/// Longer values are truncated in such a line.
const MOST_LETTERS: usize = 100;

/// A setting that makes two runs different work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The setting: `I/O sizes`, an option as typed: `--engine`, or a place in the report:
    /// `plan.shuffle.files`.
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
    /// Places of the plan that follow from one option, and that option.
    options: &'static [(&'static str, &'static str)],
    /// The values at every place of the plan, and other parts of the work.
    places: BTreeMap<String, String>,
}

impl Work {
    /// The work of a plan by its places, except those in `apart`.
    pub fn of_plan(plan: &impl Serialize, apart: &[&str]) -> Self {
        Self { named: Vec::new(), options: &[], places: in_plan(plan, apart) }
    }

    /// Names the options that places of the plan follow from: `("cells.engine", "--engine")`.
    #[must_use]
    pub fn typed_as(mut self, options: &'static [(&'static str, &'static str)]) -> Self {
        self.options = options;
        self
    }

    /// The options that differences are named after.
    pub fn options(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().map(|(_, option)| *option)
    }

    /// The option that `place` follows from, or the place.
    fn typed<'a>(&self, place: &'a str) -> &'a str {
        let of = self.options.iter().find(|(of, _)| is_within(place, of));
        of.map_or(place, |(_, option)| option)
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

    /// A short number for the work on this storage, for labels: equal for the same work on data at
    /// the same place.
    pub(crate) fn digest(&self, storage: &[StorageOfRun]) -> u32 {
        let named = self.named.iter().flat_map(|one| [one.name, &*one.words]);
        let places = self.places.iter().flat_map(|(place, value)| [&**place, &**value]);
        let paths = storage.iter().flat_map(|one| &one.paths).map(|path| path.to_string_lossy());
        let words = named.chain(places).map(Cow::Borrowed).chain(paths);
        let text: Vec<Cow<'_, str>> = words.collect();
        let hash = fnv1a(text.join("\0").as_bytes());
        (hash ^ (hash >> 32)) as u32
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
        if words(baseline) == words(now) {
            continue;
        }
        // The sides may explain other places by it.
        explained.extend(setting.explains);
        if !differences.iter().any(|known| known.setting == setting.name) {
            differences.push(difference(setting.name, words(baseline), words(now)));
        }
    }
    let follows = |place: &str| explained.iter().any(|of| is_within(place, of));
    let mut others: Vec<&String> = baseline.places.keys().chain(now.places.keys()).collect();
    others.sort();
    others.dedup();
    for place in others {
        let value = |work: &Work| work.places.get(place).map(|value| with_unit(place, value));
        if value(baseline) != value(now) && !follows(place) {
            let found = difference(now.typed(place), value(baseline), value(now));
            // An option may decide several places in one way.
            if !differences.contains(&found) {
                differences.push(found);
            }
        }
    }
    differences
}

/// A value of the plan with the unit that the name of its place ends with.
fn with_unit(place: &str, value: &str) -> String {
    let unit = match place {
        _ if value.parse::<f64>().is_err() => "",
        place if place.ends_with("seconds") => " s",
        place if place.ends_with("_bytes") => " B",
        _ => "",
    };
    format!("{value}{unit}")
}

fn difference(setting: &str, baseline: Option<String>, value: Option<String>) -> Difference {
    let or_not = |value: Option<String>| value.unwrap_or_else(|| "not set".to_string());
    Difference { setting: setting.to_string(), baseline: or_not(baseline), value: or_not(value) }
}

/// The differences, one per line, where `names` are those of the sides.
pub(crate) fn difference_lines(differences: &[Difference], names: &[String; 2]) -> Vec<String> {
    let [a, b] = names;
    let told = differences.iter().take(MOST_TOLD).map(|one| {
        let (baseline, value) = (short(&one.baseline), short(&one.value));
        format!("{}: {baseline} ({a}), {value} ({b})", one.setting)
    });
    let mut lines: Vec<String> = told.collect();
    let left = differences.len().saturating_sub(MOST_TOLD);
    if left > 0 {
        lines.push(format!("and {} more", counted(left as u64, "setting")));
    }
    lines
}

fn short(value: &str) -> String {
    match value.char_indices().nth(MOST_LETTERS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_string(),
    }
}

/// Fields of `apart` that `plan` lacks: exclusion lists must not outlive the fields that they name.
pub fn absent_fields<'a>(plan: &impl Serialize, apart: &[&'a str]) -> Vec<&'a str> {
    let all = in_plan(plan, &[]);
    let absent = |field: &&&str| !all.keys().any(|place| is_within(place, field));
    apart.iter().filter(absent).copied().collect()
}

/// Prefix of a setting's place in a report.
const PLAN: &str = "plan.";

/// Whether `place` is a plan field, or within it.
fn is_within(place: &str, field: &str) -> bool {
    let place = place.strip_prefix(PLAN).unwrap_or(place);
    let rest = place.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn in_plan(plan: &impl Serialize, apart: &[&str]) -> BTreeMap<String, String> {
    // A plan was read from JSON or will be saved as such.
    let plan = serde_json::to_value(plan).unwrap_or_default();
    let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    collect(&plan, "", apart, &mut found);
    let places = found.into_iter();
    places.map(|(place, values)| (format!("{PLAN}{place}"), words(&values))).collect()
}

/// Counts every value by place; the entries of a list share a place.
fn collect(
    value: &Value,
    place: &str,
    apart: &[&str],
    found: &mut BTreeMap<String, BTreeMap<String, usize>>,
) {
    if apart.contains(&place) {
        return;
    }
    let word = match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let inner = match place {
                    "" => key.clone(),
                    place => format!("{place}.{key}"),
                };
                collect(value, &inner, apart, found);
            }
            return;
        }
        Value::Array(values) => {
            for value in values {
                collect(value, place, apart, found);
            }
            return;
        }
        Value::Null => "none".to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let values = found.entry(place.to_string()).or_default();
    *values.entry(word).or_default() += 1;
}

/// `uring`, or `2 × psync, 6 × uring`.
fn words(values: &BTreeMap<String, usize>) -> String {
    let counted = values.iter().map(|(value, count)| match count {
        1 => value.clone(),
        count => format!("{count} × {value}"),
    });
    counted.collect::<Vec<String>>().join(", ")
}
