//! What people and MLPerf's tools get to see.

use stormlp_model::checkpoint::{
    CheckpointFacts, CheckpointPlan, CheckpointReport, CheckpointRequest, CheckpointResult,
    CheckpointResults, DeviceBytes, Parts, RankResult, ScaleChoice, Summary, durations,
    gib_per_second, parse, rates, resolve, summarise,
};
use stormlp_model::facts::HostFacts;
use stormlp_model::report::{Ending, Head, Report, ReportKind};

use super::*;

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
    HostFacts {
        hostname: "client".to_string(),
        memory_bytes: 24 * GIB,
        ..HostFacts::fixture()
    }
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
        parts: Parts {
            transfer_seconds: duration_seconds / 2.0,
            ..Parts::default()
        },
    };
    let ranks = vec![rank(0, 1.0), rank(1, slow)];
    let duration_seconds = durations(&ranks);
    CheckpointResult {
        step,
        started_at_seconds: 10.0,
        bytes: 2 * GIB,
        gib_per_second: rates(&ranks, duration_seconds),
        duration_seconds,
        mean_parts: ranks[0].parts,
        slowest_parts: ranks[1].parts,
        device: Some(DeviceBytes {
            read_bytes: 0,
            written_bytes: 2 * GIB,
        }),
        page_cache_before: None,
        overlap: None,
        cpu_user_seconds: 0.5,
        cpu_system_seconds: 0.5,
        ranks,
        series: Vec::new(),
    }
}

fn report(scale: f64) -> CheckpointReport {
    let saves = vec![result(1, 2.0), result(2, 4.0)];
    let head = Head::new(
        ReportKind::Checkpoint,
        "stormlp checkpoint small".to_string(),
        "2026-01-31T23:59:55Z".to_string(),
        host(),
    );
    let results = CheckpointResults {
        summary: Summary {
            save: summarise(&saves),
            restore: None,
        },
        saves,
        restores: Vec::new(),
        elapsed_seconds: 20.0,
        verified_bytes: 0,
        cpu_user_seconds: 1.0,
        cpu_system_seconds: 1.0,
        peak_rss_bytes: 64 << 20,
    };
    CheckpointReport {
        ending: Ending::Complete,
        ..Report::new(head, plan(scale), results)
    }
}

#[test]
fn every_arithmetic_is_there_by_name() {
    let text = text(&report(1.0));
    let line = |start: &str| {
        let found = text
            .lines()
            .find(|line| line.trim_start().starts_with(start));
        found
            .unwrap_or_else(|| panic!("{start}:\n{text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        line("MLPerf's rules"),
        "MLPerf's rules: slowest rank, lowest rank's rate 3.000 s ± 1.000 0.375 GiB/s ± 0.125"
    );
    assert_eq!(
        line("DLIO"),
        "DLIO: rank 0, all bytes over its time 1.000 s ± 0.000 2.000 GiB/s ± 0.000 <- profile v2"
    );
    assert_eq!(
        line("all ranks"),
        "all ranks: all bytes over the slowest's time 3.000 s ± 1.000 0.750 GiB/s ± 0.250"
    );
    assert_eq!(line("total over total"), "total over total 0.667 GiB/s");
    assert!(!text.contains("SCALED"));
}

#[test]
fn every_line_of_a_scaled_report_says_so() {
    let text = text(&report(0.4));
    assert!(
        text.lines().all(|line| line.starts_with("SCALED 0.")),
        "{text}"
    );
    let plan = plan(0.4);
    let dry = dry_run_text(&DryRun {
        plan: &plan,
        problems: &[],
    });
    assert!(
        dry.lines().all(|line| line.starts_with("SCALED 0.")),
        "{dry}"
    );
}

#[test]
fn a_dry_run_lists_alike_ranks_once() {
    let plan = plan(1.0);
    insta::assert_snapshot!(dry_run_text(&DryRun { plan: &plan, problems: &[] }), @r"
    checkpoint small (4446464 parameters), profile v2, mode default: 4 of 4 ranks (TP 2 × PP 1 × DP 2), ZeRO 1
    a checkpoint is 59.43 MiB (62316544 bytes) in 6 files, 12.74 MiB to 16.98 MiB a rank
    10 saves and 10 restores, 5 s apart; up to 10 checkpoints kept at a time: 594.30 MiB; free space: not looked at
    path buffered: saves by psync (2 threads, 1 in flight a rank), restores by uring (2 threads, 1 in flight a rank), 1 MiB and 1 MiB a transfer; fsync per-file

    ranks 0 to 1: 17803520 bytes (16.98 MiB) each, 2 files
               4448768  model_0_model_states.pt
              13354752  zero_pp_rank_0_mp_rank_0_optim_states.pt
    ranks 2 to 3: 13354752 bytes (12.74 MiB) each, 1 files
              13354752  zero_pp_rank_1_mp_rank_0_optim_states.pt
    ");
}

#[test]
fn mlperfs_summary_is_rank_0s_stopwatch() {
    let summary = mlperf_summary(&report(1.0));
    let metric = &summary["metric"];
    assert_eq!(metric["save_checkpoint_duration_mean_seconds"], 1.0);
    assert_eq!(metric["save_checkpoint_io_mean_GB_per_second"], 2.0);
    assert!(
        metric
            .get("load_checkpoint_io_mean_GB_per_second")
            .is_none()
    );
    assert_eq!(summary["start"], "2026-01-31T23:59:55.000000");
    assert_eq!(summary["end"], "2026-02-01T00:00:15.000000");
    let stats = per_epoch_stats(&report(1.0));
    assert_eq!(stats["1"]["save_ckpt2"]["throughput"], 2.0);
    assert_eq!(stats["1"]["duration"], "20.00");
}
