//! Driving a path as a worker does: submit, wait, check the bytes.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, MemoryKind, PathKind};
use stormlp_transfer::storage::{Access, Disk, Storage as _};
use stormlp_transfer::{
    Accelerator, Completion, FileId, FileRange, HostStandIn, PathSpec, Region, Slot, Transfer,
    TransferError, TransferPath, buffers_needed, build_path,
};

/// Bytes of a transfer in these scenarios.
pub(crate) const BLOCK: usize = 64 << 10;

/// Parameters of a path.
pub(crate) struct Setup {
    pub(crate) kind: PathKind,
    pub(crate) depth: usize,
    pub(crate) register: bool,
    pub(crate) accelerator: Arc<dyn Accelerator>,
    pub(crate) memory: MemoryKind,
    /// Whether only whole 4 KiB blocks are moved.
    pub(crate) page_aligned: bool,
}

impl Setup {
    /// A path over host memory.
    pub(crate) fn on_host(kind: PathKind, depth: usize) -> Self {
        let (register, memory) = (true, MemoryKind::Host);
        Self {
            kind,
            depth,
            register,
            accelerator: Arc::new(HostStandIn),
            memory,
            page_aligned: true,
        }
    }

    /// Builds it.
    pub(crate) fn build(&self) -> Result<Box<dyn TransferPath>, TransferError> {
        let (hosts, devices) = buffers_needed(self.kind, self.depth);
        let mut region = Region::new((hosts + devices) * BLOCK)?;
        let host = (0..hosts).map(|_| region.carve(BLOCK, 4096).unwrap()).collect();
        let allocate = |_| self.accelerator.allocate(BLOCK, self.memory, &mut region);
        build_path(PathSpec {
            kind: self.kind,
            engine: EngineKind::Psync,
            host,
            accelerator_buffers: (0..devices).map(allocate).collect::<Result<_, _>>()?,
            accelerator: Arc::clone(&self.accelerator),
            submit_batch: 4,
            max_files: 4,
            register_buffers: self.register,
            page_aligned: self.page_aligned,
        })
    }
}

/// Opens a file as `kind` wants it, without `O_DIRECT` where the file system refuses it.
pub(crate) fn open(kind: PathKind, file: &Path) -> File {
    let access = if file.exists() { Access::ReadWrite } else { Access::Create };
    Disk.open(file, access, kind.wants_direct())
        .or_else(|_| Disk.open(file, Access::ReadWrite, false))
        .unwrap()
}

/// The byte at `offset` of every file written here: equal blocks never lie side by side.
pub(crate) fn byte(offset: u64) -> u8 {
    (offset / 251 + offset).to_le_bytes()[0]
}

/// Writes `blocks` blocks through the path and reads them back, checking every byte.
pub(crate) fn write_and_verify(path: &mut dyn TransferPath, file: FileId, blocks: u64) {
    transfer_all(path, file, blocks, &[Direction::Write, Direction::Read]);
}

/// Reads `blocks` blocks that another path has written, checking every byte.
pub(crate) fn verify(path: &mut dyn TransferPath, file: FileId, blocks: u64) {
    transfer_all(path, file, blocks, &[Direction::Read]);
}

fn transfer_all(path: &mut dyn TransferPath, file: FileId, blocks: u64, steps: &[Direction]) {
    let mut free = path.take_slots();
    for direction in steps.iter().copied() {
        let mut done = Vec::new();
        let mut in_slot = HashMap::new();
        let (mut next, mut over) = (0, 0);
        while over < blocks {
            while next < blocks
                && let Some(slot) = free.pop()
            {
                in_slot.insert(slot.index(), next);
                start(path, direction, file, next, slot);
                next += 1;
            }
            path.wait(1, &mut done).unwrap();
            assert!(!done.is_empty(), "wait(1) came back with nothing");
            for completion in done.drain(..) {
                over += 1;
                let block = in_slot[&completion.slot.index()];
                free.push(check(direction, block, completion));
            }
        }
    }
}

fn start(
    path: &mut dyn TransferPath,
    direction: Direction,
    file: FileId,
    number: u64,
    mut slot: Slot,
) {
    let place = block(direction, file, number);
    let offset = place.offset;
    let bytes: Vec<u8> = match direction {
        Direction::Write => (offset..offset + BLOCK as u64).map(byte).collect(),
        Direction::Read => vec![0xee; BLOCK],
    };
    slot.copy_in(&bytes).unwrap();
    let submitted = path.submit(Transfer { place, slot });
    assert!(submitted.is_ok(), "submit of block {number}");
}

/// Where a block of a file is.
pub(crate) fn block(direction: Direction, file: FileId, number: u64) -> FileRange {
    FileRange { direction, file, offset: number * BLOCK as u64, len: BLOCK }
}

fn check(direction: Direction, block: u64, completion: Completion) -> Slot {
    assert_eq!(completion.result.unwrap(), BLOCK);
    if direction == Direction::Read {
        let offset = block * BLOCK as u64;
        let mut bytes = vec![0; BLOCK];
        completion.slot.copy_out(&mut bytes).unwrap();
        let wrong = (offset..).zip(bytes).find(|(offset, found)| byte(*offset) != *found);
        assert_eq!(wrong, None, "block {block}");
    }
    completion.slot
}

/// Does one transfer and hands back its completion.
pub(crate) fn one(
    path: &mut dyn TransferPath,
    direction: Direction,
    file: FileId,
    offset: u64,
    slot: Slot,
) -> Completion {
    let index = slot.index();
    let place = FileRange { offset, ..block(direction, file, 0) };
    assert!(path.submit(Transfer { place, slot }).is_ok());
    let mut done = Vec::new();
    path.wait(1, &mut done).unwrap();
    assert_eq!((done.len(), done[0].slot.index()), (1, index));
    done.remove(0)
}

/// An error with its advice, as a user reads it.
pub(crate) fn words(error: &TransferError) -> String {
    match error {
        TransferError::Unavailable { remedy, .. } => format!("{error}; {remedy}"),
        other => other.to_string(),
    }
}
