//! Every path on a real GPU: written bytes are in the page cache, byte for byte.
//!
//! Skipped with a message if CUDA has no GPU; `STORMLP_REQUIRE_GPU=1` makes that a failure.
//! `STORMLP_GPU_TEST_DIR` names folders (colons between) to work in, in addition to `/dev/shm` and
//! the system's temporary folder, and `STORMLP_LIBCUFILE` the library, as for stormlp itself.
//! `STORMLP_GPU_TEST_DEVICE` has a number: that GPU alone is tested, as CUDA numbers them.
//! `STORMLP_REQUIRE_DIRECT=1` says that cuFile has a direct route to the folders that were added:
//! paths that move registered GPU memory there must not be in compatibility mode. The executable
//! needs no other file, so that it can be carried to a machine with a GPU.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod checks;
mod route;
#[allow(dead_code, reason = "shared with the scenarios of cuFile, which use more of it")]
#[path = "../../crates/transfer/tests/cufile/transfers.rs"]
mod transfers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stormlp_core::facts::Availability;
use stormlp_transfer::cufile::{Driver, Settings, probe, send_log_to};

fn main() -> ExitCode {
    stormlp_transfer::cuda::number_devices_by_bus();
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == probe::ARGUMENT) {
        probe::child_main(words.next().as_deref().map(Path::new));
        return ExitCode::SUCCESS;
    }
    let exe = std::env::current_exe().unwrap();
    let facts = probe::run(&exe, None, probe::TIME_LIMIT, &|_| true);
    if facts.cuda.devices.is_empty() {
        let why = facts.cuda.problem.unwrap_or("CUDA has no device".to_string());
        stormlp_fixtures::named("gpu", why, "run it on a machine with a GPU");
        let required = std::env::var_os("STORMLP_REQUIRE_GPU").is_some_and(|value| value == "1");
        return if required { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    println!("{:#?}", facts.cuda);
    send_log_to(&std::env::temp_dir().join("stormlp-gpu-test-cufile.log"));
    let mut failures = 0;
    let mut check = |name: String, body: &mut dyn FnMut()| {
        let passed = catch_unwind(AssertUnwindSafe(body)).is_ok();
        failures += u32::from(!passed);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    };
    check("facts".to_string(), &mut || checks::facts(&facts.cuda));
    // Once each, since a probe opens every GPU; and while this process has none open, which another
    // may not share.
    let folders: Vec<_> = folders()
        .into_iter()
        .map(|(folder, direct)| {
            let here = probe::run(&exe, Some(&folder), probe::TIME_LIMIT, &|_| true);
            (folder, direct, here.availability())
        })
        .collect();
    let devices = devices(facts.cuda.devices.iter().map(|device| device.index));
    for &index in &devices {
        check(format!("cuda:{index} memory"), &mut || checks::memory(index));
    }
    for (folder, direct, availability) in folders {
        // Held for all checks of the folder, as a matrix does.
        let driver = match availability {
            Availability::Available => Driver::open(&Settings::default()).ok(),
            Availability::Unavailable { fact, .. } => {
                println!("{}: no cuFile paths: {fact}", folder.display());
                None
            }
        };
        for &index in &devices {
            for case in checks::cases(driver.is_some()) {
                let name = format!("cuda:{index} {} {case}", folder.display());
                check(name, &mut || case.agrees_with_the_page_cache(index, &folder, direct));
            }
        }
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The GPUs to test: all of the machine, or the one that the environment names.
fn devices(all: impl Iterator<Item = u32>) -> Vec<u32> {
    let named =
        std::env::var("STORMLP_GPU_TEST_DEVICE").ok().map(|text| text.parse::<u32>().unwrap());
    all.filter(|index| named.is_none_or(|named| named == *index)).collect()
}

/// The folders of the checks: memory, the local disk, and those of the environment; and whether
/// cuFile must have a direct route there.
fn folders() -> Vec<(PathBuf, bool)> {
    let direct = std::env::var_os("STORMLP_REQUIRE_DIRECT").is_some_and(|value| value == "1");
    let added = std::env::var_os("STORMLP_GPU_TEST_DIR").unwrap_or_default();
    let added = std::env::split_paths(&added).filter(|path| !path.as_os_str().is_empty());
    let always = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let mut folders: Vec<_> = always.into_iter().map(|folder| (folder, false)).collect();
    folders.extend(added.map(|folder| (folder, direct)));
    folders.retain(|(folder, _)| folder.is_dir());
    folders
}
