//! Requirements of a run: ranks, files, bytes, space.

use crate::plan::{CheckpointPlan, RankPlan, gib};
use stormlp_core::path::PathKind;
use stormlp_core::units::{ByteSize, counted, format_duration};

use stormlp_show::document::{Document, DryRun, Facts};

/// The mark of a scaled run; `None` if the plan is not scaled.
pub fn mark(plan: &CheckpointPlan) -> Option<String> {
    plan.is_scaled().then(|| format!("SCALED to {}", plan.scaling.percent()))
}

/// The model and, of a scaled run, how much of it there is.
fn model(plan: &CheckpointPlan) -> String {
    let Some(mark) = mark(plan) else { return plan.model.clone() };
    let part = &plan.scaling;
    format!(
        "{}, {mark}: {} of {} ranks, {} of {} layers",
        plan.model, part.ranks, part.full_ranks, part.layers, part.full_layers
    )
}

/// The work of a run, printed before it starts: a line, as the screen at its end shows the rest.
pub fn opening(plan: &CheckpointPlan) -> Document {
    let mut document = requirements(plan);
    document.facts = document.all_facts();
    document.brief.0.clear();
    document
}

/// The requirements of a run.
fn requirements(plan: &CheckpointPlan) -> Document {
    let mut document = Document::new(format!(
        "checkpoint {}: {} and {} of {}",
        plan.model,
        counted(plan.writes.into(), "save"),
        counted(plan.restores.len() as u64, "restore"),
        gib(plan.total_bytes)
    ));
    document.mark = mark(plan);
    setup(plan, &mut document);
    document
}

/// The connections to an object store, and placement of buffers and threads, as far as requested.
fn buffers_and_threads(plan: &CheckpointPlan, facts: &mut Facts) {
    if plan.path() == PathKind::S3 {
        let connections = [&plan.save, &plan.restore].map(|way| way.threads * way.queue_depth);
        let [saves, restores] = connections;
        let buffers = ByteSize(plan.buffer_bytes);
        let words = format!("{saves} to save, {restores} to restore; {buffers} of buffers");
        facts.add("connections", words);
    }
    if let Some(remark) = plan.save.pages.remark() {
        facts.add("buffers", remark);
    }
    if let Some(words) = plan.save.devices_in_words() {
        facts.add("devices", words);
    }
    if let Some(words) = plan.save.threads_in_words() {
        facts.add("threads", words);
    }
}

/// The job, the size of its checkpoints, and the space they require.
pub(super) fn setup(plan: &CheckpointPlan, document: &mut Document) {
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    let spread = &plan.layout.parallelism;
    brief.add("model", model(plan));
    facts.add("parameters", plan.parameters);
    facts.add("edition", plan.profile);
    facts.add(
        "ranks",
        format!(
            "{} of {} (TP {} × PP {} × DP {}), ZeRO {}",
            plan.scaling.ranks,
            spread.ranks(),
            spread.tensor,
            spread.pipeline,
            spread.data,
            u8::from(spread.zero_stage)
        ),
    );
    let files: usize = plan.ranks.iter().map(|rank| rank.files.len()).sum();
    let bytes = plan.ranks.iter().map(|rank| rank.bytes);
    let (least, most) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
    let per_rank =
        if least == most { gib(most) } else { format!("{} to {}", gib(least), gib(most)) };
    let total = gib(plan.total_bytes);
    let synced = match plan.path() {
        PathKind::S3 => String::new(),
        _ => format!(", fsync {}", plan.durable()),
    };
    brief.add("checkpoint", format!("{total} in {files} files, path {}{synced}", plan.path()));
    facts.add("bytes per rank", per_rank);
    if let Some(client) = &plan.client {
        brief.add("client", client.to_string());
    }
    if plan.is_scaled() {
        brief.add("full size", &plan.full_run);
    }
    facts.add(
        "order",
        format!(
            "{} and {}, {}",
            counted(plan.writes.into(), "save"),
            counted(plan.restores.len() as u64, "restore"),
            if plan.pause_seconds > 0.0 {
                format!("{} apart", format_duration(plan.pause_seconds))
            } else {
                "one after the other".to_string()
            }
        ),
    );
    buffers_and_threads(plan, facts);
    facts.add("run", format!("{} in each --dir", plan.run));
    facts.add("space", space(plan));
}

/// Space required by the checkpoints that are kept at the same time, compared to free space.
fn space(plan: &CheckpointPlan) -> String {
    let kept = plan.peak_bytes.checked_div(plan.total_bytes).unwrap_or(0);
    let free = plan.free_bytes.map_or("not checked".to_string(), gib);
    let peak = gib(plan.peak_bytes);
    format!("up to {} at a time: {peak}; free: {free}", counted(kept, "checkpoint"))
}

/// The plan as text: the opening, how bytes move, the ranks, and the parts that do not fit.
pub fn dry_run(dry_run: &DryRun<'_, CheckpointPlan>) -> Document {
    let plan = dry_run.plan;
    let mut document = requirements(plan);
    document.brief = document.all_facts();
    document.facts.0.clear();
    document.warn(&plan.warnings);
    for (name, phase) in [("saves", &plan.save), ("restores", &plan.restore)] {
        let by = match phase.path.has_engine() {
            true => phase.engine.name(),
            false => phase.path.name(),
        };
        document.facts.add(
            name,
            format!(
                "by {by} ({} threads, {} in flight per rank), {} per transfer",
                phase.threads,
                phase.window,
                ByteSize(phase.chunk_bytes)
            ),
        );
    }
    document.facts.add("exact size", format!("{} bytes", plan.total_bytes));
    for group in groups(&plan.ranks) {
        ranks(&mut document, group);
    }
    dry_run.add_problems(&mut document);
    document
}

/// Groups of neighbouring ranks with files of the same sizes.
fn groups(ranks: &[RankPlan]) -> Vec<&[RankPlan]> {
    ranks
        .chunk_by(|a, b| {
            let sizes =
                |rank: &RankPlan| rank.files.iter().map(|file| file.bytes).collect::<Vec<_>>();
            a.bytes == b.bytes && sizes(a) == sizes(b)
        })
        .collect()
}

/// A group of identical ranks: their number and size, and the files of the first.
fn ranks(document: &mut Document, group: &[RankPlan]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    let name = match group.len() {
        1 => format!("rank {}", first.rank),
        _ => format!("ranks {} to {}", first.rank, last.rank),
    };
    let each = if group.len() > 1 { " each" } else { "" };
    let title = format!("{name}: {} bytes{each}, {} files", first.bytes, first.files.len());
    let section = document.details(&title, None);
    for file in &first.files {
        section.facts.add(format!("{:>16}", file.bytes), &file.name);
    }
}
