//! NVIDIA's libcufile, without a GPU: host memory over a file system in memory, which it serves by
//! POSIX calls.

use std::path::Path;
use std::time::Duration;

use stormlp_core::evidence::{DirectIo, Mechanism};
use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_transfer::TransferPath;
use stormlp_transfer::cufile::{Driver, Settings, probe};

use crate::scene::{Library, Scenario, memory_folder, shim_of_this_child};
use crate::transfers::{BLOCK, Setup, one, open, words, write_and_verify};

pub(crate) fn all() -> Vec<Scenario> {
    let real = |name, play| Scenario { name, library: Library::Real, play, left_over: &[] };
    vec![
        real("real_probe_tells_what_is_there", probe_tells_what_is_there),
        real("real_probe_survives_a_driver_that_never_opens", probe_survives),
        real("real_gds_writes_and_reads", gds_writes_and_reads),
        real("real_gds_batch_writes_and_reads", gds_batch_writes_and_reads),
        real("real_buffered_files_are_taken_too", buffered_files),
        real("real_gds_without_registration", gds_without_registration),
        real("real_reads_end_at_the_end_of_the_file", end_of_file),
        real("real_gds_async_needs_a_gpu", gds_async_needs_a_gpu),
        real("real_malformed_configuration_is_named", malformed_configuration),
        real("real_a_forbidden_fallback_is_an_error", forbidden_fallback),
        real("real_the_log_goes_where_it_was_sent", log_goes_where_it_was_sent),
    ]
}

fn probe_here(folder: Option<&Path>) -> probe::CuFileProbe {
    probe::run(&std::env::current_exe().unwrap(), folder, Duration::from_secs(3), &|_| true)
}

fn probe_tells_what_is_there() {
    let folder = memory_folder();
    let probe = probe_here(Some(folder.path()));
    assert!(probe.availability().is_available(), "{probe:?}");
    assert!(probe.library_version.unwrap().starts_with("1."));
    assert!(probe.library_path.unwrap().is_absolute());
    assert_eq!(probe.compat_mode_allowed, Some(true));
    assert!(probe.says.contains(&"nvidia-fs not loaded".to_string()));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "the probe left {left:?}");
}

fn probe_survives() {
    // SAFETY: this child has a single thread, and nobody else reads the environment.
    unsafe { std::env::remove_var("LD_PRELOAD") };
    assert!(shim_of_this_child().exists());
    let probe = probe_here(None);
    if Path::new("/proc/modules").exists() {
        assert!(probe.driver.is_available(), "{probe:?}");
    } else {
        let text = format!("{:?}", probe.driver);
        assert!(text.contains("cuFileDriverOpen did not return within 3 s"), "{text}");
        assert!(text.contains("/proc/modules is missing"), "{text}");
    }
}

/// Builds a path, writes and reads through it, and looks at its evidence.
fn round_trip(setup: &Setup, blocks: u64, direct: bool) -> Box<dyn TransferPath> {
    let folder = memory_folder();
    let mut path = setup.build().unwrap();
    let kind = if direct { setup.kind } else { PathKind::Buffered };
    let file = path.attach(open(kind, &folder.path().join("data"))).unwrap();
    write_and_verify(path.as_mut(), file, blocks);
    path.detach(file).unwrap();
    let evidence = path.evidence();
    assert_eq!(evidence.effective_path, Some(PathKind::GdsCompat), "{evidence:?}");
    let cufile = evidence.direct_storage.unwrap();
    // Only a path's first transfers are counted.
    assert_eq!(cufile.fallback_operations, Some((2 * blocks).min(64)), "{cufile:?}");
    let none = [(Mechanism::P2pdma, 0), (Mechanism::NvidiaFs, 0)].into();
    assert_eq!(cufile.direct_operations, Some(none));
    assert_eq!(cufile.fallback_allowed, Some(true));
    assert!(cufile.kernel_operations.is_empty());
    assert!(evidence.summary.contains("POSIX compatibility mode"), "{}", evidence.summary);
    if !direct {
        assert_eq!(evidence.direct_io, DirectIo::Refused);
    }
    path
}

fn gds_writes_and_reads() {
    round_trip(&Setup::on_host(PathKind::Gds, 1), 16, true);
    // A second path counts from zero again, on the same driver or a fresh one.
    round_trip(&Setup::on_host(PathKind::Gds, 3), 5, true);
    let held = Driver::current().unwrap_or_else(|| Driver::open(&Settings::default()).unwrap());
    round_trip(&Setup::on_host(PathKind::Gds, 1), 4, true);
    round_trip(&Setup::on_host(PathKind::Gds, 1), 3, true);
    drop(held);
    assert!(Driver::current().is_none());
}

fn gds_batch_writes_and_reads() {
    round_trip(&Setup::on_host(PathKind::GdsBatch, 8), 40, true);
    round_trip(&Setup::on_host(PathKind::GdsBatch, 1), 3, true);
    round_trip(&Setup::on_host(PathKind::GdsBatchStream, 8), 40, true);
}

fn buffered_files() {
    round_trip(&Setup::on_host(PathKind::Gds, 1), 4, false);
    round_trip(&Setup::on_host(PathKind::GdsBatch, 4), 8, false);
}

fn gds_without_registration() {
    let setup = Setup { register: false, ..Setup::on_host(PathKind::Gds, 2) };
    round_trip(&setup, 4, true);
}

fn end_of_file() {
    for kind in [PathKind::Gds, PathKind::GdsBatch] {
        let folder = memory_folder();
        let name = folder.path().join("short");
        std::fs::write(&name, vec![7; BLOCK + 4096]).unwrap();
        let mut path = Setup::on_host(kind, 1).build().unwrap();
        let file = path.attach(open(kind, &name)).unwrap();
        let slot = path.take_slots().pop().unwrap();
        let short = one(path.as_mut(), Direction::Read, file, BLOCK as u64, slot);
        assert_eq!(short.result.unwrap(), 4096, "{kind}");
        let none = one(path.as_mut(), Direction::Read, file, 4 * BLOCK as u64, short.slot);
        assert_eq!(none.result.unwrap(), 0, "{kind}");
    }
}

fn gds_async_needs_a_gpu() {
    let error = Setup::on_host(PathKind::GdsAsync, 1).build().err().unwrap();
    assert!(error.to_string().contains("is not available"), "{error}");
}

fn malformed_configuration() {
    std::fs::write("bad.json", "{ \"properties\": ").unwrap();
    let bad = std::env::current_dir().unwrap().join("bad.json");
    // SAFETY: this child has a single thread, and nobody else reads the environment.
    unsafe { std::env::set_var("CUFILE_ENV_PATH_JSON", bad) };
    let probe = format!("{:?}", probe_here(None).driver);
    assert!(probe.contains("check the syntax of cufile.json"), "{probe}");
    assert!(probe.contains("libcufile said"), "{probe}");
    let error = Setup::on_host(PathKind::Gds, 1).build().err().unwrap();
    assert!(words(&error).contains("cufile.json"), "{error}");
}

fn forbidden_fallback() {
    let settings = Settings { forbid_fallback: true, ..Settings::default() };
    let error = Driver::open(&settings).unwrap_err();
    assert!(error.to_string().contains("5001 DRIVER_NOT_INITIALIZED"), "{error}");
    assert!(error.remedy().contains("nvidia-fs"));
    assert!(Driver::current().is_none());
}

fn log_goes_where_it_was_sent() {
    // The scene chose a place in the environment, which stands.
    let chosen = std::env::current_dir().unwrap().join("chosen.log");
    assert!(!stormlp_transfer::cufile::send_log_to(Path::new("ours.log")));
    // SAFETY: this child has a single thread, and nobody else reads the environment.
    unsafe { std::env::remove_var("CUFILE_LOGFILE_PATH") };
    let ours = std::env::current_dir().unwrap().join("ours.log");
    assert!(stormlp_transfer::cufile::send_log_to(&ours));
    round_trip(&Setup::on_host(PathKind::Gds, 1), 2, true);
    assert!(std::fs::read_to_string(ours).unwrap().contains("compatible mode"));
    assert!(!chosen.exists() && !Path::new("cufile.log").exists());
}
