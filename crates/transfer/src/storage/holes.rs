//! Holes of a file: ranges without data on any device, as reported by the file system. They read
//! as zeros at memory speed.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::error::TransferError;

/// The scan of a file stops after this many extents.
const MOST_PIECES: usize = 100_000;

/// How many of the first `bytes` of the file that was `opened` at `path` are in holes; 0 if it could
/// not be opened.
///
/// # Errors
/// When the device fails.
pub(super) fn of(
    opened: Result<File, TransferError>,
    path: &Path,
    bytes: u64,
) -> Result<u64, TransferError> {
    let holes = opened.and_then(|file| {
        hole_bytes(&file, bytes)
            .map_err(|source| TransferError::file("find holes in", path, source))
    });
    match holes {
        Err(error) if !error.is_device_failure() => Ok(0),
        holes => holes,
    }
}

/// How many of the first `bytes` of a file are in holes or unwritten extents; 0 if the file system
/// does not report them.
///
/// # Errors
/// The kernel's error.
fn hole_bytes(file: &File, bytes: u64) -> io::Result<u64> {
    let (mut at, mut data) = (0, 0);
    for _ in 0..MOST_PIECES {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < bytes => start,
            // No data beyond this point.
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
    // The unscanned rest is assumed to be data.
    Ok(at - data)
}

#[cfg(test)]
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
            // Not every file system supports holes.
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
