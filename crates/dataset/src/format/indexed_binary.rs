//! `indexed_binary`: concatenated samples, with two arrays of 64-bit numbers in separate files:
//! `.off.idx` has the offsets and `.sz.idx` the sizes.
//!
//! DLIO's generator restarts the offsets every 2 GiB of a file, so its index is wrong beyond that.
//! Offsets here are the true ones.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;
use super::framed::Framer;
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, SideFile, SidePlace, Spans,
    total_payload,
};

/// Suffix appended to the data file's name for the samples' offsets.
pub const OFFSETS_SUFFIX: &str = ".off.idx";
/// Suffix appended to the data file's name for the samples' sizes.
pub const SIZES_SUFFIX: &str = ".sz.idx";
/// Larger index files are not read: this is 128 million samples in one file.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// Concatenated samples with separate index files.
#[derive(Debug, Clone, Copy)]
pub struct IndexedBinary;

/// An index file with one number per sample.
fn index_file(suffix: &'static str, samples: u64, number: impl Fn(u64) -> u64) -> SideFile {
    let numbers = (0..samples).flat_map(|sample| number(sample).to_le_bytes());
    SideFile { place: SidePlace::Suffix(suffix), bytes: numbers.collect() }
}

impl Format for IndexedBinary {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        total_payload(file).ok()
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        let mut out = Framer::new(file.content, sink);
        out.content(total_payload(file)?, |_| {})?;
        let bytes = file.shape.bytes();
        out.end(Finish {
            side_files: vec![
                index_file(OFFSETS_SUFFIX, file.samples, |sample| sample * bytes),
                index_file(SIZES_SUFFIX, file.samples, |_| bytes),
            ],
            ..Finish::default()
        })
    }

    /// The data file alone has no information about its samples; see [`read_index`].
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        let bytes = source.file_bytes();
        if bytes == 0 {
            return Err(FormatError::truncated(name, 0, "samples", 0));
        }
        Ok(FileLayout { samples: 1, spans: Spans::Interleaved(Span { offset: 0, bytes }) })
    }
}

/// The positions of the samples in the data file `name` of `data_bytes`, from its two index files.
///
/// # Errors
/// If the index files disagree, are truncated, or point beyond the data file.
pub fn read_index(
    name: &str,
    data_bytes: u64,
    offsets: &mut dyn ReadAt,
    sizes: &mut dyn ReadAt,
) -> Result<FileLayout, FormatError> {
    let offsets_name = format!("{name}{OFFSETS_SUFFIX}");
    let sizes_name = format!("{name}{SIZES_SUFFIX}");
    let offsets = read_numbers(&offsets_name, offsets)?;
    let sizes = read_numbers(&sizes_name, sizes)?;
    if offsets.len() != sizes.len() {
        let expected = format!("{} sizes, as many as {offsets_name} has offsets", offsets.len());
        let found = format!("{} sizes", sizes.len());
        return Err(FormatError::unexpected(&sizes_name, 0, expected, found));
    }
    let mut spans = Vec::with_capacity(offsets.len());
    for (index, (offset, bytes)) in offsets.into_iter().zip(sizes).enumerate() {
        let span = Span { offset, bytes };
        if bytes == 0 || span.end() > data_bytes {
            let expected = format!("sample {index} inside the {data_bytes} bytes of {name}");
            let found = format!("{bytes} bytes from byte {offset} on");
            let at = 8 * index as u64;
            return Err(FormatError::unexpected(&offsets_name, at, expected, found));
        }
        spans.push(span);
    }
    Ok(FileLayout { samples: spans.len() as u64, spans: Spans::Each(spans) })
}

fn read_numbers(name: &str, source: &mut dyn ReadAt) -> Result<Vec<u64>, FormatError> {
    let bytes = source.file_bytes();
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > MAX_INDEX_BYTES {
        let expected = format!("64-bit numbers, at most {MAX_INDEX_BYTES} bytes of them");
        return Err(FormatError::unexpected(name, 0, expected, format!("{bytes} bytes")));
    }
    let data = read_span(name, source, Span { offset: 0, bytes }, "64-bit numbers")?;
    let window = ByteWindow::new(name, 0, &data);
    (0..data.len() / 8).map(|index| window.u64(8 * index, "a 64-bit number")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{encode, spec};
    use super::{FileLayout, FormatError, IndexedBinary, Span, Spans, read_index};

    fn index(data_bytes: u64, offsets: &[u8], sizes: &[u8]) -> Result<FileLayout, FormatError> {
        let (mut offsets, mut sizes) = (offsets, sizes);
        read_index("data", data_bytes, &mut offsets, &mut sizes)
    }

    fn numbers(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn faults_of_the_index_are_named() {
        let error = index(100, &numbers(&[0, 50]), &numbers(&[50])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data.sz.idx: at byte 0: expected 2 sizes, as many as data.off.idx has offsets, \
             found 1 sizes"
        );
        let error = index(99, &numbers(&[0, 50]), &numbers(&[50, 50])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data.off.idx: at byte 8: expected sample 1 inside the 99 bytes of data, \
             found 50 bytes from byte 50 on"
        );
    }

    proptest! {
        #[test]
        fn written_files_are_found_again(samples in 1u64..200, bytes in 1u64..5000) {
            let (data, finish) = encode(&IndexedBinary, &spec(samples, &[bytes]), 16384);
            prop_assert_eq!(data.len() as u64, samples * bytes);
            let [offsets, sizes] = &finish.side_files[..] else {
                return Err(TestCaseError::fail("two index files"));
            };
            let layout = index(data.len() as u64, &offsets.bytes, &sizes.bytes).unwrap();
            prop_assert_eq!(layout.samples, samples);
            prop_assert_eq!(layout.payload_bytes(), samples * bytes);
            let Spans::Each(spans) = layout.spans else {
                return Err(TestCaseError::fail("a place for each sample"));
            };
            let last = Span { offset: (samples - 1) * bytes, bytes };
            prop_assert_eq!(spans.last(), Some(&last));
        }

        #[test]
        fn no_bytes_make_it_panic(
            offsets in proptest::collection::vec(any::<u8>(), 0..64),
            sizes in proptest::collection::vec(any::<u8>(), 0..64),
            bytes: u64,
        ) {
            let _ = index(bytes, &offsets, &sizes);
        }
    }
}
