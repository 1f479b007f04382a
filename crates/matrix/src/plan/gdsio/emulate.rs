//! gdsio runs without a GPU: host memory stands in for it, and all output says so.

use super::super::choice::PathChoice;
use super::super::request::MatrixRequest;
use stormlp_core::facts::HostFacts;
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_core::transport::DeviceId;

/// Replaces the GPUs of a request with host memory. Without cuFile, its transfer types emulate its
/// compatibility mode: a read into host memory, then a copy. Returns a notice for the user.
pub fn emulate(request: &mut MatrixRequest, facts: &HostFacts) -> Option<String> {
    let path = *request.paths().first()?;
    if !path.ends_in_accelerator() {
        return None;
    }
    request.devices = vec![DeviceId::Host];
    for job in &mut request.jobs {
        job.device = Some(DeviceId::Host);
    }
    if !path.needs_cufile() {
        return None;
    }
    if facts.support(path).is_available() {
        if !matches!(request.memory, MemoryKind::Host | MemoryKind::Mmap) {
            request.memory = MemoryKind::Host;
        }
        return None;
    }
    request.paths = PathChoice::each(&[PathKind::CpuGpu]);
    request.memory = MemoryKind::Device;
    let number = path.gdsio_number().unwrap_or_default();
    Some(format!(
        "cuFile is not available, so -x {number} runs as -x 2: into host memory, then a copy to \
         memory that emulates a GPU's"
    ))
}
