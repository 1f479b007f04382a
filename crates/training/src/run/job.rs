//! One read in progress: its extents cut into chunks, and their results.

use stormlp_dataset::format::Span;
use stormlp_transfer::FileId;

use super::machine::{Cursor, Nanos, ReadRequest, ReadResult};
use super::records::RecordTracker;
use super::source::{ReadPlan, Reads};

/// Direct I/O requires offsets and lengths to be multiples of this.
pub(super) const DIRECT_ALIGN: u64 = 4096;

/// A piece of an extent that fits a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    /// Bytes to request.
    pub(super) len: usize,
    /// Bytes that must arrive: less than `len` only at the end of a file under direct I/O.
    pub(super) expected: usize,
}

/// How extents are cut into chunks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunking {
    pub(super) chunk_bytes: u64,
    pub(super) direct: bool,
}

/// One read in progress.
pub(super) struct Job {
    pub(super) request: ReadRequest,
    pub(super) plan: ReadPlan,
    /// The path's file ID; `None` once closed.
    pub(super) file: Option<FileId>,
    pub(super) file_bytes: u64,
    pub(super) started: Nanos,
    /// Chunks in flight.
    pub(super) flying: u32,
    /// Bytes received.
    pub(super) bytes: u64,
    /// The record parser state of the stream, lent to this read.
    pub(super) records: Option<RecordTracker>,
    next_extent: usize,
    /// Bytes of the current extent requested so far; for a stream, of the whole file.
    at: u64,
    /// For a stream of records: bytes of the current transfer not requested yet.
    transfer_left: u64,
}

impl Job {
    pub(super) fn new(
        request: ReadRequest,
        plan: ReadPlan,
        file: Option<FileId>,
        file_bytes: u64,
        started: Nanos,
    ) -> Self {
        let at = match &plan.reads {
            Reads::Known { .. } => 0,
            Reads::Records { from, .. } => from.read_to_bytes,
        };
        Self {
            request,
            plan,
            file,
            file_bytes,
            started,
            flying: 0,
            bytes: 0,
            records: None,
            next_extent: 0,
            at,
            transfer_left: 0,
        }
    }

    /// Whether the file stays open for the next read of its lane.
    pub(super) fn stays_open(&self) -> bool {
        match &self.plan.reads {
            Reads::Known { keep_open, landed, .. } => *keep_open && !landed.ended,
            Reads::Records { .. } => self.at < self.file_bytes,
        }
    }

    /// Whether the file belongs to a stream.
    pub(super) fn is_stream(&self) -> bool {
        match &self.plan.reads {
            Reads::Known { keep_open, .. } => *keep_open,
            Reads::Records { .. } => true,
        }
    }

    /// The result of the read, once no chunk is left to request.
    pub(super) fn landed(&self) -> ReadResult {
        match &self.plan.reads {
            Reads::Known { landed, .. } => *landed,
            Reads::Records { from, .. } => {
                let record = self.records.as_ref().map_or(from.record, RecordTracker::whole);
                ReadResult {
                    samples: record - from.record,
                    cursor: Cursor { record, read_to_bytes: self.at },
                    ended: self.at >= self.file_bytes,
                }
            }
        }
    }

    /// The next chunk to request.
    pub(super) fn next_chunk(&mut self, cut: Chunking) -> Option<Chunk> {
        match &self.plan.reads {
            Reads::Known { .. } => self.next_of_extents(cut),
            Reads::Records { from, transfer_bytes } => {
                let (from, transfer_bytes) = (from.record, *transfer_bytes);
                self.next_of_transfer(from, transfer_bytes, cut)
            }
        }
    }

    /// Records are read in sequential transfers until one more record is complete; a transfer
    /// larger than a chunk is split into chunks.
    fn next_of_transfer(&mut self, from: u64, transfer_bytes: u64, cut: Chunking) -> Option<Chunk> {
        if self.flying > 0 {
            return None;
        }
        if self.transfer_left == 0 {
            let whole = self.records.as_ref().map_or(0, RecordTracker::whole);
            if whole > from {
                return None;
            }
            self.transfer_left = transfer_bytes.min(self.file_bytes.saturating_sub(self.at));
        }
        let expected = self.transfer_left.min(cut.chunk_bytes);
        if expected == 0 {
            return None;
        }
        let chunk = Chunk {
            offset: self.at,
            len: if cut.direct {
                expected.next_multiple_of(DIRECT_ALIGN) as usize
            } else {
                expected as usize
            },
            expected: expected as usize,
        };
        self.at += expected;
        self.transfer_left -= expected;
        Some(chunk)
    }

    fn next_of_extents(&mut self, cut: Chunking) -> Option<Chunk> {
        let Reads::Known { extents, .. } = &self.plan.reads else {
            return None;
        };
        loop {
            let extent = extents.nth(self.next_extent)?;
            let Span { offset, bytes } = aligned(extent, cut.direct);
            let end = offset + bytes;
            let start = offset + self.at;
            if start >= end {
                self.next_extent += 1;
                self.at = 0;
                continue;
            }
            let len = (end - start).min(cut.chunk_bytes);
            self.at += len;
            return Some(Chunk {
                offset: start,
                len: len as usize,
                expected: len.min(self.file_bytes.saturating_sub(start)) as usize,
            });
        }
    }
}

/// The extent, aligned for direct I/O.
fn aligned(extent: Span, direct: bool) -> Span {
    if !direct {
        return extent;
    }
    let offset = extent.offset / DIRECT_ALIGN * DIRECT_ALIGN;
    let end = (extent.offset + extent.bytes).next_multiple_of(DIRECT_ALIGN);
    Span { offset, bytes: end - offset }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::machine::{LaneRead, Unit};
    use crate::run::source::Extents;
    use proptest::prelude::*;

    fn job(extents: Extents, file_bytes: u64) -> Job {
        let request = ReadRequest {
            accelerator: 0,
            phase: 1,
            read: LaneRead { lane: 0, unit: Unit::Sample(0) },
        };
        let plan = ReadPlan {
            file: 0,
            reads: Reads::Known { extents, keep_open: false, landed: ReadResult::default() },
            framing: None,
        };
        Job::new(request, plan, None, file_bytes, 0)
    }

    fn chunks(mut job: Job, cut: Chunking) -> Vec<Chunk> {
        std::iter::from_fn(|| job.next_chunk(cut)).collect()
    }

    proptest! {
        #[test]
        fn chunks_cover_their_stretches_in_order(
            stretches in prop::collection::vec((0u64..100_000, 0u64..50_000), 0..5),
            chunk_blocks in 1u64..8,
            direct: bool,
        ) {
            let extents: Vec<Span> = stretches
                .iter()
                .map(|(offset, bytes)| Span { offset: *offset, bytes: *bytes })
                .collect();
            let file_bytes = extents.iter().map(|e| e.offset + e.bytes).max().unwrap_or(0);
            let cut = Chunking { chunk_bytes: chunk_blocks * DIRECT_ALIGN, direct };
            let got = chunks(job(Extents::Many(extents.clone()), file_bytes), cut);
            let asked: u64 = got.iter().map(|c| c.len as u64).sum();
            let wanted: u64 = extents.iter().map(|e| aligned(*e, direct).bytes).sum();
            prop_assert_eq!(asked, wanted);
            for chunk in &got {
                prop_assert!(chunk.len as u64 <= cut.chunk_bytes && chunk.len > 0);
                prop_assert!(chunk.offset + chunk.expected as u64 <= file_bytes);
                if direct {
                    prop_assert!(chunk.offset.is_multiple_of(DIRECT_ALIGN));
                    prop_assert!((chunk.len as u64).is_multiple_of(DIRECT_ALIGN));
                } else {
                    prop_assert_eq!(chunk.expected, chunk.len);
                }
            }
        }
    }

    #[test]
    fn a_transfer_larger_than_a_chunk_comes_chunk_by_chunk() {
        let mut job = job(Extents::Many(Vec::new()), 10_000);
        job.plan.reads = Reads::Records { from: Cursor::default(), transfer_bytes: 8192 + 4096 };
        let cut = Chunking { chunk_bytes: 8192, direct: true };
        let first = job.next_chunk(cut).unwrap();
        assert_eq!((first.offset, first.len, first.expected), (0, 8192, 8192));
        job.flying = 1;
        assert_eq!(job.next_chunk(cut), None, "one after the other");
        job.flying = 0;
        let last = job.next_chunk(cut).unwrap();
        assert_eq!((last.offset, last.len, last.expected), (8192, 4096, 1808));
        assert_eq!(job.next_chunk(cut), None, "the file is over");
    }

    #[test]
    fn the_end_of_a_file_may_come_short_under_direct_io() {
        let whole = Extents::One(Span { offset: 0, bytes: 10_000 });
        let cut = Chunking { chunk_bytes: 8192, direct: true };
        let got = chunks(job(whole, 10_000), cut);
        let lens: Vec<_> = got.iter().map(|c| (c.offset, c.len, c.expected)).collect();
        assert_eq!(lens, [(0, 8192, 8192), (8192, 4096, 1808)]);
    }
}
