//! Runs with buffers that the CPU cannot access, like a GPU's.

use stormlp_core::path::MemoryKind;
use stormlp_transfer::accelerator::CopyQueue;
use stormlp_transfer::{Accelerator, AcceleratorBuffer, Region};

use super::*;

/// An accelerator with memory that only copies reach.
struct OutOfReach;

struct Hidden(Box<dyn AcceleratorBuffer>);

impl Accelerator for OutOfReach {
    fn name(&self) -> String {
        "memory out of reach".to_string()
    }

    fn is_emulated(&self) -> bool {
        true
    }

    fn allocate(
        &self,
        bytes: usize,
        kind: MemoryKind,
        region: &mut Region,
    ) -> Result<Box<dyn AcceleratorBuffer>, TransferError> {
        Ok(Box::new(Hidden(HostStandIn.allocate(bytes, kind, region)?)))
    }

    fn bind_thread(&self) -> Result<(), TransferError> {
        HostStandIn.bind_thread()
    }

    fn copy_queue(&self, capacity: usize) -> Result<Box<dyn CopyQueue>, TransferError> {
        HostStandIn.copy_queue(capacity)
    }
}

impl AcceleratorBuffer for Hidden {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn address(&self) -> usize {
        self.0.address()
    }

    fn host(&self) -> Option<&[u8]> {
        None
    }

    fn host_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn copy_from_host(&mut self, source: &[u8]) -> Result<(), TransferError> {
        self.0.copy_from_host(source)
    }

    fn copy_to_host(&self, target: &mut [u8]) -> Result<(), TransferError> {
        self.0.copy_to_host(target)
    }
}

#[test]
fn what_was_saved_in_transfers_of_another_length_is_checked_on_a_device_too() {
    for (saved_bytes, restored_bytes) in [(4096, 16384), (16384, 4096)] {
        let folder = folder();
        let mut request = request(folder.path());
        request.path = PathKind::PageCache;
        request.device = Some(DeviceId::Host.into());
        for (writes, reads, chunk_bytes) in [(1, 0, saved_bytes), (0, 1, restored_bytes)] {
            request.saves = Some(writes);
            request.restores = Some(reads);
            request.io_size = Some(chunk_bytes);
            let plan = plan(&request);
            let checked = u64::from(reads) * plan.total_bytes;
            let report = run_with(plan, Arc::new(Disk), Arc::new(OutOfReach), &StopToken::new());
            assert_eq!(report.ending, Ending::Complete);
            assert_eq!(report.results.verified_bytes, checked);
        }
    }
}
