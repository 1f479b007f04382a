//! `stormlp plan`: predictions for storage.

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

/// A run that is short to simulate.
const SHORT: &str = "--epochs 1 --steps 60 --host memory=1GiB";

fn plan(words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.env_remove("STORMLP_DETAILS").arg("plan").args(words.split_whitespace());
    command.assert()
}

/// The words of the screen.
fn page(words: &str) -> String {
    let printed = stdout(plan(words).success());
    printed.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(words: &str) -> Value {
    json_of(&format!("{words} {SHORT}"))
}

fn json_of(words: &str) -> Value {
    let printed = stdout(plan(&format!("{words} --format json")).success());
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn an_answer_has_the_keys_that_scripts_rely_on() {
    let answer = json("unet3d --accelerator h100 --storage read=7GB/s,write=3GB/s --mtbf 6h");
    assert_eq!(answer["workload"], "unet3d");
    assert_eq!(answer["accelerator"], "h100");
    assert_eq!(answer["measured"], false);
    // 7 GB/s is the demand of 2.2 accelerators.
    assert_eq!(answer["largest_accelerators"], 2);
    assert_eq!(answer["accelerators"], 2);
    assert_eq!(answer["limited_by"], "storage");
    assert!(answer["au_percent"].as_f64().unwrap() > 95.0);
    let range = |key: &str| answer[key].as_array().unwrap().iter().map(|end| end.as_f64().unwrap());
    assert!(range("largest_accelerators_range").eq([2.0, 2.0]), "{answer}");
    let [low, high] = range("au_percent_range").collect::<Vec<f64>>()[..] else { panic!() };
    assert!(89.0 < low && low < 92.0 && high > 99.0, "{low} {high}");
    for key in ["samples_per_second", "mib_per_second", "run_seconds"] {
        assert!(answer[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(answer["assumptions"].as_array().unwrap().len() > 5);
    let checkpoint = &answer["checkpoint"];
    let young = checkpoint["optimum"]["young_interval_seconds"].as_f64().unwrap();
    let save = checkpoint["save_seconds"].as_f64().unwrap();
    assert!((young - (2.0 * save * 6.0 * 3600.0).sqrt()).abs() < 1e-6);
}

#[test]
fn a_requested_number_is_shown_with_its_needs() {
    let words = "unet3d -n 7 --storage solidigm-d5-p5336 --params metric.au=0.9";
    let answer = json(words);
    assert_eq!(answer["accelerators"], 7);
    assert_eq!(answer["meets_threshold"], false);
    assert_eq!(answer["largest_accelerators"], 2);
    // 90 % of their demand is 20 GB/s: three drives.
    let rows = answer["rows"].as_array().unwrap();
    let numbers =
        |row: &Value| ["accelerators", "hosts", "devices"].map(|key| row[key].as_u64().unwrap());
    let rows: Vec<_> =
        rows.iter().map(|row| (row["row"].as_str().unwrap(), numbers(row))).collect();
    assert_eq!(rows, [("asked", [7, 1, 1]), ("largest", [2, 1, 1]), ("needed", [7, 1, 3])]);
    let page = stdout(plan(&format!("{words} {SHORT}")).success());
    let needs = "\nunet3d: 7 h100 need 1 host with 3 drives; 1 host with 1 drive feeds at most 2";
    assert!(page.contains(needs), "{page}");
    assert!(!page.contains("By number of"), "tables are among the details: {page}");
    let all = stdout(plan(&format!("{words} {SHORT} --details")).success());
    assert!(all.contains("By number of drives") && all.contains("Assumptions"), "{all}");
    assert_eq!(json(words), answer, "the same answer to the bit");
}

#[test]
fn an_object_store_is_limited_by_the_connections_of_each_host() {
    let store = "read=40GB/s,write=20GB/s,latency=5ms,connection=1GB/s";
    let of = |number| {
        let words = "unet3d --accelerator h100 --params reader.read_threads=16 --storage";
        json(&format!("{words} {store},connections={number}"))
    };
    let few = of(8);
    assert_eq!(
        (&few["limited_by"], &few["storage_part"]),
        (&"storage".into(), &"connections".into())
    );
    let many = of(32);
    let fed = |answer: &Value| answer["largest_accelerators"].as_u64().unwrap();
    assert!(fed(&few) >= 1 && fed(&many) > fed(&few), "{} {}", fed(&few), fed(&many));
    assert_eq!(few["storage"], format!("{store},connections=8"));
    let notes = few["assumptions"].to_string();
    assert!(notes.contains("each host has 8 connections"), "{notes}");
    assert!(!notes.contains("page cache, so"), "{notes}");
}

#[test]
fn a_host_limit_makes_a_lower_bound() {
    let page = page(&format!("unet3d --storage read=100GB/s --hosts 1 {SHORT},accelerators=2"));
    assert!(page.contains("; predicted, not measured, for 1 GiB of memory per host"), "{page}");
    assert!(page.contains("2 is a lower bound"), "{page}");
}

#[test]
fn storage_that_cannot_feed_one_accelerator_is_reported_with_its_au() {
    let page = page(&format!("unet3d --storage read=550MB/s {SHORT}"));
    let answer = "unet3d: 1 host with 1 drive feeds not even 1 h100 (range 0 to 0, limited by storage): AU 1";
    assert!(page.contains(answer) && page.contains(" %, 90 % required; predicted"), "{page}");
}

/// Invalid requests: arguments, exit code, and part of the message.
const REFUSED: &[(&str, i32, &str)] = &[
    ("unet3d --storage read=0", 3, "character 1: read=0: must be above 0"),
    ("unet3d --storage read=14", 3, "read=14: missing unit: 14GB/s or 14MB/s"),
    ("unet3d -n 3 --storage read=1KB/s", 3, "would last more than 30 years"),
    ("unet3d --storage 2x/host:read=1GB/s,link=10GB/s", 3, "remove link"),
    ("unet3d --storage read=1GB/s --host read=5", 2, "missing unit"),
    ("unet3d --storage read=1GB/s --host read=5GB/s --path cpu", 2, "--host read= has no effect"),
    ("unet3d --storage read=1GB/s,iops=10M", 3, "contradict each other"),
    ("unet3d --storage read=1GB/s,latency=-1us", 3, "latency=-1us"),
    ("unet3d --storage pm9a3", 3, "did you mean `samsung-pm9a3`?"),
    ("unet3d --storage missing/report.json", 4, "missing/report.json"),
    ("unet --storage read=1GB/s", 3, "did you mean `unet3d`?"),
    ("unet3d", 2, "--storage"),
    (
        "unet3d -n 100 --hosts 2 --host accelerators=4 --storage read=1GB/s",
        2,
        "room for 8 accelerators",
    ),
    ("unet3d --path cpu --storage read=1GB/s,cache=1TiB", 2, "bypasses the page cache"),
    ("unet3d --storage read=1GB/s --params dataset.num_files_train=70", 2, "has no effect"),
    ("unet3d --storage read=1GB/s --compute-time 0s", 3, "without compute time, AU is undefined"),
    ("unet3d --storage 2x:read=1GB/s,stripe=3", 3, "must be at least 4K"),
    ("unet3d --storage read=1GB/s,connections=8", 3, "connections needs connection"),
    (
        "unet3d --path cpu --storage read=1GB/s,latency=1ms,connection=1GB/s",
        2,
        "path cpu reads files",
    ),
    ("unet3d --storage read=116Gb/s", 3, "not bits"),
    ("unet3d --storage read=1GB/s,latency=0us", 3, "above 0"),
    ("unet3d --storage runs/gds-1,cache=10GiB", 2, "cannot be combined with a number of devices"),
    ("unet3d --storage 2x:runs/gds-1", 2, "cannot be combined with a number of devices"),
    ("unet3d --storage read=1GB/s --path null", 2, "--path null"),
    ("resnet50 --storage read=1GB/s --mtbf 3h", 2, "--mtbf has no effect"),
    ("unet3d --storage read=1GB/s --checkpoint llama9", 3, "neither a size nor a model"),
];

#[test]
fn invalid_requests_are_rejected_with_their_position() {
    for &(words, code, source) in REFUSED {
        let said = stderr(plan(words).code(code));
        assert!(said.contains(source), "{words}: {said}");
    }
}

#[test]
fn reports_of_other_commands_are_rejected_as_storage() {
    let place = tempfile::tempdir().unwrap();
    let mut command = stormlp();
    command.current_dir(place.path());
    command.args(
        "train unet3d --path null --epochs 1 --steps 3 --compute-time 1ms --quiet".split(' '),
    );
    let _ = command.assert();
    let reports = std::fs::read_dir(place.path().join("stormlp-results")).unwrap();
    let report = reports.last().unwrap().unwrap().path().join("report.json");
    let said = stderr(plan(&format!("unet3d --storage {}", report.display())).code(3));
    assert!(said.contains("is the report of `stormlp train`"), "{said}");
}

#[test]
fn the_memory_of_hosts_is_said_to_be_assumed_unless_it_was_set() {
    let words = "unet3d --storage read=7GB/s --epochs 1 --steps 20";
    let (assumed, set) = (page(words), page(&format!("{words} --host memory=64GiB")));
    assert!(assumed.contains("; predicted, not measured, assuming "), "{assumed}");
    assert!(assumed.ends_with(" of memory per host (set --host memory=)"), "{assumed}");
    assert!(set.ends_with("; predicted, not measured, for 64 GiB of memory per host"), "{set}");
}

#[test]
fn presets_are_listed_with_their_source() {
    let listed = stdout(plan("--storage list").success());
    assert!(listed.contains("solidigm-d7-ps1010"), "{listed}");
    assert!(listed.contains("read=14.5GB/s"), "{listed}");
}

#[test]
fn runs_served_by_the_page_cache_are_limited_by_memory() {
    // A fifth of the bandwidth it takes, and a cache that keeps all after the first epoch.
    let words = "unet3d -n 4 --storage read=2GB/s,cache=3000GB --host memory=1GiB --epochs 5 \
        --steps 30 --format json";
    let answer: Value = serde_json::from_str(&stdout(plan(words).success())).unwrap();
    assert!(answer["prediction"]["cached_percent"].as_f64().unwrap() > 50.0);
    assert_eq!(answer["limited_by"], "memory");
    let alone = words.replace(",cache=3000GB", "");
    let answer: Value = serde_json::from_str(&stdout(plan(&alone).success())).unwrap();
    assert_eq!(answer["limited_by"], "storage");
}

#[test]
fn hosts_that_limit_are_named_and_not_the_drives() {
    let words = "unet3d -n 16 --hosts 2 --storage 8x:read=14.5GB/s --epochs 1 --steps 60";
    let said = stdout(plan(&format!("{words} --host memory=1GiB,read=4GB/s")).success());
    assert!(said.contains("unet3d: 16 h100 need ") && !said.contains("not enough"), "{said}");
    assert!(said.contains("a host reads at most 3.73 GiB/s"), "{said}");
    assert!(said.contains("2 hosts with 8 drives feed at most"), "{said}");
}

#[test]
fn the_list_of_drives_has_the_format_that_was_asked_for() {
    let listed: Value =
        serde_json::from_str(&stdout(plan("--storage list --format json").success())).unwrap();
    assert!(listed.as_array().unwrap().iter().all(|one| one["name"].is_string()), "{listed}");
    let rows = stdout(plan("--storage list --format csv").success());
    assert!(rows.starts_with("name,drive,figures\n") && rows.lines().count() > 3, "{rows}");
}

#[test]
fn the_cost_of_a_host_comes_from_a_calibration() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("dlio.json");
    // Each step takes 5 ms more than its compute of 50 ms.
    crate::calibrate::save(&file);
    let words =
        format!("unet3d -n 2 --compute-time 50ms --storage read=100GB/s {SHORT} --format json");
    let free = format!("{words} --client-overhead none");
    let free: Value = serde_json::from_str(&stdout(plan(&free).success())).unwrap();
    let costly = format!("{words} --client-overhead {}", file.display());
    let costly: Value = serde_json::from_str(&stdout(plan(&costly).success())).unwrap();
    let au = |answer: &Value| answer["au_percent"].as_f64().unwrap();
    assert!(au(&costly) < au(&free) - 5.0, "{} {}", au(&costly), au(&free));
    let source = costly["assumptions"].to_string();
    assert!(source.contains("each step costs a host"), "{source}");
    assert!(!source.contains("estimates from another host"), "{source}");
}

#[test]
fn a_report_is_rejected_as_host_cost() {
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report.json");
    std::fs::write(&report, "{}").unwrap();
    let words = "unet3d --storage read=7GB/s --client-overhead";
    let said = stderr(plan(&format!("{words} {}", report.display())).code(3));
    assert!(said.contains("is not a calibration"), "{said}");
    plan(&format!("{words} missing/report.json")).code(4);
    plan(&format!("{words} x --client-overhead dlio")).code(2);
}

#[test]
fn a_link_that_limits_is_named() {
    let words = "unet3d -n 9 --storage read=100GB/s,link=12.5GB/s";
    let answer = json(&format!("{words} --details"));
    assert_eq!(answer["limited_by"], "storage");
    assert_eq!(answer["storage_part"], "link");
    let page = stdout(plan(&format!("{words} {SHORT}")).success());
    assert!(page.contains("the network link of each host"), "{page}");
    assert!(page.contains("limited by storage (link)"), "{page}");
    // More drives do not help.
    let rows = answer["over_devices"].as_array().unwrap();
    assert!(rows.len() > 1 && rows.iter().all(|row| row["storage_part"] == "link"), "{rows:?}");
}

#[test]
fn the_rate_of_a_host_behind_a_fast_link_is_in_the_range_until_it_is_given() {
    // A published client with such links fed 20.
    let words = "unet3d --accelerator h100 --edition 1.0 --storage 30x:read=14GB/s,link=100GB/s \
                 --epochs 1 --steps 60 --host memory=251GiB";
    let answer = json_of(words);
    let [low, high] = [0, 1].map(|end| answer["largest_accelerators_range"][end].as_u64().unwrap());
    assert!(low <= 2 && (20..25).contains(&high), "{answer}");
    assert_eq!(answer["search_limited_by"], "client");
    let page = page(words);
    for part in [
        "limited by host; set --host read=: with the assumed 20 GiB/s, 6 to 7",
        "predicted, not measured, for",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let known = json_of(&format!("{words},read=55109MiB/s"));
    assert_eq!(known["largest_accelerators_range"][1], 20, "{known}");
    assert!(known["largest_accelerators_range"][0].as_u64().unwrap() >= 18, "{known}");
}

#[test]
fn a_kind_of_plan_without_a_published_run_is_called_not_validated() {
    let words = "retinanet --accelerator b200 --hosts 2 --storage read=40GB/s";
    let page = page(&format!("{words} {SHORT}"));
    let said = "predicted, not measured, not validated (this workload, several hosts), for 1 GiB";
    assert!(page.contains(said), "{page}");
}

#[test]
fn a_parallel_file_system_is_not_judged_by_the_read_ahead_of_local_drives() {
    let words = "unet3d --accelerator h100 --epochs 1 --steps 60 --host memory=1GiB,read=none \
                 --storage read=40GB/s,latency=500us,link=40GB/s";
    let answer = json_of(words);
    assert!(answer["largest_accelerators"].as_u64().unwrap() >= 10, "{answer}");
    assert_eq!(answer["largest_accelerators_range"][0], 0);
    let causes = answer["range_causes"].as_array().unwrap();
    let ahead = causes.iter().find(|one| one["cause"] == "read_ahead").unwrap();
    assert!(ahead["assumption"].as_str().unwrap().contains("readahead=128K"), "{ahead}");
    // Told how far it reads ahead, nothing is left to guess.
    let told = json_of(&format!("{words},readahead=4M"));
    assert_eq!(told["largest_accelerators"], answer["largest_accelerators"]);
    assert!(told["largest_accelerators_range"][0].as_u64().unwrap() >= 10, "{told}");
}

#[test]
fn given_figures_are_not_credited_to_the_maker() {
    let answer = json("unet3d --storage solidigm-d5-p5336,latency=90us,write=2GB/s");
    let source = answer["storage_source"].as_str().unwrap();
    assert!(source.starts_with("latency, write as given; the rest: Solidigm"), "{source}");
}

#[test]
fn an_answer_does_not_depend_on_the_cpus_of_this_machine() {
    let answer = json("cosmoflow --storage read=14GB/s --client-overhead dlio");
    let notes = answer["assumptions"].to_string();
    assert!(notes.contains("if hosts have fewer, set --host cpus="), "{notes}");
    let few = "cosmoflow --storage read=14GB/s --client-overhead dlio";
    let few = json_of(&format!("{few} {SHORT},cpus=2"));
    let most = |answer: &Value| answer["largest_accelerators"].as_u64().unwrap();
    assert!(most(&few) < most(&answer) / 2, "{} {}", most(&few), most(&answer));
}

#[test]
fn with_a_client_the_limit_is_what_more_of_would_help() {
    let words = "cosmoflow --accelerator h100 --storage read=14.5GB/s,latency=80us \
                 --client-overhead";
    let (free, dlio) = (json(&format!("{words} none")), json(&format!("{words} dlio")));
    assert_eq!(dlio["storage_alone_accelerators"], free["largest_accelerators"]);
    assert_eq!(dlio["largest_accelerators"], free["largest_accelerators"]);
    assert_eq!((&dlio["limited_by"], &dlio["is_lower_bound"]), (&"storage".into(), &false.into()));
    let words = "unet3d --accelerator h100 --storage read=7GB/s,latency=80us \
                 --client-overhead";
    let (free, dlio) = (json(&format!("{words} none")), json(&format!("{words} dlio")));
    assert_eq!(dlio["storage_alone_accelerators"], free["largest_accelerators"]);
    assert!(dlio["largest_accelerators"].as_u64() < free["largest_accelerators"].as_u64());
    assert_eq!((&dlio["limited_by"], &dlio["is_lower_bound"]), (&"client".into(), &true.into()));
    // Its cost on these hosts is not known.
    let causes = dlio["range_causes"].as_array().unwrap();
    assert!(causes.iter().any(|one| one["cause"] == "client"), "{causes:?}");
}

#[test]
fn a_workload_that_reads_some_columns_is_reported_with_actual_reads() {
    let answer = json("dlrm --storage read=10GB/s,latency=80us");
    let read = answer["read_mib_per_second"].as_f64().unwrap();
    // 10 GB/s = 9537 MiB/s, which such a short run exceeds by what is in flight at its end; records are
    // five times as large as what is read of them.
    assert!(read < 11_500.0, "{read}");
    assert!(answer["mib_per_second"].as_f64().unwrap() > 4.0 * read);
}
