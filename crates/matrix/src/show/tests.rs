//! Rendering of fictitious reports.

mod headline;
mod honest;
mod knee;
mod pages;

use crate::plan::{
    CellReport, CellStatus, LayoutSummary, MatrixReport, MatrixRequest, MatrixResults, Measurement,
    PathChoice, Transfers,
};
use stormlp_core::histogram::LatencyUs;
use stormlp_core::operation::Operation;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_core::units::GIB;
use stormlp_core::warning::{Warning, WarningKind};

use super::fixtures::*;
use super::*;
use stormlp_show::{csv, markdown, text};

fn table(report: &MatrixReport) -> String {
    text::render(&document(report), None)
}

fn headline(report: &MatrixReport) -> String {
    document(report).headline
}

fn page(report: &MatrixReport) -> String {
    markdown::render(&document(report))
}

/// The report as one with a preset of the study.
fn of_study(mut report: MatrixReport) -> MatrixReport {
    report.plan.request.preset = Some("training".to_string());
    report
}

fn rows(report: &MatrixReport) -> String {
    csv::render(&document(report), true).unwrap()
}

#[test]
fn repetitions_are_a_mean_with_its_deviation() {
    let mut request = plain();
    request.runs = Some(3);
    let report = report(&request, |path, repeat| Some(both(path, 1)? + f64::from(repeat)));
    let text = table(&report);
    assert!(text.contains("13.0 ± 0.2"), "{text}");
    insta::assert_snapshot!(headline(&report), @r"cpu-gpu 13.0 ± 0.2 GiB/s, 2.36 × the throughput of page-cache (2.15 to 2.61) (read of 1 MiB, 8 threads)");
}

#[test]
fn a_failed_cell_has_no_numbers_but_a_reason() {
    let text = table(&report(&plain(), |path, _| (path != PathKind::CpuGpu).then_some(20.0)));
    assert!(text.contains("failed [2]"), "{text}");
    assert!(text.contains("[2] cpu-gpu: read data/stormlp.3: EIO"), "{text}");
    assert!(!text.contains("faster than"), "{text}");
}

#[test]
fn a_path_that_ran_as_another_is_shown_with_it() {
    let mut report = report(&plain(), both);
    report.results.cells[1].effective_path = Some(PathKind::Cpu);
    report.results.cells[2].effective_path = None;
    let text = table(&report);
    assert!(text.contains("cpu-gpu (ran: cpu)"), "{text}");
    assert!(text.contains("page-cache (ran: unproven)"), "{text}");
    assert!(gdsio_lines(&report, false).starts_with("IoType: READ XferType: CPUONLY "));
}

#[test]
fn the_page_caches_share_in_a_win_is_reported() {
    let mut report =
        report(&plain(), |path, _| Some(if path == PathKind::PageCache { 200.0 } else { 10.0 }));
    report.results.cells[2].measurement.as_mut().unwrap().device_read_bytes = Some(GIB);
    insta::assert_snapshot!(headline(&report), @r"cpu-gpu 2.50 GiB/s, page-cache (mostly read from memory) 50.0 GiB/s (read of 1 MiB, 8 threads)");
}

#[test]
fn files_in_memory_are_detected_by_the_page_cache_without_a_device() {
    let mut report = report(&plain(), both);
    for cell in &mut report.results.cells[1..] {
        let numbers = cell.measurement.as_mut().unwrap();
        numbers.device_read_bytes = None;
        numbers.page_cache_share = Some(1.0);
    }
    let text = table(&report);
    assert_eq!(text.matches("(mostly read from memory)").count(), 2, "{text}");
    // Bypassing a deliberately warm cache is not reading from memory.
    report.plan.request.cache = crate::plan::CacheState::Warm;
    let text = table(&report);
    assert!(!text.contains("cpu-gpu (mostly"), "{text}");
    assert!(text.contains("page-cache (mostly"), "{text}");
}

#[test]
fn rates_of_checking_the_pattern_are_not_compared() {
    let mut request = plain();
    request.verify = true;
    let text = table(&report(&request, both));
    assert!(!text.contains("faster than"), "{text}");
    assert!(text.contains("throughput includes checking the pattern"), "{text}");
}

#[test]
fn a_cell_cut_short_is_marked_in_every_format() {
    let mut report = report(&plain(), both);
    let numbers = report.results.cells[2].measurement.as_mut().unwrap();
    (numbers.interrupted, numbers.duration_seconds) = (true, 0.93);
    let note = "[2] cut short by the user after 0.93 s";
    for text in [table(&report), page(&report)] {
        assert!(text.contains("5.00 [2]") && text.contains(note), "{text}");
    }
    let csv = rows(&report);
    let mut reader = ::csv::Reader::from_reader(csv.as_bytes());
    let column = reader.headers().unwrap().iter().position(|name| name == "interrupted").unwrap();
    let ends: Vec<_> = reader.records().map(|row| row.unwrap()[column].to_string()).collect();
    assert_eq!(ends, ["", "false", "true"]);
}

#[test]
fn a_requested_engine_is_named_without_a_remark() {
    let mut report = report(&plain(), both);
    for cell in &mut report.plan.cells {
        cell.transport.requested_engine = stormlp_core::transport::EngineChoice::Uring;
        cell.transport.engine = EngineKind::Uring;
    }
    let text = table(&report);
    assert!(text.contains(", engine uring\n"), "{text}");
}

#[test]
fn gdsios_line_is_gdsios_to_the_letter() {
    let report = report(&plain(), both);
    insta::assert_snapshot!(gdsio_lines(&report, false), @r"
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
    report.results.cells[1].io_size = mix("32K:1024K:1K");
    let text = gdsio_lines(&report, false);
    let first = text.lines().next().unwrap();
    assert!(first.contains("XferType: GPU_BATCH Threads: 8 IoDepth: 10 DataSetSize: "), "{first}");
    assert!(first.contains(" IOSize: 32-1024-1(KiB) "), "{first}");
}

#[test]
fn a_job_that_moved_nothing_has_no_latency() {
    let mut report = report(&plain(), both);
    let job = |name: &str, latency_us: Option<f64>| crate::plan::JobReport {
        name: name.to_string(),
        threads: 1,
        duration_seconds: 1.25,
        transfers: Transfers {
            operations: 0,
            bytes: 0,
            throughput_bytes_per_second: 2.0 * GIB as f64,
            iops: 0.0,
            latency_us: latency_us.map(|mean| LatencyUs { mean, ..LatencyUs::default() }),
            latency_histogram: String::new(),
        },
    };
    report.results.cells[1].measurement.as_mut().unwrap().jobs =
        vec![job("a", None), job("b", Some(2.5))];
    let text = gdsio_lines(&report, true);
    assert!(text.contains("Avg_Latency: n/a usecs"), "{text}");
    assert!(text.contains("Avg_Latency: 2.500000 usecs"), "{text}");
    assert!(text.contains(" total_time 1.250000 secs"), "{text}");
    let text = table(&report);
    let jobs = text.split_once("Jobs\n").unwrap().1;
    let row = |name: &str| jobs.lines().find(|line| line.trim_start().starts_with(name));
    assert!(row("a ").unwrap().contains("2.00"), "{text}");
    assert!(row("b ").unwrap().contains("1.250"), "{text}");
}

#[test]
fn study_b_names_the_operation_and_size_of_rows_if_there_are_several() {
    let heads = |request: &MatrixRequest| {
        let text = page(&of_study(report(request, both)));
        let head = text.lines().rfind(|line| line.contains("Transfer Type"));
        head.unwrap().to_string()
    };
    let mut request = plain();
    assert!(!heads(&request).contains("I/O Type"));
    request.ops = vec![Operation::Read, Operation::Write];
    assert!(heads(&request).contains("I/O Type") && !heads(&request).contains("IO Size"));
    request.io_sizes.push(mix("4K"));
    assert!(heads(&request).contains("IO Size (KiB)"));
}

#[test]
fn a_mix_is_shown_in_plan_and_result() {
    let mut request = plain();
    request.read_percent = Some(70);
    let report = report(&request, both);
    let message = "70 % reads and 30 % writes in each cell";
    assert!(table(&report).contains(message));
    let plan = super::plan(&report.plan, &[report.plan.layout()]);
    assert!(text::render(&plan, None).contains(message));
}

#[test]
fn a_plan_shows_what_all_hosts_write_first() {
    let report = report(&plain(), both);
    let layout = |used, filled, bytes| LayoutSummary { used, made: 0, filled, bytes };
    let told = |layouts: &[LayoutSummary]| text::render(&super::plan(&report.plan, layouts), None);
    let alone = told(&[layout(0, 2, 2 << 20)]);
    assert!(alone.contains("2 of them filled (2 MiB to write first)"), "{alone}");
    // The second host already has its files.
    let two = told(&[layout(0, 2, 2 << 20), layout(2, 0, 0), layout(1, 1, 1 << 20)]);
    assert!(
        two.contains(
            "3 used as they are, 3 created, 3 of them filled by 3 processes (3 MiB to write first)"
        ),
        "{two}"
    );
}

#[test]
fn a_cell_that_is_over_is_a_row_under_its_head() {
    let report = report(&plain(), |path, _| (path == PathKind::CpuGpu).then_some(40.0));
    let row = cell_row("37/288", &report.results.cells[1]);
    assert_eq!(cell_row_head().chars().count(), row.chars().count());
    assert!(row.chars().count() <= 80, "{row}");
    insta::assert_snapshot!(row, @" 37/288 cpu-gpu       read          1M       8     1    10.0    10,240    1,235");
    let failed = cell_row("1/2", &report.results.cells[2]);
    assert!(failed.ends_with(" failed: read data/stormlp.3: EIO"), "{failed}");
}

fn mix(text: &str) -> crate::plan::IoSize {
    text.parse().unwrap()
}

#[test]
fn reading_back_what_was_written_is_announced_as_gdsio_does() {
    let mut request = plain();
    request.paths = PathChoice::each(&[PathKind::Cpu]);
    request.ops = vec![Operation::Write, Operation::Read];
    request.verify = true;
    let text = gdsio_lines(&report(&request, both), false);
    let starts: Vec<&str> = text.lines().map(|line| &line[..line.len().min(14)]).collect();
    assert_eq!(starts, ["IoType: WRITE ", "Verifying data", "IoType: READ X"]);
}

#[test]
fn csv_has_a_line_for_each_cell_and_as_many_fields_as_its_header() {
    let text = rows(&report(&plain(), both));
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().len(), RECORDS.len());
    let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name| RECORDS.iter().position(|known| known.0 == name).unwrap();
    let column = |row: &::csv::StringRecord, name| row[column(name)].to_string();
    assert_eq!(column(&rows[0], "status"), "unavailable");
    assert_eq!(column(&rows[0], "iops"), "");
    assert_eq!(column(&rows[1], "bytes"), (50 * GIB).to_string());
    assert_eq!(column(&rows[1], "memory_emulated"), "true");
    assert_eq!(column(&rows[1], "evidence"), "O_DIRECT held");
    assert!(
        !csv::render(&document(&report(&plain(), both)), false).unwrap().contains("format_version")
    );
}

#[test]
fn the_studys_tables_have_its_columns_and_precision() {
    let page = page(&of_study(report(&plain(), both)));
    let show = |title: &str| {
        let text = page.lines().skip_while(|line| !line.ends_with(title));
        let rows = text.skip_while(|line| !line.starts_with('|'));
        rows.take_while(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(show("The study's table"), @r"
    | I/O Type | Transfer Type | Threads | Data Set Size (KiB) | IO Size (KiB) | Throughput (GiB/sec) | Avg Latency (usecs) | Operations |
    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
    | READ | GPUD | 8 | - | 1024 | n/a |  |  |
    | READ | CPU_GPU | 8 | 52,428,800 | 1024 | 12.50 | 634.55 | 51,200 |
    | READ | CPU_CACHED_GPU | 8 | 20,971,520 | 1024 | 5.00 | 634.55 | 20,480 |
    ");
    insta::assert_snapshot!(show("The study's table by throughput"), @r"
    | Transfer Type | Threads | Throughput (GiB/sec) | Latency (usec) |
    | --- | ---: | ---: | ---: |
    | Storage->CPU->GPU | 8 | 12.5 | 634.547 |
    | Storage->PAGE_CACHE->CPU->GPU | 8 | 5 | 634.547 |
    | Storage->GPU (GDS) | 8 | n/a |  |
    ");
}

#[test]
fn warnings_are_printed_once_with_their_advice() {
    let mut report = report(&plain(), both);
    let warning = Warning::new(WarningKind::TooShort, "it ran for 0.1 s", "use --duration");
    for cell in &mut report.results.cells {
        cell.warnings = vec![warning.clone(), warning.clone()];
    }
    let text = table(&report);
    assert_eq!(text.matches("it ran for 0.1 s").count(), 1, "{text}");
    assert!(text.contains("warning: gds read of 1 MiB"), "{text}");
    assert!(text.contains(": it ran for 0.1 s (like it: cpu-gpu read of"), "{text}");
    assert!(text.contains("; use --duration"), "{text}");
}
