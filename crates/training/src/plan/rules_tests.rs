//! Violations of the closed rules and their messages.

use super::*;
use stormlp_core::facts::FoundFile;
use stormlp_core::units::GIB;
use stormlp_dataset::inventory::facts::Inventory;

/// A dataset large enough for 1 GiB of memory.
fn folder(files: u64) -> Inventory {
    let train = (0..files).map(|index| FoundFile {
        name: format!("train/img_{index}_of_{files}.npz"),
        bytes: 146_600_628,
    });
    Inventory { folder: "/data/set".into(), train: train.collect(), ..Inventory::default() }
}

/// Violations of a closed unet3d run on an H100 with `params`, modified by `change`.
fn broken(params: &[&str], files: u64, change: impl Fn(&mut TrainRequest)) -> Vec<String> {
    let params: Vec<String> = params.iter().map(ToString::to_string).collect();
    let entry = catalog::find("unet3d", Some("h100")).unwrap();
    let mut workload = entry.workload(&params).unwrap();
    workload.dataset.num_files_train = files;
    let mut request = TrainRequest { closed: true, ..TrainRequest::default() };
    change(&mut request);
    let host = HostFacts { memory_bytes: GIB, ..stormlp_fixtures::host() };
    match TrainPlan::resolve(&workload, &request, &host, &folder(files)) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|p| p.fact.clone()).collect(),
    }
}

#[test]
fn what_may_be_set_breaks_no_rule() {
    let allowed = [
        "reader.read_threads=8",
        "reader.prefetch_size=1",
        "storage.storage_type=parallel_fs",
        "storage.storage_root=/mnt",
        "storage.storage_options.prefetch_window=32",
        "checkpoint.checkpoint_folder=/ckpt",
        "workflow.profiling=False",
    ];
    assert_eq!(broken(&allowed, 3500, |_| ()), [""; 0]);
    assert_eq!(broken(&[], 3500, |r| r.runs = Some(5)), [""; 0]);
    let direct = |request: &mut TrainRequest| request.path = Some(PathKind::Cpu);
    assert_eq!(broken(&[], 3500, direct), [""; 0]);
}

#[test]
fn every_broken_rule_is_named_with_its_number() {
    let params = [
        "reader.batch_size=4",
        "reader.prefetch_size=5",
        "storage.storage_type=s3",
        "reader.pin_memory=False",
        "metric.au=0.5",
    ];
    let found = broken(&params, 14, |request| {
        request.engine = EngineChoice::Psync;
        request.path = Some(PathKind::PageCache);
        request.runs = Some(2);
    });
    insta::assert_snapshot!(found.join("\n"), @"
    rule 10.1 of v2.0: reader.batch_size is 4; it must be 7 and may not be changed
    rule 10.1 of v2.0: metric.au is 0.5; it must be 0.9 and may not be changed
    rule 10.1 of v2.0: storage.storage_type is s3, and the dataset is files
    rule 10.1 of v2.0: reader.pin_memory is set to false; it may not be changed
    rule 10.1 of v2.0: reader.prefetch_size is 5; it may be 0 to 2
    rule 10.1 of v2.0: --path page-cache; it must be buffered, or cpu (O_DIRECT) for unet3d
    rule 10.1 of v2.0: --engine may not be set
    rule 7 of v2.0: 14 files in the dataset; five times this host's memory and 500 steps per epoch require 2000 (use --generate=full; `stormlp datasize` shows the calculation)
    rule 6.6 of v2.0: 2 runs requested; a result needs 5 scored runs after a warm-up (--runs 5)
    ");
}

#[test]
fn since_v3_results_are_on_another_file_system_than_data() {
    let beside = |profile| {
        broken(&[], 3500, move |request| {
            request.profile = Some(profile);
            request.results_beside_data = vec!["/data/results".into()];
        })
    };
    let rule = "rule 3.4.1/3.4.2 of v3.0: results go to /data/results, which is on the dataset's";
    let of_v3 = beside(Profile::V3);
    assert!(of_v3.iter().any(|what| what.starts_with(rule)), "{of_v3:?}");
    assert_eq!(beside(Profile::V2), [""; 0]);
}

#[test]
fn only_the_editions_own_workloads_are_closed() {
    let found = broken(&[], 3500, |request| request.profile = Some(Profile::V3));
    assert!(found[0].starts_with("rule 3.6.2 of v3.0: unet3d on h100 is not"), "{found:?}");
    let native = |request: &mut TrainRequest| request.profile = Some(Profile::Native);
    assert!(broken(&[], 3500, native)[0].contains("not edition native"));
    // The other breaches are listed, whichever is first.
    for (profile, first) in
        [(Profile::Native, "not edition native"), (Profile::V3, "unet3d on h100")]
    {
        let found = broken(&["train.epochs=2"], 3500, |request| {
            request.profile = Some(profile);
            request.engine = EngineChoice::Psync;
            request.runs = Some(2);
        });
        for part in [first, "train.epochs is 2", "--engine may not be set", "2 runs requested"] {
            assert!(found.iter().any(|what| what.contains(part)), "{part}: {found:?}");
        }
    }
}
