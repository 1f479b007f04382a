//! Tampered folders and reports: no outside file is touched, foreign files are not taken for
//! stormlp's, and no control sequence reaches the terminal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gds::{read_json, saved};
use crate::{stderr, stdout, stormlp};

const DATAGEN: &str = "datagen unet3d --files 4 --params dataset.record_length_bytes=100000 \
                       --params dataset.record_length_bytes_stdev=0 --dir data";
const GDS: &str = "gds --path buffered --threads 1 --file-size 1M --duration 1x --dir data";
const CHECKPOINT: &str = "checkpoint tiny.yaml --ranks 8 --pause 0 --dir data";

/// A place to work in, and a file next to it that must not be touched.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        fs::write(root.path().join("other/precious"), "mine").unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn run(&self, words: &str) -> assert_cmd::assert::Assert {
        let mut command = stormlp();
        command.current_dir(self.root.path());
        command.args(words.split_whitespace());
        // Whoever waits for a pipe waits for ever.
        command.timeout(Duration::from_secs(60)).assert()
    }

    fn is_unharmed(&self) {
        let left = fs::read_dir(self.path("other")).unwrap().count();
        assert_eq!(left, 1, "something was made elsewhere");
        let precious = fs::read_to_string(self.path("other/precious")).unwrap();
        assert_eq!(precious, "mine");
    }
}

fn pipe(path: &Path) {
    assert!(Process::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_matrix_never_writes_through_a_link_or_waits_for_a_pipe() {
    for op in ["write", "read"] {
        let place = Place::new();
        fs::create_dir(place.path("data")).unwrap();
        symlink("../other/precious", place.path("data/stormlp.0")).unwrap();
        let message = stderr(place.run(&format!("{GDS} --op {op}")).code(4));
        assert!(message.contains("data/stormlp.0 is a link"), "{message}");
        fs::remove_file(place.path("data/stormlp.0")).unwrap();
        pipe(&place.path("data/stormlp.0"));
        let message = stderr(place.run(&format!("{GDS} --op {op}")).code(4));
        assert!(message.contains("data/stormlp.0 is a pipe"), "{message}");
        assert!(!place.path("stormlp-results").exists());
        place.is_unharmed();
    }
    // A dangling link would have been made into a file elsewhere, as would a lock or manifest.
    for name in [".stormlp-manifest.json", ".stormlp-lock", "stormlp.0"] {
        let place = Place::new();
        fs::create_dir(place.path("data")).unwrap();
        symlink("../other/new", place.path("data").join(name)).unwrap();
        place.run(GDS).code(4);
        place.is_unharmed();
    }
    let place = Place::new();
    pipe(&place.path("pipe"));
    place.run("gds --path buffered --threads 1 --file pipe").code(3);
}

#[test]
fn a_foreign_file_in_place_of_a_test_file_is_neither_replaced_nor_removed() {
    let place = Place::new();
    place.run(GDS).success();
    let mine = place.path("data/stormlp.0");
    // Cut off, it is still the one that was made, and laid out anew.
    fs::write(&mine, "short").unwrap();
    place.run(GDS).success();
    fs::remove_file(&mine).unwrap();
    fs::write(&mine, "my notes").unwrap();
    let message = stderr(place.run(GDS).code(4));
    assert!(message.contains("is another file, of 8 bytes"), "{message}");
    let left = stderr(place.run("clean data").success());
    assert!(left.contains("left data/stormlp.0: it is a file of 8 bytes"), "{left}");
    fs::write(&mine, vec![1; 1 << 20]).unwrap();
    let left = stderr(place.run("clean data").success());
    assert!(left.contains("it is another file of the same size"), "{left}");
    assert_eq!(fs::read(&mine).unwrap(), vec![1; 1 << 20]);
}

#[test]
fn a_foreign_file_of_the_same_size_is_read_and_never_written() {
    const WRITE: &str = "--op write";
    const GDSIO: &str = "gdsio -x 1 -D data -w 1 -s 1M -i 64K -I";
    for (first, write, name) in [
        (GDS.to_string(), format!("{GDS} {WRITE}"), "stormlp.0"),
        (format!("{GDSIO} 1"), format!("{GDSIO} 1"), "gdsio.0"),
    ] {
        let place = Place::new();
        place.run(&first).success();
        let (mine, file) = (place.path("mine"), place.path("data").join(name));
        let bytes = fs::metadata(&file).unwrap().len() as usize;
        // Written next to it first, so that the file cannot get the same inode.
        fs::write(&mine, vec![1; bytes]).unwrap();
        for link in [true, false] {
            fs::remove_file(&file).unwrap();
            if link {
                fs::hard_link(&mine, &file).unwrap();
            } else {
                fs::copy(&mine, &file).unwrap();
            }
            let message = stderr(place.run(&write).code(4));
            assert!(message.contains("is not the file created by stormlp"), "{message}");
            assert!(message.contains("move it away if it is yours"), "{message}");
            // Laying it out anew would replace it too.
            if name == "stormlp.0" {
                place.run(&format!("{GDS} --verify --tune seed=9")).code(4);
                place.run(GDS).success();
            } else {
                place.run(&format!("{GDSIO} 0")).success();
            }
            assert_eq!(fs::read(&file).unwrap(), vec![1; bytes]);
        }
        fs::remove_file(&file).unwrap();
        place.run(&write).success();
        // And now it is the one that was made.
        place.run(&write).success();
    }
}

#[test]
fn a_foreign_file_of_the_same_size_in_a_checkpoint_is_not_removed() {
    let place = Place::new();
    fs::write(place.path("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    let save = format!("{CHECKPOINT} --saves 2 --restores 0");
    place.run(&save).success();
    let step = place.path("data/run1/global_epoch1_step2");
    let mut files = fs::read_dir(&step).unwrap().flatten();
    let file =
        files.find(|file| file.path().extension().is_some_and(|e| e == "pt")).unwrap().path();
    let bytes = fs::metadata(&file).unwrap().len() as usize;
    fs::write(place.path("mine"), vec![1; bytes]).unwrap();
    fs::rename(place.path("mine"), &file).unwrap();
    place.run(&save).success();
    assert_eq!(fs::read(&file).unwrap(), vec![1; bytes]);
    assert!(!place.path("data/run1/global_epoch1_step1").exists());
    let left = stderr(place.run("clean data").success());
    assert!(left.contains("another file of the same size"), "{left}");
    assert_eq!(fs::read(&file).unwrap(), vec![1; bytes]);
}

#[test]
fn remove_leaves_a_file_of_the_same_size_that_stormlp_did_not_make() {
    let place = Place::new();
    place.run(GDS).success();
    let mine = place.path("data/stormlp.0");
    let bytes = fs::metadata(&mine).unwrap().len() as usize;
    // Written next to it first, so that the file cannot get the same inode.
    fs::write(place.path("mine"), vec![1; bytes]).unwrap();
    fs::rename(place.path("mine"), &mine).unwrap();
    // It is named, and as often as it is found there.
    for _ in 0..2 {
        let message = stdout(place.run(&format!("{GDS} --clean")).success());
        let named = "data/stormlp.0 is another file of the same size, which stormlp did not create";
        assert!(message.contains(named), "{message}");
        assert_eq!(fs::read(&mine).unwrap(), vec![1; bytes]);
    }
    let left = stderr(place.run("clean data").success());
    assert!(left.contains("left data/stormlp.0"), "{left}");
    fs::rename(&mine, place.path("mine")).unwrap();
    place.run("clean data").success();
    assert!(!place.path("data").exists());
}

#[test]
fn files_that_cannot_be_reports_are_rejected_early() {
    let place = Place::new();
    let pipe_path = place.path("pipe");
    pipe(&pipe_path);
    for name in ["/dev/zero", pipe_path.to_str().unwrap()] {
        let message = stderr(place.run(&format!("report show {name}")).code(4));
        assert!(message.contains("not a regular file"), "{message}");
    }
    for name in ["/dev/zero", pipe_path.to_str().unwrap()] {
        for (command, what) in
            [("gdsio", "job file"), ("train", "workload file"), ("checkpoint", "workload file")]
        {
            let message = stderr(place.run(&format!("{command} {name}")).code(4));
            let refusal = format!("cannot read {what} {name}: not a regular file");
            assert!(message.contains(&refusal), "{command}: {message}");
        }
    }
    let large = fs::File::create(place.path("large")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    let message = stderr(place.run("gdsio large").code(3));
    assert!(message.contains("larger than 16 MiB"), "{message}");
}

#[test]
fn the_folder_itself_may_be_a_link() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    symlink("disk", place.path("data")).unwrap();
    place.run(GDS).success();
    assert_eq!(fs::metadata(place.path("disk/stormlp.0")).unwrap().len(), 1 << 20);
    place.run("clean data").success();
    assert!(!place.path("disk/stormlp.0").exists());
    place.run(DATAGEN).success();
    place.run(&format!("{DATAGEN} --check")).success();
}

#[test]
fn a_dataset_is_never_written_through_a_link() {
    for name in ["train", "train/.img_0_of_4.npz.partial", "train/img_0_of_4.npz"] {
        for mode in ["", "--resume", "--overwrite"] {
            let place = Place::new();
            let link = place.path("data").join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            let target = if name == "train" { "other" } else { "other/precious" };
            symlink(place.path(target), &link).unwrap();
            let message = stderr(place.run(&format!("{DATAGEN} {mode}")).failure());
            assert!(message.contains("link") || message.contains(name), "{message}");
            assert!(link.is_symlink(), "{name} {mode}");
            place.is_unharmed();
        }
    }
}

#[test]
fn a_linked_dataset_folder_is_reported_with_its_remedy() {
    let refused = |place: &Place, words: &str| {
        let message = stderr(place.run(words).code(4));
        assert!(message.contains("the path contains a link"), "{message}");
        assert!(message.contains("help: remove the link"), "{message}");
        assert!(!message.contains("--resume"), "{message}");
    };
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    symlink("../other", place.path("data/train")).unwrap();
    fs::rename(place.path("other/precious"), place.path("precious")).unwrap();
    refused(&place, DATAGEN);
    assert_eq!(fs::read_dir(place.path("other")).unwrap().count(), 0);

    let place = Place::new();
    place.run(DATAGEN).success();
    fs::rename(place.path("data/train"), place.path("moved")).unwrap();
    symlink("../moved", place.path("data/train")).unwrap();
    refused(&place, &format!("{DATAGEN} --overwrite"));
    assert_eq!(fs::read_dir(place.path("moved")).unwrap().count(), 4);
}

#[test]
fn a_dataset_with_replaced_files_is_not_removed_or_repaired_over_them() {
    let place = Place::new();
    place.run(DATAGEN).success();
    let mine = place.path("data/train/img_2_of_4.npz");
    fs::remove_file(&mine).unwrap();
    fs::write(&mine, "my notes").unwrap();
    for mode in ["--overwrite", "--resume"] {
        let message = stderr(place.run(&format!("{DATAGEN} {mode}")).code(4));
        assert!(message.contains("img_2_of_4.npz is a file of 8 bytes"), "{message}");
        assert_eq!(fs::read_dir(place.path("data/train")).unwrap().count(), 4);
    }
    let would = stderr(place.run("clean data --dry-run").success());
    assert!(would.contains("left data/train/img_2_of_4.npz: it is"), "{would}");
    let cleaned = place.run("clean data").success();
    assert!(stdout(cleaned).contains("removed 3 files"));
    assert_eq!(fs::read_to_string(&mine).unwrap(), "my notes");
    fs::remove_file(&mine).unwrap();
    place.run("clean data").success();
    assert!(!place.path("data").exists());
}

#[test]
fn a_copied_dataset_is_known_by_its_checksums() {
    let place = Place::new();
    place.run(DATAGEN).success();
    let copied =
        Process::new("cp").current_dir(place.root.path()).args(["-r", "data", "copy"]).status();
    assert!(copied.unwrap().success());
    let message = stdout(place.run("clean copy").success());
    assert!(message.contains("removed 4 files"), "{message}");
    // The folder is of `cp`.
    assert_eq!(fs::read_dir(place.path("copy")).unwrap().count(), 0);
}

#[test]
fn clean_does_not_trust_a_planted_list() {
    let planted = |files: Value, mine: &[&str]| {
        let place = Place::new();
        fs::create_dir_all(place.path("data/sub")).unwrap();
        for name in mine {
            fs::write(place.path("data").join(name), vec![b'x'; 210]).unwrap();
        }
        let list = json!({"format_version": 1, "made_by": "gds", "files": files});
        fs::write(place.path("data/.stormlp-manifest.json"), list.to_string()).unwrap();
        let said = stderr(place.run("clean data").success());
        for name in mine {
            assert!(said.contains(&format!("left data/{name}: it is ")), "{said}");
            assert_eq!(fs::read(place.path("data").join(name)).unwrap().len(), 210, "{name}");
        }
        place
    };
    // Without an identity, as a temporary of any size, empty, or as a file beside another.
    planted(json!([{"name": "sub/thesis.tex", "bytes": 210}]), &["sub/thesis.tex"]);
    planted(json!([{"name": "sub/thesis", "bytes": 1}]), &["sub/.thesis.partial"]);
    let image = json!({
        "name": "image", "bytes": 210, "crc64": "0000000000000000", "changed_ns": 1,
        "side_files": [{"name": "notes", "bytes": 210, "crc64": "0000000000000000"}],
    });
    let place = planted(json!([image]), &["image", "notes"]);
    fs::write(place.path("data/image"), "").unwrap();
    place.run("clean data").success();
    assert!(place.path("data/image").exists());
    // With the checksum of a file that has no name of its dataset.
    let place = Place::new();
    place.run(DATAGEN).success();
    let (made, mine) = (place.path("data/train/img_0_of_4.npz"), place.path("data/thesis"));
    fs::rename(&made, place.path("made")).unwrap();
    fs::copy(place.path("made"), &mine).unwrap();
    let list = place.path("data/.stormlp-manifest.json");
    let text = fs::read_to_string(&list).unwrap().replace("train/img_0_of_4.npz", "thesis");
    fs::write(&list, text).unwrap();
    let said = stderr(place.run(&format!("{DATAGEN} --overwrite")).code(4));
    assert!(said.contains("data/thesis is another file of the same size"), "{said}");
    let said = stderr(place.run("clean data").success());
    assert!(said.contains("left data/thesis: it is another file of the same size"), "{said}");
    assert!(mine.exists());
    // The list of one user does not count for files of another.
    let place = Place::new();
    place.run(GDS).success();
    let owned = |name: &str, user: u32| {
        std::os::unix::fs::chown(place.path("data").join(name), Some(user), None).is_ok()
    };
    if owned("stormlp.0", 61_001) && owned(".stormlp-manifest.json", 61_002) {
        let said = stderr(place.run("clean data").success());
        assert!(
            said.contains("left data/stormlp.0: it is of another user than its list"),
            "{said}"
        );
        assert!(owned(".stormlp-manifest.json", 61_001));
    }
    place.run("clean data").success();
    assert!(!place.path("data").exists());
}

#[test]
fn clean_reports_what_has_the_name_of_a_manifest() {
    let place = Place::new();
    fs::create_dir(place.path("data")).unwrap();
    pipe(&place.path("data/.stormlp-manifest.json"));
    let message = stderr(place.run("clean data").code(4));
    assert!(
        message.contains(".stormlp-manifest.json is a pipe, a socket or a device, not a manifest"),
        "{message}"
    );
}

#[test]
fn clean_never_follows_a_link() {
    let place = Place::new();
    place.run(DATAGEN).success();
    fs::rename(place.path("data/train"), place.path("moved")).unwrap();
    symlink("../moved", place.path("data/train")).unwrap();
    let message = stderr(place.run("clean data").success());
    assert!(message.contains("it is behind a link"), "{message}");
    assert!(!message.contains(".partial"), "{message}");
    assert_eq!(fs::read_dir(place.path("moved")).unwrap().count(), 4);
    assert!(place.path("data/train").is_symlink());
}

#[test]
fn a_checkpoint_with_replaced_files_is_left_alone() {
    let place = Place::new();
    fs::write(place.path("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    place.run(&format!("{CHECKPOINT} --saves 1 --restores 0")).success();
    let step = place.path("data/run1/global_epoch1_step1");
    let file = fs::read_dir(&step)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .into_iter()
        .find(|path| path.extension().is_some_and(|e| e == "pt"))
        .unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, "my notes").unwrap();
    let message = stderr(place.run("clean data").success());
    assert!(
        message
            .contains(&format!("left {}", file.strip_prefix(place.root.path()).unwrap().display())),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "my notes");
    fs::remove_file(&file).unwrap();
    symlink("../../other/precious", &file).unwrap();
    place.run("clean data").success();
    assert!(file.is_symlink());
    place.is_unharmed();
}

/// Characters that turn a terminal's colours, title or text around.
const NASTY: &str = "\u{1b}[31m\u{9b}2J\u{7}\u{7f}\u{202e}\n";

fn is_printable(text: &str) {
    let steers = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.chars().any(steers), "{text:?}");
}

#[test]
fn nothing_from_outside_steers_the_terminal() {
    let place = Place::new();
    let name = format!("a{NASTY}b");
    fs::create_dir(place.path(&name)).unwrap();
    let run = |words: &[&str]| {
        let mut command = stormlp();
        command.current_dir(place.root.path()).args(words);
        let assert = command.assert();
        let (out, err) = (stdout(assert), String::new());
        is_printable(&out);
        (out, err)
    };
    let told = |words: &[&str], code: i32| {
        let mut command = stormlp();
        command.current_dir(place.root.path()).args(words);
        let text = stderr(command.assert().code(code));
        is_printable(&text);
        // A line break in a name begins no line.
        assert!(text.contains("\\x1b[31m") && !text.contains("\nb"), "{text}");
    };
    told(&["gds", "--path", &name], 2);
    told(&["gds", "--preset", &name], 2);
    told(&[&name], 2);
    told(&["gds", "--file", &format!("{name}/none"), "--path", "cpu"], 4);
    told(&["train", "unet3d", "--dir", &name], 4);
    told(&["checkpoint", &format!("{name}.yaml")], 4);
    told(&["datagen", &format!("{name}.yaml")], 4);
    told(&["report", &format!("{name}/none")], 4);
    told(&["report", "show", &format!("{name}/none")], 4);
    told(&["clean", &name], 4);
    run(&["report", "."]);

    let words = ["gds", "--path", "null", "--threads", "1", "--file-size", "1M"];
    let more = ["--duration", "10ms", "--dir", &name];
    run(&[&words[..], &more[..]].concat());
    let report = saved(place.root.path());
    let mut value = read_json(&report);
    value["cells"][0]["memory"] = NASTY.into();
    value["cells"][0]["warnings"] = json!([{"kind": "direct", "fact": NASTY, "remedy": NASTY}]);
    value["plan"]["request"]["name"] = NASTY.into();
    value["host"]["cpu_model"] = NASTY.into();
    value["command"] = NASTY.into();
    value["cells"][0]["warnings"] = json!([]);
    value["cells"][0]["reason"] = NASTY.into();
    fs::write(&report, value.to_string()).unwrap();
    let report = report.to_str().unwrap();
    let everywhere = ["html", "openmetrics", "svg"];
    for format in ["text", "json", "csv", "markdown", "gdsio"].iter().chain(&everywhere) {
        run(&["report", "show", report, "--format", format]);
    }
    let results = Path::new(report).parent().unwrap().parent().unwrap();
    for format in ["text", "json", "csv", "markdown", "html", "openmetrics"] {
        run(&["report", results.to_str().unwrap(), "--format", format]);
    }
}

/// A complete matrix of two cells and its report.
fn measured(place: &Place) -> (PathBuf, Value, String) {
    let words = "gds --path null --threads 1,2 --file-size 1M --duration 10ms --dir data";
    place.run(words).success();
    let path = saved(place.root.path());
    let report = read_json(&path);
    (path.clone(), report, format!("{words} --resume {}", path.display()))
}

#[test]
fn an_edited_report_does_not_affect_a_resumed_run() {
    let place = Place::new();
    let (path, report, resume) = measured(&place);
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut report = report.clone();
        edit(&mut report);
        fs::write(&path, report.to_string()).unwrap();
    };
    // Numbers of cells, of thread groups, of files that are not there.
    for (at, said) in [
        ("/cells/0/cell", "is damaged: its cell 99 is not part of its matrix"),
        ("/cells/0/threads", "is damaged: its cell 0 is not part of its matrix"),
        ("/plan/cells/0/thread_group", "its setting `cells` at `0.thread_group` is"),
        ("/plan/thread_groups/0/workers/0/file", "its setting `thread_groups`"),
        ("/plan/request/tune/seed", "its setting `tune` at `seed` is 99, but 0"),
    ] {
        edited(&|report| *report.pointer_mut(at).unwrap() = 99.into());
        let message = stderr(place.run(&resume).code(3));
        assert!(message.contains(said), "{at}: {message}");
        let help = if said.contains("is damaged") {
            "run without --resume"
        } else {
            "use the original options"
        };
        assert!(message.contains(help), "{message}");
    }
    // Paths and actions.
    let precious = place.path("other/precious");
    edited(&|report| report["plan"]["files"][0]["path"] = json!(precious));
    let message = stderr(place.run(&resume).code(3));
    assert!(message.contains("it used different files"), "{message}");
    edited(&|report| {
        report["cells"] = json!([]);
        report["plan"]["request"]["remove"] = true.into();
        report["plan"]["files"][0]["action"] = "fill".into();
        report["plan"]["files"][0]["created_by_stormlp"] = true.into();
        report["plan"]["folders"][0] = json!(place.path("other"));
    });
    place.run(&resume).success();
    place.is_unharmed();
    assert!(place.path("data/stormlp.0").exists());
    let after = read_json(&path);
    assert_eq!(after["cells"].as_array().unwrap().len(), 2);
    assert_eq!(after["plan"]["folders"][0], "data");
    // Without its options it is another matrix.
    let message = stderr(place.run(&format!("gds --resume {}", path.display())).code(3));
    assert!(
        message.contains("is from a different matrix") && message.contains("--threads 1,2"),
        "{message}"
    );
}

#[test]
fn a_report_with_an_impossible_value_says_that_it_was_changed() {
    let place = Place::new();
    place.run(GDS).success();
    let report = read_json(&saved(place.root.path()));
    let edits: [(&str, Value); 4] = [
        ("/cells/0/throughput_bytes_per_second", json!(1e308)),
        ("/cells/0/duration_seconds", json!(-2.0)),
        ("/started_at", json!("soon")),
        ("/ended_at", json!("2026-02-31T25:00:00Z")),
    ];
    for (at, value) in edits {
        let mut edited = report.clone();
        *edited.pointer_mut(at).unwrap() = value;
        fs::write(place.path("edited.json"), edited.to_string()).unwrap();
        for format in ["text", "html", "markdown"] {
            let text =
                stdout(place.run(&format!("report show edited.json --format {format}")).success());
            assert!(text.contains("changed after it was written"), "{at}: {text}");
        }
    }
}
