//! Reports for tests.

use super::plan::{DryRun, dry_run};
use super::run::document;
use crate::plan::{
    CheckpointFacts, CheckpointPlan, CheckpointRequest, FindStreams, KNEE_STREAMS, ScaleChoice,
    TriedStreams, parse, resolve,
};
use crate::report::{
    CheckpointReport, CheckpointResult, CheckpointResults, DeviceBytes, PartSeconds, RankResult,
    Summary, gib_per_second, summarise,
};
use stormlp_core::facts::HostFacts;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::knee::KneeLimit;
use stormlp_core::report::{Ending, Head, NamedSeries, Report, ReportKind, Series};
use stormlp_show::document::Document;

/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

const MODEL: &str = "
model:
  name: small
  type: transformer
  num_layers: 4
  parallelism: {tensor: 2, pipeline: 1, zero_stage: 1}
  transformer: {vocab_size: 1000, hidden_size: 256, ffn_hidden_size: 1024,
    num_attention_heads: 8, num_kv_heads: 4}
";

/// The machine in the reports.
pub fn host() -> HostFacts {
    HostFacts { hostname: "client".to_string(), memory_bytes: 24 * GIB, ..HostFacts::fixture() }
}

/// The plan of a small checkpoint at `scale`.
pub fn plan(scale: f64) -> CheckpointPlan {
    let workload = parse(MODEL, "model.yaml").expect("a workload");
    let mut request = CheckpointRequest::plain(workload, "ckpt".into());
    request.dry_run = true;
    request.ranks = Some(4);
    request.scale = Some(ScaleChoice::Factor(scale));
    let resolution = resolve(&request, &host(), &CheckpointFacts::default());
    resolution.plan.expect("a plan")
}

/// A save or restore whose second rank takes `slow` seconds.
pub fn result(step: u32, slow: f64) -> CheckpointResult {
    let rank = |rank, duration_seconds| RankResult {
        rank,
        duration_seconds,
        bytes: GIB,
        gib_per_second: gib_per_second(GIB, duration_seconds),
        parts: PartSeconds { transfer_seconds: duration_seconds / 2.0, ..PartSeconds::default() },
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

/// A report with two saves.
pub fn report(scale: f64) -> CheckpointReport {
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

/// A search over eight numbers of streams, the saves faster up to three and the restores up to six.
pub fn searched() -> CheckpointReport {
    let mut find = FindStreams::begun(KNEE_STREAMS.to_vec());
    while let Some(streams) = find.next() {
        let rate = |most: u32| {
            0.5 * f64::from(streams.min(most)) * (1.0 + 0.001 * find.tried.len() as f64)
        };
        find.take(TriedStreams {
            streams,
            save_gib_per_second: vec![rate(3)],
            restore_gib_per_second: vec![rate(6)],
            save_limited_by: Some(KneeLimit::Storage),
            restore_limited_by: None,
            seconds: 2.0,
        });
    }
    let mut report = report(0.4);
    report.plan.request.streams = find.save.as_ref().map(|knee| knee.streams);
    report.results.find_knee = Some(find);
    report
}

/// A small run, for the tests of every renderer.
pub fn sample_report() -> CheckpointReport {
    report(1.0)
}

/// Documents for the tests of every renderer.
pub fn samples() -> Vec<(&'static str, Document)> {
    let plan = self::plan(1.0);
    let problems = &[];
    vec![
        ("checkpoint", document(&report(1.0))),
        ("checkpoint_scaled", document(&report(0.4))),
        ("checkpoint_find_knee", document(&searched())),
        ("checkpoint_plan", dry_run(&DryRun { plan: &plan, problems })),
    ]
}
