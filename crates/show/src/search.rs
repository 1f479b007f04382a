//! Searches for the largest count that passes: the common parts of their documents and charts.

use stormlp_core::largest::{Largest, RunKind, Tried};
use stormlp_core::report::Ending;
use stormlp_core::stats::mean;
use stormlp_core::units::{counted, format_duration};

use crate::chart::{Axis, Chart, Group, Line, Scale};
use crate::document::{Col, DetailLevel, Document, Facts, Section, Table, number, word};

/// The answer of a search in words.
pub struct Answer {
    /// If no count was tried.
    pub none_tried: String,
    /// If not even one passes.
    pub not_one: String,
    /// While the search goes on.
    pub so_far: String,
    /// Once it is complete.
    pub complete: String,
}

/// The headline of a search that came to its `ending`.
pub fn headline<T: Tried>(find: &Largest<T, T::Limit>, ending: &Ending, answer: Answer) -> String {
    let so_far = match (find.tried.is_empty(), find.smallest_failing) {
        (true, _) => answer.none_tried,
        (false, Some(1)) => answer.not_one,
        (false, _) => answer.so_far,
    };
    match ending {
        Ending::Stopped => format!("stopped: {so_far}"),
        Ending::Unfinished => format!("unfinished: {so_far}"),
        Ending::Failed(note) => format!("{so_far}; FAILED: {}", note.fact),
        Ending::Complete => answer.complete,
    }
}

/// The limit of a search, its course, and every run with the `columns` of the lane.
pub fn describe<'a, T: Tried>(
    find: &'a Largest<T, T::Limit>,
    document: &mut Document,
    columns: Vec<Col<'_, &'a T>>,
) {
    if let Some(limit) = &find.limit {
        document.brief.add("limit", limit);
    }
    if !find.inconsistent.is_empty() {
        let counts: Vec<String> = find.inconsistent.iter().map(u32::to_string).collect();
        document.facts.add("inconsistent", format!("{} passed and missed", counts.join(", ")));
    }
    let runs = |kind| find.of_kind(kind).count() as u64;
    let (probes, full) = (runs(RunKind::Probe), runs(RunKind::Full));
    document.facts.add(
        "search",
        format!(
            "{} and {} in {}; full runs confirm or overrule probes",
            counted(probes, "probe"),
            counted(full, "full run"),
            format_duration(find.search_seconds)
        ),
    );
    if find.tried.is_empty() {
        return;
    }
    let first = [
        number(&format!("{}s", T::WHAT), 0, |one: &&T| one.count()),
        word("run", 0, |one: &&T| one.kind().name()),
    ];
    let took = word("took", 3, |one: &&T| format_duration(one.seconds()));
    let columns = first.into_iter().chain(columns).chain([took]).collect();
    let mut tried: Vec<&T> = find.tried.iter().collect();
    tried.sort_by_key(|one| one.count());
    let key = |one: &&T| format!("{} {:?}", one.count(), one.kind());
    let section = document.section("Every run", Some(Table::of(tried, key, columns)));
    if probes > 0 {
        let what = "A probe is a short run: its figures are predicted, its verdict is a guess.";
        section.lines.push(what.to_string());
    }
}

/// Puts the document of the full run at the answer below the document of the search.
pub fn add_run(document: &mut Document, mut facts: Facts, run: Document) {
    facts.0.insert(0, ("result".to_string(), run.headline));
    document.sections.push(Section {
        title: "The full run at the answer".to_string(),
        facts,
        place: DetailLevel::Details,
        ..Section::default()
    });
    let sections = run.sections.into_iter();
    let below = sections.map(|section| Section { place: DetailLevel::Details, ..section });
    document.sections.extend(below);
}

/// Draws a figure of the runs, with its `target`, over their counts.
pub fn draw<T: Tried>(
    find: &Largest<T, T::Limit>,
    drawn: &mut Group,
    (what, unit, target): (&str, &str, Option<f64>),
    figure: impl Fn(&T) -> f64,
) {
    let mut counts: Vec<u32> = find.tried.iter().map(T::count).collect();
    counts.sort_unstable();
    counts.dedup();
    let at = |count: u32, kind: RunKind| {
        let runs = find.of_kind(kind).filter(|one| one.count() == count);
        let figures: Vec<f64> = runs.map(&figure).collect();
        (!figures.is_empty()).then(|| (f64::from(count), mean(&figures)))
    };
    let over = |kind| counts.iter().filter_map(move |count| at(*count, kind));
    let mut lines = vec![
        Line::new("probes", over(RunKind::Probe)),
        Line::new("full runs", over(RunKind::Full)),
    ];
    lines.extend(
        target.map(|target| {
            Line::new("target", counts.iter().map(|count| (f64::from(*count), target)))
        }),
    );
    let mark = (find.largest > 0)
        .then(|| (f64::from(find.largest), format!("{}, the maximum", find.largest)));
    let (x, y) =
        (Axis::new(format!("{}s", T::WHAT), Scale::Counts), Axis::new(unit, Scale::Linear));
    let chart =
        Chart::lines(what, x, y, lines).map(|chart| chart.marks(mark.into_iter().collect()));
    drawn.add(what, chart, "fewer than two counts were tried");
}
