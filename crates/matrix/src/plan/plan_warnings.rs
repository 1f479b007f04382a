//! Warnings before a matrix runs.

use crate::plan::matrix_plan::{CellPlan, CrewPlan, FilePlan};
use stormlp_core::facts::HostFacts;
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::path::PathKind;
use stormlp_core::transport::{self, DeviceId, statistics_warning};
use stormlp_core::units::{ByteSize, counted};
use stormlp_core::verify::Verify;
use stormlp_core::warning::{Warning, WarningKind};

use super::choice::{CacheState, CellSpan, Fill};
use super::files::PlannedFiles;
use super::request::MatrixRequest;

/// All warnings that follow from the plan alone.
pub(super) fn all(
    request: &MatrixRequest,
    facts: &HostFacts,
    table: &PlannedFiles,
    (devices, crews, cells): (&[DeviceId], &[CrewPlan], &[CellPlan]),
) -> Vec<Warning> {
    let runnable: Vec<&CellPlan> =
        (cells.iter()).filter(|cell| cell.availability.is_available()).collect();
    let mut warnings = Vec::new();
    if !facts.release_build {
        warnings.push(Warning::new(
            WarningKind::DebugBuild,
            "this is not a release build",
            "measure with `cargo build --release`",
        ));
    }
    if runnable.iter().any(|cell| cell.transport.emulated) {
        warnings.push(transport::emulated_warning());
    }
    warnings.extend(transport::engine_warning(request.engine, facts));
    let waits = runnable.iter().any(|cell| cell.transport.waits_for_gpu());
    warnings.extend(transport::wait_warning(&request.threading, waits));
    let refused = |c: &&&CellPlan| c.transport.path.wants_direct() && !c.direct;
    if let Some(cell) = runnable.iter().find(refused).filter(|_| request.open_direct) {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            format!(
                "the file system does not support O_DIRECT, which path {} requests",
                cell.transport.path
            ),
            "its results include the page cache; --require-direct makes this an error",
        ));
    }
    warnings.extend(idle_devices(devices, crews));
    warnings.extend(queue_depth(&runnable));
    warnings.extend(of_cufile(request, facts, &runnable));
    warnings.extend(pattern_work(request, &runnable));
    warnings.extend(holes(table, &runnable));
    match lives_in_memory(table) {
        Some(warning) => warnings.push(warning),
        None => warnings.extend(fits_in_memory(request, facts, table, &runnable)),
    }
    warnings
}

/// Cells with fewer threads than devices.
fn idle_devices(devices: &[DeviceId], crews: &[CrewPlan]) -> Option<Warning> {
    let used = |crew: &CrewPlan| {
        devices
            .iter()
            .filter(|one| crew.workers.iter().any(|worker| worker.device == **one))
            .count()
    };
    let fewest = crews.iter().min_by_key(|crew| used(crew))?;
    (used(fewest) < devices.len()).then(|| {
        Warning::new(
            WarningKind::NoEffect,
            format!(
                "with {}, only {} of the {} devices has transfers",
                counted(fewest.workers.len() as u64, "thread"),
                used(fewest),
                devices.len()
            ),
            format!("use --threads {} or more, or name fewer devices", devices.len()),
        )
    })
}

/// Generating or checking transfer contents within the measured time.
fn pattern_work(request: &MatrixRequest, runnable: &[&CellPlan]) -> Option<Warning> {
    let any = |direction| runnable.iter().any(|c| c.op.direction() == direction);
    let mixed = request.read_percent.is_some();
    let reads = mixed || any(Direction::Read);
    let writes = mixed || any(Direction::Write);
    let (what, advice) = match (request.verify.is_of_content(), request.fill) {
        _ if request.verify == Verify::Crc => (
            "computing checksums",
            "measure without --verify crc; use it only to check data integrity",
        ),
        (true, _) if reads && writes => (
            "checking the pattern and generating the content",
            "measure without --verify; use it only to check data integrity",
        ),
        (true, _) if reads => (
            "checking the pattern",
            "measure without --verify; use it only to check data integrity",
        ),
        (true, _) => (
            "generating the content",
            "measure without --verify; use it only to check data integrity",
        ),
        (false, Fill::Every) if writes => (
            "generating the content",
            "measure with --fill once, which generates the data before the cell",
        ),
        _ => return None,
    };
    Some(Warning::new(WarningKind::HarnessBound, format!("throughput includes {what}"), advice))
}

/// Sparse files that are read unchanged.
fn holes(table: &PlannedFiles, runnable: &[&CellPlan]) -> Option<Warning> {
    let sparse: Vec<&FilePlan> = table.files.iter().filter(|f| f.hole_bytes > 0).collect();
    let file = sparse.iter().max_by_key(|file| file.hole_bytes)?;
    let reads = runnable.first().is_some_and(|cell| cell.op != Operation::Write);
    let share = 100.0 * file.hole_bytes as f64 / file.bytes.max(1) as f64;
    let others = match sparse.len() {
        1 => String::new(),
        count => format!(" (and of {})", counted(count as u64 - 1, "other file")),
    };
    (reads && share >= 1.0).then(|| {
        Warning::new(
            WarningKind::Holes,
            format!(
                "{share:.0} % of {}{others} are holes or unwritten: these are not read from any \
                 device, so reads appear faster than storage",
                file.path.display()
            ),
            match file.folder {
                Some(_) => "remove it, so that it is created again",
                None => "name a file that was written from end to end",
            },
        )
    })
}

/// Files on a file system without storage behind it: no cache can be cold.
fn lives_in_memory(table: &PlannedFiles) -> Option<Warning> {
    let (file, kind) =
        (table.files.iter()).find_map(|file| Some((file, file.file_system_in_memory()?)))?;
    let place = match file.folder {
        Some(folder) => table.folders[folder].path.folder(),
        None => &file.path,
    };
    Some(Warning::new(
        WarningKind::FitsInMemory,
        format!(
            "these files live in memory ({kind}, {}): no cell reaches storage, and --cache cold \
             has nothing to drop",
            place.display()
        ),
        "use a --dir or --file on the storage to measure",
    ))
}

/// A queue depth that some paths cannot use.
fn queue_depth(runnable: &[&CellPlan]) -> Option<Warning> {
    let blocking = (runnable.iter()).filter(|cell| cell.blocks());
    let deepest = blocking.max_by_key(|cell| cell.transport.queue_depth)?;
    (deepest.transport.queue_depth > 1).then(|| {
        Warning::new(
            WarningKind::NoEffect,
            format!(
                "path {} makes blocking calls, so a queue depth of {} has one transfer in \
                 flight and the others waiting",
                deepest.transport.path, deepest.transport.queue_depth
            ),
            "use more --threads instead; its latencies include the wait",
        )
    })
}

/// Timed reads through the page cache of files that stay in it.
fn fits_in_memory(
    request: &MatrixRequest,
    facts: &HostFacts,
    table: &PlannedFiles,
    runnable: &[&CellPlan],
) -> Option<Warning> {
    let through_cache = |cell: &&&CellPlan| {
        cell.transport.path.uses_page_cache() && cell.op.direction() == Direction::Read
    };
    let cell = runnable.iter().find(through_cache)?;
    let bytes: u64 = table.files.iter().map(|file| file.bytes).sum();
    let memory = facts.usable_memory_bytes();
    let timed = matches!(request.span(), CellSpan::Seconds(_));
    (timed && request.cache == CacheState::Cold && bytes < memory).then(|| {
        Warning::new(
            WarningKind::FitsInMemory,
            format!(
                "the files ({}) fit in memory ({}): after the first pass, path {} reads from \
                 memory",
                ByteSize(bytes),
                ByteSize(memory),
                cell.transport.path
            ),
            "use --passes 1, or a larger --file-size",
        )
    })
}

/// All warnings about cuFile's paths.
fn of_cufile(request: &MatrixRequest, facts: &HostFacts, runnable: &[&CellPlan]) -> Vec<Warning> {
    let uses = |cell: &&CellPlan| cell.transport.path.needs_cufile();
    let checks = [
        statistics_warning(request.cufile_stats, runnable.iter().any(uses), facts),
        streams(request, facts, runnable),
        entries(facts, runnable),
    ];
    checks.into_iter().flatten().collect()
}

/// More stream transfers than a GPU has queues.
fn streams(request: &MatrixRequest, facts: &HostFacts, runnable: &[&CellPlan]) -> Option<Warning> {
    let devices = request.devices.as_ref().map_or(1, |devices| devices.on(facts).len().max(1));
    let in_flight = |cell: &&&CellPlan| {
        let threads = cell.transport.threads.div_ceil(devices);
        threads.saturating_mul(cell.transport.queue_depth)
    };
    let on_streams = runnable
        .iter()
        .filter(|cell| cell.transport.path == PathKind::GdsAsync)
        .filter(|cell| cell.transport.device != Some(DeviceId::Host));
    let most = on_streams.map(|cell| in_flight(&cell)).max()?;
    let queues = facts.cuda_connections;
    (most > queues as usize).then(|| {
        Warning::new(
            WarningKind::NoEffect,
            format!(
                "path gds-async has {most} transfers on as many streams of a GPU, which share \
                 {queues} queues (CUDA_DEVICE_MAX_CONNECTIONS) and may wait for each other there"
            ),
            "set CUDA_DEVICE_MAX_CONNECTIONS=32, or use fewer --threads or a lower --queue-depth",
        )
    })
}

/// Batch entries that exceed cuFile's buffer for each.
fn entries(facts: &HostFacts, runnable: &[&CellPlan]) -> Option<Warning> {
    let buffer = facts.cufile_buffer_bytes?;
    let batches = |path| matches!(path, PathKind::GdsBatch | PathKind::GdsBatchStream);
    let largest = runnable
        .iter()
        .filter(|cell| batches(cell.transport.path))
        .map(|cell| cell.io_size.max_bytes)
        .max()?;
    (largest > buffer).then(|| {
        Warning::new(
            WarningKind::KnownIssue,
            format!(
                "batch entries of {} are larger than cuFile's buffer for one, {}: without a \
                 direct route, and with libcufile before 1.18 in any case, they use POSIX calls",
                ByteSize(largest),
                ByteSize(buffer)
            ),
            "raise properties.per_buffer_cache_size_kb in cufile.json, or use a smaller --io-size",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A cell with four threads and eight transfers of 1 MiB each in flight.
    fn cell(path: PathKind) -> CellPlan {
        let mut cell = crate::show::fixtures::cell_plan(path);
        cell.transport.device = Some(DeviceId::nvidia(0));
        (cell.transport.threads, cell.transport.queue_depth) = (4, 8);
        cell
    }

    fn said(path: PathKind, level: Option<u8>, facts: &HostFacts) -> Vec<String> {
        let mut request = MatrixRequest::plain(PathBuf::from("data"));
        request.cufile_stats = level;
        let warnings = of_cufile(&request, facts, &[&cell(path)]);
        warnings.into_iter().map(|warning| warning.fact).collect()
    }

    #[test]
    fn streams_beyond_the_queues_are_reported() {
        let mut facts = stormlp_fixtures::host();
        let told = said(PathKind::GdsAsync, None, &facts);
        assert!(told[0].contains("32 transfers") && told[0].contains("8 queues"), "{told:?}");
        facts.cuda_connections = 32;
        assert!(said(PathKind::GdsAsync, None, &facts).is_empty());
        assert!(said(PathKind::CpuGpu, None, &stormlp_fixtures::host()).is_empty());
    }

    #[test]
    fn batch_entries_beyond_the_buffer_are_reported() {
        let mut facts = stormlp_fixtures::host();
        assert!(said(PathKind::GdsBatch, None, &facts).is_empty());
        facts.cufile_buffer_bytes = Some(512 << 10);
        let told = said(PathKind::GdsBatch, None, &facts);
        assert!(told[0].contains("larger than cuFile's buffer"), "{told:?}");
        assert!(said(PathKind::CpuGpu, None, &facts).is_empty());
        facts.cufile_buffer_bytes = Some(1 << 20);
        assert!(said(PathKind::GdsBatchStream, None, &facts).is_empty());
    }

    #[test]
    fn requested_counting_is_reported() {
        let mut facts = stormlp_fixtures::host();
        for (level, word) in [
            (0, "cannot prove a route"),
            (1, "level 1 statistics throughout, which may slow it down and does not record routes"),
            (3, "slows it down"),
        ] {
            let told = said(PathKind::Gds, Some(level), &facts);
            assert!(told[0].contains(word), "{told:?}");
        }
        // Without statistics there is no overhead.
        facts.cufile_statistics = Some(false);
        let told = said(PathKind::Gds, Some(3), &facts);
        assert!(told[0].contains("has no effect"), "{told:?}");
        assert!(said(PathKind::CpuGpu, Some(3), &facts).is_empty());
    }
}
