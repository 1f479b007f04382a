//! MLPerf Storage's rules for a closed checkpoint run.
//!
//! In a closed run only the folder of the checkpoints may be chosen, and whether saves and restores
//! are one run or two. Everything else is fixed by the edition.

use std::path::PathBuf;

use super::builtin;
use super::choice::{CheckpointProfile, FsyncPolicy, ScaleChoice};
use super::transport;
use super::workload::{CheckpointWorkload, HOST_RANKS, Mode};
use crate::plan::checkpoint_plan::CheckpointPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Problems;
use stormlp_core::path::PathKind;
use stormlp_core::printable::printable;
use stormlp_core::transport::EngineChoice;
use stormlp_core::units::ByteSize;

/// Number of saves and restores of a closed run.
pub const COUNT: u32 = 10;
/// Pause before each of them, in seconds.
pub const PAUSE_SECONDS: f64 = 5.0;
/// A client's writes evict themselves from its page cache once they exceed its memory by this
/// factor.
pub const MEMORIES: u64 = 3;

/// A rule: its numbers, whether it holds, and how it is broken.
type CheckedRule = (Numbers, bool, String);

/// Section numbers of a rule in v2.0 and v3.0.
type Numbers = (&'static str, &'static str);

/// The four models.
const MODEL: Numbers = ("2.2.1", "4.3.3");
/// Their number of ranks, and so of bytes.
const RANKS: Numbers = ("2.2.5", "4.6.1");
/// The subset on one host.
const SUBSET: Numbers = ("2.2.2", "4.3.5");
/// Number of saves and restores.
const ORDER: Numbers = ("2.2.5", "4.7.1");
/// Restores read from storage.
const CACHE: Numbers = ("2.2.2", "4.3.1");
/// Saves are synced.
const SYNC: Numbers = ("2.2.2", "4.3.2");
/// Parameters that may be changed.
const PARAMETERS: Numbers = ("2.2.5", "4.6.3");
/// Location of results. Only v3.0 has this rule; 2.2.2 of v2.0 only keeps the results of two runs
/// apart.
const RESULTS: Numbers = ("2.2.2", "4.4.2");

/// Finds the rules that a closed run would break; none if the run is not closed.
pub(super) fn closed_problems(plan: &CheckpointPlan, host: &HostFacts, problems: &mut Problems) {
    if !plan.request.closed {
        return;
    }
    if plan.profile == CheckpointProfile::Native {
        problems.plan(
            "--closed follows the rules of v2.0 or v3.0, not edition native",
            "use --edition 2.0 or 3.0, or run without --closed",
        );
        return;
    }
    let rules =
        [of_the_model(plan), of_the_order(plan, host), of_transfers(plan), of_results(plan)];
    for ((of_v2, of_v3), _, what) in rules.into_iter().flatten().filter(|(_, holds, _)| !holds) {
        let rule = match plan.profile {
            CheckpointProfile::V3 => format!("{of_v3} of v3.0"),
            CheckpointProfile::V2 | CheckpointProfile::Native => format!("{of_v2} of v2.0"),
        };
        problems.plan(format!("rule {rule}: {what}"), "follow the rules, or run without --closed");
    }
}

/// Model, ranks and size.
fn of_the_model(plan: &CheckpointPlan) -> Vec<CheckedRule> {
    let mut known = builtin::names().filter_map(builtin::load);
    let Some(model) = known.find(|model| is_same(model, &plan.request.workload, plan.mode)) else {
        let what = format!("`{}` is not one of MLPerf's models as defined", plan.model);
        return vec![(MODEL, false, what)];
    };
    let ranks = plan.scaling.ranks;
    let all = model.parallelism_of_all_ranks().ranks();
    let job = plan.layout.parallelism.ranks();
    let size = match plan.mode {
        Mode::Default => (RANKS, ranks == all, format!("{ranks} ranks; {} has {all}", plan.model)),
        Mode::Subset => (
            SUBSET,
            (ranks, job) == (HOST_RANKS, all),
            format!("{ranks} of {job} ranks; a subset must be {HOST_RANKS} of {all}"),
        ),
    };
    let smallest = builtin::names().next() == Some(model.name.as_str());
    vec![
        size,
        (
            SUBSET,
            plan.mode == Mode::Default || plan.profile != CheckpointProfile::V3 || smallest,
            "in 3.0 a subset is for the 8B model only".to_string(),
        ),
        (
            RANKS,
            !matches!(plan.request.scale, Some(ScaleChoice::Factor(factor)) if factor < 1.0),
            "--scale below 1".to_string(),
        ),
    ]
}

/// Whether a workload file describes one of MLPerf's models. Its name and checkpoint folder are
/// free, and the number of replicas follows from the number of ranks, except for a subset.
fn is_same(model: &CheckpointWorkload, asked: &CheckpointWorkload, mode: Mode) -> bool {
    let defined = |workload: &CheckpointWorkload| {
        (
            workload.architecture,
            workload.tensor,
            workload.pipeline,
            workload.zero_stage,
            workload.model_datatype,
            workload.optimizer_datatype,
        )
    };
    defined(model) == defined(asked) && (mode == Mode::Default || asked.data == model.data)
}

/// Whether a run's checkpoints evict themselves from the page cache.
pub fn outgrows_memory(checkpoint_bytes: u64, memory_bytes: u64) -> bool {
    checkpoint_bytes.saturating_mul(u64::from(COUNT)) >= memory_bytes.saturating_mul(MEMORIES)
}

/// Counts, pauses, syncing, and the steps between saves and restores.
fn of_the_order(plan: &CheckpointPlan, host: &HostFacts) -> Vec<CheckedRule> {
    let (writes, reads) =
        (plan.writes, plan.request.restores.unwrap_or(plan.restores.len() as u32));
    let written = plan.total_bytes.saturating_mul(u64::from(COUNT));
    let memory = host.memory_bytes;
    let from_storage = reads == 0
        || plan.request.is_cold()
        || !plan.path().uses_page_cache()
        || outgrows_memory(plan.total_bytes, memory);
    vec![
        (
            ORDER,
            matches!((writes, reads), (COUNT, COUNT) | (COUNT, 0) | (0, COUNT)),
            format!(
                "{writes} saves and {reads} restores; {COUNT} of each are required, in one run or \
                 in two"
            ),
        ),
        (
            CACHE,
            from_storage,
            format!(
                "restores from the page cache: {COUNT} checkpoints ({}) are less than {MEMORIES} \
                 times the memory of this host ({}), so it must be cleared: use --cache cold",
                ByteSize(written),
                ByteSize(memory)
            ),
        ),
        (
            SYNC,
            plan.fsync == FsyncPolicy::PerFile,
            format!("--fsync {}; each file must be synced", plan.fsync),
        ),
        (
            PARAMETERS,
            (plan.pause_seconds - PAUSE_SECONDS).abs() < 1e-9,
            format!("a pause of {} s; it must be {PAUSE_SECONDS} s", plan.pause_seconds),
        ),
        (
            PARAMETERS,
            plan.request.overlap_step_seconds.is_none() && plan.request.keep.is_none(),
            "--overlap-step and --keep may not be set".to_string(),
        ),
    ]
}

/// Since v3, results must be on a different file system than the checkpoints.
fn of_results(plan: &CheckpointPlan) -> Vec<CheckedRule> {
    let beside = plan.request.results_beside_data.iter();
    let rule = |folder: &PathBuf| {
        let folder = folder.display().to_string();
        let folder = printable(&folder);
        let what = format!(
            "results go to {folder}, which is on the file system of the checkpoints; use another \
             one (--results-dir, --mlperf-output)"
        );
        (RESULTS, plan.profile != CheckpointProfile::V3, what)
    };
    beside.map(rule).collect()
}

/// How bytes are moved: fixed by the edition, so there is no tuning.
fn of_transfers(plan: &CheckpointPlan) -> Vec<CheckedRule> {
    let direct = plan.profile != CheckpointProfile::V2;
    let (paths, fits) = match plan.path() {
        PathKind::Buffered => ("", true),
        PathKind::Cpu => ("it must be buffered in 2.0", direct),
        _ if direct => ("it must be buffered or cpu (O_DIRECT)", false),
        _ => ("it must be buffered", false),
    };
    let streams = plan.profile.read_streams();
    vec![
        (PARAMETERS, fits, format!("--path {}; {paths}", plan.path())),
        (
            PARAMETERS,
            plan.save.window == 1 && plan.restore.window == streams as usize,
            format!(
                "--queue-depth {}; a rank saves one piece at a time and restores {streams} in edition {}",
                plan.save.window, plan.profile
            ),
        ),
        (
            PARAMETERS,
            plan.request
                .io_size
                .is_none_or(|bytes| bytes == transport::default_chunk_bytes(plan.path())),
            "--io-size may not be set".to_string(),
        ),
        (
            PARAMETERS,
            plan.request.engine == EngineChoice::Auto,
            "--engine may not be set".to_string(),
        ),
        (
            PARAMETERS,
            plan.request.folders.len() <= 1,
            format!("{} directories; checkpoints go into one", plan.request.folders.len()),
        ),
    ]
}
