//! Warnings before cuFile's paths run.

use super::super::request::MatrixRequest;
use crate::plan::matrix_plan::CellPlan;
use stormlp_core::facts::HostFacts;
use stormlp_core::path::PathKind;
use stormlp_core::transport::{DeviceId, statistics_warning};
use stormlp_core::units::ByteSize;
use stormlp_core::warning::{Warning, WarningKind};

/// All warnings about cuFile's paths.
pub(super) fn all(
    request: &MatrixRequest,
    facts: &HostFacts,
    runnable: &[&CellPlan],
) -> Vec<Warning> {
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
    let devices = request.devices.len().max(1);
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
        let mut cell = CellPlan::fixture(path);
        cell.transport.device = Some(DeviceId::Cuda(0));
        (cell.transport.threads, cell.transport.queue_depth) = (4, 8);
        cell
    }

    fn said(path: PathKind, level: Option<u8>, facts: &HostFacts) -> Vec<String> {
        let mut request = MatrixRequest::plain(PathBuf::from("data"));
        request.cufile_stats = level;
        let warnings = all(&request, facts, &[&cell(path)]);
        warnings.into_iter().map(|warning| warning.fact).collect()
    }

    #[test]
    fn streams_beyond_the_queues_are_reported() {
        let mut facts = HostFacts::fixture();
        let told = said(PathKind::GdsAsync, None, &facts);
        assert!(told[0].contains("32 transfers") && told[0].contains("8 queues"), "{told:?}");
        facts.cuda_connections = 32;
        assert!(said(PathKind::GdsAsync, None, &facts).is_empty());
        assert!(said(PathKind::Gds, None, &HostFacts::fixture()).is_empty());
    }

    #[test]
    fn batch_entries_beyond_the_buffer_are_reported() {
        let mut facts = HostFacts::fixture();
        assert!(said(PathKind::GdsBatch, None, &facts).is_empty());
        facts.cufile_buffer_bytes = Some(512 << 10);
        let told = said(PathKind::GdsBatch, None, &facts);
        assert!(told[0].contains("larger than cuFile's buffer"), "{told:?}");
        assert!(said(PathKind::Gds, None, &facts).is_empty());
        facts.cufile_buffer_bytes = Some(1 << 20);
        assert!(said(PathKind::GdsBatchStream, None, &facts).is_empty());
    }

    #[test]
    fn requested_counting_is_reported() {
        let mut facts = HostFacts::fixture();
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
