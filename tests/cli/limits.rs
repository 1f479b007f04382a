//! Limits of the machine and of its user: each is an error that says so, none is a death.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell line in which `$0` is the executable.
fn shell(folder: &Path, line: &str) -> Output {
    Command::new("sh")
        .current_dir(folder)
        .args(["-c", line, env!("CARGO_BIN_EXE_stormlp")])
        .output()
        .unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_limit_on_the_size_of_files_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    let gds = "gds --path buffered --threads 1 --file-size 4M --passes 1";
    for (words, code) in [
        (gds.to_string(), 4),
        (format!("{gds} --op write --file new"), 4),
        (
            "checkpoint tiny.yaml --ranks 8 --pause 0 --writes 1 --reads 0".to_string(),
            4,
        ),
    ] {
        let output = shell(
            folder.path(),
            &format!("ulimit -f 1000; exec \"$0\" {words}"),
        );
        let told = told(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words}: {:?} {told}",
            output.status
        );
        assert!(told.contains("File too large"), "{told}");
        assert!(told.contains("ulimit -f"), "{told}");
    }
}

#[test]
fn names_that_no_file_can_have_are_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tiny.yaml"), crate::checkpoint::TINY).unwrap();
    let path = &folder.path().join("here");
    fs::create_dir(path).unwrap();
    std::os::unix::fs::symlink("b", path.join("a")).unwrap();
    std::os::unix::fs::symlink("a", path.join("b")).unwrap();
    let long = "x".repeat(300);
    let deep = "y/".repeat(2500);
    for name in [
        long.as_str(),
        deep.as_str(),
        "a",
        "a/c",
        "$(printf '\\377')/none/deeper",
    ] {
        for words in [
            format!("gds --path buffered --threads 1 --file-size 1M --passes 1 --dir \"{name}\""),
            format!("gds --path buffered --threads 1 --file-size 1M --passes 1 --file \"{name}\""),
            format!("datagen unet3d --files 1 --data-dir \"{name}\""),
            format!("train unet3d --generate --files 1 --steps 1 --data-dir \"{name}\""),
            format!("checkpoint ../tiny.yaml --ranks 8 --pause 0 --dir \"{name}\""),
            format!("clean \"{name}\""),
        ] {
            let output = shell(path, &format!("exec \"$0\" {words}"));
            let (code, told) = (output.status.code(), told(&output));
            assert!(
                matches!(code, Some(3 | 4)),
                "{code:?} {words:.60}: {told:.400}"
            );
            let made: Vec<_> = fs::read_dir(path)
                .unwrap()
                .flatten()
                .map(|e| e.file_name())
                .collect();
            assert_eq!(made.len(), 2, "{words:.60} made {made:?}");
        }
    }
}
