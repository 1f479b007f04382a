//! Sample reports for tests.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use crate::plan::{
    BufferBacking, CellReport, CellStatus, IoSize, MatrixReport, MatrixRequest, MatrixResults,
    Measurement, PathChoice, TargetFolder, TargetInventory, resolve,
};
use stormlp_core::evidence::{DirectIo, Evidence};
use stormlp_core::facts::{Availability, HostFacts, PathSupport};
use stormlp_core::histogram::LatencyUs;
use stormlp_core::operation::Operation;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::report::{Head, ReportKind, Series};
use stormlp_core::units::GIB;

use super::run::document;
use stormlp_show::document::{Columns, Document};

/// The machine of the reports.
pub fn host() -> HostFacts {
    HostFacts {
        hostname: "node1".to_string(),
        kernel: "6.8.0".to_string(),
        cpus: 8,
        paths: PathKind::ALL
            .map(|path| PathSupport {
                path,
                availability: if path.needs_cufile() {
                    Availability::unavailable("no libcufile", "install CUDA")
                } else {
                    Availability::Available
                },
            })
            .to_vec(),
        ..HostFacts::fixture()
    }
}

/// The folder's contents.
pub fn inventory() -> TargetInventory {
    TargetInventory {
        folders: vec![TargetFolder {
            path: PathBuf::from("data"),
            exists: true,
            writable: Availability::Available,
            free_bytes: Some(1000 * GIB),
            file_system_id: 1,
            file_system: Some("xfs".to_string()),
            direct: Availability::Available,
            direct_alignment_bytes: 512,
            manifest: None,
            manifest_problem: None,
            files: Vec::new(),
            hole_bytes: Default::default(),
            copies: Vec::new(),
            others: Vec::new(),
        }],
        files: Vec::new(),
    }
}

/// Results of a cell that moved about `gib` GiB in 4 s.
pub fn numbers(path: PathKind, gib: f64, io_size_bytes: u64) -> Measurement {
    let operations = (gib * GIB as f64 / io_size_bytes as f64).round() as u64;
    let bytes = operations * io_size_bytes;
    let emulated = path.ends_in_accelerator();
    Measurement {
        throughput_bytes_per_second: bytes as f64 / 4.0,
        iops: operations as f64 / 4.0,
        latency_us: LatencyUs {
            mean: 634.547,
            min: 81.0,
            p50: Some(600.5),
            p90: Some(800.0),
            p99: Some(1234.5),
            p999: Some(2000.0),
            max: 3456.7,
        },
        latency_histogram: String::new(),
        operations,
        bytes,
        duration_seconds: 4.0,
        first_done_seconds: 3.9,
        last_done_seconds: 4.0,
        last_done_thread: Some(7),
        cpu_user_seconds: 1.0,
        cpu_system_seconds: 3.0,
        cpu_seconds_per_gib: 4.0 / gib,
        series: Series {
            interval_seconds: 1.0,
            interval_bytes: vec![bytes / 4; 4],
            interval_device_bytes: Some(vec![bytes / 4; 4]),
            ..Series::default()
        },
        device_names: vec!["nvme0n1".to_string()],
        device_read_bytes: Some(bytes),
        device_written_bytes: Some(0),
        page_cache_share: Some(0.0),
        page_cache_share_after: Some(if path.uses_page_cache() { 1.0 } else { 0.0 }),
        page_cache_method: Some("cachestat".to_string()),
        fsync_seconds: None,
        engine: Some(EngineKind::Uring),
        memory: "host memory (emulated)".to_string(),
        memory_emulated: emulated,
        buffers_backing: BufferBacking::TransparentHuge,
        peak_rss_bytes: 30 << 20,
        jobs: Vec::new(),
        mix: None,
        interrupted: false,
        started_unix_seconds: None,
    }
}

/// The report of a request in which each cell moved the amount given by `gib`; `None` fails it.
pub fn report(request: &MatrixRequest, gib: impl Fn(PathKind, u32) -> Option<f64>) -> MatrixReport {
    let plan = resolve(request, &host(), &inventory()).unwrap();
    let head = Head::new(
        ReportKind::Gds,
        "stormlp gds".to_string(),
        "2026-11-21T10:15:02Z".to_string(),
        host(),
    );
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    report.ending = stormlp_core::report::Ending::Complete;
    report.warnings.clone_from(&report.plan.warnings);
    for (index, cell) in report.plan.cells.clone().iter().enumerate() {
        let mut entry = CellReport::without_numbers(index, cell, "read data/stormlp.3: EIO");
        if cell.availability.is_available() {
            if let Some(gib) = gib(cell.transport.path, cell.repeat) {
                entry.status = CellStatus::Ok;
                entry.reason = None;
                entry.effective_path = Some(cell.transport.path);
                entry.measurement = Some(numbers(cell.transport.path, gib, entry.io_size_bytes));
                entry.evidence = Some(Evidence {
                    object_store: None,
                    effective_path: Some(cell.transport.path),
                    summary: "O_DIRECT held".to_string(),
                    direct_io: DirectIo::Honoured,
                    engine: None,
                    direct_storage: None,
                });
            } else {
                entry.errno = Some(5);
            }
        }
        report.results.push(entry);
    }
    report
}

/// Reads of 1 MiB by eight threads.
pub fn plain() -> MatrixRequest {
    MatrixRequest::plain(PathBuf::from("data"))
}

/// The rates of two paths, in GiB/s.
pub fn both(path: PathKind, _repeat: u32) -> Option<f64> {
    Some(match path {
        PathKind::PageCache => 20.0,
        _ => 50.0,
    })
}

/// The size of the preset `full`, on paths that run without a GPU: 432 cells.
pub fn full_report() -> MatrixReport {
    let mut request = plain();
    request.ops =
        vec![Operation::Read, Operation::Write, Operation::RandRead, Operation::RandWrite];
    let sizes = [4, 128, 256, 512, 1024, 4096, 16_384, 65_536, 131_072];
    request.io_sizes = sizes.map(|kib| IoSize::fixed(kib << 10)).to_vec();
    request.threads = vec![1, 4, 16, 32];
    request.paths = PathChoice::each(&[PathKind::Cpu, PathKind::CpuGpu, PathKind::PageCache]);
    report(&request, both)
}

/// Several sizes and thread counts on two paths.
pub fn sample_report() -> MatrixReport {
    let mut request = plain();
    request.io_sizes = [64 << 10, 1 << 20].map(IoSize::fixed).to_vec();
    request.threads = vec![1, 8];
    let mut sample = report(&request, both);
    for cell in &mut sample.results.cells {
        if let Some(numbers) = &mut cell.measurement {
            let growth = (cell.threads * (1 + (cell.io_size_bytes >> 20) as u32)).into();
            let faster = f64::sqrt(growth);
            numbers.throughput_bytes_per_second *= faster;
            numbers.iops *= faster;
            numbers.duration_seconds /= faster;
            numbers.first_done_seconds /= faster;
            numbers.last_done_seconds /= faster;
            numbers.series.interval_seconds /= faster;
        }
    }
    sample
}

/// A small matrix, for the tests of every renderer.
pub fn samples() -> Vec<(&'static str, Document)> {
    let now = report(&plain(), both);
    vec![
        ("gds", document(&now, Columns::Standard)),
        ("gds_plan", super::plan(&now.plan, &[now.plan.layout()])),
    ]
}

/// A run that read 1 MiB at a time by one path, `gib` GiB in each cell, for comparisons.
pub fn run_of(gib: f64) -> MatrixReport {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    report(&request, |_, _| Some(gib))
}
