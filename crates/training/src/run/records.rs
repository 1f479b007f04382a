//! Tracks complete records while reading a file: by their headers as they pass, or, if the host
//! cannot see the data, by offsets read beforehand.

use stormlp_dataset::format::tfrecord::{FOOTER_BYTES, Tfrecord};
use stormlp_dataset::format::tfrecord_scan::{PayloadCheck, RecordScanner};
use stormlp_dataset::format::{FileLayout, Format as _, FormatError, Spans};
use stormlp_transfer::storage::Storage;

use super::dataset;
use super::error::TrainError;
use super::source::DataFile;

/// See the [module's description](self).
pub(super) enum RecordTracker {
    /// Follows headers as they pass; payloads are not examined.
    Scanned(Box<RecordScanner>),
    /// Offsets are known; `whole` records are complete in the data read so far.
    Known { layout: FileLayout, whole: u64 },
}

impl RecordTracker {
    /// Starts a file with data that passes through the host.
    pub(super) fn scan(file: &DataFile) -> Self {
        let name = file.path.display().to_string();
        let scanner = RecordScanner::new(&name, file.bytes, PayloadCheck::Skip);
        Self::Scanned(Box::new(scanner))
    }

    /// Reads the record offsets of a file with data that bypasses the host.
    pub(super) fn look_up(storage: &dyn Storage, file: &DataFile) -> Result<Self, TrainError> {
        let name = file.path.display().to_string();
        let mut opened = dataset::open(storage, &file.path)?;
        let layout = Tfrecord.inspect(&name, &mut opened)?;
        Ok(Self::Known { layout, whole: 0 })
    }

    /// Complete records read so far.
    pub(super) fn whole(&self) -> u64 {
        match self {
            Self::Scanned(scanner) => scanner.records(),
            Self::Known { whole, .. } => *whole,
        }
    }

    /// Advances to byte `read_to` with the new data `bytes`.
    pub(super) fn advance(
        &mut self,
        bytes: Option<&[u8]>,
        read_to: u64,
    ) -> Result<(), FormatError> {
        match self {
            Self::Scanned(scanner) => scanner.feed(bytes.unwrap_or_default()).map(|_| ()),
            Self::Known { layout, whole } => {
                *whole = whole_by(layout, read_to);
                Ok(())
            }
        }
    }

    /// Checks that the fully read file does not end within a record.
    pub(super) fn finish(self) -> Result<(), FormatError> {
        match self {
            Self::Scanned(scanner) => scanner.finish().map(|_| ()),
            Self::Known { .. } => Ok(()),
        }
    }
}

/// Records of `layout` that end at or before byte `read_to`.
fn whole_by(layout: &FileLayout, read_to: u64) -> u64 {
    match &layout.spans {
        Spans::Interleaved(span) => layout.samples * u64::from(read_to >= span.end()),
        Spans::Records { first, stride } => {
            let first_end = first.end() + FOOTER_BYTES;
            match read_to.checked_sub(first_end) {
                None => 0,
                Some(beyond) => (beyond / stride + 1).min(layout.samples),
            }
        }
        Spans::Each(spans) => {
            spans.partition_point(|span| span.end() + FOOTER_BYTES <= read_to) as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_dataset::format::Span;

    #[test]
    fn records_count_when_their_last_byte_is_there() {
        let first = Span { offset: 12, bytes: 100 };
        let uniform = FileLayout { samples: 3, spans: Spans::Records { first, stride: 116 } };
        let each = FileLayout {
            samples: 3,
            spans: Spans::Each(
                (0..3).map(|record| Span { offset: 12 + record * 116, bytes: 100 }).collect(),
            ),
        };
        for layout in [uniform, each] {
            let counts: Vec<_> = [0, 115, 116, 231, 232, 348, 999]
                .iter()
                .map(|read_to| whole_by(&layout, *read_to))
                .collect();
            assert_eq!(counts, [0, 0, 1, 1, 2, 3, 3]);
        }
    }
}
