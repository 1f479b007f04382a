//! Figures of a report that contradict each other.

use stormlp_core::report::NamedSeries;
use stormlp_show::sums::Found;

use super::{KvcacheReport, PassSummary, TrialResult, gib_per_second, summarise};

/// Contradictions between figures of the report, in words; empty for any report a run wrote.
pub fn contradictions(report: &KvcacheReport) -> Vec<String> {
    let mut found = Found::of(&report.head);
    for (index, trial) in report.results.trials.iter().enumerate() {
        check_trial(&mut found, &format!("trials.{index}"), trial);
        check_hosts(&mut found, &format!("trials.{index}"), trial);
    }
    check_passes(&mut found, report);
    if let Some(evidence) = report.evidence_of("objects") {
        found.path("plan.transport.path", report.plan.transport.path, evidence);
    }
    let longest =
        report.results.trials.iter().map(|one| one.started_at_seconds + one.total_seconds);
    let elapsed = report.results.elapsed_seconds;
    for seconds in longest {
        found.hold_part("trials", "total_seconds", seconds, elapsed, "elapsed_seconds");
    }
    found.histograms(&report.histograms);
    for (index, NamedSeries { series, .. }) in report.series.iter().enumerate() {
        found.shape(&format!("series.{index}"), series);
    }
    found.into_words()
}

fn check_trial(found: &mut Found, place: &str, trial: &TrialResult) {
    let window = trial.window_seconds;
    let from = "the bytes over the window";
    for (what, rate, bytes) in [
        ("read_gib_per_second", trial.read_gib_per_second, trial.read.bytes),
        ("write_gib_per_second", trial.write_gib_per_second, trial.written.bytes),
    ] {
        found.hold(place, what, rate, gib_per_second(bytes, window), from);
    }
    let tokens = if window > 0.0 { trial.tokens as f64 / window } else { 0.0 };
    let from = "the tokens over the window";
    found.hold(place, "tokens_per_second", trial.tokens_per_second, tokens, from);
    found.hold_part(place, "window_seconds", window, trial.total_seconds, "total_seconds");
    for class in &trial.classes {
        let served = (class.served + class.served_late) as f64;
        let what = format!("{} requests served", class.class);
        found.hold_part(place, &what, served, class.offered as f64, "offered");
    }
    if let Some(prompts) = &trial.prompts {
        let (loaded, all) = (prompts.loaded_tokens as f64, prompts.tokens as f64);
        found.hold_part(place, "prompts.loaded_tokens", loaded, all, "prompts.tokens");
        let of_loads: u64 = prompts.loads.iter().map(|loads| loads.tokens).sum();
        let told = prompts.loaded_tokens;
        found.hold_count(place, "prompts.loaded_tokens", told, of_loads, "the loads");
    }
    let timed = trial.times_ms.request.map_or(0, |times| times.count);
    let (_, served, late) = trial.requests();
    found.hold_count(place, "times_ms.request.count", timed, served + late, "the served requests");
}

/// What several hosts measured is in the trial of all of them.
fn check_hosts(found: &mut Found, place: &str, trial: &TrialResult) {
    for (rank, host) in trial.hosts.iter().enumerate() {
        check_trial(found, &format!("{place}.hosts.{rank}"), &host.result);
    }
    let moved = |of: fn(&TrialResult) -> u64| trial.ranks().map(of).sum();
    let reads = (trial.read.bytes, moved(|rank| rank.read.bytes));
    found.hold_count(place, "read.bytes", reads.0, reads.1, "the hosts");
    let writes = (trial.written.bytes, moved(|rank| rank.written.bytes));
    found.hold_count(place, "written.bytes", writes.0, writes.1, "the hosts");
}

fn check_passes(found: &mut Found, report: &KvcacheReport) {
    let comes_to = summarise(&report.results.trials, report.plan.passes.len());
    let told = &report.results.passes;
    if told.len() != comes_to.len() {
        let (told, comes_to) = (told.len() as u64, comes_to.len() as u64);
        return found.hold_count("", "passes", told, comes_to, "those of the trials");
    }
    for (index, (told, comes_to)) in told.iter().zip(&comes_to).enumerate() {
        let place = format!("passes.{index}");
        let count = (told.trials.into(), comes_to.trials.into());
        found.hold_count(&place, "trials", count.0, count.1, "the trials");
        let rates = |one: &PassSummary| {
            [one.read_gib_per_second, one.write_gib_per_second, one.tokens_per_second]
        };
        let names = ["read_gib_per_second", "write_gib_per_second", "tokens_per_second"];
        for (name, (told, comes_to)) in
            names.into_iter().zip(rates(told).iter().zip(rates(comes_to)))
        {
            let what = format!("{name}.mean");
            found.hold(&place, &what, told.mean, comes_to.mean, "the trials");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::show::fixtures;
    use super::*;

    #[test]
    fn loads_that_do_not_add_up_are_found() {
        let mut report = fixtures::serving();
        assert_eq!(contradictions(&report), Vec::<String>::new());
        let prompts = report.results.trials[0].prompts.as_mut().expect("prompts");
        prompts.loads[0].tokens += 1;
        assert!(
            contradictions(&report)[0].contains("loaded_tokens"),
            "{:?}",
            contradictions(&report)
        );
    }
}
