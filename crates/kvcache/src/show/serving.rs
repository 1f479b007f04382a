//! The waits of prompts of a serving engine: the time to load prefixes, by their length.

use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, counted};
use stormlp_show::document::{Cell, Document, Facts, Quantity, Table, number};
use stormlp_show::numbers::short;

use super::size_of;
use super::trials::{Trial, UNKNOWN, gib_s, key_of, known_ms, ms, per_trial, seconds_of};
use crate::plan::{KvcachePlan, Layout, ServingPlan};
use crate::report::{KvcacheReport, PrefixLoads, PromptsServed, Timed, TrialResult};

/// The load as text.
pub(super) fn describe(plan: &KvcachePlan, load: &ServingPlan, facts: &mut Facts) {
    let prompts = counted(load.loaders.into(), "concurrent prompt");
    let arrive = load.requests_per_second.map(|rate| format!("{rate} prompts/s"));
    let rate = load.prefill_tokens_per_second;
    let prefill = rate.map(|rate| format!("prefill {} tokens/s", short(rate)));
    let depth = format!("queue depth {}", plan.transport.queue_depth);
    let parts = [Some(plan.name()), Some(prompts), arrive, Some(depth), prefill];
    facts.add("load", parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let layout = match load.layout {
        Layout::Files if plan.transport.path == PathKind::S3 => "one object each".to_string(),
        Layout::Files => "one file each".to_string(),
        Layout::Packed => format!("{} per file", load.chunks_per_file()),
    };
    let chunks =
        format!("in {}-token chunks of {}, {layout}", load.chunk_tokens, size_of(load.chunk_bytes));
    if load.prefixes == 0 {
        return facts.add("prefixes", format!("from the trace, {chunks}"));
    }
    let lengths: Vec<String> = load.prefix_tokens.iter().map(ToString::to_string).collect();
    let bytes = size_of(load.prefix_bytes());
    let lengths = lengths.join(", ");
    let count = load.prefixes;
    facts.add("prefixes", format!("{count} of {lengths} tokens ({bytes}) {chunks}"));
}

/// Which prompts there are.
pub(super) fn requests(plan: &KvcachePlan, seed: &str) -> String {
    let reuse = plan.serving.as_ref().map_or(0.0, |load| load.reads_per_prefix);
    format!("{reuse} prompts with a stored prefix per prompt with a new one; seed {seed}")
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
        Some(_) if transport.device_count() > 1 => {
            format!(" into memory of {} devices", transport.device_count())
        }
        Some(device) => format!(" into memory of {device}"),
        None => String::new(),
    };
    let cold = match path {
        PathKind::S3 => "an object is there once its upload is completed",
        _ if path.wants_direct() => "no fsync during a trial; O_DIRECT",
        _ => "no fsync during a trial; pages dropped before each read",
    };
    let writers = plan.serving.as_ref().map_or(0, |load| u64::from(load.writers));
    let writers = counted(writers, "background writer");
    format!(
        "path {path}{by}{into}, {} per call; {cold}; {writers}",
        ByteSize(transport.chunk_bytes)
    )
}

/// All loads of all trials.
fn loads(report: &KvcacheReport) -> impl Iterator<Item = (&TrialResult, &PrefixLoads)> {
    let trials = report.results.trials.iter();
    trials.flat_map(|trial| {
        let prompts = trial.prompts.iter();
        prompts.flat_map(|prompts| &prompts.loads).map(move |loads| (trial, loads))
    })
}

/// The slowest loads of prefixes of one length, over all runs.
pub(super) struct SlowestLoads {
    /// The length.
    tokens: u32,
    /// The P95, or the maximum of too few loads, in milliseconds.
    pub(super) ms: f64,
    /// Whether all of them are percentiles.
    pub(super) is_p95: bool,
    /// The time to compute as many tokens in milliseconds, if it is known.
    computing_ms: Option<f64>,
}

impl SlowestLoads {
    /// Time to load ÷ time to compute.
    fn of_computing(&self) -> Option<f64> {
        self.computing_ms.map(|computing| self.ms / computing)
    }

    fn to_text(&self) -> String {
        let what = if self.is_p95 { "P95" } else { "at most" };
        let against = self
            .computing_ms
            .map_or(String::new(), |computing| format!(" against {}", seconds_of(computing)));
        format!("{what} {}{against} for {} tokens", seconds_of(self.ms), self.tokens)
    }
}

/// The answer: the slowest loads of each length, the shortest first.
pub(super) fn slowest_loads(report: &KvcacheReport) -> Vec<SlowestLoads> {
    let mut of_lengths: Vec<SlowestLoads> = Vec::new();
    for (_, loads) in loads(report) {
        let (tokens, computing_ms) = (loads.prefix_tokens, loads.computing_ms);
        let (ms, is_p95) = loads.load_ms.p95.map_or((loads.load_ms.max, false), |ms| (ms, true));
        match of_lengths.iter_mut().find(|one| one.tokens == tokens) {
            Some(one) => {
                one.is_p95 &= is_p95;
                if ms > one.ms {
                    (one.ms, one.computing_ms) = (ms, computing_ms);
                }
            }
            None => of_lengths.push(SlowestLoads { tokens, ms, is_p95, computing_ms }),
        }
    }
    of_lengths.sort_by_key(|one| one.tokens);
    of_lengths
}

/// The answer as text: whether loading a prefix is faster than computing it.
pub(super) fn answer(report: &KvcacheReport) -> Option<String> {
    let of_lengths = slowest_loads(report);
    let slower: Vec<String> = of_lengths
        .iter()
        .filter(|one| one.of_computing().is_some_and(|share| share > 1.0))
        .map(|one| one.tokens.to_string())
        .collect();
    let share = |one: &&SlowestLoads| one.of_computing().unwrap_or(0.0);
    let worst = of_lengths.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
    if worst.computing_ms.is_none() {
        // Of many lengths the longest matter.
        let longest = of_lengths.len().saturating_sub(3);
        let words: Vec<_> = of_lengths[longest..].iter().map(SlowestLoads::to_text).collect();
        return Some(format!("prefix loads: {}", words.join(", ")));
    }
    let verdict = match slower.len() {
        0 => "faster than computing".to_string(),
        all if all == of_lengths.len() => "slower than computing".to_string(),
        _ => format!("slower than computing at {} tokens", slower.join(", ")),
    };
    Some(format!("loading is {verdict}: {}", worst.to_text()))
}

/// How prefixes loaded, with the sums of all runs below.
pub(super) fn add_loads(document: &mut Document, report: &KvcacheReport) {
    let computes = loads(report).any(|(_, loads)| loads.computing_ms.is_some());
    let title = match computes {
        true => "Time to load a prefix, and to compute it instead",
        false => "Time to load a prefix",
    };
    let section = document.section(title, Some(table(report, computes)));
    let mut all = PromptsServed::default();
    let (mut prompts, mut written) = (0, 0);
    for trial in &report.results.trials {
        prompts += trial.requests.done();
        written += trial.written.objects + trial.written.late_objects;
        if let Some(of) = &trial.prompts {
            all.tokens += of.tokens;
            all.loaded_tokens += of.loaded_tokens;
            all.dropped += of.dropped;
            all.waiting += of.waiting;
        }
    }
    section.lines.push(format!(
        "hit rate {:.0} %; {}; {} written, {} dropped, {} waiting",
        all.loaded_share() * 100.0,
        counted(prompts, "prompt"),
        counted(written, "chunk"),
        all.dropped,
        all.waiting
    ));
    let rates = report.results.passes.iter().map(|pass| {
        let [read, write] = [pass.read_gib_per_second, pass.write_gib_per_second];
        format!("read {} GiB/s, write {} GiB/s", short(read.mean), short(write.mean))
    });
    section.lines.extend(rates);
    if !computes {
        let how = "--prefill-rate TOKENS shows whether loading is faster than computing";
        section.lines.push(how.to_string());
    }
}

fn table(report: &KvcacheReport, computes: bool) -> Table {
    let load = report.plan.serving.as_ref();
    let of_prefixes = load.filter(|load| load.prefixes > 0);
    let size = move |tokens: u32| {
        of_prefixes.map_or(0, |load| u64::from(tokens / load.chunk_tokens) * load.chunk_bytes)
    };
    let share = |one: &PrefixLoads| Some(one.load_ms.p95? / one.computing_ms?);
    Table::of(
        loads(report),
        |(trial, loads)| format!("{} {} tokens", key_of(report, trial), loads.prefix_tokens),
        vec![
            number("run", 0, |(trial, _): &Loaded<'_>| u64::from(trial.trial))
                .when(report.results.trials.len() > 1),
            number("tokens", 0, |(_, loads): &Loaded<'_>| u64::from(loads.prefix_tokens)),
            number("size", 1, move |(_, loads): &Loaded<'_>| size_of(size(loads.prefix_tokens)))
                .when(of_prefixes.is_some()),
            number("loads", 1, |(_, loads): &Loaded<'_>| loads.load_ms.count),
            number("P50 ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p50)).leading(),
            number("P95 ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p95)),
            number("P99 ms", 2, |(_, loads): &Loaded<'_>| known_ms(loads.load_ms.p99)),
            number("GiB/s of a load", 3, |(_, loads): &Loaded<'_>| gib_s(loads.gib_per_second)),
            number("compute ms", 0, |(_, loads): &Loaded<'_>| known_ms(loads.computing_ms))
                .when(computes),
            number("P95 ÷ compute", 0, move |(_, loads): &Loaded<'_>| match share(loads) {
                Some(share) => Quantity::lower(share, "x").into(),
                None => Cell::from(UNKNOWN),
            })
            .when(computes),
        ],
    )
}

/// A run, and how it loaded prefixes of one length.
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
            number("prefix hits %", 0, |one: &Trial| {
                let share = one.prompts.as_ref().map_or(0.0, |prompts| prompts.loaded_share());
                Quantity::neutral(share * 100.0, "%")
            }),
            number("behind ms P95", 1, |one: &Trial| ms(one, Timed::QueueWait, |one| one.p95))
                .when(is_paced),
            number("chunks read", 1, |one: &Trial| one.read.objects + one.read.late_objects),
            number("written", 0, |one: &Trial| one.written.objects + one.written.late_objects),
            number("dropped", 0, move |one: &Trial| of(one, |prompts| prompts.dropped)),
            number("waiting", 0, move |one: &Trial| of(one, |prompts| prompts.waiting)),
            number("evicted", 1, |one: &Trial| one.evictions.deleted),
        ],
    )
}
