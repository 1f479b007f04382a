//! Several accelerators of one run, which its threads serve in turn, and memory near each.

use std::sync::Arc;

use stormlp_core::placement::CpuList;
use stormlp_core::transport::Transport;

use super::{Accelerator, open};
use crate::error::TransferError;
use crate::paths::{PathBuffers, PathSpec};
use crate::region::{Backing, Region};
use crate::storage::Storage;
use crate::thread;
use crate::transfer::TransferPath;

/// The accelerators of a run. Thread `t` serves the one with the number `t % n`.
#[derive(Clone)]
pub struct AcceleratorSet(Vec<Member>);

#[derive(Clone)]
struct Member {
    accelerator: Arc<dyn Accelerator>,
    /// The CPUs of its threads; `None` where all threads have the same, which they inherit.
    cpus: Option<CpuList>,
}

impl From<Arc<dyn Accelerator>> for AcceleratorSet {
    fn from(accelerator: Arc<dyn Accelerator>) -> Self {
        Self(vec![Member { accelerator, cpus: None }])
    }
}

impl AcceleratorSet {
    /// Opens the devices of `transport`, and binds this thread: those that it starts, and their
    /// buffers, inherit its placement.
    ///
    /// # Errors
    /// When a device is missing or the kernel refuses the placement.
    pub fn open(transport: &Transport) -> Result<Self, TransferError> {
        thread::bind(transport.placement.cpus.as_ref())?;
        let several = transport.device_count() > 1;
        let members = transport.each_device().map(|(device, placement)| {
            let index = device.and_then(|device| device.gpu_index());
            let accelerator = open(index, transport.wait)?;
            Ok(Member { accelerator, cpus: placement.cpus.clone().filter(|_| several) })
        });
        members.collect::<Result<_, _>>().map(Self)
    }

    fn member(&self, thread: usize) -> &Member {
        &self.0[thread % self.0.len()]
    }

    /// The accelerator that thread `thread` of the run serves.
    pub fn of_thread(&self, thread: usize) -> &Arc<dyn Accelerator> {
        &self.member(thread).accelerator
    }

    /// Binds the calling thread, number `thread` of the run, to the CPUs near its accelerator.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn bind_thread(&self, thread: usize) -> Result<(), TransferError> {
        thread::bind(self.member(thread).cpus.as_ref())
    }

    /// The buffers of thread `thread` of the run.
    ///
    /// # Errors
    /// When the region or the accelerator's memory is exhausted.
    pub fn buffers(
        &self,
        transport: &Transport,
        thread: usize,
        regions: &mut Regions,
    ) -> Result<PathBuffers, TransferError> {
        PathBuffers::allocate(
            transport.path,
            transport.queue_depth,
            transport.chunk_bytes as usize,
            (&**self.of_thread(thread), transport.memory),
            regions.of_thread(thread),
        )
    }

    /// Binds the calling thread, number `thread` of the run, to its accelerator and the CPUs near that,
    /// and opens its path to at most `max_files` files at a time.
    ///
    /// # Errors
    /// When the kernel refuses, or this machine cannot run the path.
    pub fn path(
        &self,
        storage: &dyn Storage,
        transport: &Transport,
        (thread, buffers): (usize, PathBuffers),
        max_files: usize,
    ) -> Result<Box<dyn TransferPath>, TransferError> {
        self.bind_thread(thread)?;
        self.of_thread(thread).bind_thread()?;
        storage.path(PathSpec {
            kind: transport.path,
            engine: transport.engine,
            host: buffers.host,
            accelerator_buffers: buffers.accelerator,
            accelerator: Arc::clone(self.of_thread(thread)),
            submit_batch: transport.submit_batch,
            max_files,
            register_buffers: transport.register_buffers,
            page_aligned: transport.path.wants_direct(),
        })
    }

    /// Host memory for the buffers of the threads of any one of `transports`.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn regions(&self, transports: &[&Transport]) -> Result<Regions, TransferError> {
        let each = self.0.iter().enumerate().map(|(index, member)| {
            let bytes = transports.iter().map(|transport| {
                let threads = (index..transport.threads).step_by(self.0.len()).count();
                transport.buffer_bytes_of(threads) as usize
            });
            let pages = transports.first().map(|transport| transport.pages).unwrap_or_default();
            thread::bound(member.cpus.as_ref(), || {
                Region::on(bytes.max().unwrap_or_default(), pages)
            })
        });
        each.collect::<Result<_, _>>().map(Regions)
    }
}

/// Host memory of a run, one region for each accelerator, first touched near it.
#[derive(Debug)]
pub struct Regions(Vec<Region>);

impl Regions {
    /// The region for the buffers of thread `thread` of the run.
    pub fn of_thread(&mut self, thread: usize) -> &mut Region {
        let count = self.0.len();
        &mut self.0[thread % count]
    }

    /// The pages of all regions; small ones if any has those.
    pub fn backing(&self) -> Backing {
        Backing::of_all(self.0.iter().map(Region::backing))
    }

    /// Makes all of it free again; `false` if buffers of it are still in use.
    #[must_use]
    pub fn reset(&mut self) -> bool {
        self.0.iter_mut().map(Region::reset).filter(|is_free| !is_free).count() == 0
    }
}
