//! The driver over mock paths: transfers in flight are counted, returned, and never freed while
//! something may still write to them.

use std::fs::File;
use std::sync::Arc;

use stormlp_core::impairment::Fault;
use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, MemoryKind, PathKind};

use super::*;
use crate::accelerator::Accelerator;
use crate::accelerator::stand_in::HostStandIn;
use crate::paths::{PathBuffers, PathSpec, build_path};
use crate::region::Region;
use crate::storage::{Disk, Failing, Gated, Storage as _};
use crate::transfer::Rejected;

const SLOT_BYTES: usize = 4096;

fn null(region: &mut Region, slots: usize) -> Box<dyn TransferPath> {
    build_path(PathSpec {
        kind: PathKind::Null,
        engine: EngineKind::Psync,
        host: (0..slots).map(|_| region.carve(SLOT_BYTES, 4096).unwrap()).collect(),
        accelerator_buffers: Vec::new(),
        accelerator: Arc::new(HostStandIn),
        submit_batch: 1,
        max_files: 1,
        register_buffers: false,
        page_aligned: false,
    })
    .unwrap()
}

/// A path that fails or panics in `wait`.
struct Broken {
    inner: Box<dyn TransferPath>,
    panics: bool,
}

impl TransferPath for Broken {
    fn attach(&mut self, file: File) -> Result<FileId, TransferError> {
        self.inner.attach(file)
    }
    fn detach(&mut self, file: FileId) -> Result<(), TransferError> {
        self.inner.detach(file)
    }
    fn take_slots(&mut self) -> Vec<Slot> {
        self.inner.take_slots()
    }
    fn submit(&mut self, transfer: Transfer) -> Result<(), Rejected> {
        self.inner.submit(transfer)
    }
    fn wait(&mut self, _min: usize, _done: &mut Vec<Completion>) -> Result<(), TransferError> {
        assert!(!self.panics, "broken wait");
        Err(TransferError::Io { action: "the wait", source: std::io::Error::from_raw_os_error(5) })
    }
    fn evidence(&self) -> Evidence {
        self.inner.evidence()
    }
}

/// Storage in which the first write is cut short, and the operations of `faults` fail.
fn cut_short(faults: &[&str]) -> Gated<Failing> {
    let faults: Vec<Fault> =
        [&["write:1:short"], faults].concat().iter().map(|fault| fault.parse().unwrap()).collect();
    Gated::new(Arc::new(Disk), Failing::new(&faults))
}

/// A write of `SLOT_BYTES` by each kind of path, of which the kernel accepts half at first.
fn write_cut_short(
    kind: PathKind,
    engine: EngineKind,
    faults: &[&str],
) -> Option<(Result<usize, TransferError>, Vec<u8>)> {
    let mut region = Region::new(1 << 20).unwrap();
    let memory = (&HostStandIn as &dyn Accelerator, MemoryKind::Host);
    let buffers = PathBuffers::allocate(kind, 1, SLOT_BYTES, memory, &mut region).unwrap();
    let path = cut_short(faults).path(PathSpec {
        kind,
        engine,
        host: buffers.host,
        accelerator_buffers: buffers.accelerator,
        accelerator: Arc::new(HostStandIn),
        submit_batch: 1,
        max_files: 1,
        register_buffers: false,
        page_aligned: false,
    });
    let unavailable =
        |error| stormlp_fixtures::skipped(format!("{engine}: {error}"), "permit io_uring");
    let path = path.map_err(unavailable).ok()?;
    let set = DriverSet::new(1);
    let mut driver = Driver::new(path, &set, 0);
    let file = tempfile::NamedTempFile::new().unwrap();
    let id = driver.attach(file.reopen().unwrap()).unwrap();
    let mut slot = driver.take_slot().unwrap();
    let content: Vec<u8> = (0..SLOT_BYTES).map(|at| (at % 251) as u8).collect();
    slot.copy_in(&content).unwrap();
    let place = FileRange { direction: Direction::Write, ..place(id, 100) };
    driver.submit(slot, place, ()).unwrap();
    let landed = loop {
        driver.wait(1).unwrap();
        if let Some(landed) = driver.next_landed() {
            break landed;
        }
    };
    assert_eq!(landed.slot.written(), 0, "the next transfer begins at the start of the slot");
    Some((landed.result, std::fs::read(file.path()).unwrap()))
}

const PATHS: [(PathKind, EngineKind); 4] = [
    (PathKind::Buffered, EngineKind::Psync),
    (PathKind::Buffered, EngineKind::Uring),
    (PathKind::Buffered, EngineKind::TokioUring),
    (PathKind::PageCache, EngineKind::Psync),
];

#[test]
fn the_rest_of_a_short_write_is_written_too() {
    for (kind, engine) in PATHS {
        let Some((result, found)) = write_cut_short(kind, engine, &[]) else { continue };
        assert_eq!(result.unwrap(), SLOT_BYTES, "{kind} {engine}");
        let wrong = found[100..].iter().enumerate().find(|(at, byte)| **byte != (at % 251) as u8);
        assert_eq!((found.len(), wrong), (100 + SLOT_BYTES, None), "{kind} {engine}");
    }
}

#[test]
fn the_rest_of_a_short_write_fails_with_its_own_error_and_offset() {
    for (kind, engine) in PATHS {
        let Some((result, _)) = write_cut_short(kind, engine, &["write:2:EIO"]) else { continue };
        let error = result.unwrap_err();
        let half = 100 + SLOT_BYTES as u64 / 2;
        assert_eq!((error.errno(), error.offset()), (Some(libc::EIO), Some(half)), "{kind}");
    }
}

fn place(file: FileId, offset: u64) -> FileRange {
    FileRange { direction: Direction::Read, file, offset, len: SLOT_BYTES }
}

#[test]
fn tags_come_back_and_are_counted() {
    let mut region = Region::new(1 << 20).unwrap();
    let set = DriverSet::new(2);
    let mut driver = Driver::new(null(&mut region, 4), &set, 1);
    let file = driver.attach(tempfile::tempfile().unwrap()).unwrap();
    for offset in 0..3u64 {
        let slot = driver.take_slot().unwrap();
        driver.submit(slot, place(file, offset), offset).unwrap();
    }
    assert!(driver.has_room() && driver.in_flight() == 3);
    driver.wait(1).unwrap();
    assert_eq!(set.total().in_flight, 3);
    let mut tags = Vec::new();
    while let Some(landed) = driver.next_landed() {
        assert_eq!(landed.result.unwrap(), SLOT_BYTES);
        tags.push(landed.tag);
        driver.put_back(landed.slot);
    }
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2]);
    assert_eq!(set.counters()[0].read(), Counted::default());
    let expected = Counted {
        bytes: 3 * SLOT_BYTES as u64,
        operations: 3,
        in_flight: 0,
        in_flight_sum: 3 + 2 + 1,
    };
    assert_eq!(set.total(), expected);
}

#[test]
fn depths_and_sizes_of_a_thread_group_are_counted_one_by_one() {
    let mut region = Region::new(1 << 20).unwrap();
    let set = DriverSet::counting_loads(2);
    let mut drivers = [0, 1].map(|index| Driver::new(null(&mut region, 4), &set, index));
    for driver in &mut drivers {
        let file = driver.attach(tempfile::tempfile().unwrap()).unwrap();
        for len in [4096, 100] {
            let slot = driver.take_slot().unwrap();
            let place = FileRange { len, ..place(file, 0) };
            driver.submit(slot, place, ()).unwrap();
        }
    }
    drop(drivers);
    let load = set.load().unwrap();
    let depths: Vec<_> = (load.depths.iter()).map(|one| (one.depth, one.transfers)).collect();
    assert_eq!(depths, [(1, 1), (2, 1), (3, 1), (4, 1)]);
    let sizes: Vec<_> = (load.sizes.iter()).map(|one| (one.up_to_bytes, one.transfers)).collect();
    assert_eq!(sizes, [(128, 2), (4096, 2)]);
    assert!(DriverSet::new(1).load().is_none());
}

#[test]
fn time_in_flight_adds_up_over_drivers_and_the_maximum_is_reported_once() {
    let mut region = Region::new(1 << 20).unwrap();
    let set = DriverSet::counting_loads(2);
    let clock = StampClock::of_process();
    let begun = clock.now();
    let mut drivers = [0, 1].map(|index| Driver::new(null(&mut region, 4), &set, index));
    for driver in &mut drivers {
        let file = driver.attach(tempfile::tempfile().unwrap()).unwrap();
        for offset in 0..2 {
            let slot = driver.take_slot().unwrap();
            driver.submit(slot, place(file, offset), ()).unwrap();
        }
    }
    let all_are = clock.now();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let until = clock.now();
    let flown = set.flown().unwrap();
    let most_seconds = 4.0 * clock.now().since(begun).as_secs_f64();
    let least_seconds = 4.0 * until.since(all_are).as_secs_f64();
    assert!((least_seconds..=most_seconds).contains(&flown.transfer_seconds));
    assert_eq!(flown.most, 4);
    drivers[1].drain().unwrap();
    assert_eq!(set.flown().unwrap().most, 4, "they were, since the last look");
    assert_eq!(set.flown().unwrap().most, 2);
    drop(drivers);
    let (over, later) = (set.flown().unwrap(), set.flown().unwrap());
    assert_eq!(over.transfer_seconds, later.transfer_seconds);
    assert_eq!(later.most, 0);
    assert!(DriverSet::new(1).flown().is_none());
}

#[test]
fn slots_are_kept_until_all_drivers_are_done() {
    let mut region = Region::new(1 << 20).unwrap();
    let set = DriverSet::new(1);
    let mut driver = Driver::new(null(&mut region, 2), &set, 0);
    let file = driver.attach(tempfile::tempfile().unwrap()).unwrap();
    let slot = driver.take_slot().unwrap();
    driver.submit(slot, place(file, 0), ()).unwrap();
    drop(driver);
    assert_eq!(set.parked.lock().unwrap().len(), 2);
    assert!(!region.reset(), "the slots were freed");
    drop(set);
    assert!(region.reset());
}

#[test]
fn transfers_in_flight_on_a_broken_path_are_never_freed() {
    for panics in [false, true] {
        let mut region = Region::new(1 << 20).unwrap();
        let set = DriverSet::new(1);
        let inner = null(&mut region, 2);
        let broken = Box::new(Broken { inner, panics });
        let outcome = crate::thread_group::guarded("tester", || {
            let mut driver = Driver::new(broken, &set, 0);
            let file = driver.attach(tempfile::tempfile().unwrap()).unwrap();
            let slot = driver.take_slot().unwrap();
            driver.submit(slot, place(file, 0), ()).unwrap();
            driver.wait(1)
        });
        match outcome {
            Ok(waited) => assert_eq!(waited.unwrap_err().errno(), Some(5)),
            Err(panic) => assert_eq!((panics, &*panic.message), (true, "broken wait")),
        }
        assert_eq!(set.parked.lock().unwrap().len(), 1);
        drop(set);
        assert!(!region.reset(), "a slot in flight was freed");
    }
}
