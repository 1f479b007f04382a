//! Hands the commit to `stormlp --version`.

use std::process::Command;

fn main() {
    // A debug build would be linked again after each commit, with all tests.
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if release { commit() } else { Some("debug build".to_string()) };
    println!("cargo::rustc-env=STORMLP_COMMIT={}", commit.unwrap_or("no commit".to_string()));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STORMLP_COMMIT");
    if release {
        for file in ["HEAD", "refs", "packed-refs"] {
            println!("cargo::rerun-if-changed=.git/{file}");
        }
    }
}

/// The commit, as a packager names it or git does; `None` where neither is there.
fn commit() -> Option<String> {
    if let Ok(named) = std::env::var("STORMLP_COMMIT") {
        return Some(named);
    }
    let git = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let output = git.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
}
