//! A child's output through a pipe, read while waiting for its end.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Output beyond this is dropped: a library that prints endlessly must not fill memory.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes read at a time, so that endless output cannot block the reader.
const TURN_BYTES: usize = 1 << 20;

/// The reading end of a pipe, and what has been read from it.
#[derive(Debug)]
pub(super) struct Words {
    pipe: File,
    bytes: Vec<u8>,
}

impl Words {
    /// Reads `pipe` without ever blocking.
    pub(super) fn of(pipe: impl Into<OwnedFd>) -> io::Result<Self> {
        let pipe = File::from(pipe.into());
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { pipe, bytes: Vec::new() })
    }

    /// Reads what is in the pipe now, so that the child does not block on a full one.
    pub(super) fn take(&mut self) -> io::Result<()> {
        let mut block = [0; 16 << 10];
        let mut left = TURN_BYTES;
        while left > 0 {
            match self.pipe.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    let room = KEPT_BYTES - self.bytes.len();
                    self.bytes.extend_from_slice(&block[..read.min(room)]);
                    left = left.saturating_sub(read);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn output_is_limited_and_an_open_pipe_is_not_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut words = Words::of(reader).unwrap();
        words.take().unwrap();
        for _ in 0..40 {
            writer.write_all(&[b'x'; 32 << 10]).unwrap();
            words.take().unwrap();
        }
        assert_eq!(words.bytes.len(), KEPT_BYTES);
        assert!(words.into_text().starts_with("xxx"));
    }
}
