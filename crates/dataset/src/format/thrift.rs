//! A look at a parquet footer before it is decoded.
//!
//! The decoder skips fields it does not know. A list of booleans takes it no bytes there, so a
//! damaged footer of eight bytes can claim two billion of them and keep it busy for
//! minutes. Footers have no such lists, so one that has is refused.
//!
//! This is no proof against every damage: the decoder takes a field that it knows by its number,
//! whatever its type, so the two can come to read the same bytes differently. Such a footer can
//! still cost it seconds.

/// Structs and lists within each other, as deep as the decoder goes.
const MOST_NESTED: u32 = 64;

/// Whether the struct that `bytes` begin with holds only collections that can be walked over in
/// as many steps as there are bytes. Whatever else is wrong with it, the decoder tells.
pub(super) fn is_bounded(bytes: &[u8]) -> bool {
    let mut walk = Walk { rest: bytes };
    !matches!(walk.structure(MOST_NESTED), Err(Fault::Endless))
}

enum Fault {
    /// A collection whose elements take no bytes.
    Endless,
    /// The bytes end, or make no sense.
    Malformed,
}

/// Thrift's compact protocol, as far as it is needed to get from field to field.
struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    fn structure(&mut self, depth: u32) -> Result<(), Fault> {
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(());
            }
            if header >> 4 == 0 {
                // The field's number stands by itself.
                self.number()?;
            }
            match header & 0xf {
                // The value of a boolean field is its type.
                1 | 2 => {}
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<(), Fault> {
        let depth = depth.checked_sub(1).ok_or(Fault::Malformed)?;
        match kind {
            1 | 2 => Err(Fault::Endless),
            3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let bytes = self.number()?;
                self.skip(bytes)
            }
            9 | 10 => {
                let header = self.byte()?;
                let count = match header >> 4 {
                    15 => self.number()?,
                    count => u64::from(count),
                };
                (0..count).try_for_each(|_| self.value(header & 0xf, depth))
            }
            11 => {
                let count = self.number()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.value(kinds >> 4, depth)?;
                    self.value(kinds & 0xf, depth)
                })
            }
            12 => self.structure(depth),
            13 => self.skip(16),
            _ => Err(Fault::Malformed),
        }
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or(Fault::Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Fault> {
        let bytes = usize::try_from(bytes).map_err(|_| Fault::Malformed)?;
        self.rest = self.rest.get(bytes..).ok_or(Fault::Malformed)?;
        Ok(())
    }

    /// Seven bits a byte, the lowest first.
    fn number(&mut self) -> Result<u64, Fault> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Fault::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::is_bounded;

    #[test]
    fn collections_of_booleans_are_refused_wherever_they_stand() {
        // A list, a set and a map of them, each as an unknown field that claims 2^31 - 1.
        assert!(!is_bounded(b"\xf9\xf1\xff\xff\xff\xff\x07"));
        assert!(!is_bounded(b"\xfa\xf2\xff\xff\xff\xff\x07"));
        assert!(!is_bounded(b"\xfb\xff\xff\xff\xff\x07\x11"));
        // In a struct in a list.
        assert!(!is_bounded(b"\x19\x1c\xf9\xf1\xff\xff\xff\xff\x07\0\0"));
    }

    #[test]
    fn everything_else_is_left_to_the_decoder() {
        // Boolean fields, an empty list of booleans, and bytes that end too early.
        assert!(is_bounded(b"\x11\x12\0"));
        assert!(is_bounded(b"\x19\x01\0"));
        assert!(is_bounded(b"") && is_bounded(b"\x18\x7f") && is_bounded(&[0x1c; 500]));
    }
}
