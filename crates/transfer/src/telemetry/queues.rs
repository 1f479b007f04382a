//! The queue depths that the requests of block devices find, sampled on a thread of their own.
//!
//! Counting every request would take a tracer and root. Instead the block layer's count of requests
//! in flight is read every 10 ms, and weighted by the requests completed since the reading before.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use stormlp_core::telemetry::{DeviceDepth, DeviceQueue};

use super::devices::BlockDevice;
use super::thread_cpu_seconds;

/// A shorter interval would cost a visible part of a CPU.
const INTERVAL: Duration = Duration::from_millis(10);
/// Deeper queues are counted as this deep.
const DEEPEST: u32 = 1024;

/// The thread that samples, until this is dropped.
#[derive(Debug)]
pub(crate) struct QueueWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    ended: Condvar,
}

/// All samples so far.
#[derive(Debug, Default)]
struct Seen {
    is_over: bool,
    devices: Vec<SeenQueue>,
    cost_seconds: f64,
}

/// The samples of one device.
#[derive(Debug, Default)]
struct SeenQueue {
    name: String,
    /// Requests completed at the last sample.
    completed: Option<u64>,
    /// Samples and requests by depth.
    depths: BTreeMap<u32, (u64, u64)>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenQueue {
    fn see(&mut self, completed: u64, in_flight: u32) {
        if let Some(before) = self.completed.replace(completed) {
            let (samples, requests) = self.depths.entry(in_flight.min(DEEPEST)).or_default();
            *samples += 1;
            *requests += completed.saturating_sub(before);
        }
    }

    fn queue(&self) -> DeviceQueue {
        let depth = |(depth, (samples, requests)): (&u32, &(u64, u64))| DeviceDepth {
            depth: *depth,
            samples: *samples,
            requests: *requests,
        };
        DeviceQueue { of: self.name.clone(), depths: self.depths.iter().map(depth).collect() }
    }
}

impl QueueWatch {
    /// Begins to sample `devices`; `None` without any, or if no thread can be had.
    pub(super) fn start(devices: Vec<BlockDevice>) -> Option<Self> {
        if devices.is_empty() {
            return None;
        }
        let of = |device: &BlockDevice| SeenQueue {
            name: device.name().to_string(),
            ..SeenQueue::default()
        };
        let seen = Seen { devices: devices.iter().map(of).collect(), ..Seen::default() };
        let shared = Arc::new(Shared { seen: Mutex::new(seen), ended: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let body = move || sample(&devices, &for_thread);
        let thread = thread::Builder::new().name("queues".to_string()).spawn(body).ok()?;
        Some(Self { shared, thread: Some(thread) })
    }

    /// The queues so far, and the CPU seconds spent on them.
    pub(crate) fn so_far(&self) -> (Vec<DeviceQueue>, f64) {
        let seen = self.shared.lock();
        (seen.devices.iter().map(SeenQueue::queue).collect(), seen.cost_seconds)
    }
}

impl Drop for QueueWatch {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.ended.notify_all();
        // A panic in the thread has been reported already; the samples so far remain.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn sample(devices: &[BlockDevice], shared: &Shared) {
    let mut next = Instant::now();
    let mut seen = shared.lock();
    while !seen.is_over {
        for (device, seen) in devices.iter().zip(&mut seen.devices) {
            if let Some((counters, in_flight)) = device.now() {
                seen.see(counters.reads + counters.writes, in_flight);
            }
        }
        seen.cost_seconds = thread_cpu_seconds();
        next = (next + INTERVAL).max(Instant::now());
        while !seen.is_over && Instant::now() < next {
            let left = next.saturating_duration_since(Instant::now());
            let woken = shared.ended.wait_timeout(seen, left);
            seen = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_for_the_depth_at_the_end_of_their_interval() {
        let mut queue = SeenQueue { name: "nvme0n1".to_string(), ..SeenQueue::default() };
        for (completed, in_flight) in [(100, 7), (130, 4), (130, 0), (150, 4), (190, 5000)] {
            queue.see(completed, in_flight);
        }
        let queue = queue.queue();
        let depths: Vec<_> =
            queue.depths.iter().map(|one| (one.depth, one.samples, one.requests)).collect();
        // What was completed before the first sample belongs to no run.
        assert_eq!(depths, [(0, 1, 0), (4, 2, 50), (1024, 1, 40)]);
        let shares = queue.shares().unwrap();
        assert_eq!(shares[1], (4, 50.0 / 90.0));
        let idle = DeviceQueue { of: String::new(), depths: Vec::new() };
        assert_eq!(idle.shares(), None);
    }

    #[test]
    fn a_watch_ends_with_its_owner_and_without_devices_there_is_none() {
        assert!(QueueWatch::start(Vec::new()).is_none());
        let here = std::path::Path::new(".");
        let Some(watch) = QueueWatch::start(BlockDevice::behind(here).into_iter().collect()) else {
            return stormlp_fixtures::skipped(
                "no block device is behind this folder",
                "clone to a disk",
            );
        };
        let samples = |watch: &QueueWatch| -> u64 {
            let (queues, _) = watch.so_far();
            queues.iter().flat_map(|queue| &queue.depths).map(|one| one.samples).sum()
        };
        while samples(&watch) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let shared = Arc::downgrade(&watch.shared);
        drop(watch);
        assert!(shared.upgrade().is_none(), "the thread has ended");
    }
}
