//! Resolves a request and the facts to a plan, or to all problems that prevent one.

use super::adopt;
use super::choice::{CheckpointProfile, Container, ScaleChoice, is_chunk};
use super::facts::CheckpointFacts;
use super::layout::Layout;
use super::marker::ContentFacts;
use super::request::CheckpointRequest;
use super::rules;
use super::saved;
use super::scale::{Scaling, cut};
use super::space;
use super::transport;
use super::warnings;
use super::workload::{HOST_RANKS, Mode};
use crate::plan::checkpoint_plan::{CheckpointPlan, RankPlan};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::{Problems, Resolution};
use stormlp_core::path::PathKind;
use stormlp_core::placement;
use stormlp_core::transport::{
    DeviceId, Transport, check_objects_only, idle_warning, statistics_warning, wait_warning,
};
use stormlp_core::units::ByteSize;

/// Target duration of a scaled run in seconds.
const SCALED_RUN_SECONDS: f64 = 60.0;
/// Assumed read and write rate of storage without a trial, in bytes per second.
const ASSUMED_BYTES_PER_SECOND: f64 = 1e9;
/// Maximum number of saves, and of restores, of a run: each has an entry in the plan and in the
/// report.
const MOST_CHECKPOINTS: u32 = 100_000;

/// Decides every number of a run. Returns all problems, not just the first.
pub fn resolve(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
) -> Resolution<CheckpointPlan> {
    let mut problems = Problems::default();
    request_problems(request, &mut problems);
    let job = job(request, &mut problems);
    let Some((layout, ranks)) = job.filter(|_| problems.is_empty()) else {
        return Resolution { plan: None, problems };
    };
    let adopted = adopt::unmarked(request, facts, &layout, ranks);
    let facts = adopted.as_ref().unwrap_or(facts);
    let run = saved::run_name(request, facts);
    let removed_runs = saved::removed_runs(request, facts);
    let scaling = scale(request, host, facts, &layout, ranks, (&run, &removed_runs));
    let scaled = cut(&layout, scaling.layers);
    let (transports, limited) = transport::decide(request, host, scaling.ranks, &mut problems);
    if request.dry_run && !problems.is_empty() {
        // Sizes are valid on any machine, but the path, engine or device may be unavailable on this
        // one.
        return Resolution { plan: None, problems };
    }
    let mut plan = assemble(request, transports, facts, &scaled, scaling, (run, removed_runs));
    if let Some(client) = &mut plan.client {
        client.cpus = host.cpus;
    }
    adopt::take_sizes(&mut plan, facts);
    adopt::problems(request, facts, &mut problems);
    rules::closed_problems(&plan, host, &mut problems);
    size_problems(&layout, &plan, &mut problems);
    transport::problems(&plan, host, &mut problems);
    if !request.dry_run || !facts.folders.is_empty() {
        saved::problems(&plan, facts, &mut problems);
        // Free space of a directory that cannot be used is irrelevant.
        if folder_problems(&plan, facts, &mut problems) {
            space::problems(&plan, facts, &mut problems);
        }
    }
    plan.warnings = warnings::of(&plan, facts);
    let waits = plan.save.waits_for_gpu();
    plan.warnings.extend(wait_warning(request.tune.machine.wait, waits));
    let cufile = plan.path().needs_cufile();
    let statistics = statistics_warning(request.tune.machine.cufile_stats, cufile, host);
    plan.warnings.extend(statistics);
    for (device, placement) in plan.save.each_device() {
        let far = placement::warnings(placement, device, host);
        plan.warnings.extend(far);
    }
    let idle = idle_warning(request.device.as_ref(), &plan.save, "ranks");
    plan.warnings.extend(idle);
    plan.warnings.extend(limited);
    let calibration = plan.client.iter().flat_map(|client| client.origin.warnings(&host.hostname));
    let calibration: Vec<_> = calibration.collect();
    plan.warnings.extend(calibration);
    Resolution { plan: Some(plan), problems }
}

/// Faults of the request itself.
fn request_problems(request: &CheckpointRequest, problems: &mut Problems) {
    let workload = &request.workload;
    let model = &workload.architecture;
    let shape = model.problems().into_iter().chain(workload.parallelism_of_all_ranks().problems());
    for what in shape {
        problems.plan(what, "correct the workload file");
    }
    if workload.pipeline > model.num_layers {
        problems.plan(
            format!(
                "{} pipeline stages for {} layers: some stages would be empty",
                workload.pipeline, model.num_layers
            ),
            "lower model.parallelism.pipeline, or raise model.num_layers",
        );
    }
    if workload.tensor > model.num_attention_heads {
        problems.plan(
            format!(
                "{} tensor-parallel ranks for {} attention heads: some ranks would have none",
                workload.tensor, model.num_attention_heads
            ),
            "lower model.parallelism.tensor, or raise model.transformer.num_attention_heads",
        );
    }
    number_problems(request, problems);
}

/// Numbers beyond the limits of a run, and options that do not go together. A closed run has its
/// numbers from the rules.
fn number_problems(request: &CheckpointRequest, problems: &mut Problems) {
    check_objects_only(request.path, request.checksum, problems);
    let workload = &request.workload;
    let [saves, restores] =
        [request.saves.or(workload.writes), request.restores.or(workload.reads)]
            .map(Option::unwrap_or_default);
    let is_of_objects = request.path == PathKind::S3;
    let is_native = request.edition == Some(CheckpointProfile::Native);
    let refused: [(bool, String, &str); 9] = [
        (
            request.local_storage && !request.is_saving(),
            "--local-storage: each host has only its ranks' files, which only the run that wrote \
             them can restore"
                .to_string(),
            "leave out --saves 0: restores come from storage anyway, unless --cache is as-is",
        ),
        (
            is_of_objects && request.io_size.is_some(),
            "--io-size is for files: an object moves in parts of 16 MiB".to_string(),
            "leave it out; use --queue-depth for more connections",
        ),
        (
            is_of_objects && request.client_overhead.is_some(),
            "--client-overhead is DLIO's own time for files: what it takes for objects is not measured"
                .to_string(),
            "leave it out",
        ),
        (
            is_native && request.client_overhead.is_some(),
            "--client-overhead cannot be used with --edition native, which excludes client time"
                .to_string(),
            "leave it out, or use --edition 2.0",
        ),
        (
            request.io_size.is_some_and(|bytes| !is_chunk(bytes)),
            format!("transfers of {}", ByteSize(request.io_size.unwrap_or(0))),
            "use --io-size with a multiple of 4K, from 4K to 1G",
        ),
        (saves > MOST_CHECKPOINTS, format!("{saves} saves"), "use --saves with 100000 at most"),
        (restores > MOST_CHECKPOINTS, format!("{restores} restores"), "use --restores with 100000 at most"),
        (
            (request.saves, request.restores) == (Some(0), Some(0)),
            "0 saves and 0 restores: there is no work".to_string(),
            "use --saves or --restores with at least 1, or --dry-run",
        ),
        (
            request.folders.is_empty() && !request.dry_run,
            "no directory for the checkpoints".to_string(),
            "use --dir",
        ),
    ];
    for (_, what, remedy) in refused.into_iter().filter(|(applies, ..)| *applies) {
        let fixed = "leave it out: the closed rules fix it";
        problems.plan(what, if request.closed { fixed } else { remedy });
    }
}

/// The layout of the whole job, and the number of its ranks that participate before scaling.
fn job(request: &CheckpointRequest, problems: &mut Problems) -> Option<(Layout, u64)> {
    let workload = &request.workload;
    let group = workload.tensor.saturating_mul(workload.pipeline);
    let [ranks, of] = [request.ranks.map(|r| r.participating), request.ranks.and_then(|r| r.of)];
    if [ranks, of].contains(&Some(0)) || group == 0 {
        problems.plan("0 ranks", "use --ranks with at least 1");
        return None;
    }
    let all = of.unwrap_or_else(|| group.saturating_mul(workload.data.unwrap_or(1)));
    let (layout, ranks) = match mode(request) {
        Mode::Default => {
            let ranks = ranks.unwrap_or(all);
            if !ranks.is_multiple_of(group) {
                problems.plan(
                    format!(
                        "{ranks} ranks are not a multiple of tensor × pipeline = {} × {} = {group}",
                        workload.tensor, workload.pipeline
                    ),
                    if request.closed {
                        "leave --ranks out: the closed rules fix it".to_string()
                    } else {
                        let all = ranks.next_multiple_of(group);
                        format!("use --ranks with a multiple of {group}, or --ranks {ranks}/{all}")
                    },
                );
                return None;
            }
            (workload.layout(workload.parallelism(ranks / group)), ranks)
        }
        Mode::Subset => {
            let ranks = ranks.unwrap_or(HOST_RANKS.min(all));
            if ranks > all || !all.is_multiple_of(group) {
                problems.plan(
                    format!("{ranks} of {all} ranks"),
                    format!("use --ranks with at most {all}, of a job with a multiple of {group}"),
                );
                return None;
            }
            (workload.layout(workload.parallelism(all / group)), ranks)
        }
    };
    for what in layout.parallelism.problems() {
        problems.plan(what, "use fewer --ranks");
    }
    Some((layout, ranks))
}

/// Whether all ranks of the job participate.
fn mode(request: &CheckpointRequest) -> Mode {
    let of = request.ranks.and_then(|ranks| ranks.of);
    of.map_or(request.workload.mode, |_| Mode::Subset)
}

/// How much of the checkpoint is written.
fn scale(
    request: &CheckpointRequest,
    host: &HostFacts,
    facts: &CheckpointFacts,
    layout: &Layout,
    ranks: u64,
    (run, removed_runs): (&str, &[String]),
) -> Scaling {
    let full = Scaling::none(layout, ranks);
    if request.closed {
        return full;
    }
    // Restoring existing checkpoints: at the scale they were saved with, unless the user overrides
    // it.
    if !request.is_saving()
        && request.has_open_scale()
        && let Some(marker) = facts.marker(run)
        && let Some(found) = saved::scaling_of(request, marker, layout, ranks)
    {
        return found;
    }
    match request.scale {
        Some(ScaleChoice::Factor(factor)) => Scaling::by_factor(layout, ranks, factor),
        None | Some(ScaleChoice::Auto) => {
            let open = transport::most_ranks(host);
            let room = space::Room::of(facts, removed_runs);
            let copies = |most| saved::counts(request, facts, run, most).peak();
            if ranks <= open && room.fits(layout, ranks, copies(u32::MAX)) {
                return full;
            }
            let rate = facts.trial_bytes_per_second.unwrap_or(ASSUMED_BYTES_PER_SECOND);
            // Two saves and two restores within the time, assuming that reads are as slow as
            // writes.
            let in_time = (rate * SCALED_RUN_SECONDS / 4.0) as u64;
            let fits = |part: &Layout, there: u64| {
                // The full checkpoint was just found not to fit, with as many saves as it would
                // have.
                let all = part == layout && there == ranks;
                !all && part.first_ranks_bytes(there) <= in_time
                    && room.fits_in_half(part, there, copies(saved::SCALED_COUNT))
            };
            match (request.scale, request.ranks) {
                // Ranks that were asked for are kept, or the run is refused with the numbers.
                (None, Some(_)) => Scaling::with_all_ranks(layout, ranks, fits),
                _ => Scaling::largest_that(layout, ranks, open, fits),
            }
        }
    }
}

/// Requests that the resulting size cannot meet: a factor smaller than any part, and files of ranks
/// that do not participate. `layout` is the full one.
fn size_problems(layout: &Layout, plan: &CheckpointPlan, problems: &mut Problems) {
    let request = &plan.request;
    let scaling = &plan.scaling;
    if let Some(ScaleChoice::Factor(factor)) = request.scale
        && !request.closed
        && scaling.is_beyond(factor)
    {
        let reached = scaling.typed_factor(layout).unwrap_or(1.0);
        let smallest = match scaling.ranks {
            1 => "one rank".to_string(),
            group => format!("the {group} ranks that share its tensors"),
        };
        problems.plan(
            format!(
                "scale {factor} cannot be reached: one layer on {smallest} is {} bytes, {reached} \
                 of the checkpoint",
                plan.total_bytes
            ),
            format!(
                "use --scale {reached} or more, or describe a smaller model in a workload file"
            ),
        );
    }
}

/// The counts of the run: two of each if it is scaled, or one of each if two checkpoints of the smallest
/// part do not fit.
fn counts(
    request: &CheckpointRequest,
    facts: &CheckpointFacts,
    layout: &Layout,
    scaling: &Scaling,
    (run, removed_runs): (&str, &[String]),
) -> saved::Counts {
    let at_most = |most| saved::counts(request, facts, run, most);
    if request.closed || !scaling.is_scaled() {
        return at_most(u32::MAX);
    }
    let usual = at_most(saved::SCALED_COUNT);
    let part = cut(layout, scaling.layers);
    let room = space::Room::of(facts, removed_runs);
    if request.has_open_scale() && !room.fits(&part, scaling.ranks, usual.peak()) {
        return at_most(1);
    }
    usual
}

fn assemble(
    request: &CheckpointRequest,
    (save, restore): (Transport, Transport),
    facts: &CheckpointFacts,
    layout: &Layout,
    scaling: Scaling,
    (run, removed_runs): (String, Vec<String>),
) -> CheckpointPlan {
    let counts = counts(request, facts, layout, &scaling, (&run, &removed_runs));
    let existing = facts.marker(&run).filter(|_| !request.is_saving());
    let mut content = existing.map_or_else(
        || ContentFacts {
            seed: request.tune.seed.unwrap_or(0),
            source_bytes: save.chunk_bytes,
            stamped: !matches!(save.device, Some(DeviceId::Gpu { .. })) || request.verify,
            container: Container::default(),
        },
        |marker| marker.content,
    );
    content.container = request.container.unwrap_or(content.container);
    let folders = request.folders.len().max(1);
    let ranks = rank_plans(layout, scaling.ranks, folders, content.container);
    let total_bytes = ranks.iter().map(|rank| rank.bytes).sum();
    let pause_seconds = request.pause_seconds.unwrap_or(if scaling.is_scaled() {
        0.0
    } else {
        request.workload.pause_seconds.unwrap_or(5.0)
    });
    let restores = saved::restores(facts, &run, &counts, request.restores.is_some());
    let as_dlio_counts = |rank| layout.rank_bytes_as_dlio_counts(rank);
    CheckpointPlan {
        request: request.clone(),
        model: request.workload.name.clone(),
        profile: request.edition(),
        mode: mode(request),
        layout: *layout,
        parameters: u64::try_from(layout.architecture.parameters()).unwrap_or(u64::MAX),
        scaling,
        full_run: request.command_of_size("1").to_string(),
        total_bytes,
        dlio_counted_bytes: (0..scaling.ranks).map(as_dlio_counts).sum(),
        ranks,
        run,
        removed_runs,
        writes: counts.writes,
        restores,
        pause_seconds,
        fsync: request.fsync.unwrap_or_default(),
        client: request.calibrated.clone(),
        content,
        rank_shift: 0,
        free_bytes: space::free(facts),
        peak_bytes: total_bytes.saturating_mul(counts.peak()),
        buffer_bytes: save.buffer_bytes().max(restore.buffer_bytes()) + content.source_bytes,
        save,
        restore,
        warnings: Vec::new(),
    }
}

/// The participating ranks with their files; directories are assigned round-robin.
fn rank_plans(layout: &Layout, ranks: u64, folders: usize, container: Container) -> Vec<RankPlan> {
    (0..ranks)
        .map(|rank| {
            let files = layout.packed_files(rank, container);
            RankPlan {
                rank,
                bytes: files.iter().map(|file| file.bytes).sum(),
                folder: (rank % folders as u64) as usize,
                files,
            }
        })
        .collect()
}

/// Reports directories that cannot be used; returns whether all of them can.
fn folder_problems(
    plan: &CheckpointPlan,
    facts: &CheckpointFacts,
    problems: &mut Problems,
) -> bool {
    let before = problems.len();
    for folder in &facts.folders {
        if plan.writes > 0
            && let stormlp_core::facts::Availability::Unavailable { fact, remedy } =
                &folder.writable
        {
            problems.machine(format!("cannot write to {}: {fact}", folder.path), remedy.clone());
        }
        if plan.path().wants_direct()
            && let stormlp_core::facts::Availability::Unavailable { fact, .. } = &folder.direct
        {
            problems.machine(
                format!(
                    "path {} needs O_DIRECT, which {} refuses: {fact}",
                    plan.path(),
                    folder.path
                ),
                "use --path buffered, or another --dir",
            );
        }
    }
    problems.len() == before
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
