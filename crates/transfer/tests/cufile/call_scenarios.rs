//! Which calls a transfer costs: those that move data, and those that wait for them.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::Arc;

use libloading::Library as Shared;
use stormlp_core::evidence::Counted;
use stormlp_core::operation::Direction;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_transfer::cuda::CudaDevice;
use stormlp_transfer::{FileId, Slot, Transfer, TransferPath};

use crate::proof_scenarios::by_p2pdma;
use crate::scene::{Library, Scenario};
use crate::transfers::{BLOCK, Setup, block, open};

pub(crate) fn all() -> Vec<Scenario> {
    let scene = |name, play| Scenario {
        name,
        library: Library::Double("direct"),
        play,
        left_over: &["contexts"],
    };
    vec![
        scene("calls_of_transfers_move_data_and_wait", only_data_and_waits),
        scene("calls_count_before_the_measured_part", counting_is_over),
        scene("calls_count_beforehand_at_any_depth", deeper_than_is_counted),
        scene("calls_take_up_whole_batches", whole_batches),
        scene("calls_promise_streams_what_holds", streams_are_promised),
    ]
}

/// How often each function of the double has been called.
fn calls() -> BTreeMap<String, u64> {
    let library = open_double();
    let mut text = vec![0u8; 16 << 10];
    // SAFETY: the type is the one of `double_calls` in the double, which writes a string of at
    // most so many bytes.
    unsafe {
        let tell = library.get::<unsafe extern "C" fn(*mut c_char, usize)>("double_calls");
        tell.unwrap()(text.as_mut_ptr().cast(), text.len());
    }
    let text = std::ffi::CStr::from_bytes_until_nul(&text).unwrap();
    let lines = text.to_str().unwrap().lines();
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').unwrap();
            (name.to_string(), count.parse().unwrap())
        })
        .collect()
}

fn open_double() -> Shared {
    // SAFETY: the double is open in this process already, and its constructors do nothing.
    unsafe { Shared::new(std::env::var_os("STORMLP_LIBCUFILE").unwrap()) }.unwrap()
}

/// The calls since `before`.
fn since(before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut calls = calls();
    for (name, count) in before {
        *calls.get_mut(name).unwrap() -= count;
    }
    calls.retain(|_, count| *count > 0);
    calls
}

const BLOCKS: u64 = 64;

/// Reads `BLOCKS` blocks, every slot in flight, as a worker does between gate and stop.
fn read_all(path: &mut dyn TransferPath, file: FileId, slots: &mut Vec<Slot>) {
    let start = |path: &mut dyn TransferPath, slot, number| {
        let place = block(Direction::Read, file, number);
        assert!(path.submit(Transfer { place, slot }).is_ok());
    };
    let (mut next, mut over) = (0, 0);
    let mut done = Vec::new();
    while over < BLOCKS {
        while next < BLOCKS
            && let Some(slot) = slots.pop()
        {
            start(path, slot, next);
            next += 1;
        }
        path.wait(1, &mut done).unwrap();
        over += done.len() as u64;
        slots.extend(done.drain(..).map(|completion| {
            assert_eq!(completion.result.unwrap(), BLOCK);
            completion.slot
        }));
    }
}

/// A path to the double's GPU with its file and slots.
fn path_of(kind: PathKind) -> (Box<dyn TransferPath>, FileId, Vec<Slot>) {
    std::fs::write("data", vec![1; BLOCKS as usize * BLOCK]).unwrap();
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(kind, 4)
    };
    let mut path = setup.build().unwrap();
    let file = path.attach(open(kind, "data".as_ref())).unwrap();
    let slots = path.take_slots();
    (path, file, slots)
}

/// For each path the call that moves data, its count, and the calls that wait for it.
const EXPECTED: [(PathKind, &str, u64, &[&str]); 7] = [
    (PathKind::Gds, "cuFileRead", 64, &[]),
    (PathKind::GdsAsync, "cuFileReadAsync", 64, &["cuStreamQuery"]),
    (PathKind::GdsBatch, "cuFileBatchIOSubmit", 16, &["cuFileBatchIOGetStatus"]),
    (PathKind::GdsBatchStream, "cuFileBatchIOSubmit", 0, &["cuFileBatchIOGetStatus"]),
    (PathKind::CpuGpu, "cuMemcpyHtoDAsync_v2", 64, &["cuStreamSynchronize"]),
    (PathKind::PageCache, "cuMemcpyHtoDAsync_v2", 64, &["cuStreamSynchronize"]),
    (
        PathKind::CpuAsyncGpu,
        "cuMemcpyHtoDAsync_v2",
        64,
        &["cuEventRecord", "cuEventQuery", "cuEventSynchronize"],
    ),
];

fn only_data_and_waits() {
    for (kind, moves, times, waits) in EXPECTED {
        let (mut path, file, mut slots) = path_of(kind);
        read_all(path.as_mut(), file, &mut slots);
        path.stop_counting();
        let before = calls();
        read_all(path.as_mut(), file, &mut slots);
        let calls = since(&before);
        let data = calls.get(moves).copied().unwrap_or(0);
        assert!(data == times || (times == 0 && data > 0), "{kind}: {calls:?}");
        for (name, count) in &calls {
            let known = name == moves || waits.contains(&name.as_str());
            assert!(known && *count <= BLOCKS + 8, "{kind}: {name} in {calls:?}");
        }
    }
}

fn counting_is_over() {
    for kind in [PathKind::Gds, PathKind::GdsAsync, PathKind::GdsBatch] {
        let (mut path, file, mut slots) = path_of(kind);
        read_all(path.as_mut(), file, &mut slots);
        path.stop_counting();
        let counted = by_p2pdma(&path.evidence().direct_storage.unwrap());
        read_all(path.as_mut(), file, &mut slots);
        assert_eq!(by_p2pdma(&path.evidence().direct_storage.unwrap()), counted);
        assert_eq!(counted, Some(BLOCKS));
    }
}

fn deeper_than_is_counted() {
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(PathKind::GdsBatch, 100)
    };
    std::fs::write("data", vec![1; 100 * BLOCK]).unwrap();
    let mut path = setup.build().unwrap();
    let file = path.attach(open(PathKind::GdsBatch, "data".as_ref())).unwrap();
    for (number, slot) in (0..).zip(path.take_slots()) {
        let place = block(Direction::Read, file, number);
        assert!(path.submit(Transfer { place, slot }).is_ok());
    }
    let mut done = Vec::new();
    path.wait(100, &mut done).unwrap();
    assert_eq!(done.len(), 100);
    let before = path.evidence().direct_storage.unwrap().counted;
    path.stop_counting();
    let after = path.evidence().direct_storage.unwrap().counted;
    assert_eq!((before, after), (Counted::AtFirst, Counted::Beforehand));
}

fn whole_batches() {
    let (mut path, file, slots) = path_of(PathKind::GdsBatch);
    for (number, slot) in (0..).zip(slots) {
        let place = block(Direction::Read, file, number);
        assert!(path.submit(Transfer { place, slot }).is_ok());
    }
    // A caller that only looks is not blocked, and sees all of a batch or none.
    let mut done = Vec::new();
    for _ in 0..100 {
        path.wait(0, &mut done).unwrap();
        assert!(matches!(done.len(), 0 | 4), "{} of 4", done.len());
    }
    assert_eq!(done.len(), 4);
}

fn streams_are_promised() {
    let (_path, _, _) = path_of(PathKind::GdsAsync);
    let library = open_double();
    // SAFETY: the double's last flags, which nobody changes now.
    let flags = unsafe { **library.get::<*const u32>("stream_flags").unwrap() };
    assert_eq!(flags, 1 | 2 | 4 | 8);
}
