//! What prompts of a serving engine waited for: the time to load prefixes, by their length.

use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, counted};
use stormlp_show::document::{Cell, Column, Facts, Quantity, Table};

use super::run::{UNKNOWN, key_of, ms, name_cells, name_columns, per_trial, seconds_of};
use super::size_of;
use crate::plan::{KvcachePlan, Layout, ServingPlan};
use crate::report::{FirstToken, KvcacheReport, PrefixLoads, TrialResult};

/// Columns that need a rate of computing.
const SHARE: &str = "% of first token P50";
const SLOW_SHARE: &str = "% P95";
const SAVES: &str = "faster than computing";
/// The column of what has a pace.
const BEHIND: &str = "behind ms P95";

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
        Layout::Packed => format!("{} in a file", load.chunks_per_file),
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

/// The time to load a prefix, by its length.
pub(super) fn table(report: &KvcacheReport) -> Table {
    let columns = [
        Column::numbers("tokens", 0),
        Column::numbers("loads", 1),
        Column::numbers("P50 ms", 0).leading(),
        Column::numbers("P95 ms", 0),
        Column::numbers("P99 ms", 0),
        Column::numbers("GiB/s of a load", 1),
        Column::numbers(SHARE, 2),
        Column::numbers(SLOW_SHARE, 2),
        Column::numbers(SAVES, 2),
    ];
    let mut table = Table::new(name_columns().into_iter().chain(columns));
    for (trial, loads) in loads(report) {
        let times = Some(loads.load_ms);
        let mut cells = name_cells(report, trial);
        cells.extend([
            loads.prefix_tokens.to_string().into(),
            loads.load_ms.count.to_string().into(),
            ms(times, |one| one.p50),
            ms(times, |one| one.p95),
            ms(times, |one| one.p99),
            Quantity::higher(loads.gib_per_second, "GiB/s").into(),
        ]);
        cells.extend(first_token(loads.first_token));
        table.row(format!("{} {} tokens", key_of(report, trial), loads.prefix_tokens), cells);
    }
    let load = report.plan.serving.as_ref();
    // A trace does not say how many of its tokens are new.
    if load.is_none_or(|load| load.prefill_tokens_per_second.is_none() || load.new_tokens == 0) {
        table.remove(SHARE);
        table.remove(SLOW_SHARE);
    }
    if load.is_none_or(|load| load.prefill_tokens_per_second.is_none()) {
        table.remove(SAVES);
    }
    table
}

fn first_token(known: Option<FirstToken>) -> [Cell; 3] {
    let share = |of: Option<f64>| match of {
        Some(share) => Quantity::lower(share * 100.0, "%").into(),
        None => UNKNOWN.into(),
    };
    match known {
        Some(known) => [
            share(known.storage_share_p50),
            share(known.storage_share_p95),
            Quantity::higher(known.saves_times, "times").into(),
        ],
        None => ["-", "-", "-"].map(Cell::from),
    }
}

/// The prompts of each trial, and what was written behind them.
pub(super) fn prompts(report: &KvcacheReport) -> Table {
    let columns = [
        Column::numbers("prompts", 0),
        Column::numbers("tokens loaded %", 0),
        Column::numbers(BEHIND, 1),
        Column::numbers("chunks read", 1),
        Column::numbers("written", 0),
        Column::numbers("dropped", 0),
        Column::numbers("waiting", 0),
        Column::numbers("deleted", 1),
    ];
    let load = report.plan.serving.as_ref();
    let is_paced = match &report.plan.trace {
        Some(trace) => trace.paced_seconds().is_some(),
        None => load.is_some_and(|load| load.requests_per_second.is_some()),
    };
    let mut table = per_trial(report, columns, |trial| {
        let (_, served, late) = trial.requests();
        let share = trial.prompts.as_ref().map_or(0.0, |prompts| prompts.loaded_share());
        let unwritten = trial.prompts.as_ref().map(|prompts| [prompts.dropped, prompts.waiting]);
        let [dropped, waiting] = unwritten.unwrap_or_default();
        vec![
            (served + late).to_string().into(),
            Quantity::neutral(share * 100.0, "%").into(),
            ms(trial.times_ms.queue_wait, |one| one.p95),
            (trial.read.objects + trial.read.late_objects).to_string().into(),
            (trial.written.objects + trial.written.late_objects).to_string().into(),
            dropped.to_string().into(),
            waiting.to_string().into(),
            trial.evictions.deleted.to_string().into(),
        ]
    });
    if !is_paced {
        table.remove(BEHIND);
    }
    table
}
