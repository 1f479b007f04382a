//! Renders a search for the maximum number of accelerators: the answer, its limit, every count
//! tried, and below that the full run at the answer.

use crate::plan::find_max::{FindMax, Limit, Tried};
use crate::report::{Bound, TrainReport};
use stormlp_core::largest::RunKind;
use stormlp_core::report::Ending;
use stormlp_core::units::{counted, format_duration};

use stormlp_show::document::{Cell, Column, Document, Facts, Place, Quantity, Section, Table};

/// The document of a search; `run` is the document of the full run at its answer.
pub(super) fn document(report: &TrainReport, find: &FindMax, run: Document) -> Document {
    let mut document = Document::new(headline(report, find));
    facts(report, find, &mut document);
    if !find.tried.is_empty() {
        document.section("Every count tried", Some(table(find)));
    }
    if !report.results.epochs.is_empty() {
        let count = counted(u64::from(report.plan.accelerators), "accelerator");
        let mut facts = Facts::default();
        facts.add("result", &run.headline);
        facts.0.extend(run.all_facts().0);
        document.sections.push(Section {
            title: format!("The full run of {count}"),
            facts,
            place: Place::Details,
            ..Section::default()
        });
        let sections = run.sections.into_iter();
        document
            .sections
            .extend(sections.map(|section| Section { place: Place::Details, ..section }));
    }
    (document.warnings, document.records) = (run.warnings, run.records);
    document
}

fn headline(report: &TrainReport, find: &FindMax) -> String {
    let what = format!(
        "the {:.1} % of {} on {}",
        report.plan.metric.threshold_percent, report.plan.workload, report.plan.accelerator
    );
    let largest = u64::from(find.largest_accelerators);
    let count = counted(largest, "accelerator");
    let meet = if largest == 1 { "meets" } else { "meet" };
    let so_far = match (find.tried.is_empty(), find.least_missing) {
        (true, _) => format!("no count was tried yet for {what}"),
        (false, Some(1)) => format!("not even one accelerator meets {what}"),
        (false, _) => format!("{} accelerators meet {what}", find.known()),
    };
    let of_answer = |tried: &&Tried| tried.accelerators == find.largest_accelerators;
    let ahead = match find.tried.iter().rfind(of_answer) {
        Some(tried) if tried.rests_on_read_ahead => " (by prefetched samples only)",
        _ => "",
    };
    match &report.ending {
        Ending::Stopped => format!("stopped: {so_far}"),
        Ending::Unfinished => format!("unfinished: {so_far}"),
        Ending::Failed(note) => format!("{so_far}; FAILED: {}", note.fact),
        Ending::Complete if largest == 0 => {
            let au = find.au_of_one();
            format!("not even one accelerator meets {what}{au}")
        }
        Ending::Complete if find.is_lower_bound => format!(
            "at least {count} {meet} {what}{ahead}: {} ended the search before the storage did{}",
            find.limited_by.unwrap_or(Limit::Nothing).name(),
            find.least_on_read_ahead().map_or(String::new(), |least| format!(
                " ({least} met it only by prefetched samples)"
            ))
        ),
        Ending::Complete => {
            let next = find.least_missing.map_or(String::new(), |next| format!(", {next} do not"));
            format!("{count} {meet} {what}{ahead}{next}")
        }
    }
}

fn facts(report: &TrainReport, find: &FindMax, document: &mut Document) {
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    if let Some(limit) = find.limited_by {
        brief.add("limited by", limit.name());
    }
    if let Some(limit) = &find.limit {
        brief.add("limit", limit);
    }
    brief.add("run", super::run::setting(&report.plan));
    if let Some(estimate) = find.estimate {
        facts.add(
            "estimate",
            format!(
                "{:.1} samples/s to {} without compute in {}, enough for about {}",
                estimate.samples_per_second,
                counted(u64::from(estimate.loaders), "loader"),
                format_duration(estimate.seconds),
                counted(u64::from(estimate.accelerators), "accelerator")
            ),
        );
    }
    if let Some(peak) = find.peak {
        facts.add(
            "peak",
            format!(
                "{:.1} samples/s, {:.1} MiB/s with {}, {}",
                peak.samples_per_second,
                peak.mib_per_second,
                counted(u64::from(peak.accelerators), "accelerator"),
                match peak.run {
                    RunKind::Full => "of the full runs",
                    RunKind::Probe => "as a probe predicts",
                }
            ),
        );
    }
    if !find.inconsistent.is_empty() {
        let counts: Vec<String> = find.inconsistent.iter().map(u32::to_string).collect();
        facts.add("both ways", format!("{} met the threshold and missed it", counts.join(", ")));
    }
    let probes = of_kind(find, RunKind::Probe).count() as u64;
    let full = of_kind(find, RunKind::Full).count() as u64;
    facts.add(
        "search",
        format!(
            "{} and {} in {}; a probe's verdict is correct with {:.0} %",
            counted(probes, "probe"),
            counted(full, "full run"),
            format_duration(find.search_seconds),
            find.confidence_percent
        ),
    );
}

fn of_kind(find: &FindMax, kind: RunKind) -> impl Iterator<Item = &Tried> {
    find.tried.iter().filter(move |tried| tried.kind == kind)
}

fn table(find: &FindMax) -> Table {
    let mut table = Table::new([
        Column::numbers("accelerators", 0),
        Column::words("run", 0),
        Column::numbers("AU %", 0),
        Column::numbers("samples/s", 0),
        Column::numbers("MiB/s", 2),
        Column::words("verdict", 0),
        Column::words("waited for", 1),
        Column::numbers("steps", 3),
        Column::numbers("took", 4),
    ]);
    let mut tried: Vec<&Tried> = find.tried.iter().collect();
    tried.sort_by_key(|tried| tried.accelerators);
    for tried in tried {
        let is_probe = tried.kind == RunKind::Probe;
        let mark = if is_probe {
            table.footnote(
                "a probe: the beginning of a run, from which AU and throughput of the whole are \
                 predicted; ± is the standard error"
                    .to_string(),
            )
        } else {
            String::new()
        };
        let verdict = match (tried.meets, tried.certain) {
            _ if tried.rests_on_read_ahead => {
                let mark = table.footnote(
                    "the epoch is so short that it was prefetched, which says little about storage"
                        .to_string(),
                );
                format!("read ahead {mark}")
            }
            (true, true) => "meets".to_string(),
            (false, true) => "misses".to_string(),
            (true, false) => "probably meets".to_string(),
            (false, false) => "probably misses".to_string(),
        };
        let number = |value, unit| Cell::from(Quantity::higher(value, unit));
        let au = Quantity::higher(tried.au_percent, "%").spread(tried.au_spread);
        table.row(
            format!("{} {:?}", tried.accelerators, tried.kind),
            vec![
                tried.accelerators.to_string().into(),
                if is_probe { format!("probe {mark}").into() } else { "full".into() },
                au.into(),
                number(tried.samples_per_second, "samples/s"),
                number(tried.mib_per_second, "MiB/s"),
                verdict.into(),
                waited_for(tried.bound).into(),
                tried.steps.to_string().into(),
                format_duration(tried.seconds).into(),
            ],
        );
    }
    table
}

fn waited_for(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute | Bound::ReadAhead => "nothing",
        Bound::Storage => "storage",
        Bound::Client => "this host",
        Bound::StorageAndClient => "storage and this host",
        Bound::Barrier => "slower peers",
        Bound::Startup => "first batches",
        Bound::Unknown => "-",
    }
}
