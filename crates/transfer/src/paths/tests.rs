//! Every path moves the same bytes.

use super::*;
use crate::accelerator::stand_in::HostStandIn;
use crate::region::Region;
use crate::transfer::{FileRange, Transfer};
use std::os::unix::fs::OpenOptionsExt as _;
use stormlp_core::operation::Direction;
use stormlp_core::path::MemoryKind;

const PATHS: [PathKind; 5] = [
    PathKind::Cpu,
    PathKind::Buffered,
    PathKind::CpuGpu,
    PathKind::CpuAsyncGpu,
    PathKind::PageCache,
];
const ENGINES: [EngineKind; 3] = [EngineKind::Uring, EngineKind::TokioUring, EngineKind::Psync];
const BLOCK: usize = 4096;

fn path(kind: PathKind, engine: EngineKind, depth: usize) -> Option<Box<dyn TransferPath>> {
    path_in_batches(kind, engine, depth, 2)
}

fn path_in_batches(
    kind: PathKind,
    engine: EngineKind,
    depth: usize,
    submit_batch: usize,
) -> Option<Box<dyn TransferPath>> {
    let mut region = Region::new(1 << 20).unwrap();
    let (hosts, devices) = buffers_needed(kind, depth);
    let host = (0..hosts).map(|_| region.carve(BLOCK, BLOCK).unwrap()).collect();
    let accelerator_buffers = (0..devices)
        .map(|_| HostStandIn.allocate(BLOCK, MemoryKind::Host, &mut region).unwrap())
        .collect();
    let spec = PathSpec {
        kind,
        engine,
        host,
        accelerator_buffers,
        accelerator: Arc::new(HostStandIn),
        submit_batch,
        max_files: 2,
        register_buffers: true,
        page_aligned: false,
    };
    let skip = |error: &_| {
        stormlp_fixtures::skipped(format!("{kind} on {engine}: {error}"), "permit io_uring")
    };
    build_path(spec).inspect_err(skip).ok()
}

fn open(kind: PathKind, file: &std::path::Path) -> File {
    let flags = if kind.wants_direct() { libc::O_DIRECT } else { 0 };
    let mut options = File::options();
    options.read(true).write(true).custom_flags(flags).open(file).unwrap()
}

/// Each of them waits for the device or for a copy, and is submitted by the waiting call.
#[test]
fn a_transfer_at_depth_one_enters_the_kernel_once() {
    const TRANSFERS: u64 = 8;
    let folder = tempfile::tempdir_in(".").unwrap();
    for kind in PATHS {
        let batch = stormlp_core::transport::submit_batch(kind, 1);
        let Some(mut path) = path_in_batches(kind, EngineKind::Uring, 1, batch) else {
            continue;
        };
        if kind == PathKind::CpuAsyncGpu {
            // It keeps one more in flight than the depth, and waits for two kinds of work.
            continue;
        }
        let name = folder.path().join(kind.to_string());
        std::fs::write(&name, [0u8; TRANSFERS as usize * BLOCK]).unwrap();
        let file = path.attach(open(kind, &name)).unwrap();
        let mut slots = path.take_slots();
        let mut done = Vec::new();
        for direction in [Direction::Write, Direction::Read] {
            let before = crate::engine::uring_entered();
            for block in 0..TRANSFERS {
                let place = FileRange { direction, file, offset: block * BLOCK as u64, len: BLOCK };
                let slot = slots.pop().unwrap();
                assert!(path.submit(Transfer { place, slot }).is_ok());
                path.wait(1, &mut done).unwrap();
                slots.extend(done.drain(..).map(|over| over.slot));
            }
            let entered = crate::engine::uring_entered() - before;
            assert_eq!(entered, TRANSFERS, "{kind} {direction:?}");
        }
    }
}

#[test]
fn what_one_path_writes_every_path_reads() {
    let folder = tempfile::tempdir_in(".").unwrap();
    for engine in ENGINES {
        for kind in PATHS {
            let Some(mut path) = path(kind, engine, 3) else {
                continue;
            };
            let name = folder.path().join(format!("{kind}-{engine}"));
            std::fs::write(&name, [0u8; 8 * BLOCK]).unwrap();
            let file = path.attach(open(kind, &name)).unwrap();
            let mut free = path.take_slots();
            let mut done = Vec::new();
            let mut in_slot = vec![0; free.len()];
            for direction in [Direction::Write, Direction::Read] {
                let mut finished = 0;
                for block in 0u64..8 {
                    let mut slot = free.pop().unwrap();
                    let fill = if direction == Direction::Write { block as u8 + 1 } else { 0xee };
                    slot.copy_in(&[fill; BLOCK]).unwrap();
                    let offset = block * BLOCK as u64;
                    in_slot[slot.index()] = block;
                    let place = FileRange { direction, file, offset, len: BLOCK };
                    assert!(path.submit(Transfer { place, slot }).is_ok());
                    while free.is_empty() || (block == 7 && finished < 8) {
                        path.wait(1, &mut done).unwrap();
                        for over in done.drain(..) {
                            assert_eq!(
                                over.result.unwrap(),
                                BLOCK,
                                "{kind} {engine} {direction:?}"
                            );
                            let mut bytes = [0; BLOCK];
                            over.slot.copy_out(&mut bytes).unwrap();
                            let block = in_slot[over.slot.index()];
                            assert_eq!(bytes, [block as u8 + 1; BLOCK], "{kind} {engine}");
                            free.push(over.slot);
                            finished += 1;
                        }
                    }
                }
            }
            let evidence = path.evidence();
            assert_eq!(evidence.effective_path, Some(kind));
            assert_eq!(evidence.engine.unwrap().engine, engine);
        }
    }
}

#[test]
fn a_path_that_lost_o_direct_is_reported_as_what_ran() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut path = path(PathKind::CpuGpu, EngineKind::Psync, 1).unwrap();
    path.attach(open(PathKind::PageCache, file.path())).unwrap();
    let evidence = path.evidence();
    assert_eq!(evidence.direct_io, DirectIo::Refused);
    assert_eq!(evidence.effective_path, Some(PathKind::PageCache));
}

#[test]
fn reading_at_the_end_moves_nothing_on_any_path() {
    for kind in PATHS {
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        let mut path = path(kind, EngineKind::Psync, 1).unwrap();
        let id = path.attach(open(kind, file.path())).unwrap();
        let slot = path.take_slots().pop().unwrap();
        let place = FileRange { direction: Direction::Read, file: id, offset: 0, len: BLOCK };
        assert!(path.submit(Transfer { place, slot }).is_ok());
        let mut done = Vec::new();
        path.wait(1, &mut done).unwrap();
        assert_eq!((done.len(), done[0].result.as_ref().ok()), (1, Some(&0)));
    }
}

#[test]
fn the_end_of_a_copy_is_seen_before_the_next_read_completes() {
    let Some(mut path) = path(PathKind::CpuAsyncGpu, EngineKind::Uring, 2) else {
        return;
    };
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &[7; BLOCK]).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let file = path.attach(file).unwrap();
    // A read from an empty pipe blocks as long as its writer lives.
    let pipe = path.attach(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
    let mut slots = path.take_slots();
    for id in [pipe, file] {
        let place = FileRange { direction: Direction::Read, file: id, offset: 0, len: BLOCK };
        let slot = slots.pop().unwrap();
        assert!(path.submit(Transfer { place, slot }).is_ok());
    }
    let mut done = Vec::new();
    path.wait(1, &mut done).unwrap();
    assert_eq!(done.remove(0).result.unwrap(), BLOCK);
    drop(writer);
    path.wait(1, &mut done).unwrap();
    // A pipe has no offsets; the kernel's error for that is a valid result too.
    assert_eq!(done.len(), 1);
}
