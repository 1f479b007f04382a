//! A search for the most servers: the answer, what limits it, every number tried, and below that the
//! full run at the answer, if there was one.

use stormlp_core::largest::RunKind;
use stormlp_core::report::Ending;
use stormlp_core::stats::mean;
use stormlp_core::units::{counted, format_duration};
use stormlp_show::chart::{Axis, Chart, Group, Line, Scale};
use stormlp_show::document::{Cell, Column, Document, Facts, Place, Quantity, Section, Table};

use super::run::seconds_of;
use crate::plan::{FindServers, MOST_DROPPED_PERCENT, TriedServers};
use crate::report::KvcacheReport;

/// The document of a search; `run` is the document of the full run at its answer.
pub(super) fn document(report: &KvcacheReport, find: &FindServers, run: Document) -> Document {
    let mut document = Document::new(headline(report, find));
    facts(report, find, &mut document);
    // A screen has room for the numbers that were tried.
    let (load, rest) = run.brief.0.split_at(run.brief.0.len().min(1));
    document.brief.0.extend(load.iter().cloned());
    document.facts.0.extend(rest.iter().cloned());
    if !find.tried.is_empty() {
        document.section("Every number of servers tried", Some(table(find)));
    }
    if !report.results.trials.is_empty() {
        let mut own = Facts::default();
        own.add("result", &run.headline);
        own.0.extend(run.facts.0);
        document.sections.push(Section {
            title: "The full run at the answer".to_string(),
            facts: own,
            place: Place::Details,
            ..Section::default()
        });
        let sections = run.sections.into_iter();
        let below = sections.map(|section| Section { place: Place::Details, ..section });
        document.sections.extend(below);
    } else {
        // No such run: how its trials would be is not what was done.
        document.facts.0.extend(run.facts.0.into_iter().filter(|(name, _)| name != "trials"));
    }
    (document.warnings, document.records) = (run.warnings, run.records);
    document
}

fn headline(report: &KvcacheReport, find: &FindServers) -> String {
    let rate = report.plan.serving.as_ref().and_then(|load| load.prefill_tokens_per_second);
    let rate = rate.map_or(String::new(), |rate| format!(" of {rate} tokens/s"));
    let name = format!("kvcache {}", report.plan.name());
    let largest = u64::from(find.largest_servers);
    let servers = format!("{}{rate}", counted(largest, "server"));
    let feeds = match find.is_of_memory() {
        true => "storage and memory feed",
        false => "storage feeds",
    };
    let so_far = match (find.tried.is_empty(), find.least_missing) {
        (true, _) => "no number of servers was tried yet".to_string(),
        (false, Some(1)) => format!("storage does not feed even one server{rate}"),
        (false, _) => format!("{feeds} {} servers{rate}", find.known()),
    };
    let slowest = find.answer().map_or(String::new(), |one| {
        format!(
            "; {} tokens load in {} {}, {:.0} % of the time to compute them",
            one.prefix_tokens,
            one.which(),
            seconds_of(one.load_ms),
            one.load_percent()
        )
    });
    let answer = match &report.ending {
        Ending::Stopped => format!("stopped: {so_far}"),
        Ending::Unfinished => format!("unfinished: {so_far}"),
        Ending::Failed(note) => format!("{so_far}; FAILED: {}", note.fact),
        Ending::Complete if largest == 0 => format!("{so_far}{slowest}"),
        Ending::Complete if find.is_lower_bound => {
            format!("{feeds} at least {servers}{slowest}")
        }
        Ending::Complete => format!("{feeds} {servers}{slowest}"),
    };
    format!("{name}: {answer}")
}

/// What shows that memory is part of the answer, and what would leave it out.
fn of_memory(report: &KvcacheReport) -> String {
    let mut seen = Vec::new();
    // Of probes alone there is no trial.
    let trial = report.results.trials.last();
    if let Some(sample) = trial.and_then(|trial| trial.residency) {
        let percent = sample.after_drop * 100.0;
        seen.push(format!("{percent:.1} % of sampled chunks were still in the page cache"));
    }
    if let Some((trial, device)) = trial.and_then(|trial| trial.device.map(|one| (trial, one))) {
        let percent = device.read_bytes as f64 / trial.read.all_bytes().max(1) as f64 * 100.0;
        seen.push(format!("devices read {percent:.1} % of what was loaded"));
    }
    let seen = match seen.is_empty() {
        true => "more than 10 % was in the page cache, or did not come from devices".to_string(),
        false => seen.join(", "),
    };
    let remedy = match report.plan.transport.path.uses_page_cache() {
        true => "--path cpu",
        false => "a --dir on storage",
    };
    format!("storage and memory: {seen}; use {remedy} for the answer of storage")
}

fn facts(report: &KvcacheReport, find: &FindServers, document: &mut Document) {
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    if let Some(missed) = find.missed().filter(|missed| missed.limited_by.is_some()) {
        brief.add("limited by", missed.limit());
    }
    if find.is_of_memory() {
        brief.add("answer of", of_memory(report));
    }
    if let Some(limit) = &find.limit {
        brief.add("limit", limit);
    }
    facts.add(
        "rule",
        format!(
            "at each length, the P95 of loading a prefix is at most the time to compute as many tokens; \
             of fewer than 20 loads the slowest counts; at most {MOST_DROPPED_PERCENT} % of new chunks are \
             dropped or left waiting"
        ),
    );
    if !find.inconsistent.is_empty() {
        let counts: Vec<String> = find.inconsistent.iter().map(u32::to_string).collect();
        facts.add("both ways", format!("{} passed and missed", counts.join(", ")));
    }
    let of_kind = |run: RunKind| find.tried.iter().filter(|tried| tried.run == run).count() as u64;
    facts.add(
        "search",
        format!(
            "{} and {} in {}; full runs confirm or overrule probes",
            counted(of_kind(RunKind::Probe), "probe"),
            counted(of_kind(RunKind::Full), "full run"),
            format_duration(find.search_seconds)
        ),
    );
}

fn table(find: &FindServers) -> Table {
    let mut table = Table::new([
        Column::numbers("servers", 0),
        Column::words("run", 0),
        Column::numbers("tokens", 1),
        Column::numbers("load P95 ms", 0),
        Column::numbers("% of computing", 0).leading(),
        Column::numbers("unsaved %", 0),
        Column::words("verdict", 0),
        Column::numbers("prompts/s", 2),
        Column::numbers("read GiB/s", 1),
        Column::words("limited by", 2),
        Column::numbers("took", 3),
    ]);
    let mut tried: Vec<&TriedServers> = find.tried.iter().collect();
    tried.sort_by_key(|tried| tried.servers);
    for tried in tried {
        let run = match tried.run {
            RunKind::Probe => {
                let what = "a probe, a short run, whose verdict is a guess";
                format!("probe {}", table.footnote(what.to_string()))
            }
            RunKind::Full => "full".to_string(),
        };
        let slowest = match tried.is_slowest {
            true => table.footnote("the slowest of fewer than 20 loads".to_string()),
            false => String::new(),
        };
        let cells: Vec<Cell> = vec![
            tried.servers.to_string().into(),
            run.into(),
            tried.prefix_tokens.to_string().into(),
            Cell::Number(Quantity::lower(tried.load_ms, "ms"), slowest),
            Quantity::lower(tried.load_percent(), "%").into(),
            Quantity::lower(tried.dropped_percent, "%").into(),
            tried.verdict().into(),
            Quantity::higher(tried.prompts_per_second, "prompts/s").into(),
            Quantity::higher(tried.read_gib_per_second, "GiB/s").into(),
            tried.limit().into(),
            format_duration(tried.seconds).into(),
        ];
        table.row(format!("{} {:?}", tried.servers, tried.run), cells);
    }
    table
}

/// How long loads take over the number of servers.
pub(super) fn chart(find: &FindServers) -> Group {
    let mut drawn = Group::new("Numbers of servers tried");
    let mut counts: Vec<u32> = find.tried.iter().map(|tried| tried.servers).collect();
    counts.sort_unstable();
    counts.dedup();
    let of_count = |count: u32, run: RunKind| {
        let tried = find.tried.iter().filter(|one| one.servers == count && one.run == run);
        let shares: Vec<f64> = tried.map(TriedServers::load_percent).collect();
        (!shares.is_empty()).then(|| (f64::from(count), mean(&shares)))
    };
    let over = |run: RunKind| counts.iter().filter_map(move |count| of_count(*count, run));
    let lines = vec![
        Line::new("probes", over(RunKind::Probe)),
        Line::new("full runs", over(RunKind::Full)),
        Line::new("at most", counts.iter().map(|count| (f64::from(*count), 100.0))),
    ];
    let mark = match find.largest_servers {
        0 => Vec::new(),
        largest => vec![(f64::from(largest), format!("{largest}, the most"))],
    };
    let what = "Time of loading (P95), of the time to compute as many tokens";
    let (x, y) = (Axis::new("servers", Scale::Counts), Axis::new("%", Scale::Linear));
    let chart = Chart::lines(what, x, y, lines).map(|chart| chart.marks(mark));
    drawn.add(what, chart, "fewer than two numbers were tried");
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use crate::report::{BytesOfDevices, SampledResidency};
    use stormlp_core::knee::KneeLimit;

    #[test]
    fn an_answer_with_memory_in_it_is_not_called_that_of_storage_and_says_how_much() {
        let mut report = fixtures::find_max();
        let find = report.results.find_max.as_mut().unwrap();
        find.tried.iter_mut().for_each(|tried| tried.limited_by = Some(KneeLimit::Memory));
        let trial = &mut report.results.trials[0];
        let stays = SampledResidency { objects: 50, before_drop: 1.0, after_drop: 0.103 };
        trial.residency = Some(stays);
        let bytes = (trial.read.all_bytes() as f64 * 0.926) as u64;
        trial.device = Some(BytesOfDevices { read_bytes: bytes, written_bytes: 0 });
        let told = |report: &KvcacheReport| {
            let document = super::super::document(report);
            let of = document.brief.0.iter().find(|(name, _)| name == "answer of");
            (document.headline.clone(), of.unwrap().1.to_string())
        };
        let (headline, of) = told(&report);
        assert!(headline.contains(": storage and memory feed 10 servers"), "{headline}");
        assert!(of.contains("10.3 % of sampled") && of.contains("devices read 92.6 %"), "{of}");
        assert!(of.contains("use --path cpu"), "{of}");
        // Of probes alone no shares are known.
        report.results.trials.clear();
        assert!(told(&report).1.contains("more than 10 %"));
        let known = fixtures::find_max().results.find_max.unwrap();
        assert!(!known.is_of_memory());
    }
}
