//! Files that are nothing but sample bytes: what v3.0 calls `.jpeg` and `.png`.
//!
//! They cannot be decoded as images, and no reader of v3.0 tries to: it reads whole files and
//! drops them.

use super::framed::{self, Piece};
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, FormatError, ReadAt, Span, Spans,
    total_payload,
};

/// Raw sample bytes, no framing.
#[derive(Debug, Clone, Copy)]
pub struct Raw;

impl Format for Raw {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        total_payload(file).ok()
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let mut pieces = [Piece::Content(total_payload(file)?)].into_iter();
        framed::write(&mut pieces, file.content, sink)
    }

    /// Raw bytes have no framing to check: the whole file is one sample.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let bytes = source.file_bytes();
        if bytes == 0 {
            return Err(FormatError::truncated(name, 0, "a sample", 0));
        }
        Ok(FileLayout {
            samples: 1,
            spans: Spans::Interleaved(Span { offset: 0, bytes }),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::testing::{encode, inspect, spec};
    use super::{Format, Raw};

    #[test]
    fn a_file_is_its_samples() {
        for side in [1, 64, 100, 568] {
            let file = spec(1, &[side, side]);
            let (bytes, finish) = encode(&Raw, &file, 8192);
            assert_eq!(bytes.len() as u64, side * side);
            assert_eq!(Raw.file_bytes(&file), Some(side * side));
            assert!(finish.patches.is_empty() && finish.side_files.is_empty());
            assert_eq!(inspect(&Raw, &bytes).unwrap().payload_bytes(), side * side);
        }
    }

    #[test]
    fn an_empty_file_holds_no_sample() {
        let error = inspect(&Raw, &[]).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: at byte 0: expected a sample, found the end of the file at byte 0"
        );
    }
}
