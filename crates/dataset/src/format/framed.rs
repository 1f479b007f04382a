//! Files made of literal framing and content: the one loop that writes them.
//!
//! A format says which pieces follow each other; this module fills the buffers of a sink with
//! them. Content is made by block of the *file*, straight into the buffer, and framing is laid
//! over it; both pass through the cache once, in stretches small enough to stay there.

use super::{ChunkSink, EncodeError, Finish};
use crate::content::{BLOCK_BYTES, FileContent};

/// Bytes made at a time: a fraction of a core's cache, a multiple of the content's block.
const STRETCH_BYTES: usize = 64 * 1024;

/// The next part of a file.
pub(crate) enum Piece {
    /// These bytes.
    Literal(Vec<u8>),
    /// So many bytes of content.
    Content(u64),
}

/// A format as a sequence of pieces.
pub(crate) trait Pieces {
    /// The next piece, `None` at the end of the file.
    fn next_piece(&mut self) -> Option<Piece>;

    /// Hears the content bytes of the current piece in order, for checksums over them.
    fn content(&mut self, _bytes: &[u8]) {}

    /// What remains to be done when all pieces are written.
    fn finish(&mut self) -> Finish {
        Finish::default()
    }
}

/// Pieces that are known from the start.
impl<const N: usize> Pieces for std::array::IntoIter<Piece, N> {
    fn next_piece(&mut self) -> Option<Piece> {
        self.next()
    }
}

/// Writes all pieces to the sink.
pub(crate) fn write(
    pieces: &mut dyn Pieces,
    content: FileContent,
    sink: &mut dyn ChunkSink,
) -> Result<Finish, EncodeError> {
    let mut current = pieces.next_piece();
    let mut within = 0u64;
    let mut block = 0u64;
    while current.is_some() {
        let buffer = sink.buffer()?;
        debug_assert_eq!(buffer.len() % BLOCK_BYTES, 0, "sinks hand out whole blocks");
        let mut filled = 0;
        for stretch in buffer.chunks_mut(STRETCH_BYTES) {
            content.fill(block, stretch);
            block += (stretch.len() / BLOCK_BYTES) as u64;
            let used = lay(pieces, &mut current, &mut within, stretch);
            filled += used;
            if used < stretch.len() {
                break;
            }
        }
        sink.commit(filled)?;
    }
    Ok(pieces.finish())
}

/// Lays pieces over a stretch that is full of content; returns how much of it is file.
fn lay(
    pieces: &mut dyn Pieces,
    current: &mut Option<Piece>,
    within: &mut u64,
    stretch: &mut [u8],
) -> usize {
    let mut at = 0;
    while let Some(piece) = current {
        let room = stretch.len() - at;
        let left = match piece {
            Piece::Literal(bytes) => bytes.len() as u64 - *within,
            Piece::Content(bytes) => *bytes - *within,
        };
        let take = left.min(room as u64) as usize;
        let target = &mut stretch[at..at + take];
        match piece {
            Piece::Literal(bytes) => {
                target.copy_from_slice(&bytes[*within as usize..*within as usize + take]);
            }
            Piece::Content(_) => pieces.content(target),
        }
        at += take;
        *within += take as u64;
        if take as u64 == left {
            *current = pieces.next_piece();
            *within = 0;
        } else {
            break;
        }
    }
    at
}
