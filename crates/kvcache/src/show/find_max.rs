//! A search for the maximum number of servers: the answer, its limit, every number tried, and below
//! that the full run at the answer, if there was one.

use stormlp_core::units::counted;
use stormlp_show::chart::Group;
use stormlp_show::document::{Cell, Document, Quantity, number, word};
use stormlp_show::numbers::short;
use stormlp_show::search::{Answer, add_run, describe, draw, headline};

use super::trials::seconds_of;
use crate::plan::{FindServers, MOST_DROPPED_PERCENT, TriedServers, is_of_memory};
use crate::report::KvcacheReport;

/// The document of a search; `run` is the document of the full run at its answer.
pub(super) fn document(report: &KvcacheReport, find: &FindServers, mut run: Document) -> Document {
    let mut document = Document::new(format!(
        "kvcache serving {}: {}",
        report.plan.name(),
        headline(find, &report.ending, answer(report, find))
    ));
    if let Some(missed) = find.missed().filter(|missed| missed.limited_by.is_some()) {
        document.brief.add("limited by", missed.limit());
    }
    if is_of_memory(find) {
        let remedy = match report.plan.transport.path.uses_page_cache() {
            true => "--path cpu",
            false => "a --dir on storage",
        };
        let seen = of_memory(report);
        let answer = format!("storage and memory: {seen}; use {remedy} for the answer of storage");
        document.brief.add("answer of", answer);
    }
    document.facts.add(
        "rule",
        format!(
            "at each length, the P95 of loading a prefix is at most the time to compute as many tokens; \
             of fewer than 20 loads the slowest counts; at most {MOST_DROPPED_PERCENT} % of new chunks are \
             dropped or left waiting"
        ),
    );
    describe(find, &mut document, columns());
    // The numbers that were tried fit a screen.
    let rest = run.brief.0.split_off(run.brief.0.len().min(1));
    document.brief.0.append(&mut run.brief.0);
    document.facts.0.extend(rest);
    document.warnings.append(&mut run.warnings);
    document.records = run.records.clone();
    let mut facts = std::mem::take(&mut run.facts);
    if report.results.trials.is_empty() {
        // No such run: its trials were not run.
        facts.0.retain(|(name, _)| name != "runs");
        document.facts.0.extend(facts.0);
    } else {
        add_run(&mut document, facts, run);
    }
    document
}

/// How much memory is part of the answer.
fn of_memory(report: &KvcacheReport) -> String {
    // Of probes alone there is no trial.
    let Some(trial) = report.results.trials.last() else {
        return "more than 10 % was in the page cache, or did not come from devices".to_string();
    };
    let share = trial.residency.map(|sample| sample.after_drop * 100.0);
    let stayed = share.map(|all| format!("{all:.1} % of sampled chunks stayed in the page cache"));
    let loaded = trial.read.all_bytes().max(1) as f64;
    let share = trial.device.map(|device| device.read_bytes as f64 / loaded * 100.0);
    let read = share.map(|all| format!("devices read {all:.1} % of the loaded bytes"));
    [stayed, read].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn answer(report: &KvcacheReport, find: &FindServers) -> Answer {
    let rate = report.plan.serving.as_ref().and_then(|load| load.prefill_tokens_per_second);
    let rate = rate.map_or(String::new(), |rate| format!(" of {} tokens/s", short(rate)));
    let feeds = if is_of_memory(find) { "storage and memory feed" } else { "storage feeds" };
    let slowest = find.answer().map_or(String::new(), |one| {
        format!(
            "; {} tokens load in {} {}, {:.0} % of the time to compute them",
            one.prefix_tokens,
            one.which(),
            seconds_of(one.load_ms),
            one.load_percent()
        )
    });
    let not_one = format!("storage does not feed even one server{rate}");
    let least = if find.is_lower_bound { "at least " } else { "" };
    let servers = counted(find.largest.into(), "server");
    Answer {
        none_tried: "no number of servers was tried yet".to_string(),
        so_far: format!("{feeds} {} servers{rate}", find.known()),
        complete: match find.largest {
            0 => format!("{not_one}{slowest}"),
            _ => format!("{feeds} {least}{servers}{rate}{slowest}"),
        },
        not_one,
    }
}

fn columns<'a>() -> Vec<stormlp_show::document::Col<'a, &'a TriedServers>> {
    vec![
        number("tokens", 1, |one: &&TriedServers| one.prefix_tokens),
        number("load P95 ms", 0, |one: &&TriedServers| {
            let slowest = if one.is_slowest { "max" } else { "" };
            Cell::Number(Quantity::lower(one.load_ms, "ms"), slowest.to_string())
        }),
        number("% of compute", 0, |one: &&TriedServers| Quantity::lower(one.load_percent(), "%"))
            .leading(),
        number("dropped %", 0, |one: &&TriedServers| Quantity::lower(one.dropped_percent, "%")),
        word("verdict", 0, |one: &&TriedServers| one.verdict()),
        number("prompts/s", 2, |one: &&TriedServers| {
            Quantity::higher(one.prompts_per_second, "prompts/s")
        }),
        number("read GiB/s", 1, |one: &&TriedServers| {
            Quantity::higher(one.read_gib_per_second, "GiB/s")
        }),
        word("limited by", 2, |one: &&TriedServers| one.limit()),
    ]
}

/// The time of loads over the number of servers.
pub(super) fn chart(find: &FindServers) -> Group {
    let mut drawn = Group::new("Numbers of servers tried");
    let what = "Time of loading (P95), of the time to compute as many tokens";
    draw(find, &mut drawn, (what, "%", Some(100.0)), TriedServers::load_percent);
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use crate::report::SampledResidency;
    use stormlp_core::knee::KneeLimit;
    use stormlp_core::report::DeviceBytes;

    #[test]
    fn an_answer_with_memory_in_it_is_not_called_that_of_storage_and_says_how_much() {
        let mut report = fixtures::find_max();
        let find = report.results.find_max.as_mut().unwrap();
        find.tried.iter_mut().for_each(|tried| tried.limited_by = Some(KneeLimit::Memory));
        let trial = &mut report.results.trials[0];
        let stays = SampledResidency { objects: 50, before_drop: 1.0, after_drop: 0.103 };
        trial.residency = Some(stays);
        let bytes = (trial.read.all_bytes() as f64 * 0.926) as u64;
        trial.device = Some(DeviceBytes { read_bytes: bytes, written_bytes: 0 });
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
        assert!(!is_of_memory(&known));
    }
}
