//! What reports of runs show: as a document, as a line of a list, and in a comparison.

use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::{Work, switch};
use stormlp_show::shown::Lane;

use super::charts::charts;
use super::plan::{name_of, speed_of};
use super::run::document;
use crate::plan::{DECIDED_FURTHER_ON, KvcachePlan};
use crate::report::{KvcacheReport, KvcacheResults, TrialResult, contradictions};

impl Lane for KvcacheResults {
    type Plan = KvcachePlan;

    fn hosts(_: &KvcacheReport) -> usize {
        1
    }

    fn contradictions(report: &KvcacheReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &KvcacheReport) -> Document {
        document(report)
    }

    fn charts(report: &KvcacheReport) -> Vec<Group> {
        charts(report)
    }

    fn figures(report: &KvcacheReport) -> Vec<Figure> {
        figures(report)
    }

    fn work(report: &KvcacheReport) -> Work {
        work(report)
    }

    fn outcome(report: &KvcacheReport, verdict: String) -> Outcome {
        if let Some(find) = &report.results.find_max {
            let largest = Quantity::higher(f64::from(find.largest_servers), "servers");
            return Outcome {
                what: if find.is_lower_bound { "at least" } else { "" },
                figure: (!find.tried.is_empty()).then_some(largest),
                verdict,
            };
        }
        let first = report.results.passes.first();
        let figure = first.map(|pass| Quantity::higher(pass.read_gib_per_second.mean, "GiB/s"));
        Outcome { what: "read at", figure, verdict }
    }
}

/// Rates, times and cost of each pass.
fn figures(report: &KvcacheReport) -> Vec<Figure> {
    let mut figures = Vec::new();
    for summary in &report.results.passes {
        let Some(pass) = report.plan.passes.get(summary.pass as usize) else { continue };
        let name = name_of(pass);
        let spread = |of: f64| (summary.trials > 1).then_some(of);
        let (read, write) = (summary.read_gib_per_second, summary.write_gib_per_second);
        let rate = |mean, deviation| Quantity::higher(mean, "GiB/s").spread(spread(deviation));
        let of_reads = rate(read.mean, read.deviation);
        figures.push(Figure::throughput(&format!("{name} read"), of_reads));
        let of_writes = rate(write.mean, write.deviation);
        figures.push(Figure::throughput(&format!("{name} write"), of_writes));
        for (what, ms) in
            [("p95 read", summary.read_p95_ms_max), ("p95 fsync", summary.fsync_p95_ms_max)]
        {
            figures.extend(ms.map(|ms| Figure::percentile(&name, what, ms * 1e3)));
        }
        let own = || report.results.trials.iter().filter(|trial| trial.pass == summary.pass);
        figures.extend(own().flat_map(|trial| loads_of(&name, trial, summary.trials > 1)));
        let own = own();
        let costs: Vec<f64> = own.filter_map(TrialResult::cpu_seconds_per_gib).collect();
        if !costs.is_empty() {
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            figures.push(Figure::cpu(&name, mean));
        }
    }
    figures
}

/// The times to load prefixes of a trial.
fn loads_of(name: &str, trial: &TrialResult, several: bool) -> Vec<Figure> {
    let name = if several { format!("{name} trial {}", trial.trial) } else { name.to_string() };
    let loads = trial.prompts.iter().flat_map(|prompts| &prompts.loads);
    let p95 = loads.filter_map(|loads| Some((loads.prefix_tokens, loads.load_ms.p95?)));
    p95.map(|(tokens, ms)| {
        Figure::percentile(&format!("{name} prefix of {tokens}"), "p95 load", ms * 1e3)
    })
    .collect()
}

/// Plan fields that do not affect whether two runs are the same work.
const APART: &[&str] = &[
    "request.keep",
    "request.folder",
    "request.capacity_bytes",
    "request.telemetry_seconds",
    "trials",
    "pause_seconds",
    "free_bytes",
    "buffer_bytes",
    "warnings",
];

/// What follows from one option.
const OPTIONS: &[(&str, &str)] = &[
    ("transport.chunk_bytes", "--chunk-size"),
    ("capacity_bytes", "--capacity"),
    ("request.clock", "--clock"),
];

/// Everything that two runs must have in common to be the same work.
fn work(report: &KvcacheReport) -> Work {
    let plan = &report.plan;
    let apart = [APART, &DECIDED_FURTHER_ON, &["capacity_bytes"]].concat();
    let mut settings = Work::of_plan(plan, &apart).typed_as(OPTIONS);
    let passes: Vec<String> = plan
        .passes
        .iter()
        .map(|pass| format!("{} with {} users", name_of(pass), pass.users))
        .collect();
    settings.add("load", passes.join(", "), &["passes", "transport.threads"]);
    if let Some(load) = &plan.serving {
        let what = format!(
            "chunks of {} tokens, {}, depth {}",
            load.chunk_tokens, load.layout, plan.transport.queue_depth
        );
        settings.add("chunks", what, &[]);
    }
    settings.add("profile", plan.profile, &["profile"]);
    settings.add("duration", plan.duration_seconds, &["duration_seconds"]);
    if let Some(trace) = &plan.trace {
        let speed = speed_of(trace.speed);
        let what = format!("{} of {}, {} entries", trace.format, speed, trace.entries);
        settings.add("trace", what, &["trace", "request.trace"]);
    }
    settings.add("seed", plan.seed, &["seed"]);
    settings.add("end", plan.request.end, &["request.end"]);
    let request = &plan.request;
    settings.add("verify", switch(request.verify), &["request.verify"]);
    settings.add("conversations", switch(!request.no_conversations), &["request.no_conversations"]);
    settings.add("prompts", switch(!request.no_prompts), &["request.no_prompts"]);
    settings
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::report().plan;
        let options: Vec<&str> = OPTIONS.iter().map(|(place, _)| *place).collect();
        let left_out = [APART, &DECIDED_FURTHER_ON, &options].concat();
        let absent = stormlp_show::settings::absent_fields(&plan, &left_out);
        assert!(absent.iter().all(|field| *field == "warnings"), "{absent:?}");
    }
}
