//! What the reader of a cell should know: each warning a measured fact and what to do.

use stormlp_model::evidence::{DirectIo, Evidence};
use stormlp_model::matrix::{BufferBacking, CacheState, CellPlan, MatrixPlan, Measurement, Span};
use stormlp_model::operation::Direction;
use stormlp_model::path::PathKind;
use stormlp_model::warning::{Warning, WarningKind};

/// A cell shorter than this says little.
const SHORT_SECONDS: f64 = 1.0;
/// A cold cell that finds more of its files than this in the page cache is not cold.
const COLD_SHARE: f64 = 0.01;
/// A warm cell that finds less than this is not warm.
const WARM_SHARE: f64 = 0.99;
/// The last thread may take this much longer than the first before it is a long tail.
const TAIL_RATIO: f64 = 1.2;
/// The two halves of a run may differ by this much.
const DRIFT: f64 = 0.08;
/// Above this share of its threads' time a cell is bound by the CPU.
const CPU_SHARE: f64 = 0.95;

/// All warnings of a cell that ran.
pub(crate) fn of_cell(
    plan: &MatrixPlan,
    cell: &CellPlan,
    evidence: &Evidence,
    measured: &Measurement,
) -> Vec<Warning> {
    let checks = [
        path(cell, evidence),
        engine(evidence),
        cache(plan, cell, measured),
        length(plan, measured),
        tail(measured),
        drift(measured),
        cpu(cell, measured),
        buffers(cell, measured),
    ];
    checks.into_iter().flatten().collect()
}

/// Another path than the one asked for, or no `O_DIRECT`.
fn path(cell: &CellPlan, evidence: &Evidence) -> Option<Warning> {
    if evidence.direct_io == DirectIo::Refused {
        return Some(Warning::new(
            WarningKind::NotDirect,
            format!("{}: the file system refused O_DIRECT", cell.transport.path),
            "the result includes the page cache; use --require-direct to make this an error",
        ));
    }
    (evidence.effective_path != Some(cell.transport.path)).then(|| {
        Warning::new(
            WarningKind::PathFellBack,
            format!(
                "{} was asked for: {}",
                cell.transport.path, evidence.summary
            ),
            "run `stormlp doctor`; use --require-gds to make this an error",
        )
    })
}

/// An engine with less than it asked for.
fn engine(evidence: &Evidence) -> Option<Warning> {
    let facts = evidence.engine.as_ref()?;
    (!facts.fallbacks.is_empty()).then(|| {
        let fact = format!("engine {}: {}", facts.engine, facts.fallbacks.join("; "));
        Warning::new(
            WarningKind::EngineFellBack,
            fact,
            "`stormlp doctor` shows the limits",
        )
    })
}

/// A page cache that was not as it was to be.
fn cache(plan: &MatrixPlan, cell: &CellPlan, measured: &Measurement) -> Option<Warning> {
    let share = measured.page_cache_share?;
    if cell.op.direction() == Direction::Write || cell.transport.path == PathKind::Null {
        return None;
    }
    let percent = share * 100.0;
    match plan.cache {
        // The plan has said of files in memory that nothing can be dropped.
        CacheState::Cold if in_memory(plan) => None,
        CacheState::Cold if share > COLD_SHARE => Some(Warning::new(
            WarningKind::CacheState,
            format!("{percent:.1} % of the files were in the page cache before a cold cell"),
            "another process uses them; stop it, or drop the caches as root",
        )),
        CacheState::Warm if share < WARM_SHARE && cell.transport.path.uses_page_cache() => {
            Some(Warning::new(
                WarningKind::CacheState,
                format!(
                    "only {percent:.1} % of the files were in the page cache before a warm cell"
                ),
                "use a smaller --file-size or free some memory",
            ))
        }
        _ => None,
    }
}

/// Whether files of the matrix lie on a file system without storage behind it.
fn in_memory(plan: &MatrixPlan) -> bool {
    let mut files = plan.files.iter();
    files.any(|file| file.file_system_in_memory().is_some())
}

/// Too short to trust.
fn length(plan: &MatrixPlan, measured: &Measurement) -> Option<Warning> {
    (measured.duration_seconds < SHORT_SECONDS).then(|| {
        let advice = match plan.span {
            Span::Seconds(_) => "use a longer --duration",
            Span::Passes(_) => "use more --passes or a larger --file-size",
        };
        let fact = format!("the cell ran for {:.2} s", measured.duration_seconds);
        Warning::new(WarningKind::TooShort, fact, advice)
    })
}

/// One thread much slower than another.
fn tail(measured: &Measurement) -> Option<Warning> {
    let ratio = measured.last_done_seconds / measured.first_done_seconds.max(1e-9);
    (ratio > TAIL_RATIO).then(|| {
        let thread = measured.last_done_thread.unwrap_or_default();
        Warning::new(
            WarningKind::LongTail,
            format!(
                "thread {thread} ended at {:.2} s, {ratio:.1} times the first one's {:.2} s",
                measured.last_done_seconds, measured.first_done_seconds
            ),
            "look at that thread's file or device",
        )
    })
}

/// Throughput that changed over the run.
fn drift(measured: &Measurement) -> Option<Warning> {
    // The last interval is seldom whole, and the first holds the start.
    let whole = measured.series.interval_bytes.len().saturating_sub(1);
    let series = measured
        .series
        .interval_bytes
        .get(1..whole)
        .filter(|series| series.len() >= 10)?;
    let (first, second) = series.split_at(series.len() / 2);
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let change = mean(second) / mean(first).max(1.0) - 1.0;
    (change.abs() > DRIFT).then(|| {
        let verb = if change < 0.0 { "fell" } else { "rose" };
        Warning::new(
            WarningKind::NoSteadyState,
            format!(
                "throughput {verb} by {:.0} % over the run",
                change.abs() * 100.0
            ),
            "use a longer --warmup; a device cache may be full or another program busy",
        )
    })
}

/// The CPU as the limit.
fn cpu(cell: &CellPlan, measured: &Measurement) -> Option<Warning> {
    let cpu_seconds = measured.cpu_user_seconds + measured.cpu_system_seconds;
    let share = cpu_seconds / (cell.transport.threads as f64 * measured.duration_seconds).max(1e-9);
    (cell.transport.path != PathKind::Null && share > CPU_SHARE).then(|| {
        Warning::new(
            WarningKind::HarnessBound,
            format!("the threads were busy for {:.0} % of the time", share.min(1.0) * 100.0),
            "the host's CPU is the limit, not the storage: use more --threads or a larger --io-size",
        )
    })
}

/// Small pages under buffers large enough to suffer from them.
fn buffers(cell: &CellPlan, measured: &Measurement) -> Option<Warning> {
    let large = cell.transport.chunk_bytes >= 128 << 10;
    (large && measured.buffers_backing == BufferBacking::SmallPages).then(|| {
        Warning::new(
            WarningKind::Buffers,
            "the buffers lie on 4 KiB pages, so large transfers are split",
            "set transparent_hugepage/enabled to madvise or always, or reserve vm.nr_hugepages",
        )
    })
}
