//! Failures, simulated by a double of libcufile: none of this applies to NVIDIA's.

use std::time::Duration;

use stormlp_core::operation::Direction;
use stormlp_core::path::PathKind;
use stormlp_transfer::Transfer;
use stormlp_transfer::cufile::{Driver, Settings, probe};

use crate::scene::{Library, Scenario};
use crate::transfers::{BLOCK, Setup, block, one, open, words, write_and_verify};

/// Name, the fault of the double, and the scenario.
const SCENARIOS: [(&str, &str, fn()); 21] = [
    ("double_round_trips_leave_nothing_behind", "", round_trips),
    ("double_short_transfers_are_gone_on_with", "short", short_transfers),
    ("double_a_transfer_of_nothing_is_an_error", "nothing", nothing_moved),
    ("double_an_errno_of_one_is_no_reason", "errno-1", errno_without_a_reason),
    ("double_a_transfer_without_progress_is_an_error", "stuck", no_progress),
    ("double_codes_in_errno_are_named", "code-in-errno", codes_in_errno),
    ("double_half_registered_memory_is_deregistered", "third-buffer", half_registered),
    ("double_errno_comes_through", "errno", errno_comes_through),
    ("double_codes_come_through", "code", codes_come_through),
    ("double_unknown_codes_are_no_accident", "unknown-code", unknown_codes),
    ("double_a_batch_that_is_full_fails_its_entries", "batch-full", batch_full),
    ("double_one_bad_entry_fails_alone", "entry", bad_entry),
    ("double_a_batch_without_status_frees_nothing_in_flight", "status", no_status),
    ("double_a_file_that_is_refused", "handle", refused_file),
    ("double_memory_that_is_refused", "buffer", refused_memory),
    ("double_minus_22_names_the_configuration", "open-minus-22", minus_22),
    ("double_an_unknown_code_on_opening", "open-unknown", unknown_on_opening),
    ("double_a_driver_that_hangs_is_given_up", "open-hangs", hanging_driver),
    ("double_a_driver_that_crashes_is_survived", "open-crashes", crashing_driver),
    ("double_a_library_that_is_too_old", "old", too_old),
    ("double_other_settings_are_refused_while_open", "", other_settings),
];

pub(crate) fn all() -> Vec<Scenario> {
    SCENARIOS
        .map(|(name, fault, play)| Scenario {
            name,
            library: Library::Double(fault),
            play,
            // A path with a broken batch keeps its transfers in flight for ever, by intent.
            left_over: match fault {
                "status" => &["drivers", "handles", "buffers", "batches"],
                _ => &[],
            },
        })
        .into()
}

const BOTH: [PathKind; 2] = [PathKind::Gds, PathKind::GdsBatch];

fn round_trips() {
    for kind in BOTH {
        for register in [true, false] {
            let setup = Setup { register, ..Setup::on_host(kind, 4) };
            let mut path = setup.build().unwrap();
            let file = path.attach(open(kind, "data".as_ref())).unwrap();
            write_and_verify(path.as_mut(), file, 16);
            let again = path.attach(open(kind, "data".as_ref())).unwrap();
            path.detach(file).unwrap();
            assert_eq!(path.attach(open(kind, "data".as_ref())).unwrap(), file);
            assert_ne!(file, again);
            assert_eq!(path.evidence().effective_path, Some(PathKind::GdsCompat));
        }
    }
}

/// How one transfer fails on each of the paths.
fn failure_of_each(mut look: impl FnMut(PathKind, Result<usize, stormlp_transfer::TransferError>)) {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    for kind in BOTH {
        let mut path = Setup::on_host(kind, 1).build().unwrap();
        let file = path.attach(open(kind, "data".as_ref())).unwrap();
        let slot = path.take_slots().pop().unwrap();
        let completion = one(path.as_mut(), Direction::Read, file, 0, slot);
        look(kind, completion.result);
    }
}

fn short_transfers() {
    failure_of_each(|kind, result| assert_eq!(result.unwrap(), BLOCK, "{kind}"));
    for (kind, continued) in [(PathKind::Gds, 0), (PathKind::GdsBatch, 1)] {
        let mut path = Setup::on_host(kind, 1).build().unwrap();
        let file = path.attach(open(kind, "data".as_ref())).unwrap();
        let slot = path.take_slots().pop().unwrap();
        one(path.as_mut(), Direction::Read, file, 0, slot).result.unwrap();
        let storage = path.evidence().direct_storage.unwrap();
        assert_eq!(storage.continued_operations, continued, "{kind}");
    }
}

fn nothing_moved() {
    failure_of_each(|kind, result| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("moved 0 of 65536 bytes at byte 0 and then none"), "{kind} {text}");
    });
}

fn errno_without_a_reason() {
    failure_of_each(|_, result| {
        let error = result.unwrap_err();
        assert_eq!(error.errno().filter(|errno| *errno == 1), None, "{error}");
        let text = error.to_string();
        assert!(text.contains("the kernel moved the same bytes without an error"), "{text}");
    });
}

fn no_progress() {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    let mut path = Setup::on_host(PathKind::Gds, 1).build().unwrap();
    let file = path.attach(open(PathKind::Gds, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let completion = one(path.as_mut(), Direction::Read, file, 0, slot);
    let text = completion.result.unwrap_err().to_string();
    let expected = "cuFileRead moved 32768 of 65536 bytes at byte 0 and then none";
    assert!(text.contains(expected), "{text}");
}

fn codes_in_errno() {
    failure_of_each(|kind, result| {
        let text = result.unwrap_err().to_string();
        if kind == PathKind::Gds {
            assert!(text.contains("5027 HANDLE_NOT_REGISTERED"), "{text}");
        }
    });
}

fn half_registered() {
    let text = words(&Setup::on_host(PathKind::Gds, 4).build().err().unwrap());
    assert!(text.contains("buffer 3 of 4"), "{text}");
    assert!(text.contains("deregistered again"), "{text}");
}

fn errno_comes_through() {
    failure_of_each(|kind, result| {
        let error = result.unwrap_err();
        assert_eq!(error.errno(), Some(libc::EIO), "{kind} {error}");
    });
}

fn codes_come_through() {
    failure_of_each(|kind, result| {
        let text = result.unwrap_err().to_string();
        let expected = if kind == PathKind::Gds { "5044 IO_ERROR" } else { "errno 5" };
        assert!(text.contains(expected), "{kind} {text}");
    });
}

fn unknown_codes() {
    failure_of_each(|kind, result| {
        let text = result.unwrap_err().to_string();
        if kind == PathKind::Gds {
            assert!(text.contains("7777, a code this version of stormlp does not know"), "{text}");
        }
    });
}

fn batch_full() {
    let mut path = Setup::on_host(PathKind::GdsBatch, 1).build().unwrap();
    let file = path.attach(open(PathKind::GdsBatch, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let completion = one(path.as_mut(), Direction::Read, file, 0, slot);
    let text = completion.result.unwrap_err().to_string();
    assert!(text.contains("5037 BATCH_FULL") && text.contains("--queue-depth"), "{text}");
}

fn bad_entry() {
    std::fs::write("data", vec![1; 4 * BLOCK]).unwrap();
    let mut path = Setup::on_host(PathKind::GdsBatch, 4).build().unwrap();
    let file = path.attach(open(PathKind::GdsBatch, "data".as_ref())).unwrap();
    for slot in path.take_slots() {
        let place = block(Direction::Read, file, slot.index() as u64);
        assert!(path.submit(Transfer { place, slot }).is_ok());
    }
    let mut done = Vec::new();
    path.wait(4, &mut done).unwrap();
    let mut failed: Vec<_> =
        done.iter().map(|over| (over.slot.index(), over.result.is_err())).collect();
    failed.sort_unstable();
    assert_eq!(failed, [(0, true), (1, false), (2, false), (3, false)]);
}

fn no_status() {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    let mut path = Setup::on_host(PathKind::GdsBatch, 1).build().unwrap();
    let file = path.attach(open(PathKind::GdsBatch, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let place = block(Direction::Read, file, 0);
    assert!(path.submit(Transfer { place, slot }).is_ok());
    let error = path.wait(1, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("5041"), "{error}");
    assert!(path.detach(file).is_err(), "a file in flight stays");
}

fn refused_file() {
    let mut path = Setup::on_host(PathKind::Gds, 1).build().unwrap();
    let file = open(PathKind::Gds, "data".as_ref());
    let text = words(&path.attach(file).unwrap_err());
    assert!(text.contains("5027 HANDLE_NOT_REGISTERED"), "{text}");
    assert!(text.contains("/run/udev"), "{text}");
}

fn refused_memory() {
    let error = Setup::on_host(PathKind::Gds, 1).build().err().unwrap();
    let text = words(&error);
    assert!(text.contains("5011 CUDA_DRIVER_ERROR"), "{text}");
    assert!(text.contains("CUDA driver code 2"), "{text}");
}

fn minus_22() {
    let text = words(&Setup::on_host(PathKind::Gds, 1).build().err().unwrap());
    assert!(text.contains("errno 22") && text.contains("cufile.json"), "{text}");
    let probe = format!("{:?}", probe_here().driver);
    assert!(probe.contains("libcufile said: parsing error, invalid json config"), "{probe}");
}

fn unknown_on_opening() {
    let text = Driver::open(&Settings::default()).unwrap_err().to_string();
    assert!(text.contains("6123"), "{text}");
}

fn probe_here() -> probe::CuFileProbe {
    probe::run(&std::env::current_exe().unwrap(), None, Duration::from_millis(700), &|_| true)
}

fn hanging_driver() {
    let probe = format!("{:?}", probe_here().driver);
    assert!(probe.contains("cuFileDriverOpen did not return within 0.7 s"), "{probe}");
    // It is not opened in this process; the ledger needs a loaded library all the same.
    stormlp_transfer::cufile::Api::get().unwrap();
}

fn crashing_driver() {
    let probe = format!("{:?}", probe_here().driver);
    assert!(probe.contains("died in cuFileDriverOpen") && probe.contains("signal: 6"), "{probe}");
    stormlp_transfer::cufile::Api::get().unwrap();
}

fn too_old() {
    let error = Driver::open(&Settings::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("too old: version 1.6, and 1.8 or later is needed"), "{text}");
    assert!(error.remedy().contains("newer"), "{}", error.remedy());
}

fn other_settings() {
    let open = Driver::open(&Settings::default()).unwrap();
    let strict = Settings { forbid_fallback: true, ..Settings::default() };
    let error = Driver::open(&strict).unwrap_err();
    assert!(error.to_string().contains("other settings"), "{error}");
    drop(open);
    assert_eq!(Driver::open(&strict).unwrap().settings(), &strict);
}
