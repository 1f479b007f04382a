//! Storage limited to a number of bytes and requests per second.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stormlp_core::impairment::{StorageOperation, Throttle, warning};
use stormlp_core::warning::Warning;

use super::gate::{Gate, Grant, Request};

/// Requests queue in one line, then bytes read in another and bytes written in a third; latency is
/// added on top. All threads of a run share these queues.
#[derive(Debug)]
pub struct Throttled {
    throttle: Throttle,
    lines: Mutex<Queues>,
}

/// When each queue is free again.
#[derive(Debug, Default)]
struct Queues {
    requests: Duration,
    reads: Duration,
    writes: Duration,
}

impl Throttled {
    /// A gate that enforces `throttle`.
    pub fn new(throttle: Throttle) -> Self {
        Self { throttle, lines: Mutex::default() }
    }
}

/// Passes `amount` at `rate` per second from a queue that is joined no earlier than `from`; returns
/// when it is through.
fn stand(line: &mut Duration, from: Duration, amount: u64, rate: Option<u64>) -> Duration {
    let Some(rate) = rate else { return from };
    let start = from.max(*line);
    *line = start + Duration::from_secs_f64(amount as f64 / rate as f64);
    *line
}

impl Gate for Throttled {
    fn admit(&self, request: &Request<'_>, now: Duration) -> io::Result<Grant> {
        let bytes = request.bytes;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = &mut *lines;
        let (line, rate) = match request.operation {
            StorageOperation::Read => (&mut lines.reads, self.throttle.read_bytes_per_second),
            StorageOperation::Write => (&mut lines.writes, self.throttle.write_bytes_per_second),
            _ => {
                let not_before = now;
                return Ok(Grant { bytes, not_before });
            }
        };
        let begun = stand(&mut lines.requests, now, 1, self.throttle.requests_per_second);
        let moved = stand(line, begun, bytes, rate);
        Ok(Grant { bytes, not_before: moved + self.throttle.latency.unwrap_or_default() })
    }

    fn warnings(&self) -> Vec<Warning> {
        vec![warning("--throttle", &format!("allowed {}", self.throttle))]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use stormlp_core::operation::Direction;
    use stormlp_core::path::{EngineKind, PathKind};

    use super::*;
    use crate::accelerator::stand_in::HostStandIn;
    use crate::paths::PathSpec;
    use crate::region::Region;
    use crate::storage::{Access, Disk, Storage};
    use crate::storage::{Clock, Gated};
    use crate::transfer::{FileRange, Transfer};

    /// A clock that only advances when someone sleeps.
    #[derive(Default)]
    struct Virtual(Mutex<Duration>);

    impl Clock for Virtual {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn sleep(
            &self,
            until: Duration,
            _wake: Option<std::os::fd::BorrowedFd<'_>>,
        ) -> io::Result<bool> {
            let mut now = self.0.lock().unwrap();
            *now = until.max(*now);
            Ok(false)
        }
    }

    fn throttled(text: &str) -> (Gated<Throttled>, Arc<Virtual>) {
        let clock = Arc::new(Virtual::default());
        let gate = Throttled::new(text.parse().unwrap());
        (Gated::timed(Arc::new(Disk), gate, clock.clone()), clock)
    }

    fn admitted(gate: &Throttled, operation: StorageOperation, bytes: u64, now: u64) -> u128 {
        let request = Request { operation, path: Some(Path::new("x")), bytes };
        let now = Duration::from_millis(now);
        gate.admit(&request, now).unwrap().not_before.as_millis()
    }

    #[test]
    fn operations_queue_for_bytes_and_requests() {
        let gate = Throttled::new("read=1000B,latency=5ms,iops=100".parse().unwrap());
        let read = |bytes, now| admitted(&gate, StorageOperation::Read, bytes, now);
        // The first takes 10 ms for its request, 100 ms for its bytes and 5 ms of latency.
        assert_eq!(read(100, 0), 115);
        assert_eq!(read(100, 0), 215);
        // The request queue is free again by then, the byte queue is not.
        assert_eq!(read(100, 150), 315);
        assert_eq!(admitted(&gate, StorageOperation::Write, 1 << 30, 0), 175);
        assert_eq!(admitted(&gate, StorageOperation::Open, 0, 7), 7);
        assert_eq!(read(0, 1000), 1015);
    }

    #[test]
    fn a_path_never_reports_completion_early() {
        let (storage, clock) = throttled("read=4000000B,latency=2ms");
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        std::fs::write(file.path(), vec![7; 8 << 10]).unwrap();
        let mut region = Region::new(8 << 10).unwrap();
        let mut path = storage
            .path(PathSpec {
                kind: PathKind::Buffered,
                engine: EngineKind::Psync,
                host: (0..2).filter_map(|_| region.carve(4 << 10, 4 << 10)).collect(),
                accelerator_buffers: Vec::new(),
                accelerator: Arc::new(HostStandIn),
                submit_batch: 1,
                max_files: 1,
                register_buffers: false,
                page_aligned: false,
            })
            .unwrap();
        let opened = storage.open(file.path(), Access::Read, false).unwrap();
        let id = path.attach(opened).unwrap();
        for slot in path.take_slots() {
            let place = FileRange { direction: Direction::Read, file: id, offset: 0, len: 4 << 10 };
            let submitted = path.submit(Transfer { place, slot });
            submitted.map_err(|rejected| rejected.error).unwrap();
        }
        let mut done = Vec::new();
        for (index, ends_ns) in [(0, 3_024_000), (1, 4_048_000)] {
            path.wait(1, &mut done).unwrap();
            let completion = done.pop().unwrap();
            let moved = completion.result.unwrap();
            assert_eq!((completion.slot.index(), moved), (index, 4 << 10));
            assert_eq!(clock.now().as_nanos(), ends_ns);
        }
        assert!(done.is_empty());
        // No request is in flight, so there is no need to wait.
        path.wait(1, &mut done).unwrap();
    }

    #[test]
    fn small_files_are_throttled_too_with_a_warning() {
        let (storage, clock) = throttled("write=1000B");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        let certain = crate::storage::Durability::Certain;
        storage.write(&file, &[1; 500], certain).unwrap();
        assert_eq!(clock.now().as_millis(), 500);
        let told = &storage.warnings()[0].fact;
        assert!(told.contains("--throttle allowed writes 1000 B/s"), "{told}");
    }
}
