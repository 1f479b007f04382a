//! Comparison of ranges with their object: a single range has no known checksum, but all of them
//! together have the object's.

use std::collections::BTreeMap;

use stormlp_core::evidence::ObjectChecksums;

use crate::object::{Checksum, ObjectFacts};

/// Maximum number of ranges kept of an object: 4 MiB of memory. An object with more is not
/// compared, which the report tells.
const MOST_RANGES: usize = 1 << 16;

/// The ranges that were read, by their first bytes.
#[derive(Default)]
pub(super) struct ReadRanges(BTreeMap<u64, ReadRange>);

/// A range that was read.
struct ReadRange {
    bytes: u64,
    checksum: Checksum,
    /// How often, always with the same bytes.
    reads: u64,
}

impl ReadRanges {
    /// Adds a range of so many `bytes` that was read at `offset` of the object.
    ///
    /// # Errors
    /// The fault, if an earlier read differs.
    pub(super) fn add(
        &mut self,
        offset: u64,
        bytes: u64,
        checksum: Checksum,
    ) -> Result<(), String> {
        let is_full = self.0.len() >= MOST_RANGES;
        match self.0.get_mut(&offset) {
            Some(before) if before.bytes != bytes => {}
            Some(before) if before.checksum == checksum => before.reads += 1,
            Some(_) => return Err("the object changed between two reads of this range".to_string()),
            None if !is_full => {
                self.0.insert(offset, ReadRange { bytes, checksum, reads: 1 });
            }
            None => {}
        }
        Ok(())
    }

    /// Compares the ranges with the object's checksum, if they make up the object: the number of
    /// bytes read of it, in replies without a checksum. No range is kept.
    ///
    /// # Errors
    /// The fault, if they are not the object.
    pub(super) fn compare(&mut self, object: &ObjectFacts) -> Result<ObjectChecksums, String> {
        let ranges = std::mem::take(&mut self.0);
        let mut compared = ObjectChecksums::default();
        let (mut end, mut whole) = (0, None::<Checksum>);
        while end < object.bytes {
            let Some(range) = ranges.get(&end) else { return Ok(ObjectChecksums::default()) };
            whole = Some(match whole {
                None => range.checksum,
                Some(before) => before.then(range.checksum, range.bytes),
            });
            compared.checked_bytes += range.bytes * range.reads;
            compared.responses_unverified += range.reads;
            end += range.bytes;
        }
        let (Some(read), Some(of_object)) =
            (whole.filter(|_| end == object.bytes), object.checksum)
        else {
            return Ok(ObjectChecksums::default());
        };
        match read.check_sent(of_object) {
            None => Ok(ObjectChecksums::default()),
            Some(same) => same.map(|()| compared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(content: &[u8]) -> ObjectFacts {
        let checksum = Some(Checksum::of(content));
        ObjectFacts { checksum, ..ObjectFacts::of_size(content.len() as u64) }
    }

    fn add(ranges: &mut ReadRanges, offset: usize, body: &[u8]) -> Result<(), String> {
        ranges.add(offset as u64, body.len() as u64, Checksum::of(body))
    }

    #[test]
    fn ranges_in_any_order_make_up_the_object_once_all_are_there() {
        let content = b"123456789";
        let facts = object(content);
        let mut ranges = ReadRanges::default();
        // One that overlaps the others is not needed, and is not compared.
        for (first, last) in [(6, 9), (0, 3), (0, 3), (3, 6), (4, 9)] {
            add(&mut ranges, first, &content[first..last]).unwrap();
        }
        let compared = ranges.compare(&facts).unwrap();
        assert_eq!((compared.checked_bytes, compared.responses_unverified), (12, 4));
        add(&mut ranges, 0, &content[..3]).unwrap();
        add(&mut ranges, 6, &content[6..]).unwrap();
        assert_eq!(ranges.compare(&facts).unwrap(), ObjectChecksums::default());
    }

    #[test]
    fn other_bytes_are_found() {
        let facts = object(b"123456789");
        let mut ranges = ReadRanges::default();
        add(&mut ranges, 0, b"1234").unwrap();
        assert!(add(&mut ranges, 0, b"1235").is_err());
        add(&mut ranges, 4, b"56780").unwrap();
        let wrong = ranges.compare(&facts).unwrap_err();
        assert!(wrong.contains("not the same bytes"), "{wrong}");
    }

    #[test]
    fn nothing_is_compared_without_a_checksum_of_the_object() {
        let facts = ObjectFacts::of_size(9);
        let mut ranges = ReadRanges::default();
        add(&mut ranges, 0, b"1234").unwrap();
        add(&mut ranges, 4, b"56789").unwrap();
        assert_eq!(ranges.compare(&facts).unwrap(), ObjectChecksums::default());
    }
}
