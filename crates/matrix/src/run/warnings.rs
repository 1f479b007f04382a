//! Warnings about a cell, each with a measured fact and a remedy.

use crate::plan::{
    CacheState, CellPlan, CellReport, CellSpan, MatrixPlan, MatrixReport, Measurement, Reach,
};
use crate::report::Level;
use stormlp_core::change_points::change_points;
use stormlp_core::evidence::{DirectIo, Evidence, ObjectStore};
use stormlp_core::operation::Direction;
use stormlp_core::others::limits_in_force;
use stormlp_core::path::PathKind;
use stormlp_core::report::Series;
use stormlp_core::stats::{mean, sample_deviation};
use stormlp_core::transport::{Pages, Transport, WaitMode};
use stormlp_core::units::ByteSize;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::Backing;
use stormlp_transfer::cufile::POLL_MODE;

use stormlp_transfer::fallback;

use super::others;

/// Shorter cells are not significant.
const SHORT_SECONDS: f64 = 1.0;
/// Maximum share of the files in the page cache before a cold cell.
const COLD_SHARE: f64 = 0.01;
/// Minimum share of the files in the page cache before a warm cell.
const WARM_SHARE: f64 = 0.99;
/// Maximum difference between the first and the last level of a run, or between its halves.
const DRIFT: f64 = 0.08;
/// Minimum difference between halves in standard errors.
const NOISE: f64 = 3.0;
/// Intervals are put together into so many windows at most, to find changes of level.
const MOST_WINDOWS: usize = 60;
/// The probability that a change of level is found in a steady run.
const LEVEL_ERROR: f64 = 0.01;
/// Minimum number of transfers in each half for a significant throughput.
const ENOUGH: f64 = 100.0;
/// Above this share of its threads' time a cell is CPU-bound.
const CPU_SHARE: f64 = 0.95;

/// The warnings of a cell that ran on one host, except those about [storage](of_storage).
pub(crate) fn of_cell(
    plan: &MatrixPlan,
    cell: &CellPlan,
    evidence: &Evidence,
    measured: &Measurement,
) -> Vec<Warning> {
    let of_objects = evidence.object_store.iter().flat_map(ObjectStore::warnings);
    let checks = [
        others::warning(plan, plan.reach(cell, measured, 1), measured),
        engine(evidence),
        cache(plan, cell, measured),
        filled(cell, evidence, measured),
        uncounted(measured),
        length(plan, measured),
        drift(measured),
        cpu(&cell.transport, evidence, measured),
        buffers(cell, measured),
    ];
    let first = path(cell, evidence).into_iter().chain(of_objects);
    first.chain(checks.into_iter().flatten()).collect()
}

/// Warns if the bytes that this many hosts moved were served by memory, according to device
/// counters.
pub(crate) fn of_storage(
    plan: &MatrixPlan,
    cell: &CellPlan,
    measured: &Measurement,
    hosts: usize,
) -> Vec<Warning> {
    let reach = plan.reach(cell, measured, hosts).filter(|_| !in_memory(plan));
    let checks = reach.map(|reach| [again(plan, reach, measured), stayed(reach, measured)]);
    checks.into_iter().flatten().flatten().collect()
}

/// A path other than the requested one, an unproven path, or no `O_DIRECT`.
fn path(cell: &CellPlan, evidence: &Evidence) -> Option<Warning> {
    if evidence.direct_io == DirectIo::Refused {
        return Some(Warning::new(
            WarningKind::NotDirect,
            format!("{}: the file system refused or buffered O_DIRECT", cell.transport.path),
            "the result includes the page cache; use --require direct to make this an error",
        ));
    }
    fallback::warning(cell.transport.path, evidence)
}

/// An engine with fewer features than requested.
fn engine(evidence: &Evidence) -> Option<Warning> {
    let facts = evidence.engine.as_ref()?;
    (!facts.fallbacks.is_empty()).then(|| {
        let fact = format!("engine {}: {}", facts.engine, facts.fallbacks.join("; "));
        Warning::new(WarningKind::EngineFellBack, fact, "`stormlp doctor` shows the limits")
    })
}

/// A page cache that was not in the requested state.
fn cache(plan: &MatrixPlan, cell: &CellPlan, measured: &Measurement) -> Option<Warning> {
    let share = measured.page_cache_share?;
    if cell.op.direction() == Direction::Write || cell.transport.path == PathKind::Null {
        return None;
    }
    let (state, advice) = match plan.request.cache {
        // The plan already warned that caches of in-memory files cannot be dropped.
        CacheState::Cold if share > COLD_SHARE && !in_memory(plan) => {
            ("cold", "another process uses them; stop it, or drop the caches as root")
        }
        CacheState::Warm if share < WARM_SHARE && cell.transport.path.uses_page_cache() => {
            ("warm", "use a smaller --file-size or free some memory")
        }
        _ => return None,
    };
    let percent = share * 100.0;
    let fact = format!("{percent:.1} % of the files were in the page cache before a {state} cell");
    Some(Warning::new(WarningKind::CacheState, fact, advice))
}

/// Devices that do not count what the cell moved.
fn uncounted(measured: &Measurement) -> Option<Warning> {
    let devices = measured.device_names.join(", ");
    (!devices.is_empty() && measured.device_read_bytes.is_none()).then(|| {
        let fact = format!("{devices} did not count the transfers, so their share is unknown");
        let remedy = "look at /sys/block/DEVICE/queue/iostats: with 0, `echo 1` into it as root turns \
                      counting on, except for a multipath head of an older kernel";
        Warning::new(WarningKind::KnownIssue, fact, remedy)
    })
}

/// Direct transfers after which more of the files is in the page cache than before.
fn filled(cell: &CellPlan, evidence: &Evidence, measured: &Measurement) -> Option<Warning> {
    let (before, after) = measured.filled_cache().filter(|_| cell.direct)?;
    let who = match evidence.effective_path {
        Some(PathKind::GdsCompat) => "cuFile's compatibility mode",
        _ => "another program",
    };
    Some(Warning::new(
        WarningKind::NotDirect,
        format!(
            "{}: the page cache held {:.1} % of the files before the cell and {:.1} % after it, \
             although they are open with O_DIRECT: {who} or the file system may have moved them through it",
            cell.transport.path,
            before * 100.0,
            after * 100.0
        ),
        "see the device's share of the bytes; cpu-gpu reads past the page cache",
    ))
}

/// Repeated reads of the same bytes, which may have been cached by then.
fn again(plan: &MatrixPlan, reach: Reach, measured: &Measurement) -> Option<Warning> {
    let meant = plan.request.cache == CacheState::Warm && reach.through_cache;
    if reach.is_write || !reach.is_again() || meant {
        return None;
    }
    let devices = measured.device_names.join(", ");
    let source = match reach.device_share {
        Some(_) if reach.includes_background() => format!(
            "{devices} moved more than it read, including other programs' traffic, so its own \
             share is unknown"
        ),
        Some(share) => format!("{:.0} % of its bytes came from {devices}", 100.0 * share),
        None => "no block device shows how much came from storage".to_string(),
    };
    let doubt = if reach.through_cache {
        ""
    } else {
        ", where a cache below the page cache may have held them"
    };
    Some(Warning::new(
        WarningKind::CacheState,
        format!("it covered its files {:.1} times: {source}{doubt}", reach.rounds),
        "use --duration 1x, or a larger --file-size, to read everything once",
    ))
}

/// Writes that had not reached storage at the end of the cell.
fn stayed(reach: Reach, measured: &Measurement) -> Option<Warning> {
    reach.of_memory.filter(|_| reach.is_write)?;
    let wrote = ByteSize(measured.bytes);
    let devices = measured.device_names.join(", ");
    let fact = match reach.device_bytes.map(ByteSize) {
        Some(reached) => format!(
            "{reached} of the {wrote} it wrote had reached {devices} when it ended; the rest was in \
             the page cache"
        ),
        None => format!(
            "it wrote {wrote} to the page cache and did not sync: how much of it reached storage is \
             unknown"
        ),
    };
    let advice = match reach.synced {
        true => "use --duration 1x, or a larger --file-size, to write everything once",
        false => "`stormlp gds --fsync end` includes the time of storage",
    };
    Some(Warning::new(WarningKind::CacheState, fact, advice))
}

/// Whether files of the matrix lie on a file system without storage behind it.
fn in_memory(plan: &MatrixPlan) -> bool {
    let mut files = plan.files.iter();
    files.any(|file| file.file_system_in_memory().is_some())
}

/// Too short to be reliable.
fn length(plan: &MatrixPlan, measured: &Measurement) -> Option<Warning> {
    (measured.duration_seconds < SHORT_SECONDS).then(|| {
        let advice = match plan.request.span() {
            CellSpan::Seconds(_) | CellSpan::Steady(_) => "use a longer --duration",
            CellSpan::Passes(_) => "use more passes (--duration 2x), or a larger --file-size",
        };
        let fact = format!("the cell ran for {:.2} s", measured.duration_seconds);
        Warning::new(WarningKind::TooShort, fact, advice)
    })
}

/// `measured` with its levels.
pub(crate) fn with_levels(measured: Measurement) -> Measurement {
    let levels = intervals(&measured).and_then(|all| levels(&measured.series, all));
    Measurement { levels: levels.unwrap_or_default(), ..measured }
}

/// Throughput changed over the run, or was not steady in the end.
fn drift(measured: &Measurement) -> Option<Warning> {
    if measured.steady == Some(false) && !measured.interrupted {
        let fact = "the rate did not become steady within the maximum time";
        let remedy = "use a longer --duration steady:TIME";
        return Some(Warning::new(WarningKind::NoSteadyState, fact, remedy));
    }
    let intervals = intervals(measured)?;
    let (first, second) = intervals.split_at(intervals.len() / 2);
    measured.levels_in_words().or_else(|| trend(first, second)).map(|fact| {
        let remedy = "a cache may be full or another program busy: the last rate is the lasting one, \
                      which a longer --warmup measures alone";
        Warning::new(WarningKind::NoSteadyState, fact, remedy)
    })
}

/// The intervals that show the course of a run; `None` if a limit explains it, or if there are not
/// enough transfers, so that it is just the granularity of a few large ones.
fn intervals(measured: &Measurement) -> Option<&[u64]> {
    let series = &measured.series;
    let moving_seconds = measured.duration_seconds - measured.fsync_seconds.unwrap_or(0.0);
    let moving = (moving_seconds / series.interval_seconds.max(1e-9)) as usize;
    // The last interval is usually partial, the first includes the start, and no transfers run
    // during a sync.
    let whole = moving.min(series.interval_bytes.len().saturating_sub(1));
    let intervals = series.interval_bytes.get(1..whole)?;
    if intervals.len() < 10 || limits_in_force([series]).is_some() {
        return None;
    }
    let (first, second) = intervals.split_at(intervals.len() / 2);
    let transfer_bytes = measured.bytes as f64 / measured.operations.max(1) as f64;
    let enough = |part: &[u64]| part.iter().sum::<u64>() as f64 >= ENOUGH * transfer_bytes;
    (enough(first) && enough(second)).then_some(intervals)
}

/// A rate that changes slowly, without levels: by more than the intervals vary.
fn trend(first: &[u64], second: &[u64]) -> Option<String> {
    let [first, second] =
        &[first, second].map(|part| part.iter().map(|bytes| *bytes as f64).collect::<Vec<f64>>());
    let error = |part: &[f64]| sample_deviation(part) / (part.len() as f64).sqrt();
    let noise = error(first).hypot(error(second)) / mean(first);
    let change = mean(second) / mean(first) - 1.0;
    let percent = change.abs() * 100.0;
    let verb = if change < 0.0 { "fell" } else { "rose" };
    let text =
        || format!("throughput {verb} by {percent:.0} % from one half of the run to the other");
    (change.abs() > DRIFT.max(NOISE * noise)).then(text)
}

/// The levels of a run whose rate changed by more than [`DRIFT`] from the first to the last.
fn levels(series: &Series, intervals: &[u64]) -> Option<Vec<Level>> {
    let group = intervals.len().div_ceil(MOST_WINDOWS);
    let windows = intervals.chunks_exact(group).map(|part| part.iter().sum::<u64>() as f64);
    let windows: Vec<f64> = windows.collect();
    let changes = change_points(&windows, LEVEL_ERROR);
    let mut bounds: Vec<usize> = changes.iter().map(|change| change.at).collect();
    bounds.extend([0, windows.len()]);
    bounds.sort_unstable();
    let seconds = series.interval_seconds * group as f64;
    let level = |two: &[usize]| {
        let part = &windows[two[0]..two[1]];
        Level { bytes: part.iter().sum::<f64>() as u64, bytes_per_second: mean(part) / seconds }
    };
    let mut levels: Vec<Level> = bounds.windows(2).map(level).collect();
    // The interval of the start is not part of a window.
    levels.first_mut()?.bytes += series.interval_bytes.first()?;
    let ends = [levels.first()?, levels.last()?].map(|level| level.bytes_per_second);
    ((ends[1] / ends[0] - 1.0).abs() > DRIFT).then_some(levels)
}

/// The CPU as the bottleneck; busy-waiting threads are always busy.
fn cpu(transport: &Transport, evidence: &Evidence, measured: &Measurement) -> Option<Warning> {
    let spins = transport.wait == WaitMode::Spin && transport.waits_for_gpu();
    let properties = evidence.direct_storage.iter().flat_map(|storage| &storage.properties);
    if spins || properties.into_iter().any(|words| words == POLL_MODE) {
        return None;
    }
    let cpu_seconds = measured.cpu_user_seconds + measured.cpu_system_seconds;
    let share = cpu_seconds / (transport.threads as f64 * measured.duration_seconds).max(1e-9);
    (transport.path != PathKind::Null && share > CPU_SHARE).then(|| {
        Warning::new(
            WarningKind::HarnessBound,
            format!("the threads were busy for {:.0} % of the time", share.min(1.0) * 100.0),
            "the host's CPU is the limit, not the storage: use more --threads or a larger --io-size",
        )
    })
}

/// A path within twice the time of the null path: stormlp itself was the bottleneck.
pub(crate) fn near_null_path(report: &MatrixReport) -> Option<Warning> {
    let cells = &report.results.cells;
    let combination = |cell: &CellReport| (cell.op, cell.io_size, cell.threads, cell.queue_depth);
    let rate = |path: PathKind, like: &CellReport| {
        let alike = cells
            .iter()
            .filter(|cell| cell.requested_path == path && combination(cell) == combination(like));
        let rates: Vec<f64> = alike.filter_map(|cell| Some(cell.result()?.iops)).collect();
        (!rates.is_empty()).then(|| mean(&rates))
    };
    cells.iter().filter(|cell| cell.requested_path != PathKind::Null).find_map(|cell| {
        let (own, most) = (rate(cell.requested_path, cell)?, rate(PathKind::Null, cell)?);
        (own * 2.0 > most).then(|| {
            Warning::new(
                WarningKind::HarnessBound,
                format!(
                    "{} {} of {}, {} threads: {own:.0} transfers/s, and the null path makes \
                     {most:.0}: stormlp itself took much of the time",
                    cell.requested_path,
                    cell.op,
                    cell.io_size.words(),
                    cell.threads
                ),
                "use more --threads or a larger --io-size",
            )
        })
    })
}

/// Small pages for buffers large enough to suffer from them; sockets do not.
fn buffers(cell: &CellPlan, measured: &Measurement) -> Option<Warning> {
    let large = cell.transport.chunk_bytes >= 128 << 10 && cell.transport.path != PathKind::S3;
    let meant = cell.transport.pages == Pages::Small;
    let small = measured.buffers_backing == Backing::SmallPages;
    (large && small && !meant).then(|| {
        Warning::new(
            WarningKind::Buffers,
            "the buffers use 4 KiB pages, so large transfers are split",
            "set transparent_hugepage/enabled to madvise or always, or reserve vm.nr_hugepages",
        )
    })
}

#[cfg(test)]
mod tests {
    use stormlp_core::evidence::DirectStorage;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_path_near_the_null_paths_rate_is_stormlps_own_figure() {
        use crate::plan::PathChoice;
        use crate::show::fixtures::{plain, report};
        let mut request = plain();
        request.paths = PathChoice::each(&[PathKind::Cpu, PathKind::Null]);
        let kind = |null| {
            let own = |path, _| Some(if path == PathKind::Null { null } else { 50.0 });
            near_null_path(&report(&request, own)).map(|warning| warning.kind)
        };
        assert_eq!(kind(900.0), None);
        assert_eq!(kind(90.0), Some(WarningKind::HarnessBound));
    }

    #[test]
    fn a_cpu_that_spins_is_not_said_to_be_the_limit() {
        use stormlp_core::path::EngineKind;
        let mut transport = Transport {
            emulated: false,
            ..stormlp_fixtures::transport(PathKind::CpuGpu, EngineKind::Uring)
        };
        let busy = Measurement {
            duration_seconds: 1.0,
            cpu_user_seconds: transport.threads as f64,
            ..crate::show::fixtures::measurement()
        };
        let evidence = |properties: Vec<String>| Evidence {
            object_store: None,
            effective_path: Some(PathKind::CpuGpu),
            summary: String::new(),
            direct_io: DirectIo::Honoured,
            engine: None,
            direct_storage: Some(DirectStorage { properties, ..DirectStorage::default() }),
        };
        assert!(cpu(&transport, &evidence(Vec::new()), &busy).is_some());
        assert!(cpu(&transport, &evidence(vec![POLL_MODE.to_string()]), &busy).is_none());
        transport.wait = WaitMode::Spin;
        assert!(cpu(&transport, &evidence(Vec::new()), &busy).is_none());
        // Emulated paths do not wait for a GPU.
        transport.emulated = true;
        assert!(cpu(&transport, &evidence(Vec::new()), &busy).is_some());
    }

    #[test]
    fn small_pages_matter_to_files_and_not_to_sockets() {
        let measured = Measurement {
            buffers_backing: Backing::SmallPages,
            ..crate::show::fixtures::measurement()
        };
        for (path, told) in [(PathKind::Cpu, true), (PathKind::S3, false)] {
            let mut cell = crate::show::fixtures::cell_plan(path);
            (cell.transport.chunk_bytes, cell.transport.pages) = (1 << 20, Pages::Huge);
            assert_eq!(buffers(&cell, &measured).is_some(), told, "{path}");
        }
    }

    #[test]
    fn direct_reads_that_fill_the_page_cache_are_named() {
        let mut cell = crate::show::fixtures::cell_plan(PathKind::GdsBatch);
        let evidence = Evidence {
            object_store: None,
            effective_path: Some(PathKind::GdsCompat),
            summary: String::new(),
            direct_io: DirectIo::Honoured,
            engine: None,
            direct_storage: None,
        };
        let mut measured = crate::show::fixtures::measurement();
        assert_eq!(filled(&cell, &evidence, &measured), None);
        measured.page_cache_share_after = Some(0.48);
        let told = filled(&cell, &evidence, &measured).unwrap();
        assert_eq!(told.kind, WarningKind::NotDirect);
        assert!(
            told.fact.contains("0.0 % of the files before the cell and 48.0 % after"),
            "{told}"
        );
        assert!(told.fact.contains("cuFile's compatibility mode"), "{told}");
        cell.direct = false;
        assert_eq!(filled(&cell, &evidence, &measured), None);
    }

    /// The warning for a cell that moved this many MiB in each 100 ms interval, in transfers of 1
    /// MiB.
    fn drift_of(mib: impl IntoIterator<Item = u64>, fsync_seconds: Option<f64>) -> Option<Warning> {
        let interval_bytes: Vec<u64> = mib.into_iter().map(|mib| mib * MIB).collect();
        let bytes: u64 = interval_bytes.iter().sum();
        drift(&with_levels(Measurement {
            bytes,
            operations: bytes / MIB,
            duration_seconds: interval_bytes.len() as f64 / 10.0,
            fsync_seconds,
            series: Series { interval_seconds: 0.1, interval_bytes, ..Series::default() },
            ..crate::show::fixtures::measurement()
        }))
    }

    #[test]
    fn a_steady_state_that_did_not_come_is_a_warning() {
        let of = |steady| drift(&Measurement { steady, ..crate::show::fixtures::measurement() });
        assert_eq!((of(None), of(Some(true))), (None, None));
        let fact = of(Some(false)).unwrap().fact;
        assert_eq!(fact, "the rate did not become steady within the maximum time");
    }

    #[test]
    fn a_falling_rate_is_reported_with_its_amount() {
        let halves = (0..40).map(|i| if i < 20 { 100 + i % 3 } else { 70 + i % 3 });
        let warning = drift_of(halves, None).map(|warning| warning.fact);
        let told = "0.986 GiB/s for the first 1.97 GiB, then 0.694 GiB/s";
        assert_eq!(warning.as_deref(), Some(told));
        let slowly = (0..40).map(|i| 100 - i / 2 + i % 3);
        assert!(drift_of(slowly, None).is_some());
        assert_eq!(drift_of((0..40).map(|i| 100 + i % 3), None), None);
    }

    #[test]
    fn a_few_large_transfers_are_not_a_drift() {
        let late = (0..40).map(|i| if i < 20 { 0 } else { 30 });
        assert_eq!(drift_of(late, None), None, "the first half holds nothing");
        let few = (0..40).map(|i| u64::from(i % 8 == 0) * if i < 20 { 20 } else { 30 });
        assert_eq!(drift_of(few, None), None, "40 transfers, then 60");
    }

    #[test]
    fn a_change_within_the_variation_of_intervals_is_not_a_drift() {
        // Bursts of 32: one more burst in a half is 25 %.
        let bursts = (0..40).map(|i| if i % 5 == 0 || i == 38 { 320 } else { 0 });
        assert_eq!(drift_of(bursts, None), None);
    }

    #[test]
    fn the_time_of_a_sync_is_not_part_of_the_course() {
        let written = (0..40).map(|i| if i < 25 { 100 + i % 3 } else { 0 });
        assert!(drift_of(written.clone(), None).is_some());
        assert_eq!(drift_of(written, Some(1.5)), None);
    }
}
