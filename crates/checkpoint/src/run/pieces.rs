//! The order in which a file is moved: from start to end, or in several concurrent parts.

/// The position of one transfer in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilePiece {
    /// Position in bytes.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) len: u64,
    /// The stream that it belongs to.
    pub(super) stream: u32,
}

/// The remainder of a file.
#[derive(Debug)]
pub(super) struct FilePieces {
    /// Next position and end of each contiguous part, in bytes.
    parts: Vec<(u64, u64)>,
    /// Number of transfers in flight for each part.
    flying: Vec<usize>,
    /// Queue depth of each part.
    depth: usize,
    chunk_bytes: u64,
    /// The part to try first.
    turn: usize,
}

impl FilePieces {
    /// A file of `bytes` in pieces of `chunk_bytes`, with `window` of them in flight. With `split`,
    /// each is on a separate contiguous part; otherwise each moves the next piece in turn.
    pub(super) fn new(bytes: u64, chunk_bytes: u64, window: usize, split: bool) -> Self {
        let chunks = bytes.div_ceil(chunk_bytes);
        let count = if split { (window as u64).min(chunks).max(1) } else { 1 };
        let bound = |part: u64| {
            let before = (u128::from(chunks) * u128::from(part) / u128::from(count)) as u64;
            before.saturating_mul(chunk_bytes).min(bytes)
        };
        Self {
            parts: (0..count).map(|part| (bound(part), bound(part + 1))).collect(),
            flying: vec![0; count as usize],
            depth: if split { 1 } else { window },
            chunk_bytes,
            turn: 0,
        }
    }

    /// The next piece that can be started now.
    pub(super) fn next(&mut self) -> Option<FilePiece> {
        let count = self.parts.len();
        let part = (0..count).map(|step| (self.turn + step) % count).find(|part| {
            let (next, end) = self.parts[*part];
            next < end && self.flying[*part] < self.depth
        })?;
        self.turn = (part + 1) % count;
        let (next, end) = &mut self.parts[part];
        let len = self.chunk_bytes.min(*end - *next);
        let piece = FilePiece { offset: *next, len, stream: part as u32 };
        *next += len;
        self.flying[part] += 1;
        Some(piece)
    }

    /// Marks a piece of `stream` as completed.
    pub(super) fn done(&mut self, stream: u32) {
        self.flying[stream as usize] -= 1;
    }

    /// Whether no piece is left or in flight.
    pub(super) fn is_finished(&self) -> bool {
        self.flying.iter().all(|flying| *flying == 0)
            && self.parts.iter().all(|(next, end)| next == end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn v3_reads_four_quarters_at_a_time() {
        let mut pieces = FilePieces::new(16 << 20, 1 << 20, 4, true);
        let first: Vec<u64> =
            (0..4).filter_map(|_| pieces.next()).map(|p| p.offset >> 20).collect();
        assert_eq!(first, [0, 4, 8, 12]);
        assert_eq!(pieces.next(), None);
        pieces.done(2);
        assert_eq!(pieces.next().map(|p| p.offset >> 20), Some(9));
    }

    proptest! {
        #[test]
        fn every_byte_is_moved_once(
            bytes in 0u64..100_000, chunk in 1u64..5, window in 1usize..9, split: bool
        ) {
            let chunk = chunk * 4096;
            let mut pieces = FilePieces::new(bytes, chunk, window, split);
            let mut seen = Vec::new();
            let mut flying = std::collections::VecDeque::new();
            loop {
                while let Some(piece) = pieces.next() {
                    prop_assert_eq!(piece.offset % chunk, 0);
                    flying.push_back(piece.stream);
                    seen.push((piece.offset, piece.len));
                    prop_assert!(flying.len() <= window);
                }
                match flying.pop_front() {
                    Some(stream) => pieces.done(stream),
                    None => break,
                }
            }
            prop_assert!(pieces.is_finished());
            seen.sort_unstable();
            let mut end = 0;
            for (offset, len) in seen {
                prop_assert_eq!(offset, end);
                end += len;
            }
            prop_assert_eq!(end, bytes);
        }
    }
}
