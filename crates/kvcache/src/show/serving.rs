//! What prompts of a serving engine waited for: the time to load prefixes, by their length.

use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, counted};
use stormlp_show::document::{Cell, Facts, Quantity, Table, number, word};

use super::size_of;
use super::trials::{
    Trial, UNKNOWN, gib_s, key_of, known_ms, ms, pass_name, per_trial, seconds_of,
};
use crate::plan::{KvcachePlan, Layout, ServingPlan};
use crate::report::{KvcacheReport, PrefixLoads, PromptsServed, Timed, TrialResult};

/// The load in words.
pub(super) fn describe(plan: &KvcachePlan, load: &ServingPlan, facts: &mut Facts) {
    let depth = counted(plan.transport.queue_depth as u64, "transfer");
    let prompts = match load.requests_per_second {
        Some(rate) => format!("{rate} prompts/s by {}", counted(load.loaders.into(), "thread")),
        None => format!("{} at a time", counted(load.loaders.into(), "prompt")),
    };
    let writers = counted(load.writers.into(), "thread");
    let rate = load.prefill_tokens_per_second;
    let computes =
        rate.map_or(String::new(), |rate| format!("; {rate} tokens/s computed for each"));
    let model = plan.name();
    facts.add(
        "load",
        format!("{model}, {prompts}, {depth} in flight each; written by {writers}{computes}"),
    );
    let layout = match load.layout {
        Layout::Files if plan.transport.path == PathKind::S3 => "each an object".to_string(),
        Layout::Files => "each in a file".to_string(),
        Layout::Packed => format!("{} in a file", load.chunks_per_file()),
    };
    let chunks =
        format!("chunks of {} tokens ({}), {layout}", load.chunk_tokens, size_of(load.chunk_bytes));
    if load.prefixes == 0 {
        return facts.add("prefixes", format!("those of the trace, in {chunks}"));
    }
    let lengths: Vec<String> = load.prefix_tokens.iter().map(ToString::to_string).collect();
    facts.add(
        "prefixes",
        format!(
            "{} of {} tokens, {} in {chunks}; {} prompts read one for each that brings a new one",
            load.prefixes,
            lengths.join(", "),
            size_of(load.prefix_bytes()),
            load.reads_per_prefix
        ),
    );
}

/// How bytes move.
pub(super) fn transfers(plan: &KvcachePlan) -> String {
    let transport = &plan.transport;
    let path = transport.path;
    let by = match path.has_engine() {
        true => format!(" by {}", transport.engine),
        false => String::new(),
    };
    let into = match transport.device.filter(|_| path.ends_in_accelerator()) {
        Some(_) if transport.emulated => " into host memory (emulated)".to_string(),
        Some(device) => format!(" into memory of {device}"),
        None => String::new(),
    };
    let cold = match path {
        PathKind::S3 => "an object is there once its upload is completed",
        _ if path.wants_direct() => "no fsync during a trial; O_DIRECT",
        _ => "no fsync during a trial; pages dropped before each read",
    };
    format!("path {path}{by}{into}, {} a call; {cold}", ByteSize(transport.chunk_bytes))
}

/// All loads of all trials.
fn loads(report: &KvcacheReport) -> impl Iterator<Item = (&TrialResult, &PrefixLoads)> {
    let trials = report.results.trials.iter();
    trials.flat_map(|trial| {
        let prompts = trial.prompts.iter();
        prompts.flat_map(|prompts| &prompts.loads).map(move |loads| (trial, loads))
    })
}

/// The answer: for each length, in order, the slowest P95 over the trials in milliseconds; `false` if it
/// is the slowest load, as there were too few for a percentile.
pub(super) fn slowest_loads(report: &KvcacheReport) -> Vec<(u32, f64, bool)> {
    let mut of_lengths: Vec<(u32, f64, bool)> = Vec::new();
    for (_, loads) in loads(report) {
        let (ms, is_p95) = loads.load_ms.p95.map_or((loads.load_ms.max, false), |ms| (ms, true));
        match of_lengths.iter_mut().find(|(tokens, ..)| *tokens == loads.prefix_tokens) {
            Some((_, slowest, all_p95)) => {
                (*slowest, *all_p95) = (slowest.max(ms), *all_p95 && is_p95);
            }
            None => of_lengths.push((loads.prefix_tokens, ms, is_p95)),
        }
    }
    of_lengths.sort_by_key(|(tokens, ..)| *tokens);
    of_lengths
}

/// The answer in words.
pub(super) fn answer(report: &KvcacheReport) -> Option<String> {
    let of_lengths = slowest_loads(report);
    // Of many lengths the longest say the most.
    let most = of_lengths.len().saturating_sub(3);
    let words = of_lengths[most..].iter().map(|(tokens, ms, is_p95)| {
        let what = if *is_p95 { "P95 " } else { "at most " };
        format!("{tokens} tokens in {what}{}", seconds_of(*ms))
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| format!("loaded prefixes of {}", words.join(", ")))
}

pub(super) fn table(report: &KvcacheReport) -> Table {
    let rate = report.plan.serving.as_ref().and_then(|load| load.prefill_tokens_per_second);
    let computes = rate.is_some();
    let share = |one: &PrefixLoads| Some(one.load_ms.p95? / one.computing_ms? * 100.0);
    Table::of(
        loads(report),
        |(trial, loads)| format!("{} {} tokens", key_of(report, trial), loads.prefix_tokens),
        vec![
            word("option", 0, |(trial, _): &Loaded<'_>| pass_name(report, trial.pass)).setting(),
            number("trial", 0, |(trial, _): &Loaded<'_>| u64::from(trial.trial)),
            number("tokens", 0, |(_, loads): &Loaded<'_>| u64::from(loads.prefix_tokens)),
            number("loads", 1, |(_, loads): &Loaded<'_>| loads.load_ms.count),
            number("P50 ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p50)).leading(),
            number("P95 ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p95)),
            number("P99 ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p99)),
            number("GiB/s of a load", 1, |(_, loads): &Loaded<'_>| gib_s(loads.gib_per_second)),
            number("compute ms", 2, |(_, loads): &Loaded<'_>| known_ms(loads.computing_ms))
                .when(computes),
            number("P95 % of computing", 0, move |(_, loads): &Loaded<'_>| match share(loads) {
                Some(percent) => Quantity::lower(percent, "%").into(),
                None => Cell::from(UNKNOWN),
            })
            .when(computes),
        ],
    )
}

/// A trial, and how it loaded prefixes of one length.
type Loaded<'a> = (&'a TrialResult, &'a PrefixLoads);

pub(super) fn prompts(report: &KvcacheReport) -> Table {
    let load = report.plan.serving.as_ref();
    let is_paced = match &report.plan.trace {
        Some(trace) => trace.paced_seconds().is_some(),
        None => load.is_some_and(|load| load.requests_per_second.is_some()),
    };
    let of =
        |one: &Trial, figure: fn(&PromptsServed) -> u64| one.prompts.as_ref().map_or(0, figure);
    per_trial(
        report,
        vec![
            number("prompts", 0, |one: &Trial| one.requests.done()),
            number("tokens loaded %", 0, |one: &Trial| {
                let share = one.prompts.as_ref().map_or(0.0, |prompts| prompts.loaded_share());
                Quantity::neutral(share * 100.0, "%")
            }),
            number("behind ms P95", 1, |one: &Trial| ms(one, Timed::QueueWait, |one| one.p95))
                .when(is_paced),
            number("chunks read", 1, |one: &Trial| one.read.objects + one.read.late_objects),
            number("written", 0, |one: &Trial| one.written.objects + one.written.late_objects),
            number("dropped", 0, move |one: &Trial| of(one, |prompts| prompts.dropped)),
            number("waiting", 0, move |one: &Trial| of(one, |prompts| prompts.waiting)),
            number("deleted", 1, |one: &Trial| one.evictions.deleted),
        ],
    )
}
