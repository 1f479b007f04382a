//! `csv` as DLIO v2.0 writes it with pandas: a header of column numbers, then a row per sample:
//! first its index, then one number for each of its bytes.
//!
//! The numbers are drawn from 0 to 254, like DLIO's. The number of digits of each follows from its
//! column, in the proportions of a uniform draw, so that the file size is known beforehand.

use std::iter;

use super::bytes::ReadAt;
use super::error::FormatError;
use super::framed::Framer;
use super::{
    ChunkSink, EncodeError, FileLayout, FileSpec, Finish, Format, one_sample, total_payload,
};
use crate::content::BLOCK_BYTES;

/// Tables of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Csv;

/// Digits of this many consecutive columns: of 255 numbers, 155 have three digits, 90 two and 10
/// one. Each entry has the first number with that many digits, and their count.
const DIGITS: [Digits; 3] = [
    Digits { first: 100, count: 155, digits: 3 },
    Digits { first: 10, count: 90, digits: 2 },
    Digits { first: 0, count: 10, digits: 1 },
];
/// Number of columns after which the digit counts repeat.
const TURN: u64 = 255;

/// The numbers with a given number of digits.
struct Digits {
    first: u64,
    count: u64,
    digits: u64,
}

/// The number that `random` yields in column `column`.
fn number(column: u64, random: u8) -> u64 {
    let mut place = column % TURN;
    for Digits { first, count, .. } in &DIGITS {
        match place.checked_sub(*count) {
            None => return first + u64::from(random) % count,
            Some(rest) => place = rest,
        }
    }
    0
}

/// Total digits of the numbers in the first `columns` columns of a row.
fn digits_of_row(columns: u64) -> u128 {
    let of = |columns: u64| {
        let mut rest = columns;
        DIGITS.iter().fold(0, |sum, Digits { count, digits, .. }| {
            let own = rest.min(*count);
            rest -= own;
            sum + digits * own
        })
    };
    u128::from(columns / TURN) * u128::from(of(TURN)) + u128::from(of(columns % TURN))
}

/// Total digits of all numbers below `end`.
fn digits_below(end: u64) -> u128 {
    let powers = std::iter::successors(Some(10u64), |power| power.checked_mul(10));
    let more = powers.take_while(|power| *power < end);
    u128::from(end) + more.map(|power| u128::from(end - power)).sum::<u128>()
}

impl Format for Csv {
    fn file_bytes(&self, file: &FileSpec) -> Option<u64> {
        total_payload(file).ok()?;
        let columns = file.shape.bytes();
        // In each line, a comma precedes every number; each line ends with a newline.
        let header = digits_below(columns) + u128::from(columns) + 1;
        let row = digits_of_row(columns) + u128::from(columns) + 1;
        let rows = digits_below(file.samples) + u128::from(file.samples) * row;
        u64::try_from(header + rows).ok()
    }

    fn encode(&self, file: &FileSpec, sink: &mut dyn ChunkSink) -> Result<Finish, EncodeError> {
        total_payload(file)?;
        let columns = file.shape.bytes();
        let (mut block, mut random) = (0, [0; BLOCK_BYTES]);
        let mut out = Framer::without_content(sink);
        // The header has no index.
        for row in iter::once(None).chain((0..file.samples).map(Some)) {
            let mut text = row.map_or_else(String::new, |row| row.to_string());
            // As many numbers as there are bytes in a block of content.
            for first in (0..columns).step_by(BLOCK_BYTES) {
                if row.is_some() {
                    file.content.fill(block, &mut random);
                    block += 1;
                }
                for (column, random) in (first..columns).zip(random) {
                    let number = row.map_or(column, |_| number(column, random));
                    text.push(',');
                    text.push_str(&number.to_string());
                }
                out.literal(text.as_bytes())?;
                text.clear();
            }
            out.literal(b"\n")?;
        }
        out.end(Finish::default())
    }

    /// The number of rows is unknown without reading the whole text.
    fn inspect(&self, name: &str, source: &mut dyn ReadAt) -> Result<FileLayout, FormatError> {
        one_sample(name, source)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{encode, spec};
    use super::{Csv, Format, digits_below};

    #[test]
    fn a_table_matches_the_output_of_pandas() {
        let (bytes, _) = encode(&Csv, &spec(2, &[3, 4]), 4096);
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], ",0,1,2,3,4,5,6,7,8,9,10,11");
        assert_eq!(lines.len(), 3);
        for (row, line) in lines[1..].iter().enumerate() {
            let numbers: Vec<u64> = line.split(',').map(|word| word.parse().unwrap()).collect();
            assert_eq!((numbers[0], numbers.len()), (row as u64, 13));
            assert!(numbers[1..].iter().all(|number| *number < 255), "{line}");
        }
        assert_ne!(lines[1][1..], lines[2][1..]);
    }

    #[test]
    fn digits_are_counted_without_counting() {
        let mut digits = 0;
        for end in 0..2000u64 {
            assert_eq!(digits_below(end), digits);
            digits += end.to_string().len() as u128;
        }
    }

    proptest! {
        #[test]
        fn a_tables_size_is_known_beforehand(rows in 1u64..15, columns in 1u64..10_000) {
            let file = spec(rows, &[1, columns]);
            let (bytes, _) = encode(&Csv, &file, 8192);
            prop_assert_eq!(Csv.file_bytes(&file), Some(bytes.len() as u64));
        }
    }
}
