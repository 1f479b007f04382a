//! Files of results: their readers during a run, remains after a fault, and the verdict of the
//! programs that read them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stormlp_fixtures::skipped;

use crate::{stdout, stormlp};

const QUICK: &str = "gds --path null --threads 1 --file-size 1M --duration 10ms";

fn run(folder: &Path, words: &str) -> assert_cmd::assert::Assert {
    let mut command = stormlp();
    command.current_dir(folder).args(words.split_whitespace());
    command.env("STORMLP_RESULTS_DIR", "results").assert()
}

/// A folder with one report in `results`.
fn measured() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(".").unwrap();
    run(folder.path(), QUICK).success();
    folder
}

#[test]
fn a_fault_leaves_the_old_file_or_the_whole_new_one() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let place = folder.path();
    let file = place.join("result.json");
    let (mut old, mut new) = (0, 0);
    // Every call of these kinds fails in turn, those that write the export among them.
    let calls = ["create", "write", "sync", "rename"];
    for (call, nth) in calls.iter().flat_map(|call| (1..=8).map(move |nth| (call, nth))) {
        fs::write(&file, "old").unwrap();
        let fault = format!("--inject-fault nth={nth},call={call},errno=ENOSPC");
        run(place, &format!("{QUICK} --output result.json {fault}"));
        let text = fs::read_to_string(&file).unwrap();
        if text == "old" {
            old += 1;
        } else {
            let report: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(report["kind"], "gds");
            new += 1;
        }
    }
    assert!(old > 3 && new > 3, "{old} {new}");
    let left = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains(".partial")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_link_stays_a_link_and_a_device_is_written_to() {
    let folder = measured();
    let place = folder.path();
    fs::write(place.join("real.md"), "old").unwrap();
    symlink("real.md", place.join("link.md")).unwrap();
    run(place, "report results --kind gds --output link.md").success();
    assert!(fs::symlink_metadata(place.join("link.md")).unwrap().is_symlink());
    let written = fs::read_to_string(place.join("real.md")).unwrap();
    assert!(written.starts_with('#') || written.starts_with('|'), "{written}");
    symlink("/dev/stdout", place.join("out.json")).unwrap();
    let printed = run(place, "report results --kind gds --output out.json");
    let printed = stdout(printed.success());
    assert!(serde_json::from_str::<Value>(&printed).is_ok(), "{printed}");
}

#[test]
fn an_export_keeps_mode_and_owner_and_makes_the_target_of_a_dead_link() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let folder = measured();
    let place = folder.path();
    for name in ["kept.json", "kept.md", "kept.csv", "kept.html"] {
        fs::write(place.join(name), "old").unwrap();
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        // Only root may give a file away.
        let is_theirs = chown(place.join(name), Some(61_001), Some(61_002)).is_ok();
        run(place, &format!("report results --kind gds --output {name}")).success();
        let found = fs::metadata(place.join(name)).unwrap();
        assert!(found.len() > 3 && found.mode() & 0o777 == 0o600, "{name}: {:o}", found.mode());
        assert!(!is_theirs || (found.uid(), found.gid()) == (61_001, 61_002), "{name}");
        let target = format!("target-{name}");
        symlink(&target, place.join("dead")).unwrap();
        fs::rename(place.join("dead"), place.join(format!("dead-{name}"))).unwrap();
        run(place, &format!("report results --kind gds --output dead-{name}")).success();
        assert!(place.join(format!("dead-{name}")).is_symlink(), "{name}");
        assert!(place.join(target).is_file(), "{name}");
    }
    symlink("b.md", place.join("a.md")).unwrap();
    symlink("a.md", place.join("b.md")).unwrap();
    run(place, "report results --kind gds --output a.md").code(4);
    assert!(place.join("a.md").is_symlink() && place.join("b.md").is_symlink());
}

#[test]
fn a_row_begins_on_a_line_whoever_wrote_the_last_one() {
    let folder = measured();
    let place = folder.path();
    let report = fs::read_dir(place.join("results")).unwrap().next().unwrap().unwrap().path();
    let report = report.strip_prefix(place).unwrap().display();
    let append = &format!("report show {report} --output all.csv --append");
    run(place, append).success();
    let text = fs::read_to_string(place.join("all.csv")).unwrap();
    fs::write(place.join("all.csv"), text.trim_end()).unwrap();
    run(place, append).success();
    let rows = records(&place.join("all.csv"));
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
}

/// The records of a CSV file without its header, each with as many fields as that has.
fn records(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(str::to_string);
    assert!(lines.next().unwrap().starts_with("format_version,"), "{text}");
    assert!(text.ends_with('\n'));
    lines.collect()
}

#[test]
fn runs_that_append_at_once_add_whole_rows_below_one_header() {
    let folder = measured();
    let place = folder.path();
    let report = fs::read_dir(place.join("results")).unwrap().next().unwrap().unwrap().path();
    let start = || {
        Command::new(env!("CARGO_BIN_EXE_stormlp"))
            .args(["report", "show"])
            .arg(report.strip_prefix(place).unwrap())
            .args(["--output", "all.csv", "--append"])
            .current_dir(place)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..8).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let rows = records(&place.join("all.csv"));
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
}

#[test]
fn a_row_for_which_there_is_no_room_is_not_begun() {
    let folder = measured();
    let place = folder.path();
    let export = "report show results/* --output all.csv --append";
    let program = env!("CARGO_BIN_EXE_stormlp");
    // Of a file of a few rows, the next one crosses a block's end sooner or later.
    let script = format!("trap '' XFSZ; ulimit -f 4; exec {program} {export}");
    let limited = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(place).stdout(Stdio::null());
        shell.output().unwrap()
    };
    let mut rows = 0;
    let refused = loop {
        let ended = limited();
        if !ended.status.success() {
            break ended;
        }
        rows += 1;
        assert!(rows < 100);
    };
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("ulimit -f unlimited"), "{said}");
    if rows > 0 {
        assert_eq!(records(&place.join("all.csv")).len(), rows);
    } else {
        assert_eq!(fs::read(place.join("all.csv")).unwrap(), b"");
    }
}

/// The metrics that `node_exporter` serves at its only address.
fn scraped(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn the_textfile_collector_takes_the_metrics() {
    let folder = measured();
    let place = folder.path();
    run(place, "train unet3d --path null --steps 4 --compute-time 2ms --epochs 1");
    fs::create_dir(place.join("textfile")).unwrap();
    run(place, "report results --output textfile/stormlp.prom").success();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let exporter = Command::new("prometheus-node-exporter")
        .args(["--collector.disable-defaults", "--collector.textfile"])
        .arg("--collector.textfile.directory=textfile")
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(place)
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut exporter) = exporter else {
        skipped("no prometheus-node-exporter", "apt-get install prometheus-node-exporter");
        return;
    };
    let begun = Instant::now();
    let text = loop {
        if let Some(text) = scraped(port) {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not answer");
        std::thread::sleep(Duration::from_millis(50));
    };
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    for part in [
        "node_textfile_scrape_error 0",
        "stormlp_run_info{",
        "stormlp_gds_throughput_bytes_per_second{",
        "stormlp_train_samples_per_second{",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn promtool_finds_nothing_to_say_about_the_metrics() {
    let folder = measured();
    let text = stdout(run(folder.path(), "report results --format openmetrics").success());
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        skipped("no promtool", "apt-get install prometheus");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
}
