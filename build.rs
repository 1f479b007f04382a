//! Hands the commit to `stormlp --version`.

use std::path::Path;
use std::process::Command;

/// What the executable is made of.
const SOURCES: [&str; 5] = ["build.rs", "Cargo.toml", "Cargo.lock", "configs", "crates"];
/// What git changes when the commit becomes another one.
const COMMITS: [&str; 4] = ["HEAD", "refs", "packed-refs", "reftable"];

fn main() {
    // A debug build would be linked again after each commit, with all tests.
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    println!("cargo::rerun-if-env-changed=STORMLP_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = if release { commit() } else { Some("debug build".to_string()) };
    println!("cargo::rustc-env=STORMLP_COMMIT={}", commit.unwrap_or("no commit".to_string()));
}

/// The commit, as a packager names it or git does; `None` where neither is there.
fn commit() -> Option<String> {
    if let Ok(named) = std::env::var("STORMLP_COMMIT") {
        return Some(named);
    }
    // An unpacked archive inside another repository is not of that one's commit.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    // Cargo runs this again at each build if a file named here does not exist.
    for name in COMMITS {
        let file = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    let commit = git(&["describe", "--always", "--abbrev=12"])?;
    let edited = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if edited.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// What git prints in this folder, without the end of the line.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_string())
}
