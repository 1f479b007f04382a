//! Failures between CUDA and cuFile, simulated by a double of both. Its "GPU" is host memory: no
//! result is a measurement, or shows that a real GPU works.

use std::sync::Arc;

use stormlp_core::names::VariantArray;
use stormlp_core::operation::Direction;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::WaitMode;
use stormlp_transfer::cuda::{self, CudaDevice};
use stormlp_transfer::cufile::probe;
use stormlp_transfer::{Accelerator as _, Transfer, TransferError};

use crate::scene::{Library, Scenario};
use crate::transfers::{BLOCK, Setup, block, one, open, words, write_and_verify};

pub(crate) fn all() -> Vec<Scenario> {
    let double = |name, fault, play| Scenario {
        name,
        library: Library::Double(fault),
        play,
        // Kept for the life of the process, by intent.
        left_over: &["contexts"],
    };
    vec![
        double("double_gpu_every_path_agrees_with_page_cache", "", every_path_agrees),
        double("double_gpu_every_kind_of_memory", "", every_kind_of_memory),
        double("double_gpu_direct_transfers_are_called_direct", "direct", direct_transfers),
        double("double_gpu_slots_may_end_on_another_thread", "", slots_end_elsewhere),
        double("double_gpu_facts", "", facts),
        double("double_gpu_waits_as_configured", "", waits_as_told),
        double("double_gpu_none", "no-device", no_device),
        double("double_gpu_out_of_memory", "out-of-memory", out_of_memory),
        double("double_gpu_virtual_memory_refused", "vmm-access", virtual_memory_refused),
        double("double_gpu_copies_fail", "copy", copies_fail),
        double("double_gpu_stream_refused", "stream", stream_refused),
        double("double_gpu_stream_transfer_refused", "async", stream_transfer_refused),
        double("double_gpu_stream_transfer_short", "short", stream_transfer_short),
        double("double_gpu_stream_transfer_fails", "errno", stream_transfer_fails),
        double("double_gpu_a_path_dropped_in_flight", "", dropped_in_flight),
        double("double_gpu_transfers_are_taken_as_they_end", "last-first", taken_as_they_end),
        double("double_gpu_numbers_follow_the_bus", "", numbers_follow_the_bus),
        double("double_gpu_without_its_fabric", "no-fabric", no_fabric),
        double("double_gpu_half_pinned_buffers_are_unpinned", "page-pinned", half_pinned),
        double("double_gpu_refused_pins_are_told", "pin-refused", half_pinned),
        double("double_gpu_lost", "lost", lost),
    ]
}

fn on_gpu(kind: PathKind, memory: MemoryKind, depth: usize) -> Setup {
    let accelerator = Arc::new(CudaDevice::open(0).unwrap());
    let register = kind.needs_cufile();
    Setup { kind, depth, register, accelerator, memory, page_aligned: true }
}

/// Writes with `setup`'s path and reads back with the same.
fn round_trip(setup: &Setup) -> Option<PathKind> {
    let mut path = setup.build().unwrap();
    let file = path.attach(open(setup.kind, "data".as_ref())).unwrap();
    write_and_verify(path.as_mut(), file, 13);
    path.evidence().effective_path
}

fn every_path_agrees() {
    let paths = PathKind::ALL.into_iter().filter(|kind| kind.ends_in_accelerator());
    for kind in paths {
        for depth in [1, 4] {
            round_trip(&on_gpu(kind, MemoryKind::Device, depth));
            // The page cache holds the bytes of that path.
            let mut path = on_gpu(PathKind::PageCache, MemoryKind::Device, 1).build().unwrap();
            let file = path.attach(open(PathKind::PageCache, "data".as_ref())).unwrap();
            crate::transfers::verify(path.as_mut(), file, 13);
        }
    }
}

fn every_kind_of_memory() {
    for kind in [PathKind::Gds, PathKind::GdsAsync, PathKind::GdsBatch, PathKind::GdsBatchStream] {
        for &memory in MemoryKind::VARIANTS {
            let effective = round_trip(&on_gpu(kind, memory, 2));
            assert_eq!(effective, Some(PathKind::GdsCompat), "{kind} {memory:?}");
        }
    }
}

fn direct_transfers() {
    assert_eq!(round_trip(&on_gpu(PathKind::Gds, MemoryKind::Device, 1)), Some(PathKind::Gds));
}

fn slots_end_elsewhere() {
    let mut path = on_gpu(PathKind::Gds, MemoryKind::Device, 3).build().unwrap();
    let slots = path.take_slots();
    drop(path);
    std::thread::spawn(move || drop(slots)).join().unwrap();
}

/// How the double was configured to wait: the flags of the context and of the last event.
fn flags() -> (u32, u32) {
    // SAFETY: the double is loaded; these are its globals, which no thread changes meanwhile.
    unsafe {
        let double = libloading::Library::new("libcuda.so.1").unwrap();
        let flag = |name: &str| **double.get::<*const u32>(name).unwrap();
        (flag("context_flags"), flag("event_flags"))
    }
}

fn waits_as_told() {
    const SPINNING_CONTEXT: u32 = 1;
    const BLOCKING_CONTEXT: u32 = 4;
    const BLOCKING_EVENT: u32 = 1;
    let told = |wait| {
        let device = CudaDevice::open_to(0, wait).unwrap();
        assert_eq!(device.wait_mode(), wait);
        // Its marks are events.
        drop(device.copy_queue(1).unwrap());
        let (context, event) = flags();
        (context, event & BLOCKING_EVENT)
    };
    assert_eq!(told(WaitMode::Block), (BLOCKING_CONTEXT, BLOCKING_EVENT));
    assert_eq!(told(WaitMode::Spin), (SPINNING_CONTEXT, 0));
    assert_eq!(told(WaitMode::Block), (BLOCKING_CONTEXT, BLOCKING_EVENT));
}

fn facts() {
    let devices = cuda::devices().unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!((devices[0].index, devices[0].name.as_str()), (0, "Double"));
    assert_eq!(devices[0].pci_address.as_deref(), Some("0000:ff:1f.7"));
    assert_eq!(devices[0].memory_bytes, Some(4 << 30));
    assert_eq!(cuda::driver_version().unwrap(), "12.8");
    let error = CudaDevice::open(7).unwrap_err().to_string();
    assert!(error.contains("device cuda:7 is not available"), "{error}");
    assert_eq!(CudaDevice::open(0).unwrap().name(), "Double (cuda:0)");
    // The probe's child says the same, and where the library lies.
    let exe = std::env::current_exe().unwrap();
    let cuda = probe::run(&exe, None, probe::TIME_LIMIT, &|_| true).cuda;
    assert_eq!((cuda.devices, cuda.problem), (devices, None));
    assert!(cuda.library_path.unwrap().is_absolute());
}

fn no_device() {
    let error = cuda::devices().unwrap_err().to_string();
    assert!(error.contains("cuInit") && error.contains("nvidia-smi"), "{error}");
    let error = CudaDevice::open(0).unwrap_err();
    assert!(matches!(error, TransferError::Unavailable { .. }), "{error}");
}

fn out_of_memory() {
    for memory in [MemoryKind::Device, MemoryKind::Pinned] {
        let error = on_gpu(PathKind::Gds, memory, 1).build().err().unwrap().to_string();
        assert!(error.contains("use smaller --io-size"), "{error}");
    }
}

fn virtual_memory_refused() {
    let error = on_gpu(PathKind::Gds, MemoryKind::Vmm, 1).build().err().unwrap().to_string();
    assert!(error.contains("cuMemSetAccess"), "{error}");
}

fn copies_fail() {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    for kind in [PathKind::CpuGpu, PathKind::CpuAsyncGpu, PathKind::PageCache] {
        let mut path = on_gpu(kind, MemoryKind::Device, 1).build().unwrap();
        let file = path.attach(open(kind, "data".as_ref())).unwrap();
        let slot = path.take_slots().pop().unwrap();
        let over = one(path.as_mut(), Direction::Read, file, 0, slot);
        let error = over.result.unwrap_err().to_string();
        assert!(error.contains("cuMemcpyHtoDAsync"), "{kind} {error}");
        let over = one(path.as_mut(), Direction::Write, file, 0, over.slot);
        assert!(over.result.unwrap_err().to_string().contains("cuMemcpyDtoHAsync"));
    }
}

fn stream_refused() {
    let error = on_gpu(PathKind::GdsAsync, MemoryKind::Device, 2).build().err().unwrap();
    let error = words(&error);
    assert!(error.contains("5038 ASYNC_NOT_SUPPORTED") && error.contains("--path gds"), "{error}");
}

fn stream_transfer_refused() {
    let kind = PathKind::GdsAsync;
    let mut path = on_gpu(kind, MemoryKind::Device, 1).build().unwrap();
    let file = path.attach(open(kind, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let place = block(Direction::Read, file, 0);
    let error = path.submit(Transfer { place, slot }).err().unwrap().error;
    assert!(error.to_string().contains("5022 INVALID_VALUE"), "{error}");
}

/// The result of one read on `kind`.
fn one_read(kind: PathKind) -> Result<usize, TransferError> {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    let mut path = on_gpu(kind, MemoryKind::Device, 1).build().unwrap();
    let file = path.attach(open(kind, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    one(path.as_mut(), Direction::Read, file, 0, slot).result
}

fn stream_transfer_short() {
    assert_eq!(one_read(PathKind::GdsAsync).unwrap(), BLOCK);
}

fn stream_transfer_fails() {
    let error = one_read(PathKind::GdsAsync).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EIO), "{error}");
}

fn dropped_in_flight() {
    std::fs::write("data", vec![1; 4 * BLOCK]).unwrap();
    for kind in [PathKind::GdsAsync, PathKind::GdsBatch, PathKind::GdsBatchStream, PathKind::Gds] {
        let mut path = on_gpu(kind, MemoryKind::Device, 4).build().unwrap();
        let file = path.attach(open(kind, "data".as_ref())).unwrap();
        for slot in path.take_slots() {
            let place = block(Direction::Read, file, slot.index() as u64);
            assert!(path.submit(Transfer { place, slot }).is_ok());
        }
        path.wait(1, &mut Vec::new()).unwrap();
        // The ledger shows whether what was in flight has been waited for and given back.
        drop(path);
    }
}

fn taken_as_they_end() {
    let kind = PathKind::GdsAsync;
    std::fs::write("data", vec![1; 4 * BLOCK]).unwrap();
    let mut path = on_gpu(kind, MemoryKind::Device, 4).build().unwrap();
    let file = path.attach(open(kind, "data".as_ref())).unwrap();
    let mut slots = path.take_slots();
    slots.sort_unstable_by_key(stormlp_transfer::Slot::index);
    for slot in slots {
        let place = block(Direction::Read, file, slot.index() as u64);
        assert!(path.submit(Transfer { place, slot }).is_ok());
    }
    let mut order = Vec::new();
    while order.len() < 4 {
        let mut done = Vec::new();
        path.wait(1, &mut done).unwrap();
        order.extend(done.iter().map(|over| over.slot.index()));
    }
    // Submitted as 0, 1, 2, 3, and over in the opposite order.
    assert_eq!(order, [3, 2, 1, 0]);
}

fn numbers_follow_the_bus() {
    let order = || std::env::var("CUDA_DEVICE_ORDER").ok();
    cuda::number_devices_by_bus();
    assert_eq!(order().as_deref(), Some("PCI_BUS_ID"));
    // SAFETY: this child has a single thread, and nobody else reads the environment.
    unsafe { std::env::set_var("CUDA_DEVICE_ORDER", "FASTEST_FIRST") };
    cuda::number_devices_by_bus();
    assert_eq!(order().as_deref(), Some("FASTEST_FIRST"));
    cuda::devices().unwrap();
}

fn no_fabric() {
    let error = cuda::devices().unwrap_err().to_string();
    assert!(error.contains("nvidia-fabricmanager"), "{error}");
}

fn lost() {
    std::fs::write("data", vec![1; BLOCK]).unwrap();
    let mut path = on_gpu(PathKind::CpuGpu, MemoryKind::Device, 1).build().unwrap();
    let file = path.attach(open(PathKind::CpuGpu, "data".as_ref())).unwrap();
    let mut slot = path.take_slots().pop().unwrap();
    let mut errors = Vec::new();
    for _ in 0..6 {
        let over = one(path.as_mut(), Direction::Read, file, 0, slot);
        errors.extend(over.result.err());
        slot = over.slot;
    }
    assert!(errors.len() > 1 && errors.iter().all(TransferError::is_lost_gpu), "{errors:?}");
}

fn half_pinned() {
    let path = on_gpu(PathKind::CpuGpu, MemoryKind::Device, 4);
    let engine = path.build().unwrap().evidence().engine.unwrap();
    assert!(engine.fallbacks[0].contains("not pinned"), "{engine:?}");
    // The ledger shows that the one that was pinned is not any more.
}
