//! Renders a search for the maximum number of accelerators: the answer, its limit, every count
//! tried, and below that the full run at the answer.

use crate::plan::find_max::{FindMax, Limit, Tried, least_on_read_ahead};
use crate::report::TrainReport;
use crate::report::verdict::Bound;
use stormlp_core::units::counted;

use stormlp_show::document::{Document, Quantity, number, word};
use stormlp_show::search::{Answer, add_run, describe, headline};

/// The document of a search; `run` is the document of the full run at its answer.
pub(super) fn document(report: &TrainReport, find: &FindMax, run: Document) -> Document {
    let mut document = Document::new(headline(find, &report.ending, answer(report, find)));
    if let Some(limit) = find.limited_by {
        document.brief.add("limited by", limit.name());
    }
    document.brief.add("run", super::run::setting(&report.plan));
    describe(
        find,
        &mut document,
        vec![
            number("AU %", 0, |one: &&Tried| {
                Quantity::higher(one.au_percent, "%").spread(one.au_spread)
            }),
            number("samples/s", 0, |one: &&Tried| {
                Quantity::higher(one.samples_per_second, "samples/s")
            }),
            number("MiB/s", 2, |one: &&Tried| Quantity::higher(one.mib_per_second, "MiB/s")),
            word("verdict", 0, |one: &&Tried| one.verdict()),
            word("waited for", 1, |one: &&Tried| waited_for(one.limited_by)),
            number("steps", 3, |one: &&Tried| one.steps),
        ],
    );
    document.warnings.clone_from(&run.warnings);
    document.records = run.records.clone();
    if !report.results.epochs.is_empty() {
        add_run(&mut document, run.all_facts(), run);
    }
    document
}

fn answer(report: &TrainReport, find: &FindMax) -> Answer {
    let what = format!(
        "the {:.1} % of {} on {}",
        report.plan.metric.threshold_percent, report.plan.workload, report.plan.accelerator
    );
    let meet = if find.largest == 1 { "meets" } else { "meet" };
    let last = find.answer();
    let ahead = match last {
        Some(one) if one.prefetch_bound => " (by prefetched samples only)",
        _ => "",
    };
    let count = format!("{} {meet} {what}{ahead}", counted(find.largest.into(), "accelerator"));
    let not_one = format!("not even one accelerator meets {what}");
    let au = last.map_or(String::new(), |one| format!(": AU {:.1} %", one.au_percent));
    let limit = find.limited_by.unwrap_or(Limit::Nothing).name();
    let complete = if find.largest == 0 && find.is_lower_bound {
        format!("limited by {limit}, so what storage feeds is unknown; {not_one}{au}")
    } else if find.largest == 0 {
        format!("{not_one}{au}")
    } else if find.is_lower_bound {
        let least = least_on_read_ahead(find)
            .map_or(String::new(), |least| format!(" ({least} met it only by prefetched samples)"));
        format!("at least {count}: {limit} ended the search before the storage did{least}")
    } else {
        let next = find.smallest_failing.map_or(String::new(), |next| format!(", {next} do not"));
        format!("{count}{next}")
    };
    Answer {
        none_tried: format!("no count was tried yet for {what}"),
        so_far: format!("{} accelerators meet {what}", find.known()),
        not_one,
        complete,
    }
}

fn waited_for(limited_by: Bound) -> &'static str {
    match limited_by {
        Bound::Compute | Bound::ReadAhead => "nothing",
        Bound::Storage => "storage",
        Bound::Client => "this host",
        Bound::StorageAndClient => "storage and this host",
        Bound::Barrier => "slower peers",
        Bound::Startup => "first batches",
        Bound::Unknown => "-",
    }
}
