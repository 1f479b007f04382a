//! Merging hosts that have their own checkpoints.

use crate::plan::{
    Arithmetic, CheckpointFacts, CheckpointPlan, CheckpointRequest, builtin, resolve,
};
use crate::report::headline_arithmetic;
use crate::report::{PartSeconds, gib_per_second};
use proptest::prelude::*;
use stormlp_core::facts::HostFacts;
use stormlp_core::report::{Ending, Head, ReportKind, Series};

use super::*;

const RANKS: u64 = 2;

fn plan() -> CheckpointPlan {
    let workload = builtin::load("llama3-8b").unwrap();
    let mut request = CheckpointRequest::plain(workload, "ckpt".into());
    (request.dry_run, request.ranks) = (true, Some(RANKS));
    request.mode = Some(crate::plan::Mode::Subset);
    let facts = CheckpointFacts::default();
    resolve(&request, &HostFacts::fixture(), &facts).plan.unwrap()
}

/// A save or restore with the given start time and rank durations.
fn result(step: u32, began: f64, seconds: [f64; 2], bytes: u64) -> CheckpointResult {
    let ranks = seconds.iter().zip(0..).map(|(seconds, rank)| RankResult {
        rank,
        duration_seconds: *seconds,
        bytes,
        gib_per_second: gib_per_second(bytes, *seconds),
        parts: PartSeconds::default(),
    });
    CheckpointResult {
        started_at_seconds: 1.0,
        started_unix_seconds: Some(began),
        cpu_user_seconds: 0.5,
        device: Some(DeviceBytes { read_bytes: 0, written_bytes: 2 * bytes }),
        ..CheckpointResult::of_ranks(step, ranks.collect())
    }
}

/// The saved report of a host with `saves`.
fn part(host: &str, saves: Vec<CheckpointResult>) -> CheckpointReport {
    let mut head = Head::new(
        ReportKind::Checkpoint,
        "stormlp checkpoint".to_string(),
        "2026-01-01T00:00:00Z".to_string(),
        HostFacts::fixture(),
    );
    head.part = Some(PartOf {
        run_id: "night".to_string(),
        host: host.to_string(),
        boot_id: format!("boot of {host}"),
        process: 1,
        rank: None,
        size: None,
        start_at: Some("2026-01-01T00:00:10Z".to_string()),
    });
    let mut latency = LatencyHistogram::new();
    latency.record_ns(1000);
    let series = saves
        .iter()
        .map(|save| NamedSeries {
            name: format!("save {}", save.step),
            series: Series {
                interval_seconds: 0.1,
                interval_bytes: vec![save.bytes],
                ..Series::default()
            },
        })
        .collect();
    let results = CheckpointResults {
        summary: Summary { save: summarise(&saves), restore: None },
        elapsed_seconds: 1e6,
        verified_bytes: 7,
        saves,
        ..CheckpointResults::default()
    };
    Report {
        ending: Ending::Complete,
        series,
        histograms: latency.named("save_transfer").into_iter().collect(),
        ..Report::new(head, plan(), results)
    }
}

fn told(report: &CheckpointReport) -> String {
    let facts = report.warnings.iter().map(|one| one.fact.as_str());
    facts.collect::<Vec<&str>>().join("\n")
}

#[test]
fn rates_are_all_bytes_over_the_longest_time() {
    let parts = [
        part("h1", vec![result(1, 100.0, [1.0, 2.0], 1 << 30)]),
        part("h2", vec![result(1, 101.0, [4.0, 3.0], 1 << 30)]),
    ];
    let whole = merged(&parts).unwrap();
    let save = &whole.results.saves[0];
    assert_eq!((save.bytes, save.duration_seconds.max), (4 << 30, 4.0));
    assert_eq!(save.gib_per_second.total, 1.0);
    let ranks: Vec<u64> = save.ranks.iter().map(|rank| rank.rank).collect();
    assert_eq!(ranks, [0, 1, 2, 3]);
    assert_eq!(save.device.unwrap().written_bytes, 4 << 30);
    // From 101 to 102, out of 4 seconds.
    assert_eq!(save.at_once_share, Some(0.25));
    assert_eq!(save.started_unix_seconds, Some(100.0));
    let names: Vec<&str> = save.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(names, ["h1", "h2"]);
    let slowest = whole.results.hosts.iter().map(|host| host.slowest);
    assert_eq!(slowest.collect::<Vec<_>>(), [0, 1]);
    assert_eq!((whole.head.part.as_ref(), whole.results.verified_bytes), (None, 14));
    assert_eq!(headline_arithmetic(&whole), Arithmetic::AllRanks);
    assert!(told(&whole).contains("checkpoints of its own"), "{}", told(&whole));
    assert!(told(&whole).contains("the least in save 1"), "{}", told(&whole));
    // No sum over different times.
    assert_eq!(whole.series, []);
    assert_eq!(whole.histograms[0].count, 2);
}

#[test]
fn what_not_every_host_has_is_left_out() {
    let both = vec![result(1, 100.0, [1.0, 1.0], 1 << 30), result(2, 101.0, [1.0, 1.0], 1 << 30)];
    let mut stopped = part("h2", vec![result(1, 100.0, [1.0, 1.0], 1 << 30)]);
    stopped.ending = Ending::Stopped;
    let whole = merged(&[part("h1", both), stopped]).unwrap();
    assert_eq!((whole.results.saves.len(), &whole.ending), (1, &Ending::Stopped));
    assert!(told(&whole).contains("every host: save 2"), "{}", told(&whole));
    assert!(told(&whole).contains("still include their transfers"), "{}", told(&whole));
    assert_eq!(whole.series.len(), 1, "both were at it at once");
    assert_eq!(whole.series[0].series.interval_bytes, [4 << 30]);
    let alone = part("h1", vec![result(1, 100.0, [1.0, 1.0], 1 << 30)]);
    let alone = merged(&[alone]).unwrap();
    assert_eq!(alone.results.saves[0].at_once_share, None);
    assert!(alone.results.is_of_detached_hosts());
}

#[test]
fn a_fallback_is_not_hidden_by_hosts_without_one() {
    use stormlp_core::evidence::{DirectIo, Evidence};
    use stormlp_core::path::PathKind;

    let (gds, fell_back) = (Some(PathKind::Gds), Some(PathKind::CpuGpu));
    for paths in [[gds, fell_back, gds], [gds, gds, fell_back], [gds, None, gds]] {
        let mut nth = 0;
        let parts = paths.map(|effective_path| {
            nth += 1;
            let mut part = part(&format!("h{nth}"), vec![result(1, 100.0, [1.0, 1.0], 1)]);
            part.evidence = vec![NamedEvidence {
                name: "saves".to_string(),
                evidence: Evidence {
                    object_store: None,
                    effective_path,
                    summary: format!("of h{nth}"),
                    direct_io: DirectIo::NotAsked,
                    engine: None,
                    direct_storage: None,
                },
            }];
            part
        });
        let whole = merged(&parts).unwrap();
        let [saves] = &whole.evidence[..] else { panic!("{:?}", whole.evidence) };
        assert_ne!(saves.evidence.effective_path, gds, "{paths:?}");
    }
}

proptest! {
    #[test]
    fn bytes_add_up_and_the_longest_time_counts(
        hosts in prop::collection::vec(
            prop::collection::vec(((0.0..5.0), [0.01..9.0, 0.01..9.0], 1u64..1 << 40), 3), 1..5
        )
    ) {
        let parts: Vec<CheckpointReport> = hosts.iter().enumerate().map(|(nth, saves)| {
            let saves = saves.iter().zip(1..).map(|(save, step)| {
                let (late, seconds, bytes) = save;
                result(step, 1000.0 + late, *seconds, *bytes)
            });
            part(&format!("h{nth}"), saves.collect())
        }).collect();
        let whole = merged(&parts).unwrap();
        for (nth, save) in whole.results.saves.iter().enumerate() {
            let bytes: u64 = hosts.iter().map(|host| RANKS * host[nth].2).sum();
            let longest = hosts.iter().flat_map(|host| host[nth].1).fold(0.0, f64::max);
            prop_assert_eq!((save.bytes, save.duration_seconds.max), (bytes, longest));
            prop_assert_eq!(save.gib_per_second.total, gib_per_second(bytes, longest));
            prop_assert!(save.at_once_share.is_none_or(|share| (0.0..=1.0).contains(&share)));
            prop_assert_eq!(save.ranks.len(), 2 * hosts.len());
        }
        let shares: u64 = whole.results.hosts.iter().map(|host| host.bytes).sum();
        let saved: u64 = whole.results.saves.iter().map(|save| save.bytes).sum();
        prop_assert_eq!(shares, saved);
        let slowest: u64 = whole.results.hosts.iter().map(|host| host.slowest).sum();
        prop_assert_eq!(slowest, 3);
        prop_assert_eq!(crate::report::contradictions::contradictions(&whole), Vec::<String>::new());
    }
}
