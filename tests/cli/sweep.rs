//! Every call of a command may fail, or be its last before a kill: one run for each of them, as
//! SQLite is tested. Here a sample of the calls; all of them with `--ignored`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::double::with_double;
use crate::stormlp;

/// Ends a run that hangs; none needs a hundredth of it.
const HANGS: Duration = Duration::from_secs(120);
/// The paths through libcufile, with its double.
const BY_CUFILE: &str = "--path gds,gds-batch,gds-async";
/// A write that moves a part of its bytes, and fails with the rest.
const SHORT_EIO: &str = "short, then EIO";
/// How a call fails.
const ERRORS: [&str; 4] = ["EIO", "KILL", "short", SHORT_EIO];
/// Calls of a command in the sample.
const SAMPLE: u64 = 6;
/// A report of an earlier run, which stays as it is.
const KEPT: &str = "stormlp-results/kept/report.json";

/// The content of that report.
static EARLIER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    succeed(place.path(), "gds --path null --threads 1 --file-size 1M --duration 10ms");
    fs::read(report(place.path()).unwrap()).unwrap()
});

/// A command, and conditions that hold after a fault in any of its calls.
struct Swept {
    /// The command that is made to fail.
    words: String,
    /// Commands that run before.
    before: Vec<String>,
    /// The calls that are counted; all of them unless named.
    call: Option<&'static str>,
    /// The options that continue a run with a report at a path.
    resume: fn(&Path) -> String,
    /// A command that succeeds after a fault: earlier results are there.
    kept: Option<String>,
    /// The part that is the same with and without a fault.
    result: fn(&Path, &Output) -> Value,
}

/// How a run with a fault ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Exit(i32),
    Killed,
    /// It has fewer calls.
    NothingFailed(u64),
}

fn run(place: &Path, words: &str) -> Output {
    let mut command = stormlp();
    command.current_dir(place).env("STORMLP_LIBCUFILE", "/nonexistent/libcufile.so.0");
    if words.contains(BY_CUFILE) {
        with_double(&mut command, "").expect("there is a double, since it was looked for");
    }
    command.args(words.split_whitespace()).timeout(HANGS).output().unwrap()
}

fn succeed(place: &Path, words: &str) -> Output {
    let output = run(place, words);
    assert!(output.status.success(), "{words}: {}", text(&output));
    output
}

/// The messages of a command on stderr, on one line.
fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The files below `folder` with their contents, except for locks, which have no content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.file_name() != ".stormlp-lock" {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// The data of a run, by its place in `folder`; manifests have different times and identities.
fn data(folder: &Path) -> Value {
    let data = folder.join("stormlp-data");
    let named = files(&data).into_iter().filter_map(|(path, content)| {
        let name = path.strip_prefix(&data).unwrap().display().to_string();
        let sum: u64 =
            content.iter().enumerate().map(|(n, byte)| (n as u64 + 1) * u64::from(*byte)).sum();
        let manifest = name.ends_with(".json") || name.ends_with(".jsonl");
        (!manifest).then(|| json!([name, content.len(), sum]))
    });
    named.collect()
}

/// The newest report in `place` that this sweep's command left.
fn report(place: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(place.join("stormlp-results")).into_iter().flatten();
    let reports = runs.map(|run| run.unwrap().path().join("report.json"));
    reports.filter(|path| path.is_file() && !path.ends_with(KEPT)).max()
}

fn of_report(place: &Path, of: impl Fn(&Value) -> Value) -> Value {
    let text = fs::read_to_string(report(place).unwrap()).unwrap();
    of(&serde_json::from_str(&text).unwrap())
}

impl Swept {
    /// A folder in which the command can run.
    fn place(&self) -> tempfile::TempDir {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let kept = place.path().join(KEPT);
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(kept, &*EARLIER).unwrap();
        fs::write(place.path().join("small.yaml"), SMALL).unwrap();
        fs::write(place.path().join("kv.csv"), KV_TRACE).unwrap();
        for words in &self.before {
            succeed(place.path(), words);
        }
        place
    }

    /// The command with a fault in call `nth`.
    fn with_fault(&self, nth: u64, error: &str) -> String {
        let call = self.call.map_or(String::new(), |call| format!(",call={call}"));
        let short = format!("{} --inject-fault nth={nth},call=write,errno=short", self.words);
        match error {
            "short" => short,
            // What is left of the write fails.
            SHORT_EIO => format!("{short} --inject-fault nth={},call=write,errno=EIO", nth + 1),
            _ => format!("{} --inject-fault nth={nth},errno={error}{call}", self.words),
        }
    }

    /// Runs the command with a fault in call `nth`, and again without.
    fn try_call(&self, nth: u64, error: &str, undisturbed: &Value) -> Ended {
        let place = self.place();
        let place = place.path();
        let saved = files(&place.join("stormlp-results"));
        let words = self.with_fault(nth, error);
        let ended = judge(&words, &run(place, &words), error);
        let after = files(&place.join("stormlp-results"));
        for (path, content) in &saved {
            assert_eq!(after.get(path), Some(content), "{words}: {} changed", path.display());
        }
        self.reports_are_honest(place, &words);
        if let Some(kept) = &self.kept {
            succeed(place, kept);
        }
        let again = match report(place).filter(|path| !saved.contains_key(path)) {
            Some(left) => {
                format!("{} {}", self.words, (self.resume)(left.strip_prefix(place).unwrap()))
            }
            None => self.words.clone(),
        };
        let output = run(place, &again);
        assert!(output.status.success(), "{words}, then {again}: {}", text(&output));
        assert_eq!((self.result)(place, &output), *undisturbed, "{words}, then {again}");
        let partial = |path: &&PathBuf| path.extension().is_some_and(|name| name == "partial");
        let data = files(&place.join("stormlp-data"));
        assert_eq!(data.keys().find(partial), None, "{words}, then {again}");
        ended
    }

    /// Every report that is there loads, and none is said to be changed.
    fn reports_are_honest(&self, place: &Path, words: &str) {
        let listed = succeed(place, "report stormlp-results --format csv");
        let listed = String::from_utf8(listed.stdout).unwrap();
        for wrong in ["changed", "no digest", "unreadable"] {
            assert!(!listed.contains(wrong), "{words}: {listed}");
        }
    }

    /// A fault in every call, or in a sample of them.
    #[allow(clippy::print_stdout, reason = "the table of a full sweep")]
    fn sweep(&self, error: &str, all: bool) {
        let place = self.place();
        let output = succeed(place.path(), &self.words);
        let undisturbed = (self.result)(place.path(), &output);
        let place = self.place();
        let beyond = self.with_fault(u64::MAX - 1, error);
        let Ended::NothingFailed(calls) = judge(&beyond, &run(place.path(), &beyond), error) else {
            panic!("{beyond} failed");
        };
        let step = if all { 1 } else { calls.div_ceil(SAMPLE) };
        let next = AtomicU64::new(1);
        let ended: Mutex<BTreeMap<Ended, u64>> = Mutex::default();
        let worker = || {
            let take = || Some(next.fetch_add(step, Relaxed)).filter(|nth| *nth <= calls);
            while let Some(nth) = take() {
                let how = self.try_call(nth, error, &undisturbed);
                *ended.lock().unwrap().entry(how).or_default() += 1;
            }
        };
        let workers = if all { thread::available_parallelism().unwrap().get() } else { 1 };
        thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
        let ended = ended.into_inner().unwrap();
        println!("{}\n  {error} in each of {calls} calls: {ended:?}", self.words);
    }
}

/// Holds how a run ended against the fault that it had.
fn judge(words: &str, output: &Output, error: &str) -> Ended {
    let said = text(output);
    let Some(code) = output.status.code() else {
        assert_eq!(error, "KILL", "{words} hangs or was ended: {said}");
        return Ended::Killed;
    };
    let (said, line) = said.split_once("warning: --inject-fault: ").map_or_else(
        || panic!("{words}: {code}: {said}"),
        // The error comes after that line.
        |(before, after)| {
            (format!("{before} {}", after.split_once(") ").map_or("", |(_, rest)| rest)), after)
        },
    );
    if let Some(rest) = line.strip_prefix("no fault occurred: there were ") {
        assert_eq!(code, 0, "{words}: {said}");
        return Ended::NothingFailed(rest.split(' ').next().unwrap().parse().unwrap());
    }
    if code != 0 {
        assert_ne!(error, "short", "the rest of a short write is written: {words}: {line}");
        assert_eq!(code, 5, "{words}: {line}");
        assert!(said.contains("Input/output error (os error 5)"), "{words}: {line}");
        if error == SHORT_EIO {
            return Ended::Exit(code);
        }
        let path = line.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let path = path.map(|(path, _)| path).filter(|path| *path != "in flight");
        if let Some(name) = path.and_then(|path| Path::new(path).file_name()) {
            let name = name.to_string_lossy();
            let name = name.strip_suffix(".partial").map_or(&*name, |name| &name[1..]);
            // The temporary name of an export has the number of the process, too.
            let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('.');
            assert!(said.contains(name), "{words}: {line}");
        }
    }
    Ended::Exit(code)
}

fn gds(engine: &str) -> Swept {
    Swept {
        words: format!(
            "gds --dir stormlp-data/gds --file-size 512K --io-size 128K --threads 1 --queue-depth 2 \
             --duration 1x --path buffered,cpu-gpu --op write,read --engine {engine}"
        ),
        before: Vec::new(),
        call: None,
        kept: None,
        resume: |report| format!("--resume {}", report.display()),
        result: |place, _| {
            of_report(place, |report| {
                let cells = report["cells"].as_array().unwrap().iter();
                let key =
                    |cell: &Value| json!([cell["cell"], cell["requested_path"], cell["bytes"]]);
                let mut cells: Vec<Value> = cells.map(key).collect();
                cells.sort_by_key(|cell| cell[0].as_u64());
                json!([report["ending"]["status"], cells])
            })
        },
    }
}

/// `gds` by the paths of cuFile: of its completions, those fail that its double returns.
fn by_cufile() -> Swept {
    let gds = gds("psync");
    let words = gds.words.replace("--path buffered,cpu-gpu", BY_CUFILE);
    Swept { words: words.replace("--engine psync", "--device cuda:0"), ..gds }
}

fn datagen(engine: &str) -> Swept {
    Swept {
        words: format!(
            "datagen unet3d --files 5 --dir stormlp-data/set --tune engine={engine} --threads 1 \
             --resume --params dataset.record_length_bytes=20000 \
             --params dataset.record_length_bytes_stdev=5000"
        ),
        result: |place, _| data(place),
        resume: |_| String::new(),
        ..gds(engine)
    }
}

fn train(engine: &str) -> Swept {
    Swept {
        words: format!(
            "train unet3d --dir stormlp-data/set --generate --files 4 --epochs 2 \
             --params reader.batch_size=1 --compute-time 1ms --params reader.read_threads=1 --engine {engine} --params \
             dataset.record_length_bytes=20000 --params dataset.record_length_bytes_stdev=5000 \
             --params metric.au=0.001 --params workflow.checkpoint=False"
        ),
        result: |place, _| {
            let read = of_report(place, |report| {
                let epochs = report["epochs"].as_array().unwrap().iter();
                let read = epochs.map(|epoch| epoch["bytes_read"].clone());
                json!([report["ending"]["status"], read.collect::<Vec<_>>()])
            });
            json!([read, data(place)])
        },
        resume: |_| String::new(),
        ..gds(engine)
    }
}

fn find_max(engine: &str) -> Swept {
    Swept {
        words: format!(
            "train unet3d --find-max --dir stormlp-data/set --files 12 --params reader.batch_size=2 \
             --compute-time 20ms --epochs 1 --confirm 0 --engine {engine} --params \
             dataset.record_length_bytes=20000 --params dataset.record_length_bytes_stdev=0 \
             --params workflow.checkpoint=False --params metric.au=0.001"
        ),
        before: vec![
            "datagen unet3d --files 12 --dir stormlp-data/set --params \
             dataset.record_length_bytes=20000 --params dataset.record_length_bytes_stdev=0"
                .to_string(),
        ],
        // A report is saved by renaming it.
        call: Some("rename"),
        kept: None,
        result: |place, _| of_report(place, |report| report["find_max"]["largest"].clone()),
        resume: |report| format!("--resume {}", report.display()),
    }
}

/// 4 ranks with few and small files.
const SMALL: &str = "
model:
  name: small
  type: transformer
  num_layers: 2
  parallelism: {tensor: 1, pipeline: 1, zero_stage: 1}
  transformer: {vocab_size: 64, hidden_size: 16, ffn_hidden_size: 32, num_attention_heads: 2, num_kv_heads: 2}
";

fn checkpoint(engine: &str) -> Swept {
    let command = |counts: &str| {
        format!("checkpoint small.yaml --ranks 2 --pause 0 {counts} --engine {engine} --verify")
    };
    let words = command("--saves 1 --restores 1");
    Swept {
        before: vec![words.clone()],
        words,
        // The earlier one or its replacement.
        kept: Some(format!("{} --results-dir kept-results", command("--saves 0 --restores 1"))),
        result: |place, _| {
            let done = of_report(place, |report| {
                let count = |key: &str| report[key].as_array().unwrap().len();
                json!([report["ending"]["status"], count("saves"), count("restores")])
            });
            // Each save has different content, which the restore checks.
            let files = files(&place.join("stormlp-data"));
            let sizes: Vec<Value> = files
                .iter()
                .filter(|(path, _)| path.extension().is_some_and(|name| name == "pt"))
                .map(|(path, content)| json!([path.file_name().unwrap().to_str(), content.len()]))
                .collect();
            json!([done, sizes])
        },
        resume: |_| String::new(),
        ..gds(engine)
    }
}

/// Objects that a trace writes, writes again and reads.
const KV_TRACE: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n\
                        1.0,Write,49152,Tier-2,a,Prefill\n1.1,Read,49152,Tier-2,a,Decode\n\
                        1.2,Write,24576,Tier-2,a,Prefill\n1.3,Write,24576,Tier-2,b,Prefill\n\
                        1.4,Read,24576,Tier-2,b,Decode\n";

fn kvcache(workload: &str) -> Swept {
    Swept {
        words: format!("kvcache {workload} --dir stormlp-data/kv"),
        result: |place, _| {
            let done = of_report(place, |report| {
                // How much is done in a given time differs.
                let trial = &report["trials"][0];
                let is_trace = report["plan"]["trace"].is_object();
                let bytes = ["read", "written"].map(|what| trial[what]["bytes"].clone());
                let trial = json!([trial["requests"], bytes]);
                json!([report["ending"]["status"], is_trace.then_some(trial)])
            });
            json!([done, data(place)])
        },
        resume: |_| String::new(),
        ..gds("psync")
    }
}

const REPLAY: &str = "replay kv.csv tiny-1b --speed max --concurrency 1";
const MLPERF: &str = "mlperf tiny-1b --users 2 --duration 500ms --capacity 512M";
const SERVING: &str = "serving tiny-1b --duration 300ms --concurrency 1 --prefixes 1 \
                       --prefix-tokens 256 --capacity 64M --queue-depth 1 --engine psync \
                       --tune writers=1";

fn each_error(workload: &str, errors: &[&str], all: bool) {
    for error in errors {
        kvcache(workload).sweep(error, all);
    }
}

/// The runs of a comparison are those of another command; the faults are its own.
fn compared() -> Swept {
    Swept {
        words: format!("compare {KEPT} {KEPT} -o compared.json -o compared.csv"),
        result: |place, _| fs::read_to_string(place.join("compared.csv")).unwrap().into(),
        resume: |_| String::new(),
        ..gds("psync")
    }
}

fn exported() -> Swept {
    const OUTPUTS: [&str; 4] = ["out.csv", "out.md", "out.txt", "out.json"];
    Swept {
        words: format!("report show {KEPT} -o {}", OUTPUTS.join(" -o ")),
        result: |place, _| {
            OUTPUTS.map(|name| Value::from(fs::read_to_string(place.join(name)).unwrap())).into()
        },
        resume: |_| String::new(),
        ..gds("psync")
    }
}

fn printed(_: &Path, output: &Output) -> Value {
    String::from_utf8(output.stdout.clone()).unwrap().into()
}

fn shown() -> Swept {
    Swept {
        words: format!("report show {KEPT} --format json"),
        result: printed,
        resume: |_| String::new(),
        ..gds("psync")
    }
}

fn each_engine(swept: fn(&str) -> Swept, all: bool) {
    // The second engine of io_uring has the same calls.
    let engines: &[&str] =
        if all { &["psync", "uring", "tokio-uring"] } else { &["psync", "uring"] };
    for engine in engines {
        for error in ERRORS {
            swept(engine).sweep(error, all);
        }
    }
}

#[test]
fn a_sample_of_calls_fails_in_gds() {
    each_engine(gds, false);
}

#[test]
fn a_sample_of_calls_fails_in_datagen() {
    each_engine(datagen, false);
}

#[test]
fn a_sample_of_calls_fails_in_train() {
    each_engine(train, false);
}

#[test]
fn a_sample_of_calls_fails_in_checkpoint() {
    each_engine(checkpoint, false);
}

#[test]
fn a_sample_of_calls_fails_in_kvcache_replay() {
    each_error(REPLAY, &ERRORS, false);
}

#[test]
fn a_sample_of_calls_fails_in_kvcache_mlperf() {
    each_error(MLPERF, &["EIO", SHORT_EIO], false);
}

#[test]
fn a_sample_of_calls_fails_in_kvcache_serving() {
    each_error(SERVING, &["EIO", SHORT_EIO], false);
}

#[test]
fn a_search_is_killed_at_a_sample_of_its_saves() {
    find_max("psync").sweep("KILL", false);
}

#[test]
fn every_call_fails_in_report_and_its_files() {
    shown().sweep("EIO", true);
    for error in ["EIO", "KILL", "short"] {
        exported().sweep(error, error == "EIO");
        compared().sweep(error, error == "EIO");
    }
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_gds() {
    each_engine(gds, true);
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_gds_by_cufile() {
    if with_double(&mut stormlp(), "").is_some() {
        for error in ["EIO", "KILL"] {
            by_cufile().sweep(error, true);
        }
    }
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_datagen() {
    each_engine(datagen, true);
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_train() {
    each_engine(train, true);
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_checkpoint() {
    each_engine(checkpoint, true);
}

#[test]
#[ignore = "one run for each call takes minutes"]
fn every_call_fails_in_kvcache() {
    for workload in [REPLAY, MLPERF, SERVING] {
        each_error(workload, &ERRORS, true);
    }
}

#[test]
#[ignore = "one run for each save takes minutes"]
fn a_search_is_killed_at_each_of_its_saves() {
    for engine in ["psync", "uring"] {
        find_max(engine).sweep("KILL", true);
    }
}
