//! Thrift's compact protocol, as far as the footer of a parquet file needs it.
//!
//! Reading terminates for any input: every field of a struct and every element of a list consumes
//! at least one remaining byte, and no allocation is based on a count alone.

/// The deepest nesting of structs and lists that is skipped.
const MOST_NESTED: u32 = 64;

/// The value types used to read footers.
pub(super) const I64: u8 = 6;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// Reads values from bytes; every function returns `None` for invalid input.
pub(super) struct ThriftReader<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> ThriftReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    /// Number of bytes read so far.
    pub(super) fn position(&self) -> u64 {
        (self.bytes.len() - self.rest.len()) as u64
    }

    /// Reads a struct. `field` is called with the number and the type of each field, and must read
    /// or skip its value.
    pub(super) fn structure(
        &mut self,
        mut field: impl FnMut(&mut Self, (i64, u8)) -> Option<()>,
    ) -> Option<()> {
        let mut number = 0i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            number = match header >> 4 {
                // Given in full instead of as a difference.
                0 => self.integer()?,
                step => number.checked_add(i64::from(step))?,
            };
            field(self, (number, header & 0xf))?;
        }
    }

    /// Reads a list of values of type `kind`, each by `element`.
    pub(super) fn list(
        &mut self,
        kind: u8,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let (found, count) = self.list_header()?;
        // Writers use different element types for an empty list.
        if found != kind && count > 0 {
            return None;
        }
        (0..count).try_for_each(|_| element(self))
    }

    /// Reads an integer.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let zigzag = self.number()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Reads a string.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let bytes = self.number()?;
        std::str::from_utf8(self.take(bytes)?).ok()
    }

    /// Skips the value of a field of type `kind`.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        match kind {
            // The value of a boolean field is in its type.
            1 | 2 => Some(()),
            _ => self.skip_value(kind, MOST_NESTED),
        }
    }

    fn skip_value(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1..=3 => self.byte().map(drop),
            4..=6 => self.number().map(drop),
            7 => self.take(8).map(drop),
            BINARY => {
                let bytes = self.number()?;
                self.take(bytes).map(drop)
            }
            LIST | 10 => {
                let (kind, count) = self.list_header()?;
                (0..count).try_for_each(|_| self.skip_value(kind, depth))
            }
            11 => {
                let count = self.number()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_value(kinds >> 4, depth)?;
                    self.skip_value(kinds & 0xf, depth)
                })
            }
            STRUCT => self.structure(|reader, (_, kind)| match kind {
                1 | 2 => Some(()),
                _ => reader.skip_value(kind, depth),
            }),
            13 => self.take(16).map(drop),
            _ => None,
        }
    }

    /// The element type and length of a list.
    fn list_header(&mut self) -> Option<(u8, u64)> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.number()?,
            count => u64::from(count),
        };
        Some((header & 0xf, count))
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// A varint: seven bits per byte, lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::ThriftReader;

    fn skipped(bytes: &[u8]) -> Option<u64> {
        let mut reader = ThriftReader::new(bytes);
        reader.structure(|reader, (_, kind)| reader.skip(kind))?;
        Some(reader.position())
    }

    #[test]
    fn collections_take_the_bytes_that_they_claim() {
        // A list, a set and a map of booleans with a claimed length of 2^31 - 1, and such a list in
        // a struct.
        assert_eq!(skipped(b"\xf9\xf1\xff\xff\xff\xff\x07"), None);
        assert_eq!(skipped(b"\xfa\xf2\xff\xff\xff\xff\x07"), None);
        assert_eq!(skipped(b"\xfb\xff\xff\xff\xff\x07\x11"), None);
        assert_eq!(skipped(b"\x19\x1c\xf9\xf1\xff\xff\xff\xff\x07\0\0"), None);
        assert_eq!(skipped(b"\x19\x21\x01\x02\0"), Some(5));
    }

    #[test]
    fn truncated_or_too_deeply_nested_input_is_not_a_struct() {
        assert_eq!(skipped(b"\x11\x12\0rest"), Some(3));
        assert_eq!(skipped(b"\x19\x01\0"), Some(3));
        assert_eq!(skipped(b""), None);
        assert_eq!(skipped(b"\x18\x7f"), None);
        assert_eq!(skipped(&[0x1c; 500]), None);
    }
}
