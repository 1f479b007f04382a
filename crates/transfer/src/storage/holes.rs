//! Holes of a file: parts for which there is no data on any device, as the file system tells. They
//! read as zeros at the speed of memory.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// A file in more pieces than this is not followed to its end.
const MOST_PIECES: usize = 100_000;

/// How many of the first `bytes` of a file lie in holes, or in space that was never written. A file
/// system that does not tell has none.
///
/// # Errors
/// What the kernel answers.
pub(super) fn hole_bytes(file: &File, bytes: u64) -> io::Result<u64> {
    let (mut at, mut data) = (0, 0);
    for _ in 0..MOST_PIECES {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < bytes => start,
            // No data from here on.
            Ok(_) | Err(Errno::NXIO) => return Ok(bytes - data),
            Err(Errno::INVAL | Errno::NOTSUP) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        };
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) => end.min(bytes),
            Err(Errno::NXIO) => return Ok(bytes - data),
            Err(errno) => return Err(errno.into()),
        };
        data += end.saturating_sub(start);
        at = end;
        if end >= bytes {
            return Ok(bytes - data);
        }
    }
    // What was not looked at is taken for data.
    Ok(at - data)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn holes_are_counted_wherever_they_are() {
        const PIECE: u64 = 1 << 20;
        let file = tempfile::tempfile_in(".").unwrap();
        assert_eq!(hole_bytes(&file, 0).unwrap(), 0);
        file.set_len(4 * PIECE).unwrap();
        let holes = hole_bytes(&file, 4 * PIECE).unwrap();
        if holes == 0 {
            // Not every file system has holes.
            return;
        }
        assert_eq!(holes, 4 * PIECE);
        let piece = vec![1; PIECE as usize];
        file.write_all_at(&piece, PIECE).unwrap();
        assert_eq!(hole_bytes(&file, 4 * PIECE).unwrap(), 3 * PIECE);
        assert_eq!(hole_bytes(&file, 2 * PIECE).unwrap(), PIECE);
        file.write_all_at(&piece, 3 * PIECE).unwrap();
        assert_eq!(hole_bytes(&file, 4 * PIECE).unwrap(), 2 * PIECE);
        file.write_all_at(&piece, 0).unwrap();
        file.write_all_at(&piece, 2 * PIECE).unwrap();
        assert_eq!(hole_bytes(&file, 4 * PIECE).unwrap(), 0);
    }
}
