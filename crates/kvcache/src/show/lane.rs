//! The views of reports of runs: as a document, as a line of a list, and in a comparison.

use stormlp_core::report::Ending;
use stormlp_core::units::{ByteSize, counted};
use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::{Document, Quantity};
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::{Work, switch};
use stormlp_show::shown::Lane;

use super::charts::charts;
use super::plan::{entries_of, speed_of};
use super::run::{document, rates_of};
use super::serving::slowest_loads;
use super::trials::name_of;
use crate::plan::{KvcachePlan, Pass, ServingPlan};
use crate::report::{KvcacheReport, KvcacheResults, TrialResult, nothing};

impl Lane for KvcacheResults {
    type Plan = KvcachePlan;

    fn hosts(report: &KvcacheReport) -> usize {
        report.results.group.as_ref().map_or(1, |group| group.size as usize)
    }

    fn document(report: &KvcacheReport) -> Document {
        document(report)
    }

    fn charts(report: &KvcacheReport) -> Vec<Group> {
        charts(report)
    }

    /// The answer of a search; rates, times and cost of each pass. Where prefixes are loaded, the times of
    /// that answer the question, not the rates.
    fn figures(report: &KvcacheReport) -> Vec<Figure> {
        let mut figures = Vec::new();
        if let Some(find) = report.results.find_max.as_ref().filter(|find| !find.tried.is_empty()) {
            let servers = Quantity::higher(f64::from(find.largest), "servers");
            figures.push(Figure::answer(&report.plan.name(), "fed", servers));
        }
        if nothing(report).is_some() {
            return figures;
        }
        let of_loads = report.plan.serving.is_some();
        for summary in &report.results.passes {
            let Some(pass) = report.plan.passes.get(summary.pass as usize) else { continue };
            let name = name_of(pass);
            let own = || report.results.trials.iter().filter(|trial| trial.pass == summary.pass);
            figures.extend(own().flat_map(|trial| loads_of(report, trial, summary.trials > 1)));
            let spread = |of: f64| (summary.trials > 1).then_some(of);
            for (what, rate) in
                [("read", summary.read_gib_per_second), ("write", summary.write_gib_per_second)]
            {
                let rate = Quantity::higher(rate.mean, "GiB/s").spread(spread(rate.deviation));
                let figure = Figure::throughput(&format!("{name} {what}"), rate);
                figures.push(Figure { headline: !of_loads, ..figure });
            }
            for (what, ms) in
                [("p95 read", summary.read_p95_ms_max), ("p95 fsync", summary.fsync_p95_ms_max)]
            {
                figures.extend(ms.map(|ms| Figure::percentile(&name, what, ms * 1e3)));
            }
            let costs: Vec<f64> = own().filter_map(TrialResult::cpu_seconds_per_gib).collect();
            if !costs.is_empty() {
                let mean = costs.iter().sum::<f64>() / costs.len() as f64;
                figures.push(Figure::cpu(&name, mean));
            }
        }
        figures
    }

    /// Everything that two runs must have in common to be the same work.
    fn work(report: &KvcacheReport) -> Work {
        let plan = &report.plan;
        let found = if plan.request.finds_max() { FOUND } else { &[] };
        let apart = [APART, found].concat();
        let hosts = KvcacheResults::hosts(report).to_string();
        let mut settings = Work::of_plan(plan, &apart).typed_as(OPTIONS).with("hosts", &hosts);
        let passes: Vec<String> = plan.passes.iter().map(|pass| load_of(plan, pass)).collect();
        let explains = &["passes", "transport.threads", "serving.loaders"];
        settings.add("load", passes.join(", "), explains);
        if let Some(load) = &plan.serving {
            add_chunks(&mut settings, plan, load);
        }
        // A requested capacity limits the chunks that prompts find; the free space varies by
        // chance.
        if let Some(bytes) = plan.request.run.capacity_bytes {
            settings.add("--capacity", format!("{} ({bytes} B)", ByteSize(bytes)), &[]);
        }
        settings.add("workload", plan.workload, &["workload", "serving", "transport"]);
        settings.add("duration", plan.duration_seconds, &["duration_seconds"]);
        if let Some(trace) = &plan.trace {
            let speed = speed_of(trace.speed);
            let what = format!("{} of {}, {}", trace.format, speed, entries_of(trace.entries));
            settings.add("trace", what, &["trace"]);
        }
        let explains = &["seed", "passes.requests_per_second", "passes.largest_object_bytes"];
        settings.add("seed", plan.seed, explains);
        let request = &plan.request;
        for (name, is_on) in [
            ("verify", request.run.verify),
            ("search", request.finds_max()),
            ("local storage", request.run.local_storage),
        ] {
            settings.add(name, switch(is_on), &[]);
        }
        settings
    }

    fn outcome(report: &KvcacheReport, verdict: String) -> Outcome {
        if let Some(find) = &report.results.find_max {
            let largest = Quantity::higher(f64::from(find.largest), "servers");
            return Outcome {
                what: if find.is_lower_bound { "at least" } else { "" },
                figure: (!find.tried.is_empty()).then_some(largest),
                verdict,
            };
        }
        if let Some(longest) = slowest_loads(report).pop() {
            let what = if longest.is_p95 { "longest prefix P95" } else { "longest prefix at most" };
            return Outcome { what, figure: Some(Quantity::lower(longest.ms, "ms")), verdict };
        }
        if nothing(report).is_some() && report.ending == Ending::Complete {
            let verdict = "no result".to_string();
            return Outcome { what: "", figure: None, verdict };
        }
        let first = report.results.passes.first().and_then(|pass| rates_of(pass).next());
        let what = if let Some(("write", _)) = first { "wrote at" } else { "read at" };
        Outcome { what, figure: first.map(|(_, rate)| rate), verdict }
    }
}

/// The times to load prefixes of a trial; further ones of a search are not the answer.
fn loads_of(report: &KvcacheReport, trial: &TrialResult, several: bool) -> Vec<Figure> {
    let name = report.plan.name();
    let name = if several { format!("{name} run {}", trial.trial) } else { name };
    let headline = report.results.find_max.is_none();
    let loads = trial.prompts.iter().flat_map(|prompts| &prompts.loads);
    let p95 = loads.filter_map(|loads| Some((loads.prefix_tokens, loads.load_ms.p95?)));
    p95.map(|(tokens, ms)| {
        let of = format!("{name} prefix of {tokens}");
        Figure { headline, ..Figure::percentile(&of, "p95 load", ms * 1e3) }
    })
    .collect()
}

/// Plan fields that do not affect whether two runs are the same work. Fields of the request without
/// another field of the plan are added by name.
const APART: &[&str] = &[
    "request",
    "capacity_bytes",
    "serving.most_chunks",
    // Whether chunks are dropped follows from the pace.
    "serving.drops",
    "trials",
    "pause_seconds",
    "free_bytes",
    "buffer_bytes",
    "warnings",
];

/// The fields that a search has chosen, which are its answer.
const FOUND: &[&str] = &["passes.workers", "serving.loaders", "transport.threads"];

/// Fields that follow from one option.
const OPTIONS: &[(&str, &str)] = &[
    ("transport.chunk_bytes", "--io-size"),
    ("transport.requested_engine", "--engine"),
    ("passes.memory_bytes", "--tune cpu-cache"),
    ("passes.concurrent_writes", "--tune concurrent-writes"),
    ("serving.prefixes", "--prefixes"),
    ("serving.prefix_tokens", "--prefix-tokens"),
    ("serving.reads_per_prefix", "--tune reuse"),
    ("serving.new_tokens", "--tune new-tokens"),
    ("serving.requests_per_second", "--request-rate"),
    ("serving.prefill_tokens_per_second", "--prefill-rate"),
];

/// The model of a pass and who asks for its objects; the servers of a search are its answer.
fn load_of(plan: &KvcachePlan, pass: &Pass) -> String {
    let name = name_of(pass);
    let threads = plan.serving.as_ref().map_or(pass.workers, |load| load.loaders);
    match pass.users {
        0 if plan.request.finds_max() => name,
        0 => format!("{name} with {}", counted(threads.into(), "thread")),
        users => format!("{name} with {}", counted(users.into(), "user")),
    }
}

/// Where chunks are and how they move, by the options that decide it.
fn add_chunks(settings: &mut Work, plan: &KvcachePlan, load: &ServingPlan) {
    let explains = &["serving.chunk_tokens", "serving.chunk_bytes", "passes.largest_object_bytes"];
    settings.add("--chunk-tokens", load.chunk_tokens, explains);
    settings.add("--tune layout", load.layout, &["serving.layout"]);
    let explains = &["serving.writers", "passes.workers", "transport.threads"];
    settings.add("--tune writers", load.writers, explains);
    let transport = &plan.transport;
    settings.add("--path", transport.path, &["transport"]);
    settings.add("--engine", transport.engine, &["transport.engine", "transport.requested_engine"]);
    let explains = &["transport.queue_depth", "transport.window", "transport.submit_batch"];
    settings.add("--queue-depth", transport.queue_depth, explains);
    let device = transport.device.map_or("none".to_string(), |device| device.to_string());
    let explains = &[
        "transport.device",
        "transport.devices",
        "transport.memory",
        "transport.emulated",
        "transport.placement",
    ];
    settings.add("--device", device, explains);
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use crate::plan::KvcacheWorkload;
    use stormlp_show::settings::differences;

    #[test]
    fn every_field_that_is_left_out_is_one_of_the_plan() {
        let plan = fixtures::serving().plan;
        let options: Vec<&str> = OPTIONS.iter().map(|(place, _)| *place).collect();
        let left_out = [APART, FOUND, &options].concat();
        let absent = stormlp_show::settings::absent_fields(&plan, &left_out);
        assert!(absent.iter().all(|field| *field == "warnings"), "{absent:?}");
    }

    #[test]
    fn searches_with_different_answers_are_the_same_work() {
        let (mut one, mut other) = (fixtures::find_max(), fixtures::find_max());
        other.plan.passes[0].workers += 5;
        other.plan.transport.threads += 5;
        let load = other.plan.serving.as_mut().expect("servers");
        (load.loaders, load.most_chunks) = (load.loaders + 5, 1);
        assert!(differences(&KvcacheResults::work(&one), &KvcacheResults::work(&other)).is_empty());
        let headlines = |report: &KvcacheReport| {
            let headlines =
                KvcacheResults::figures(report).into_iter().filter(|figure| figure.headline);
            headlines.map(|figure| figure.name).collect::<Vec<_>>()
        };
        assert_eq!(headlines(&one), ["fed"]);
        assert_eq!(headlines(&fixtures::serving()), ["p95 load"; 3]);
        // Whatever differs has the name of an option.
        let mut third = fixtures::find_max();
        third.plan.request.run.capacity_bytes = Some(1 << 30);
        let load = third.plan.serving.as_mut().expect("servers");
        (load.chunk_tokens, load.chunk_bytes) = (64, 1 << 20);
        (load.prefill_tokens_per_second, load.writers) = (Some(5000.0), 9);
        third.plan.passes[0].workers += 5;
        third.plan.passes[0].largest_object_bytes = 1 << 20;
        third.plan.transport.queue_depth = 9;
        let found = differences(&KvcacheResults::work(&one), &KvcacheResults::work(&third));
        let names: Vec<&str> = found.iter().map(|one| one.setting.as_str()).collect();
        let expected =
            ["--chunk-tokens", "--tune writers", "--queue-depth", "--capacity", "--prefill-rate"];
        assert_eq!(names, expected, "{found:?}");
        // Of runs that are no searches, servers are part of the load.
        for report in [&mut one, &mut other] {
            report.plan.request.workload = KvcacheWorkload::default();
        }
        assert!(
            !differences(&KvcacheResults::work(&one), &KvcacheResults::work(&other)).is_empty()
        );
    }
}
