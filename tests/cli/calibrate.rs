//! `stormlp calibrate-dlio`, and the file that it saves as the client of `train` and `plan`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use crate::train::{folder, report, train};
use crate::{stderr, stdout, stormlp};

/// Saves the cost of npz files: half of a step of 10 ms that computes, and of sleeps 2 ms too long.
pub(crate) fn save(place: &Path) {
    let cost = json!({
        "format": "npz",
        "short_step": {"seconds": 0.005, "oversleep_seconds": 0.002},
        "step": {"seconds": 0.005, "oversleep_seconds": 0.002},
        "step_seconds_per_sample": 0.001,
        "workers": {"seconds_per_sample": 0.0, "seconds_per_gib": 0.25},
        "own": {"seconds_per_sample": 0.0, "seconds_per_gib": 0.25},
    });
    let all = json!({
        "calibration_version": 2, "started_at": "2026-11-21T10:15:02Z", "hostname": "node7",
        "cpu_model": "a CPU", "cpus": 2, "load_before": 0.1, "client": "DLIO", "formats": [cost],
        "checkpoint": {
            "save_seconds_per_gib": 1.5, "restore_seconds_per_gib": 1.25,
            "own": {"save_seconds_per_gib": 0.5, "restore_seconds_per_gib": 0.25},
        },
    });
    fs::write(place, all.to_string()).unwrap();
}

/// Changes the calibration in `place`.
fn edit(place: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let mut all = serde_json::from_str(&fs::read_to_string(place).unwrap()).unwrap();
    change(&mut all);
    fs::write(place, all.to_string()).unwrap();
}

const WORDS: &str = "unet3d --path null --steps 20 --epochs 1 --params reader.batch_size=5 --compute-time 10ms \
    --params metric.au=0.001";

#[test]
fn a_saved_calibration_is_the_clients_cost_in_train_and_plan() {
    let folder = folder();
    let file = folder.path().join("dlio.json");
    save(&file);
    let report = report(folder.path(), &format!("{WORDS} --client-overhead dlio.json"));
    let client = &report["plan"]["client"];
    assert_eq!(client["oversleep_seconds"], 0.002);
    assert_eq!(client["estimated"], false);
    // The time of this program's loops per GiB is not added again.
    assert_eq!(client["cpu_seconds_per_gib"], 0.0);
    assert_eq!(report["plan"]["request"]["client_overhead"], "dlio.json");
    // 12 ms count as compute out of 22 ms; a busy host adds to the latter.
    let au = report["au_percent"]["profile"].as_f64().unwrap();
    assert!(au > 0.0 && au < 55.0, "{au}");
    let nominal = report["au_percent"]["nominal"].as_f64().unwrap();
    assert!((nominal / au - 10.0 / 12.0).abs() < 0.01, "{nominal} of {au}");

    let mut plan = stormlp();
    let words = "unet3d --host memory=1GiB --epochs 1 --steps 60 --params reader.batch_size=5 --compute-time \
                 10ms -n 1 --storage read=900GB/s,iops=100M --format json --client-overhead";
    plan.arg("plan").args(words.split_whitespace()).arg(&file);
    let answer: serde_json::Value = serde_json::from_str(&stdout(plan.assert().success())).unwrap();
    let predicted = answer["au_percent"].as_f64().unwrap();
    assert!(predicted < 55.0, "{predicted}");
    assert!(answer["client"].as_str().unwrap().contains("host node7, 2 CPUs"), "{answer}");
    assert_eq!(answer["warnings"], json!([]));
}

#[test]
fn where_and_when_a_calibration_was_made_is_shown_where_it_is_used() {
    let folder = folder();
    let file = folder.path().join("dlio.json");
    save(&file);
    edit(&file, |all| all["load_before"] = json!(1.7));
    let origin = "calibrated in dlio.json (host node7, 2 CPUs, 2026-11-21T10:15:02Z, load 1.70)";
    let words = format!("{WORDS} --client-overhead dlio.json --dry-run");
    let page = stdout(train(folder.path(), &words).assert().success());
    assert!(page.contains(origin), "{page}");
    assert!(page.contains("began at a load of 1.70 on 2 CPUs"), "{page}");
    assert!(page.contains("dlio.json is of node7, this host is "), "{page}");
    let words = "checkpoint llama3-8b --client-overhead dlio.json --scale 1 --dry-run --dir ckpt";
    let mut command = stormlp();
    command.current_dir(folder.path()).args(words.split_whitespace());
    let output = command.output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("1.00 s for each GiB that a rank saves, 1.00 restores"), "{page}");
    assert!(page.contains(origin), "{page}");
    assert!(page.contains("is of node7") && page.contains("a load of 1.70"), "{page}");
    let output = command.args(["--format", "json"]).output().unwrap();
    let plan = String::from_utf8(output.stdout).unwrap();
    assert!(plan.contains("is of node7") && plan.contains("a load of 1.70"), "{plan}");
}

#[test]
fn a_checkpoints_client_is_that_of_v2() {
    let folder = folder();
    save(&folder.path().join("dlio.json"));
    let run = |profile: &str| {
        let mut command = stormlp();
        let words = "checkpoint llama3-8b --client-overhead dlio.json --scale 1 --dry-run --dir ckpt --edition";
        command.current_dir(folder.path()).args(words.split_whitespace()).arg(profile);
        let output = command.output().unwrap();
        [output.stdout, output.stderr].map(|text| {
            let text = String::from_utf8(text).unwrap();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        })
    };
    let warning = "--client-overhead adds the time of v2.0's DLIO";
    let [page, _] = run("3.0");
    assert!(page.contains(warning), "{page}");
    let [page, _] = run("2.0");
    assert!(page.contains("DLIO's overhead is added") && !page.contains(warning), "{page}");
    let [_, refused] = run("native");
    assert!(refused.contains("--edition native, which excludes client time"), "{refused}");
}

#[test]
fn a_format_without_a_known_cost_has_none() {
    let folder = folder();
    let words = "dlrm --path null --steps 4 --epochs 1";
    let run = |more: &str| train(folder.path(), &format!("{words} {more}")).assert();
    let unknown =
        "DLIO's cost is not known for parquet, and `stormlp calibrate-dlio` cannot measure it";
    let said = stderr(run("--client-overhead dlio --dry-run").code(3));
    assert!(said.contains(unknown), "{said}");
    save(&folder.path().join("npz.json"));
    let said = stderr(run("--client-overhead npz.json --dry-run").code(3));
    assert!(said.contains("cannot measure it"), "{said}");
    let plan = |more: &str| {
        let mut plan = stormlp();
        let words = "plan dlrm --host memory=1GiB --epochs 1 --steps 60 -n 1 --storage \
                     read=100GB/s";
        plan.args(words.split_whitespace()).args(more.split_whitespace()).assert()
    };
    let said = stderr(plan("--client-overhead dlio").code(2));
    assert!(said.contains(unknown) && said.contains("step=0.7ms,gib=0.9s"), "{said}");
    let page = stdout(plan("").success());
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("DLIO's own cost, which is not known for parquet"), "{page}");
    assert!(page.contains("AU up to") && !page.contains("would reach about"), "{page}");
}

#[test]
fn a_client_of_the_known_machine_costs_what_its_format_does() {
    let folder = folder();
    let of = |workload: &str| {
        let words = format!(
            "{workload} --path null --steps 4 --epochs 1 --compute-time 10ms --client-overhead dlio --dry-run"
        );
        stdout(train(folder.path(), &words).assert().success())
    };
    let (npz, records) = (of("unet3d"), of("cosmoflow"));
    assert!(npz.contains("0.71 ms a step and 0.340 for each of its samples"), "{npz}");
    assert!(records.contains("0.55 ms a step, 0.85 CPU s/GiB"), "{records}");
    for page in [npz, records] {
        assert!(page.contains("as measured on another machine (two CPUs of an AMD EPYC"), "{page}");
        assert!(page.contains("run `stormlp calibrate-dlio` here"), "{page}");
    }
}

#[test]
fn a_checkpoint_with_a_client_needs_what_its_calibration_may_lack() {
    let folder = folder();
    let file = folder.path().join("dlio.json");
    let run = |words: &str| {
        let mut command = stormlp();
        command.current_dir(folder.path()).args(["checkpoint", "llama3-8b", "--dry-run"]);
        command.args(words.split_whitespace());
        command.assert()
    };
    save(&file);
    edit(&file, |all| all["checkpoint"] = json!(null));
    let none = stderr(run("--client-overhead dlio.json").code(3));
    assert!(none.contains("no costs of checkpoints"), "{none}");
    assert!(none.contains("without --no-checkpoint"), "{none}");
    let unknown = stderr(run("--client-overhead dlio").code(4));
    assert!(unknown.contains("what checkpoints cost on another machine is not known"), "{unknown}");
}

#[test]
fn a_file_that_is_no_calibration_is_refused_with_the_command_that_makes_one() {
    let folder = folder();
    let run =
        |file: &str| train(folder.path(), &format!("{WORDS} --client-overhead {file}")).assert();
    let missing = stderr(run("missing.json").code(4));
    assert!(missing.contains("stormlp calibrate-dlio"), "{missing}");
    fs::write(folder.path().join("other.json"), "{}").unwrap();
    let other = stderr(run("other.json").code(3));
    assert!(other.contains("is not a calibration"), "{other}");
    save(&folder.path().join("npz.json"));
    let words = "cosmoflow --path null --steps 4 --client-overhead npz.json";
    let format = stderr(train(folder.path(), words).assert().code(3));
    assert!(format.contains("calibrate-dlio --formats tfrecord"), "{format}");
}

#[test]
fn without_a_dlio_nothing_is_calibrated_or_left_behind() {
    let folder = folder();
    let run = |words: &str| {
        let mut command = stormlp();
        command.current_dir(folder.path()).arg("calibrate-dlio").args(words.split_whitespace());
        command.assert()
    };
    let said = stderr(run("--python /bin/false").code(4));
    assert!(said.contains("--dlio") && said.contains("--python"), "{said}");
    assert!(said.contains("/bin/false does not run DLIO: "), "{said}");
    assert!(said.contains("`/bin/false -m pip install git+https"), "{said}");
    // Of Python's report only the exception is left.
    let python = folder.path().join("python");
    let text = "#!/bin/sh\necho 'Traceback (most recent call last):' >&2\n\
                echo \"ModuleNotFoundError: No module named 'dlio_benchmark'\" >&2\nexit 1\n";
    fs::write(&python, text).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let said = stderr(run("--python ./python").code(4));
    assert!(!said.contains("Traceback"), "{said}");
    let line = "./python does not run DLIO: ModuleNotFoundError: No module named 'dlio_benchmark'";
    assert!(said.contains(line), "{said}");
    fs::remove_file(&python).unwrap();
    for other in ["parquet", "foo"] {
        let said = stderr(run(&format!("--formats {other}")).code(2));
        let offered = "is not measured; use npz, tfrecord, hdf5, csv, jpeg";
        assert!(said.contains(offered) && !said.contains("indexed_binary"), "{said}");
    }
    let said = stderr(run("--dlio /nonexistent").code(4));
    assert!(said.contains("cannot use DLIO in /nonexistent"), "{said}");
    assert!(said.contains("pip install") && said.contains("checked-out tree"), "{said}");
    assert!(stderr(run("-o missing/dlio.json").code(4)).contains("--output"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_calibration_takes_its_dlio_along_and_leaves_its_folder_to_the_next() {
    let folder = folder();
    let python = folder.path().join("python");
    fs::write(&python, "#!/bin/sh\necho $$ > pid\nsleep 600\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stormlp"));
    command.current_dir(folder.path()).args(["calibrate-dlio", "--python", "./python"]);
    let mut killed = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let until = |done: &dyn Fn() -> bool| {
        for _ in 0..3_000 {
            if done() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it did not happen within 30 s");
    };
    let pid = || fs::read_to_string(folder.path().join("pid")).ok()?.trim().parse::<u32>().ok();
    until(&|| pid().is_some());
    let process = format!("/proc/{}/cmdline", pid().unwrap());
    assert!(fs::read_to_string(&process).unwrap().contains("python"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    // It is gone, or a zombie that nobody waits for.
    until(&|| fs::read(&process).map_or(true, |words| words.is_empty()));
    assert!(folder.path().join("stormlp-calibrate/.stormlp-lock").exists());
    fs::remove_file(&python).unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path()).args(["calibrate-dlio", "--python", "/bin/false"]);
    let said = stderr(command.assert().code(4));
    assert!(said.contains("the trials run in ") && said.contains("/stormlp-calibrate"), "{said}");
    assert!(!folder.path().join("stormlp-calibrate").exists());
}
