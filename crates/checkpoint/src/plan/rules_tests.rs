//! Settings that MLPerf's closed rules forbid, allow and recommend.

use super::*;
use stormlp_core::cache::CacheChoice;
use stormlp_core::note::{Cause, Note};

/// A closed request for `model` with a change applied.
fn closed(model: &str, change: impl Fn(&mut CheckpointRequest)) -> CheckpointRequest {
    let mut request = request(model);
    request.closed = true;
    change(&mut request);
    request
}

#[test]
fn closed_rules_are_enforced_one_by_one() {
    type Change = fn(&mut CheckpointRequest);
    let breaches: [(Change, &str); 12] = [
        (
            |r| r.saves = Some(3),
            "rule 2.2.5 of v2.0: 3 saves and 3 restores; 10 of each are \
                                  required",
        ),
        (|r| r.fsync = Some(FsyncPolicy::None), "rule 2.2.2 of v2.0: --fsync none"),
        (|r| r.pause_seconds = Some(1.0), "rule 2.2.5 of v2.0: a pause of 1 s; it must be 5 s"),
        (|r| r.scale = Some(ScaleChoice::Factor(0.5)), "rule 2.2.5 of v2.0: --scale below 1"),
        (|r| r.path = PathKind::Cpu, "rule 2.2.5 of v2.0: --path cpu; it must be buffered in 2.0"),
        (|r| r.path = PathKind::PageCache, "rule 2.2.5 of v2.0: --path page-cache"),
        (|r| r.queue_depth = Some(4), "rule 2.2.5 of v2.0: --queue-depth 4"),
        (|r| r.io_size = Some(4096), "rule 2.2.5 of v2.0: --io-size"),
        (
            |r| r.engine = stormlp_core::transport::EngineChoice::Uring,
            "rule 2.2.5 of v2.0: --engine",
        ),
        (|r| r.ranks = Some(128.into()), "rule 2.2.5 of v2.0: 128 ranks; llama3-70b has 64"),
        (|r| r.folders.push("b".into()), "rule 2.2.5 of v2.0: 2 directories"),
        (
            |r| {
                r.edition = Some(CheckpointProfile::V3);
                r.results_beside_data = vec!["/ckpt/results".into()];
            },
            "rule 4.4.2 of v3.0: results go to /ckpt/results, which is on the file system of the checkpoints",
        ),
    ];
    for (change, part) in breaches {
        let problems = whats(&closed("llama3-70b", change), &facts(100_000 * GIB));
        assert!(problems[0].contains(part), "{part}: {problems:?}");
    }
}

#[test]
fn closed_rules_forbid_nothing_else() {
    type Allowed = fn(&mut CheckpointRequest);
    let allowed: [Allowed; 7] = [
        |_| {},
        |r| r.restores = Some(0),
        |r| r.queue_depth = Some(1),
        |r| r.io_size = Some(1 << 20),
        |r| r.cache = Some(CacheChoice::Cold),
        // v2 has no rule on the location of results.
        |r| r.results_beside_data = vec!["/ckpt/results".into()],
        |r| {
            r.edition = Some(CheckpointProfile::V3);
            r.path = PathKind::Cpu;
        },
    ];
    for change in allowed {
        let problems = whats(&closed("llama3-70b", change), &facts(100_000 * GIB));
        assert_eq!(problems, Vec::<String>::new());
    }
}

#[test]
fn a_closed_run_goes_by_an_edition() {
    let native = closed("llama3-70b", |r| r.edition = Some(CheckpointProfile::Native));
    let problems = whats(&native, &facts(100_000 * GIB));
    assert_eq!(problems, ["--closed follows the rules of v2.0 or v3.0, not edition native"]);
}

#[test]
fn a_closed_subset_is_of_eight_ranks_and_in_v3_of_the_8b() {
    let of = |model: &str, profile: CheckpointProfile, ranks: &str| {
        let request = closed(model, |r| {
            r.edition = Some(profile);
            r.ranks = Some(ranks.parse().expect("ranks"));
        });
        whats(&request, &facts(100_000 * GIB)).join("\n")
    };
    assert_eq!(of("llama3-405b", CheckpointProfile::V2, "8/512"), "");
    assert_eq!(of("llama3-8b", CheckpointProfile::V3, "8/8"), "");
    let large = of("llama3-405b", CheckpointProfile::V3, "8/512");
    assert!(large.contains("8B model only"), "{large}");
    let twelve = of("llama3-70b", CheckpointProfile::V2, "12/64");
    assert!(twelve.contains("12 of 64 ranks; a subset must be 8 of 64"), "{twelve}");
}

#[test]
fn closed_restores_are_cold_if_memory_could_hold_the_checkpoints() {
    let large = HostFacts { memory_bytes: 1024 * GIB, ..host() };
    let problems = |request: &CheckpointRequest| {
        let all = resolve(request, &large, &facts(100_000 * GIB)).problems;
        all.iter().map(|problem| problem.fact.clone()).collect::<Vec<_>>()
    };
    let warm = problems(&closed("llama3-8b", |r| r.cache = Some(CacheChoice::AsIs)));
    assert!(warm[0].contains("use --cache cold"), "{warm:?}");
    for change in [|_: &mut CheckpointRequest| {}, |r: &mut CheckpointRequest| r.restores = Some(0)]
    {
        assert_eq!(problems(&closed("llama3-8b", change)), Vec::<String>::new());
    }
}

#[test]
fn mlperfs_own_files_are_its_models_under_any_name() {
    let mut own = request("llama3-8b");
    own.workload.name = "llama_8b".to_string();
    own.workload.data = None;
    own.ranks = Some(8.into());
    own.closed = true;
    assert_eq!(whats(&own, &facts(10_000 * GIB)), Vec::<String>::new());
    own.workload.architecture.num_layers = 31;
    let other = whats(&own, &facts(10_000 * GIB));
    assert!(other[0].contains("not one of MLPerf's models"), "{other:?}");
}

#[test]
fn a_closed_run_gets_no_advice_that_breaks_the_rules() {
    let small = HostFacts { open_files_limit: 64, memory_bytes: 1 << 20, ..host() };
    let problems = resolve(&closed("llama3-8b", |_| {}), &small, &facts(GIB)).problems;
    let of_machine: Vec<&Note<Cause>> =
        problems.iter().filter(|problem| problem.kind == Cause::Capacity).collect();
    assert_eq!(of_machine.len(), 3, "{problems:?}");
    for problem in of_machine {
        for option in ["--scale", "--saves", "--keep", "--ranks", "--queue-depth", "--io-size"] {
            assert!(!problem.remedy.contains(option), "{option}: {problem:?}");
        }
    }
}
