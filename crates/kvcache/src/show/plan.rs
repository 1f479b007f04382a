//! Work and requirements of a run.

use stormlp_core::printable::printable;
use stormlp_core::units::{ByteSize, counted, format_duration};
use stormlp_show::document::{Document, DryRun, Table, number, word};

use super::trials::name_of;
use super::{serving, size_of};
use crate::plan::{KvcachePlan, Pass, Speed, TracePlan, WorkloadName};

/// How to read a run of MLPerf's workload.
const OFFERED: &str = "MLPerf offers more load than storage serves: most requests are never served, \
                       and the result is the bandwidth and the P95 of whole objects.";

/// The requirements of a run, printed before it starts.
pub fn opening(plan: &KvcachePlan) -> Document {
    let trials = u64::from(plan.trials) * plan.passes.len() as u64;
    let mut document = Document::new(format!(
        "kvcache {} {}: {} {}",
        plan.workload,
        plan.name(),
        counted(trials, "run"),
        length(plan)
    ));
    setup(plan, &mut document);
    document.brief = document.all_facts();
    document.facts.0.clear();
    document.warn(&plan.warnings);
    document
}

/// How long a trial is.
fn length(plan: &KvcachePlan) -> String {
    match &plan.trace {
        Some(_) if plan.ends_with_trace() => "of a whole trace".to_string(),
        Some(_) => format!("of up to {} of a trace", format_duration(plan.duration_seconds)),
        None => format!("of {}", format_duration(plan.duration_seconds)),
    }
}

/// The speed of a trace as text.
pub(super) fn speed_of(speed: Speed) -> String {
    match speed {
        Speed::Times(1.0) => "recorded speed".to_string(),
        Speed::Times(times) => format!("{times} times recorded speed"),
        Speed::Max => "full speed".to_string(),
    }
}

/// The entries of a trace, counted.
pub(super) fn entries_of(count: u64) -> String {
    if count == 1 { "1 entry".to_string() } else { format!("{count} entries") }
}

/// The trace, and its lines without work for storage.
fn trace_of(plan: &KvcachePlan, trace: &TracePlan) -> String {
    let file = plan.request.trace().map_or(String::new(), ToString::to_string);
    let skipped = match trace.skipped {
        0 => String::new(),
        1 => " (1 more line without work)".to_string(),
        lines => format!(" ({lines} more lines without work)"),
    };
    format!(
        "{}, {} of {} at {}{skipped}: {}",
        trace.format,
        entries_of(trace.entries),
        format_duration(trace.span_seconds),
        speed_of(trace.speed),
        printable(&file)
    )
}

fn transfers(plan: &KvcachePlan) -> String {
    if plan.serving.is_some() {
        return serving::transfers(plan);
    }
    let transport = &plan.transport;
    format!(
        "path {} by {}, {} a call; fsync after each object; pages dropped before each read",
        transport.path,
        transport.engine,
        ByteSize(transport.chunk_bytes)
    )
}

/// The load, the folder and how bytes move.
pub(super) fn setup(plan: &KvcachePlan, document: &mut Document) {
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    let request = &plan.request;
    match &plan.serving {
        Some(load) => serving::describe(plan, load, brief),
        None => {
            let load: Vec<String> = plan.passes.iter().map(load_of).collect();
            brief.add("load", load.join("; "));
        }
    }
    if let Some(trace) = &plan.trace {
        brief.add("trace", trace_of(plan, trace));
    }
    let (folder, seed) = match plan.rank {
        None => (request.own_folder(), plan.seed.to_string()),
        Some(rank) => {
            brief.add("processes", "each with this load, in folder rank_N, with a different seed");
            let folder = request.run.folder.clone().unwrap_or_default();
            (folder.join("rank_N").into(), format!("{} + N", plan.seed.wrapping_sub(rank)))
        }
    };
    let is_default = request.run.capacity_bytes.is_none() && !request.is_closed();
    let capacity = match plan.capacity_bytes {
        u64::MAX => String::new(),
        bytes if is_default => format!(", up to {} (default; see --capacity)", size_of(bytes)),
        bytes => format!(", up to {}", size_of(bytes)),
    };
    brief.add("objects", format!("{folder}{capacity}"));
    let pauses = match (request.is_closed(), plan.pause_seconds > 0.0) {
        (true, _) => format!(", {} between options", format_duration(plan.pause_seconds)),
        (false, true) => format!(", {} between them", format_duration(plan.pause_seconds)),
        (false, false) => String::new(),
    };
    let runs = counted(plan.trials.into(), "run");
    facts.add("runs", format!("{runs} {}{pauses}", length(plan)));
    facts.add(
        "requests",
        match plan.trace {
            Some(_) => format!("from the trace; seed {seed} for content"),
            None if plan.serving.is_some() => serving::requests(plan, &seed),
            None => format!("seed {seed}"),
        },
    );
    facts.add("transfers", transfers(plan));
    if request.run.verify {
        facts.add("verification", "all bytes that are read; the times of reads include it");
    }
    facts.add("memory", format!("{} for buffers and noise", size_of(plan.buffer_bytes)));
}

fn load_of(pass: &Pass) -> String {
    let memory = match pass.memory_bytes {
        0 => String::new(),
        bytes => format!(", {} of CPU cache first", size_of(bytes)),
    };
    let option = pass.option.map_or(String::new(), |option| format!("option {option}: "));
    let by = match pass.users {
        0 => counted(pass.workers.into(), "thread"),
        users => counted(users.into(), "user"),
    };
    let writes = counted(pass.concurrent_writes.into(), "write");
    format!("{option}{}, {by}, {writes} at a time{memory}", pass.model.name)
}

/// The plan as text: the opening, the load of each pass, and the parts that do not fit.
pub fn dry_run(dry_run: &DryRun<'_, KvcachePlan>) -> Document {
    let plan = dry_run.plan;
    let mut document = opening(plan);
    if plan.trace.is_none() && plan.serving.is_none() {
        let table = Table::of(
            &plan.passes,
            |pass| name_of(pass),
            vec![
                word("option", 0, |pass: &&Pass| name_of(pass)),
                number("users", 0, |pass: &&Pass| pass.users),
                number("threads", 0, |pass: &&Pass| pass.workers),
                number("requests/s", 0, |pass: &&Pass| format!("{:.0}", pass.requests_per_second)),
                number("largest object", 0, |pass: &&Pass| size_of(pass.largest_object_bytes)),
            ],
        );
        let section = document.section("Requests that the users send", Some(table));
        if plan.workload == WorkloadName::Mlperf {
            section.lines.push(OFFERED.to_string());
        }
    }
    if let Some(free) = plan.free_bytes {
        document.brief.add("free", size_of(free));
    }
    dry_run.add_problems(&mut document);
    document
}
