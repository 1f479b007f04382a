//! Threads of the transfer layer: where they run, and the one that copies for the stand-in.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::accelerator::{CopyQueue, QueuedCopy};
use crate::error::TransferError;

/// Binds the calling thread to `cpus`.
///
/// # Errors
/// When the kernel refuses, for instance because none of them exists.
pub fn bind_to_cpus(cpus: &[usize]) -> Result<(), TransferError> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus
        .iter()
        .filter(|cpu| **cpu < rustix::thread::CpuSet::MAX_CPU)
    {
        set.set(*cpu);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(TransferError::io("bind a thread to CPUs"))
}

/// The CPUs of a NUMA node, as sysfs lists them.
///
/// # Errors
/// When there is no such node.
pub fn cpus_of_node(node: u32) -> Result<Vec<usize>, TransferError> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = std::fs::read_to_string(&path)
        .map_err(|source| TransferError::file("read the CPUs of a NUMA node from", path, source))?;
    Ok(parse_cpu_list(list.trim()))
}

/// Reads the kernel's list form, `0-3,8,10-11`; parts that make no sense are left out.
fn parse_cpu_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// A thread that copies for the host stand-in, as a GPU's copy engine does for a GPU.
pub(crate) struct CopyThread {
    work: Option<SyncSender<QueuedCopy>>,
    finished: Receiver<QueuedCopy>,
    thread: Option<JoinHandle<()>>,
}

impl CopyThread {
    /// Starts the thread; at most `capacity` copies are ever queued.
    pub(crate) fn spawn(capacity: usize) -> Result<Self, TransferError> {
        let (work, queue) = sync_channel::<QueuedCopy>(capacity);
        let (done, finished) = sync_channel(capacity);
        let thread = std::thread::Builder::new()
            .name("copy".to_string())
            .spawn(move || {
                for mut copy in queue {
                    copy.run();
                    if done.send(copy).is_err() {
                        break;
                    }
                }
            })
            .map_err(TransferError::io("start the copy thread"))?;
        Ok(Self {
            work: Some(work),
            finished,
            thread: Some(thread),
        })
    }
}

impl CopyQueue for CopyThread {
    fn enqueue(&mut self, copy: QueuedCopy) {
        let work = self.work.as_ref().expect("the channel lives until drop");
        work.send(copy).expect("the copy thread lives until drop");
    }

    fn wait(&mut self, min: usize, done: &mut Vec<QueuedCopy>) {
        let wanted = done.len() + min;
        while done.len() < wanted {
            done.push(
                self.finished
                    .recv()
                    .expect("the copy thread lives until drop"),
            );
        }
        done.extend(self.finished.try_iter());
    }
}

impl Drop for CopyThread {
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // Copies still queued are finished first; their buffers go with the channel.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_cpu_lists_are_read() {
        assert_eq!(parse_cpu_list("0-2,8,10-11"), [0, 1, 2, 8, 10, 11]);
        assert!(parse_cpu_list("").is_empty());
        assert!(parse_cpu_list("x-y").is_empty());
    }
}
