//! Complete runs of eight threads with NVIDIA's own libcufile, version by version, with a cufile.json
//! as installed by toolkits: every run succeeds and leaves a complete report.
//!
//! There is no GPU in it: the library finds a libcuda with the host's memory, and moves every byte
//! in its POSIX compatibility mode. Runs in which storage or the GPU fails end as they must. By default the newest wheel of each minor version runs each
//! command once; `STORMLP_WHEELS=all` has every wheel run those that once crashed ten times.
//! `cargo test --test wheels 1.16` runs those whose version begins so.
//!
//! A missing requirement (pip's index, a C compiler) is named in a line, and the test passes;
//! `STORMLP_REQUIRE_CUFILE=1` makes that a failure. The wheels lie in the target folder.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared with the tests of cuFile, which have a double as well"
)]
#[path = "../../crates/transfer/tests/cufile/build.rs"]
mod build;
mod mishaps;
mod runs;
mod scene;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use mishaps::MISHAPS;
use runs::{RUNS, Verdict};
use scene::Scene;

/// The packages of CUDA 12 and CUDA 13, with their wheels from 1.11 on; a newer one is found by
/// pip.
const WHEELS: [(&str, &[&str]); 2] = [
    ("nvidia-cufile-cu12", &["1.11.1.6", "1.13.0.11", "1.13.1.3", "1.14.0.30", "1.14.1.1"]),
    (
        "nvidia-cufile",
        &[
            "1.15.0.42",
            "1.15.1.6",
            "1.16.0.49",
            "1.16.1.26",
            "1.17.0.44",
            "1.17.1.22",
            "1.18.0.66",
            "1.18.1.6",
            "1.19.0.109",
            "1.19.1.55",
            "1.20.0.107",
        ],
    ),
];

fn main() -> ExitCode {
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let word = word.unwrap_or_default();
    let is_wanted = |version: &str| "wheels".contains(&word) || version.starts_with(&word);
    if !"wheels".contains(&word) && !word.starts_with("1.") {
        // It is about other tests.
        return ExitCode::SUCCESS;
    }
    let all = std::env::var_os("STORMLP_WHEELS").is_some_and(|value| value == "all");
    let tally = Tally::default();
    let (scene, newest, its_library) = match Scene::set().and_then(|scene| {
        let (version, library) = newest()?;
        Ok((scene, version, library))
    }) {
        Ok(found) => found,
        Err(why) => {
            tally.skip("wheels", &why);
            return tally.exit_code();
        }
    };
    let mut wheels = Vec::new();
    for (package, versions) in WHEELS {
        for version in chosen(versions, all).filter(|version| is_wanted(version)) {
            let name = format!("{package}-{version}");
            match build::wheel(&name, &format!("{package}=={version}")) {
                Ok(library) => wheels.push((version.to_string(), library)),
                Err(why) => tally.skip(&name, &why),
            }
        }
    }
    let is_known = WHEELS.iter().any(|(_, versions)| versions.contains(&newest.as_str()));
    if !is_known && is_wanted(&newest) {
        wheels.push((newest, its_library));
    }
    // Two wheels at a time: a run waits for child processes half of its time.
    let wheels = Mutex::new(wheels.into_iter());
    let next = || wheels.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((version, library)) = next() {
                    tally.play(&scene, &version, &library, all);
                }
            });
        }
    });
    tally.exit_code()
}

/// All of `versions`, or the newest of each minor version.
fn chosen<'a>(versions: &'a [&'a str], all: bool) -> impl Iterator<Item = &'a str> {
    let newer = |at: usize| (versions.get(at + 1)).is_some_and(|v| minor(v) == minor(versions[at]));
    (versions.iter().enumerate())
        .filter(move |(at, _)| all || !newer(*at))
        .map(|(_, version)| *version)
}

/// `16` of `1.16.1.26`.
fn minor(version: &str) -> u32 {
    version.split('.').nth(1).unwrap().parse().unwrap()
}

/// The newest wheel's version and library. If it cannot be had, the rest need not be tried.
fn newest() -> Result<(String, PathBuf), String> {
    let library = build::real_library()?;
    let package = library.ancestors().nth(4).unwrap();
    let version = std::fs::read_dir(package)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find_map(|name| {
            let version = name.strip_prefix("nvidia_cufile-")?;
            Some(version.strip_suffix(".dist-info")?.to_string())
        });
    let version = version.ok_or("the wheel does not tell its version")?;
    Ok((version, library))
}

/// How the tests ended.
#[derive(Default)]
struct Tally {
    failed: AtomicBool,
}

impl Tally {
    /// Plays all runs of a wheel and says how they ended.
    fn play(&self, scene: &Scene, version: &str, library: &Path, all: bool) {
        let begun = Instant::now();
        let folder = scene.folder();
        let mut complaints = Vec::new();
        let mut played = 0;
        for run in RUNS.iter().filter(|run| run.is_for(minor(version))) {
            let repeats = if all { run.repeats } else { 1 };
            for repeat in 1..=repeats {
                played += 1;
                match run.play(scene, library, folder.path()) {
                    Verdict::Whole => {}
                    Verdict::Refused(why) => {
                        return self.skip(&format!("wheel {version}"), &why);
                    }
                    Verdict::Failed(why) => {
                        complaints.push(format!("{} ({repeat} of {repeats}): {why}", run.name));
                    }
                }
            }
        }
        for mishap in &MISHAPS {
            played += 1;
            if let Err(why) = mishap.play(scene, library, folder.path()) {
                complaints.push(format!("{}: {why}", mishap.name));
            }
        }
        if scene.lacks_udev() {
            played += 1;
            if let Verdict::Failed(why) = runs::refused(scene, library, folder.path()) {
                complaints.push(format!("a folder that is refused: {why}"));
            }
        }
        if complaints.is_empty() {
            let seconds = begun.elapsed().as_secs_f64();
            println!("test wheel {version} ... ok, {played} runs <{seconds:.1}s>");
        } else {
            self.failed.store(true, Ordering::Relaxed);
            let told = complaints.join("\n");
            let failed = complaints.len();
            println!("test wheel {version} ... FAILED, {failed} of {played} runs\n{told}");
        }
    }

    fn skip(&self, name: &str, why: &str) {
        let remedy = "have python3 with a pip that reaches its index, and a C compiler";
        stormlp_fixtures::named(name, why, remedy);
        if std::env::var_os("STORMLP_REQUIRE_CUFILE").is_some_and(|value| value == "1") {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    fn exit_code(&self) -> ExitCode {
        let failed = self.failed.load(Ordering::Relaxed);
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
