//! What people and MLPerf's tools get to see.

use stormlp_core::checkpoint::{
    CheckpointFacts, CheckpointPlan, CheckpointReport, CheckpointRequest, CheckpointResult,
    CheckpointResults, DeviceBytes, HostPhase, Parts, RankResult, ScaleChoice, Summary,
    gib_per_second, parse, resolve, summarise,
};
use stormlp_core::facts::HostFacts;
use stormlp_core::group::{GroupFacts, Member};
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::parts::HostShare;
use stormlp_core::report::{AnyReport, Ending, Head, NamedSeries, Report, ReportKind, Series};

use super::*;
use crate::document::Document;

fn shown(document: &Document) -> String {
    crate::text::render(document, None)
}

const GIB: u64 = 1 << 30;

const MODEL: &str = "
model:
  name: small
  type: transformer
  num_layers: 4
  parallelism: {tensor: 2, pipeline: 1, zero_stage: 1}
  transformer: {vocab_size: 1000, hidden_size: 256, ffn_hidden_size: 1024,
    num_attention_heads: 8, num_kv_heads: 4}
";

fn host() -> HostFacts {
    HostFacts { hostname: "client".to_string(), memory_bytes: 24 * GIB, ..HostFacts::fixture() }
}

fn plan(scale: f64) -> CheckpointPlan {
    let workload = parse(MODEL, "model.yaml").expect("a workload");
    let mut request = CheckpointRequest::plain(workload, "ckpt".into());
    request.dry_run = true;
    request.ranks = Some(4);
    request.scale = Some(ScaleChoice::Factor(scale));
    let resolution = resolve(&request, &host(), &CheckpointFacts::default());
    resolution.plan.expect("a plan")
}

fn result(step: u32, slow: f64) -> CheckpointResult {
    let rank = |rank, duration_seconds| RankResult {
        rank,
        duration_seconds,
        bytes: GIB,
        gib_per_second: gib_per_second(GIB, duration_seconds),
        parts: Parts { transfer_seconds: duration_seconds / 2.0, ..Parts::default() },
    };
    let ranks = vec![rank(0, 1.0), rank(1, slow)];
    let mean_parts = ranks[0].parts;
    CheckpointResult {
        started_at_seconds: 10.0,
        mean_parts,
        device: Some(DeviceBytes { read_bytes: 0, written_bytes: 2 * GIB }),
        cpu_user_seconds: 0.5,
        cpu_system_seconds: 0.5,
        ..CheckpointResult::of_ranks(step, ranks)
    }
}

pub(crate) fn report(scale: f64) -> CheckpointReport {
    let saves = vec![result(1, 2.0), result(2, 4.0)];
    let head = Head::new(
        ReportKind::Checkpoint,
        "stormlp checkpoint small".to_string(),
        "2026-01-31T23:59:55Z".to_string(),
        host(),
    );
    let results = CheckpointResults {
        summary: Summary { save: summarise(&saves), restore: None },
        saves,
        restores: Vec::new(),
        elapsed_seconds: 20.0,
        verified_bytes: 0,
        cpu_user_seconds: 1.0,
        cpu_system_seconds: 1.0,
        peak_rss_bytes: 64 << 20,
        find_knee: None,
        hosts: Vec::new(),
        group: None,
    };
    let series = |step: u64, intervals: u64| NamedSeries {
        name: format!("save {step}"),
        series: Series {
            interval_seconds: 0.25,
            interval_bytes: (0..intervals).map(|n| (n + step) << 25).collect(),
            ..Series::default()
        },
    };
    let mut latency = LatencyHistogram::new();
    (1..=1000).for_each(|n| latency.record_ns(n * 10_000));
    CheckpointReport {
        ending: Ending::Complete,
        // The second has too few intervals to be shown.
        series: vec![series(1, 12), series(2, 8)],
        histograms: latency.named("save_transfer").into_iter().collect(),
        ..Report::new(head, plan(scale), results)
    }
}

#[test]
fn every_arithmetic_is_there_by_name() {
    let text = shown(&document(&report(1.0)));
    let line = |start: &str| {
        let mut lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        let found = lines.find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start}:\n{text}"))
    };
    assert_eq!(line("save MLPerf's rules"), "save MLPerf's rules 3.00 ± 1.00 0.375 ± 0.125");
    assert_eq!(line("save DLIO"), "save DLIO 1.00 ± 0.00 2.00 ± 0.00 v2");
    assert_eq!(line("save all ranks"), "save all ranks 3.00 ± 1.00 0.750 ± 0.250");
    assert!(text.contains("total over total 0.667 GiB/s"), "{text}");
    assert!(!text.contains("SCALED"));
}

#[test]
fn every_line_of_a_scaled_report_says_so() {
    let text = shown(&document(&report(0.4)));
    assert!(text.lines().all(|line| line.starts_with("SCALED 0.")), "{text}");
    let plan = plan(0.4);
    let dry = shown(&dry_run(&DryRun { plan: &plan, problems: &[] }));
    assert!(dry.lines().all(|line| line.starts_with("SCALED 0.")), "{dry}");
}

#[test]
fn mlperfs_summary_is_rank_0s_stopwatch() {
    let summary = mlperf::summary(&report(1.0));
    let metric = &summary["metric"];
    assert_eq!(metric["save_checkpoint_duration_mean_seconds"], 1.0);
    assert_eq!(metric["save_checkpoint_io_mean_GB_per_second"], 2.0);
    assert!(metric.get("load_checkpoint_io_mean_GB_per_second").is_none());
    assert_eq!(summary["start"], "2026-01-31T23:59:55.000000");
    assert_eq!(summary["end"], "2026-02-01T00:00:15.000000");
    let stats = mlperf::per_epoch_stats(&report(1.0), 0);
    assert_eq!(stats["1"]["save_ckpt2"]["throughput"], 2.0);
    assert_eq!(stats["1"]["duration"], "20.00");
    // Each rank has its own, and divides all bytes by it.
    let stats = mlperf::per_epoch_stats(&report(1.0), 1);
    assert_eq!(stats["1"]["save_ckpt2"]["duration"], 4.0);
    assert_eq!(stats["1"]["save_ckpt2"]["throughput"], 0.5);
}

/// The same of two hosts that began by their clocks, put together.
pub(crate) fn detached() -> CheckpointReport {
    let mut report = report(1.0);
    let host = |name: &str, seconds: f64| HostPhase {
        name: name.to_string(),
        bytes: GIB,
        duration_seconds: seconds,
        started_unix_seconds: Some(1.8e9),
    };
    for save in &mut report.results.saves {
        save.hosts = vec![host("h1", 1.0), host("h2", save.duration_seconds.max)];
        save.started_unix_seconds = Some(1.8e9);
        save.at_once_share = Some(1.0 / save.duration_seconds.max);
    }
    let share = |name: &str, slowest| HostShare {
        name: name.to_string(),
        bytes: 2 * GIB,
        cpu_seconds: 1.0,
        slowest,
    };
    report.results.hosts = vec![share("h1", 0), share("h2", 2)];
    report
}

#[test]
fn detached_hosts_are_not_taken_for_one_checkpoint() {
    let text = shown(&document(&detached()));
    let headline = text.lines().next().unwrap_or_default();
    assert!(
        headline.starts_with(
            "checkpoint small on 2 detached hosts, each with checkpoints of its own: saved at 0.750"
        ),
        "{headline}"
    );
    assert!(!headline.contains("profile"), "{headline}");
    assert!(text.contains("and as many on each of the 2 hosts"), "{text}");
    assert!(text.contains("at once %"), "{text}");
    // Rank 0 is one of the first host.
    assert!(
        !text.contains("rank 0 GiB/s") && !text.contains("DLIO") && !text.contains("MLPerf"),
        "{text}"
    );
    let found = AnyReport::from(detached()).contradictions();
    assert_eq!(found, Vec::<String>::new());
    let mut other = detached();
    other.results.saves[0].hosts[1].duration_seconds = 9.0;
    let found = AnyReport::from(other).contradictions().join("; ");
    assert!(found.contains("saves.0.duration_seconds.max is"), "{found}");
}

/// A small run, for the tests of every renderer.
pub(crate) fn sample_report() -> CheckpointReport {
    report(1.0)
}

pub(crate) fn samples() -> Vec<(&'static str, Document)> {
    let plan = plan(1.0);
    let problems = &[];
    vec![
        ("checkpoint", document(&report(1.0))),
        ("checkpoint_scaled", document(&report(0.4))),
        ("checkpoint_detached", document(&detached())),
        ("checkpoint_plan", dry_run(&DryRun { plan: &plan, problems })),
    ]
}

#[test]
fn mlperfs_files_tell_which_host_a_rank_was_on() {
    let mut report = report(1.0);
    let members = [Member::fixture(0, "h1"), Member::fixture(1, "h2")];
    report.results.group = Some(GroupFacts::fixture(&members));
    let files = mlperf::files(&report, &|_| false);
    let json = |end: &str| -> serde_json::Value {
        let file = files.iter().find(|file| file.path.ends_with(end));
        serde_json::from_str(&file.expect("a file").content).expect("JSON")
    };
    let summary = json("/summary.json");
    assert_eq!(summary["num_hosts"], 2);
    assert_eq!(summary["potential_caching"], serde_json::json!([0, 0]));
    assert_eq!(json("_metadata.json")["args"]["hosts"], serde_json::json!(["h1", "h2"]));
    for (rank, host) in ["h1", "h1", "h2", "h2"].into_iter().enumerate() {
        let output = json(&format!("/{rank}_output.json"));
        assert_eq!((&output["hostname"], &output["num_hosts"]), (&host.into(), &2.into()));
    }
}
