//! Checks of a GPU and of each path to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use stormlp_core::evidence::Evidence;
use stormlp_core::names::VariantArray;
use stormlp_core::operation::Direction;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_transfer::cuda::CudaDevice;
use stormlp_transfer::cufile::probe::CudaProbe;
use stormlp_transfer::{Accelerator as _, FileRange, Region, Transfer};

use crate::route;
use crate::transfers::{BLOCK, Setup, byte, open, verify, write_and_verify};

/// Blocks of a file in these checks: not a multiple of any depth.
const BLOCKS: u64 = 37;

/// CUDA and the bus must agree.
pub(crate) fn facts(cuda: &CudaProbe) {
    assert!(cuda.version.is_some() && cuda.library_path.is_some());
    for (index, device) in (0u32..).zip(&cuda.devices) {
        assert_eq!(device.index, index);
        assert!(device.memory_bytes.is_some_and(|bytes| bytes > 1 << 30), "{device:?}");
        let address = device.pci_address.as_ref().unwrap();
        let folder = Path::new("/sys/bus/pci/devices").join(address);
        if folder.exists() {
            assert!(device.bar1_bytes.is_some_and(|bytes| bytes >= 1 << 20), "{device:?}");
        } else {
            println!("{address} is not in sysfs here: NUMA node and BAR1 stay unknown");
        }
    }
}

/// Every kind of memory returns the bytes that were put in, and only in the part that was written.
pub(crate) fn memory(index: u32) {
    let device = CudaDevice::open(index).unwrap();
    assert!(!device.is_emulated());
    for &kind in MemoryKind::VARIANTS {
        for len in [4096, BLOCK, (3 << 20) + 4096] {
            let mut region = Region::new(len).unwrap();
            let mut memory = device.allocate(len, kind, &mut region).unwrap();
            assert_eq!(memory.len(), len);
            assert_eq!(memory.address() % 4096, 0, "{kind:?}");
            let bytes: Vec<u8> = (0..len as u64).map(byte).collect();
            memory.copy_from_host(&bytes).unwrap();
            memory.copy_from_host(&[0xab; 1000]).unwrap();
            let mut back = vec![0; len];
            memory.copy_to_host(&mut back).unwrap();
            assert!(back[..1000].iter().all(|byte| *byte == 0xab), "{kind:?} {len}");
            assert!(back[1000..] == bytes[1000..], "{kind:?} {len}");
        }
    }
}

/// A path, with the memory it ends in and how many transfers are in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    kind: PathKind,
    memory: MemoryKind,
    depth: usize,
    register: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered = if self.register { "" } else { ", not registered" };
        write!(f, "{}, {} memory, depth {}{registered}", self.kind, self.memory.name(), self.depth)
    }
}

/// Every path; cuFile's with every kind of memory, registered or not.
pub(crate) fn cases(cufile: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let paths = PathKind::ALL.into_iter().filter(|kind| kind.ends_in_accelerator());
    for kind in paths.filter(|kind| cufile || !kind.needs_cufile()) {
        for depth in [1, 8] {
            let memories = if kind.needs_cufile() {
                MemoryKind::VARIANTS
            } else {
                &[MemoryKind::Device, MemoryKind::Vmm]
            };
            for memory in memories.iter().copied() {
                cases.push(Case { kind, memory, depth, register: true });
            }
            if kind.needs_cufile() {
                let memory = MemoryKind::Device;
                cases.push(Case { kind, memory, depth, register: false });
            }
        }
    }
    cases
}

impl Case {
    /// Writes and reads by this path; the page cache must hold the same bytes, and the path must
    /// read bytes that were put there. Its evidence must show how; by a direct route where that is
    /// `direct`.
    pub(crate) fn agrees_with_the_page_cache(&self, index: u32, folder: &Path, direct: bool) {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let name = folder.path().join("data");
        let mut path = self.setup(index).build().unwrap();
        let file = path.attach(open(self.kind, &name)).unwrap();
        write_and_verify(path.as_mut(), file, BLOCKS);
        self.shows_its_route(&path.evidence(), direct);
        let expected: Vec<u8> = (0..BLOCKS * BLOCK as u64).map(byte).collect();
        assert!(
            std::fs::read(&name).unwrap() == expected,
            "the file differs from what was written"
        );
        drop(path);

        let other = folder.path().join("other");
        std::fs::write(&other, &expected).unwrap();
        std::fs::File::open(&other).unwrap().sync_all().unwrap();
        let mut path = self.setup(index).build().unwrap();
        let file = path.attach(open(self.kind, &other)).unwrap();
        verify(path.as_mut(), file, BLOCKS);
        drop(path);
        if matches!(self.kind, PathKind::Gds | PathKind::GdsAsync) {
            self.reads_unaligned(index, &other, &expected);
        }
    }

    /// Where there is a direct route, registered GPU memory must have taken it.
    fn shows_its_route(&self, evidence: &Evidence, direct: bool) {
        let in_gpu_memory = matches!(self.memory, MemoryKind::Device | MemoryKind::Vmm);
        let must_be_direct = direct && in_gpu_memory && self.register;
        let summary = &evidence.summary;
        match route::word(self.kind, evidence, must_be_direct) {
            Ok(Some(route)) => println!("  route {route}: {summary}"),
            Ok(None) => println!("  {summary}"),
            Err(why) => panic!("{why}"),
        }
    }

    /// cuFile accepts any offset and size.
    fn reads_unaligned(&self, index: u32, name: &Path, expected: &[u8]) {
        let setup = Setup { page_aligned: false, ..self.setup(index) };
        let mut path = setup.build().unwrap();
        let file = path.attach(open(self.kind, name)).unwrap();
        let mut slot = path.take_slots().pop().unwrap();
        for (offset, len) in [(1, 1), (4095, 4098), (777, BLOCK - 3)] {
            let place = FileRange { direction: Direction::Read, file, offset: offset as u64, len };
            assert!(path.submit(Transfer { place, slot }).is_ok());
            let mut done = Vec::new();
            path.wait(1, &mut done).unwrap();
            let over = done.remove(0);
            assert_eq!(over.result.unwrap(), len);
            let mut bytes = vec![0; len];
            over.slot.copy_out(&mut bytes).unwrap();
            assert!(bytes == expected[offset..offset + len], "offset {offset}, {len} bytes");
            slot = over.slot;
        }
    }

    fn setup(&self, index: u32) -> Setup {
        Setup {
            kind: self.kind,
            depth: self.depth,
            register: self.register,
            accelerator: Arc::new(CudaDevice::open(index).unwrap()),
            memory: self.memory,
            page_aligned: true,
        }
    }
}
