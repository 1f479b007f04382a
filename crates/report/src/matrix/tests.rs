//! What readers see of a report that is made up.

use std::path::PathBuf;

use stormlp_model::evidence::{DirectIo, Evidence};
use stormlp_model::facts::{Availability, HostFacts, PathSupport};
use stormlp_model::histogram::LatencyUs;
use stormlp_model::matrix::{
    BufferBacking, CellReport, CellStatus, FolderFacts, Inventory, MatrixReport, MatrixRequest,
    MatrixResults, Measurement, PathChoice, resolve,
};
use stormlp_model::operation::Operation;
use stormlp_model::path::{EngineKind, PathKind};
use stormlp_model::report::{Head, ReportKind, Series};
use stormlp_model::units::GIB;
use stormlp_model::warning::{Warning, WarningKind};

use super::*;

fn host() -> HostFacts {
    HostFacts {
        hostname: "node1".to_string(),
        kernel: "6.8.0".to_string(),
        cpus: 8,
        paths: PathKind::ALL
            .map(|path| PathSupport {
                path,
                availability: match path.needs_cufile() {
                    true => Availability::unavailable("no libcufile", "install CUDA"),
                    false => Availability::Available,
                },
            })
            .to_vec(),
        ..HostFacts::fixture()
    }
}

fn inventory() -> Inventory {
    Inventory {
        folders: vec![FolderFacts {
            path: PathBuf::from("data"),
            exists: true,
            writable: Availability::Available,
            free_bytes: 1000 * GIB,
            file_system_id: 1,
            file_system: Some("xfs".to_string()),
            direct: Availability::Available,
            direct_alignment_bytes: 512,
            manifest: None,
            manifest_problem: None,
            files: Vec::new(),
        }],
        files: Vec::new(),
    }
}

/// Numbers of a cell that moved `gib` GiB in 4 s in transfers of 1 MiB.
fn numbers(path: PathKind, gib: f64) -> Measurement {
    let bytes = (gib * GIB as f64) as u64;
    let emulated = path.ends_in_accelerator();
    Measurement {
        throughput_bytes_per_second: bytes as f64 / 4.0,
        iops: gib * 256.0,
        latency_us: LatencyUs {
            mean: 634.547,
            min: 81.0,
            p50: 600.5,
            p90: 800.0,
            p99: 1234.5,
            p999: 2000.0,
            max: 3456.7,
        },
        latency_histogram: "HISTFAAA".to_string(),
        operations: (gib * 1024.0) as u64,
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
        interrupted: false,
    }
}

/// The report of a request, each cell having moved what `gib` says for it; `None` fails it.
fn report(request: &MatrixRequest, gib: impl Fn(PathKind, u32) -> Option<f64>) -> MatrixReport {
    let plan = resolve(request, &host(), &inventory()).unwrap();
    let head = Head::new(
        ReportKind::Gds,
        "stormlp gds".to_string(),
        "2026-11-21T10:15:02Z".to_string(),
        host(),
    );
    let mut report = MatrixReport::new(head, plan, MatrixResults::default());
    report.warnings.clone_from(&report.plan.warnings);
    for (index, cell) in report.plan.cells.clone().iter().enumerate() {
        let mut entry = CellReport::without_numbers(index, cell, "read data/stormlp.3: EIO");
        if cell.availability.is_available() {
            if let Some(gib) = gib(cell.path, cell.repeat) {
                entry.status = CellStatus::Ok;
                entry.reason = None;
                entry.effective_path = Some(cell.path);
                entry.measurement = Some(numbers(cell.path, gib));
                entry.evidence = Some(Evidence {
                    effective_path: Some(cell.path),
                    summary: "O_DIRECT held".to_string(),
                    direct_io: DirectIo::Honoured,
                    engine: None,
                    cufile: None,
                });
            } else {
                entry.errno = Some(5);
            }
        }
        report.results.push(entry);
    }
    report
}

fn plain() -> MatrixRequest {
    MatrixRequest::plain(PathBuf::from("data"))
}

fn both(path: PathKind, _repeat: u32) -> Option<f64> {
    Some(match path {
        PathKind::PageCache => 20.0,
        _ => 50.0,
    })
}

fn show(format: Format, report: &MatrixReport) -> String {
    let view = View {
        report,
        baseline: None,
        columns: Columns::Standard,
    };
    render(format, &view).unwrap()
}

#[test]
fn a_table_names_emulated_memory_and_why_a_path_is_missing() {
    insta::assert_snapshot!(show(Format::Table, &report(&plain(), both)), @r"
    matrix on node1 (Linux 6.8.0), 2026-11-21T10:15:02Z
    8 files, 8 GiB in all, in data, page cache cold, 5.0 s a cell, engine uring (auto)
    accelerator memory: host memory (emulated)
    ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
     path         memory     op     I/O     threads   depth     GiB/s     IOPS   mean µs   p50 µs   p99 µs   p99.9 µs   max µs   CPU s/GiB        cached
    ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
     gds                     read   1 MiB         8       1   n/a [1]
     cpu-gpu      emulated   read   1 MiB         8       1     12.50   12,800       635      600    1,235      2,000    3,457       0.080     0 % → 0 %
     page-cache   emulated   read   1 MiB         8       1      5.00    5,120       635      600    1,235      2,000    3,457       0.200   0 % → 100 %
    ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    [1] gds: no libcufile; install CUDA
    cpu-gpu: O_DIRECT held
    page-cache: O_DIRECT held
    warning: accelerator memory is emulated: host memory stands in for it, and a copy to it is a copy within host memory; run on a machine with a GPU to measure transfers to one
    warning: the files (8 GiB) fit in memory (64 GiB): once path page-cache has gone over them, it reads from memory; use --passes 1, or a larger --file-size
    cpu-gpu ran 2.50 times faster than page-cache (read of 1 MiB, 8 threads)
    ");
}

#[test]
fn repetitions_are_a_mean_with_its_deviation() {
    let mut request = plain();
    request.repeat = 3;
    let text = show(
        Format::Table,
        &report(&request, |path, repeat| {
            Some(both(path, 1)? + f64::from(repeat))
        }),
    );
    assert!(text.contains("13.00 ± 0.2500"), "{text}");
    insta::assert_snapshot!(text.lines().last().unwrap(), @r"cpu-gpu ran 2.36 ± 0.12 times faster than page-cache (read of 1 MiB, 8 threads)");
}

#[test]
fn a_failed_cell_has_no_numbers_and_says_why() {
    let text = show(
        Format::Table,
        &report(&plain(), |path, _| {
            (path != PathKind::CpuGpu).then_some(20.0)
        }),
    );
    assert!(text.contains("failed [2]"), "{text}");
    assert!(
        text.contains("[2] cpu-gpu: read data/stormlp.3: EIO"),
        "{text}"
    );
    assert!(!text.contains("faster than"), "{text}");
}

#[test]
fn a_path_that_ran_as_another_is_shown_with_it() {
    let mut report = report(&plain(), both);
    report.results.cells[1].effective_path = Some(PathKind::Cpu);
    report.results.cells[2].effective_path = None;
    let text = show(Format::Table, &report);
    assert!(text.contains("cpu-gpu (ran: cpu)"), "{text}");
    assert!(text.contains("page-cache (ran: unproven)"), "{text}");
    assert!(show(Format::Gdsio, &report).starts_with("IoType: READ XferType: CPUONLY "));
}

#[test]
fn the_page_caches_share_in_a_victory_is_told() {
    let mut report = report(&plain(), |path, _| {
        Some(if path == PathKind::PageCache {
            200.0
        } else {
            10.0
        })
    });
    report.results.cells[2]
        .measurement
        .as_mut()
        .unwrap()
        .device_read_bytes = Some(GIB);
    let text = show(Format::Table, &report);
    insta::assert_snapshot!(text.lines().last().unwrap(), @r"page-cache (mostly read from memory) ran 20.00 times faster than cpu-gpu (read of 1 MiB, 8 threads)");
}

#[test]
fn files_that_live_in_memory_are_told_by_the_page_cache_where_there_is_no_device() {
    let mut report = report(&plain(), both);
    for cell in &mut report.results.cells[1..] {
        let numbers = cell.measurement.as_mut().unwrap();
        numbers.device_read_bytes = None;
        numbers.page_cache_share = Some(1.0);
    }
    let text = show(Format::Table, &report);
    assert_eq!(
        text.matches("(mostly read from memory)").count(),
        2,
        "{text}"
    );
    // Going around a cache that is warm on purpose is no reading from memory.
    report.plan.cache = stormlp_model::matrix::CacheState::Warm;
    let text = show(Format::Table, &report);
    assert!(!text.contains("cpu-gpu (mostly"), "{text}");
    assert!(text.contains("page-cache (mostly"), "{text}");
}

#[test]
fn rates_of_checking_the_pattern_are_not_compared() {
    let mut request = plain();
    request.verify = true;
    let text = show(Format::Table, &report(&request, both));
    assert!(!text.contains("faster than"), "{text}");
    assert!(
        text.contains("throughput includes checking the pattern"),
        "{text}"
    );
}

#[test]
fn a_cell_cut_short_is_marked_in_every_format() {
    let mut report = report(&plain(), both);
    let numbers = report.results.cells[2].measurement.as_mut().unwrap();
    (numbers.interrupted, numbers.duration_seconds) = (true, 0.93);
    let note = "[2] cut short by the user: 0.93 of 5 s";
    for format in [Format::Table, Format::Markdown] {
        let text = show(format, &report);
        assert!(text.contains("5.00 [2]") && text.contains(note), "{text}");
    }
    for columns in [Columns::StudyA, Columns::StudyB] {
        let view = View {
            report: &report,
            baseline: None,
            columns,
        };
        let text = render(Format::Table, &view).unwrap();
        assert!(
            text.contains("cut short by the user: 0.93 of 5 s"),
            "{text}"
        );
    }
    let csv = show(Format::Csv, &report);
    let ends: Vec<&str> = (csv.lines())
        .map(|line| line.rsplit(',').next().unwrap())
        .collect();
    assert_eq!(ends, ["interrupted", "", "false", "true"]);
}

#[test]
fn an_engine_asked_for_is_named_without_more() {
    let mut report = report(&plain(), both);
    report.plan.engine_asked = stormlp_model::transport::EngineChoice::Uring;
    let text = show(Format::Table, &report);
    assert!(
        text.lines().nth(1).unwrap().ends_with(", engine uring"),
        "{text}"
    );
}

#[test]
fn markdown_has_the_same_rows() {
    insta::assert_snapshot!(show(Format::Markdown, &report(&plain(), both)), @r"
    ### matrix on node1 (Linux 6.8.0), 2026-11-21T10:15:02Z

    8 files, 8 GiB in all, in data, page cache cold, 5.0 s a cell, engine uring (auto)

    accelerator memory: host memory (emulated)

    | path | memory | op | I/O | threads | depth | GiB/s | IOPS | mean µs | p50 µs | p99 µs | p99.9 µs | max µs | CPU s/GiB | cached |
    | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
    | gds |  | read | 1 MiB | 8 | 1 | n/a [1] |  |  |  |  |  |  |  |  |
    | cpu-gpu | emulated | read | 1 MiB | 8 | 1 | 12.50 | 12,800 | 635 | 600 | 1,235 | 2,000 | 3,457 | 0.080 | 0 % → 0 % |
    | page-cache | emulated | read | 1 MiB | 8 | 1 | 5.00 | 5,120 | 635 | 600 | 1,235 | 2,000 | 3,457 | 0.200 | 0 % → 100 % |

    - [1] gds: no libcufile; install CUDA
    - cpu-gpu: O_DIRECT held
    - page-cache: O_DIRECT held
    - warning: accelerator memory is emulated: host memory stands in for it, and a copy to it is a copy within host memory; run on a machine with a GPU to measure transfers to one
    - warning: the files (8 GiB) fit in memory (64 GiB): once path page-cache has gone over them, it reads from memory; use --passes 1, or a larger --file-size
    - cpu-gpu ran 2.50 times faster than page-cache (read of 1 MiB, 8 threads)
    ");
}

#[test]
fn gdsios_line_is_gdsios_to_the_letter() {
    let report = report(&plain(), both);
    insta::assert_snapshot!(show(Format::Gdsio, &report), @r"
    IoType: READ XferType: CPU_GPU Threads: 8 DataSetSize: 52428800/8388608(KiB) IOSize: 1024(KiB) Throughput: 12.500000 GiB/sec, Avg_Latency: 634.547000 usecs ops: 51200 total_time 4.000000 secs
    IoType: READ XferType: CPU_CACHED_GPU Threads: 8 DataSetSize: 20971520/8388608(KiB) IOSize: 1024(KiB) Throughput: 5.000000 GiB/sec, Avg_Latency: 634.547000 usecs ops: 20480 total_time 4.000000 secs
    ");
}

#[test]
fn gdsios_line_has_the_depth_of_a_batch_and_the_mix_of_sizes() {
    let mut report = report(&plain(), both);
    report.results.cells[1].requested_path = PathKind::GdsBatch;
    report.results.cells[1].effective_path = Some(PathKind::GdsBatch);
    report.results.cells[1].queue_depth = 10;
    report.results.cells[1].io_size_mix = Some(mix("32K:1024K:1K"));
    let text = show(Format::Gdsio, &report);
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("XferType: GPU_BATCH Threads: 8 IoDepth: 10 DataSetSize: "),
        "{first}"
    );
    assert!(first.contains(" IOSize: 32-1024-1(KiB) "), "{first}");
}

#[test]
fn a_job_that_moved_nothing_has_no_latency() {
    let mut report = report(&plain(), both);
    let job = |name: &str, latency_us_mean| stormlp_model::matrix::JobReport {
        name: name.to_string(),
        threads: 1,
        operations: 0,
        bytes: 0,
        throughput_bytes_per_second: 0.0,
        latency_us_mean,
    };
    report.results.cells[1].measurement.as_mut().unwrap().jobs =
        vec![job("a", None), job("b", Some(2.5))];
    let text = gdsio_lines(&report, true);
    assert!(text.contains("Avg_Latency: n/a usecs"), "{text}");
    assert!(text.contains("Avg_Latency: 2.500000 usecs"), "{text}");
}

fn mix(text: &str) -> stormlp_model::matrix::IoSize {
    stormlp_model::matrix::IoSize::parse_mix(text).unwrap()
}

#[test]
fn reading_back_what_was_written_is_announced_as_gdsio_does() {
    let mut request = plain();
    request.paths = PathChoice::Named(vec![PathKind::Cpu]);
    request.ops = vec![Operation::Write, Operation::Read];
    request.verify = true;
    let text = show(Format::Gdsio, &report(&request, both));
    let starts: Vec<&str> = text
        .lines()
        .map(|line| &line[..line.len().min(14)])
        .collect();
    assert_eq!(
        starts,
        ["IoType: WRITE ", "Verifying data", "IoType: READ X"]
    );
}

#[test]
fn csv_has_a_line_for_each_cell_and_as_many_fields_as_its_header() {
    let text = show(Format::Csv, &report(&plain(), both));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), CSV_HEADER.len());
    let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name| CSV_HEADER.iter().position(|known| *known == name).unwrap();
    let column = |row: &::csv::StringRecord, name| row[column(name)].to_string();
    assert_eq!(column(&rows[0], "status"), "unavailable");
    assert_eq!(column(&rows[0], "iops"), "");
    assert_eq!(column(&rows[1], "bytes"), (50 * GIB).to_string());
    assert_eq!(column(&rows[1], "memory_emulated"), "true");
    assert_eq!(column(&rows[1], "evidence"), "O_DIRECT held");
    assert!(
        !csv_rows(&report(&plain(), both), false)
            .unwrap()
            .contains("format_version")
    );
}

#[test]
fn json_is_the_report_and_reads_back_unchanged() {
    let report = report(&plain(), both);
    let text = show(Format::Json, &report);
    assert_eq!(serde_json::from_str::<MatrixReport>(&text).unwrap(), report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in [
        "format_version",
        "command",
        "host",
        "plan",
        "warnings",
        "cells",
    ] {
        assert!(!value[key].is_null(), "{key}");
    }
}

#[test]
fn the_studys_tables_have_its_columns_and_precision() {
    let report = report(&plain(), both);
    let show = |columns| {
        let view = View {
            report: &report,
            baseline: None,
            columns,
        };
        let text = render(Format::Markdown, &view).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        rows.join("\n")
    };
    insta::assert_snapshot!(show(Columns::StudyA), @r"
    | I/O Type | Transfer Type | Threads | Data Set Size (KiB) | IO Size (KiB) | Throughput (GiB/sec) | Avg Latency (usecs) | Operations |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | READ | GPUD | 8 | - | 1024 | n/a [1] |  |  |
    | READ | CPU_GPU | 8 | 52,428,800 | 1024 | 12.50 | 634.55 | 51,200 |
    | READ | CPU_CACHED_GPU | 8 | 20,971,520 | 1024 | 5.00 | 634.55 | 20,480 |
    ");
    insta::assert_snapshot!(show(Columns::StudyB), @r"
    | Transfer Type | Threads | Throughput (GiB/sec) | Latency (usec) |
    | --- | ---: | ---: | ---: |
    | Storage->CPU->GPU | 8 | 12.5 | 634.547 |
    | Storage->PAGE_CACHE->CPU->GPU | 8 | 5 | 634.547 |
    | Storage->GPU (GDS) | 8 | n/a [1] |  |
    ");
    let view = View {
        report: &report,
        baseline: None,
        columns: Columns::StudyA,
    };
    assert!(matches!(
        render(Format::Csv, &view),
        Err(RenderError::Columns)
    ));
}

#[test]
fn a_baseline_stands_beside_each_cell_with_what_makes_it_doubtful() {
    let now = report(&plain(), both);
    let mut then = report(&plain(), |_, _| Some(40.0));
    then.head.host.kernel = "6.1.0".to_string();
    let view = View {
        report: &now,
        baseline: Some(&then),
        columns: Columns::Standard,
    };
    let text = render(Format::Table, &view).unwrap();
    assert!(text.contains("× 1.25") && text.contains("× 0.50"), "{text}");
    assert!(text.contains("measured under Linux 6.1.0"), "{text}");
}

#[test]
fn warnings_are_printed_once_with_their_advice() {
    let mut report = report(&plain(), both);
    let warning = Warning::new(WarningKind::TooShort, "it ran for 0.1 s", "use --duration");
    for cell in &mut report.results.cells {
        cell.warnings = vec![warning.clone(), warning.clone()];
    }
    let text = show(Format::Table, &report);
    let line = "warning: cpu-gpu read: it ran for 0.1 s; use --duration";
    assert_eq!(text.matches(line).count(), 1, "{text}");
}

#[test]
fn a_plan_shows_what_would_run_and_how_long_it_takes() {
    let plan = resolve(&plain(), &host(), &inventory()).unwrap();
    insta::assert_snapshot!(render_plan(&plan), @r"
    plan of matrix: 8 files, 8 GiB in all, in data
    files: 0 used as they are, 0 made, 8 filled (8 GiB to write first)
    accelerator memory: host memory (emulated)
    engine uring, page cache cold, 5.0 s a cell after 0 ms of warm-up, buffers 16 MiB
    ───────────────────────────────────────────────────────────────────────────
     path         op     I/O   threads   depth   repeat   asked for   estimate
    ───────────────────────────────────────────────────────────────────────────
     gds          read   1M          8       1        1       8 GiB    n/a [1]
     cpu-gpu      read   1M          8       1        1       8 GiB      5.0 s
     page-cache   read   1M          8       1        1       8 GiB      5.0 s
    ───────────────────────────────────────────────────────────────────────────
    [1] gds: no libcufile; install CUDA
    warning: accelerator memory is emulated: host memory stands in for it, and a copy to it is a copy within host memory; run on a machine with a GPU to measure transfers to one
    warning: the files (8 GiB) fit in memory (64 GiB): once path page-cache has gone over them, it reads from memory; use --passes 1, or a larger --file-size
    2 of 3 cells can run; about 18 s in all, if storage moves 1 GiB/s
    ");
}

#[test]
fn formats_are_told_by_extension() {
    let format = |name: &str| Format::of_file(Path::new(name));
    assert_eq!(format("a/b.json"), Ok(Format::Json));
    assert_eq!(format("b.CSV"), Ok(Format::Csv));
    assert_eq!(format("b.md"), Ok(Format::Markdown));
    assert!(format("b.xlsx").unwrap_err().contains(".csv"));
    assert!(format("b").is_err());
}

#[test]
fn repetitions_unlike_the_others_and_a_near_ceiling_are_told() {
    use stormlp_model::matrix::review;
    let mut request = plain();
    request.paths = PathChoice::Named(vec![PathKind::Cpu, PathKind::Null]);
    request.repeat = 6;
    let kinds = |report: &MatrixReport| -> Vec<WarningKind> {
        review(report).iter().map(|warning| warning.kind).collect()
    };
    let steady = report(&request, |path, repeat| {
        let rate = if path == PathKind::Null { 900.0 } else { 50.0 };
        Some(rate + f64::from(repeat % 3))
    });
    assert_eq!(kinds(&steady), []);
    let slow_first = report(&request, |path, repeat| match (path, repeat) {
        (PathKind::Null, _) => Some(900.0),
        (_, 1) => Some(20.0),
        (_, repeat) => Some(50.0 + f64::from(repeat % 3)),
    });
    assert_eq!(kinds(&slow_first), [WarningKind::Outliers]);
    assert!(
        review(&slow_first)[0]
            .fact
            .contains("first repetition had 39 %")
    );
    let one_off = report(&request, |path, repeat| match (path, repeat) {
        (PathKind::Null, _) => Some(900.0),
        (_, 4) => Some(20.0),
        (_, repeat) => Some(50.0 + f64::from(repeat % 3)),
    });
    assert!(review(&one_off)[0].fact.contains("1 of 6 repetitions"));
    let near = report(&request, |path, _| {
        Some(if path == PathKind::Null { 90.0 } else { 50.0 })
    });
    assert_eq!(kinds(&near), [WarningKind::HarnessBound]);
}
