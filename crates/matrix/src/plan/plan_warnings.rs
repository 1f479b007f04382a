//! Warnings before a matrix runs.

use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use stormlp_core::facts::HostFacts;
use stormlp_core::operation::{Direction, Operation};
use stormlp_core::transport::{self, DeviceId, statistics_warning};
use stormlp_core::units::counted;
use stormlp_core::verify::Verify;
use stormlp_core::warning::{Warning, WarningKind};

use super::request::MatrixRequest;

/// All warnings that follow from the plan alone.
pub(super) fn all(plan: &MatrixPlan, facts: &HostFacts) -> Vec<Warning> {
    let request = &plan.request;
    let runnable: Vec<&CellPlan> =
        plan.cells.iter().filter(|cell| cell.availability.is_available()).collect();
    let mut warnings = Vec::from_iter(facts.debug_build());
    if runnable.iter().any(|cell| cell.transport.emulated) {
        warnings.push(transport::emulated_warning());
    }
    warnings.extend(transport::engine_warning(request.engine, facts));
    let waits = runnable.iter().any(|cell| cell.transport.waits_for_gpu());
    warnings.extend(transport::wait_warning(request.tune.machine.wait, waits));
    let refused = |c: &&&CellPlan| c.transport.path.wants_direct() && !c.direct;
    if let Some(cell) = runnable.iter().find(refused).filter(|_| request.open_direct) {
        warnings.push(Warning::new(
            WarningKind::NotDirect,
            format!(
                "the file system does not support O_DIRECT, which path {} requests",
                cell.transport.path
            ),
            "its results include the page cache; --require direct makes this an error",
        ));
    }
    warnings.extend(idle_devices(plan));
    warnings.extend(queue_depth(&runnable));
    let uses_cufile = runnable.iter().any(|cell| cell.transport.path.needs_cufile());
    warnings.extend(statistics_warning(request.tune.machine.cufile_stats, uses_cufile, facts));
    warnings.extend(pattern_work(request, &runnable));
    warnings.extend(holes(plan, &runnable));
    warnings.extend(lives_in_memory(plan));
    warnings
}

/// Cells with fewer threads than devices.
fn idle_devices(plan: &MatrixPlan) -> Option<Warning> {
    let devices = &plan.devices;
    let fewest = plan.thread_groups.iter().min_by_key(|thread_group| thread_group.workers.len())?;
    let is_used = |one: &&DeviceId| fewest.workers.iter().any(|worker| worker.device == **one);
    let (used, all) = (devices.iter().filter(is_used).count(), devices.len());
    (used < all).then(|| {
        let threads = counted(fewest.workers.len() as u64, "thread");
        Warning::new(
            WarningKind::NoEffect,
            format!("with {threads}, only {used} of the {all} devices has transfers"),
            format!("use --threads {all} or more, or name fewer devices"),
        )
    })
}

/// Generating or checking transfer contents within the measured time.
fn pattern_work(request: &MatrixRequest, runnable: &[&CellPlan]) -> Option<Warning> {
    let mixed = request.read_percent.is_some();
    let any = |direction| mixed || runnable.iter().any(|c| c.op.direction() == direction);
    let (reads, writes) = (any(Direction::Read), any(Direction::Write));
    let (what, remedy) = if request.checksum == Verify::Crc {
        ("computing checksums", "measure without --checksum crc")
    } else if request.verify && reads {
        ("checking the pattern", "measure without --verify")
    } else if request.verify || (writes && request.tune.regenerate) {
        ("generating the content", "measure without --verify and --tune regenerate")
    } else {
        return None;
    };
    Some(Warning::new(WarningKind::HarnessBound, format!("throughput includes {what}"), remedy))
}

/// Sparse files that are read unchanged.
fn holes(plan: &MatrixPlan, runnable: &[&CellPlan]) -> Option<Warning> {
    let file = plan.files.iter().max_by_key(|file| file.hole_bytes)?;
    let reads = runnable.first().is_some_and(|cell| cell.op != Operation::Write);
    let share = 100.0 * file.hole_bytes as f64 / file.bytes.max(1) as f64;
    (reads && share >= 1.0).then(|| {
        Warning::new(
            WarningKind::Holes,
            format!(
                "{share:.0} % of {} are holes or unwritten: these are not read from any device, \
                 so reads appear faster than storage",
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
fn lives_in_memory(plan: &MatrixPlan) -> Option<Warning> {
    let (file, kind) =
        (plan.files.iter()).find_map(|file| Some((file, file.file_system_in_memory()?)))?;
    let place = match file.folder {
        Some(folder) => plan.folders[folder].folder(),
        None => &file.path,
    };
    Some(Warning::new(
        WarningKind::FitsInMemory,
        format!(
            "these files live in memory ({kind}, {}): no cell reaches storage, and --cache cold \
             has no effect",
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
                 flight and the rest waiting",
                deepest.transport.path, deepest.transport.queue_depth
            ),
            "use more --threads instead; its latencies include the wait",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_counting_is_reported() {
        let mut facts = stormlp_fixtures::host();
        let said = |level, uses, facts: &HostFacts| {
            statistics_warning(Some(level), uses, facts).map(|warning| warning.fact)
        };
        for (level, word) in [
            (0, "cannot prove a route"),
            (1, "level 1 statistics throughout, which may slow it down and does not record routes"),
            (3, "slows it down"),
        ] {
            let told = said(level, true, &facts).unwrap();
            assert!(told.contains(word), "{told:?}");
        }
        // Without statistics there is no overhead.
        facts.cufile_statistics = Some(false);
        let told = said(3, true, &facts).unwrap();
        assert!(told.contains("has no effect"), "{told:?}");
        assert_eq!(said(3, false, &facts), None);
    }
}
