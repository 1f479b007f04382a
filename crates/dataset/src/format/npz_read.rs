//! Reads the framing of a zip of stored numpy arrays: end record, directory, local headers.

use super::bytes::{ByteWindow, ReadAt, Span, read_span};
use super::error::FormatError;
use super::npy;

pub(super) const LOCAL_SIGNATURE: [u8; 4] = *b"PK\x03\x04";
pub(super) const CENTRAL_SIGNATURE: [u8; 4] = *b"PK\x01\x02";
pub(super) const END_SIGNATURE: [u8; 4] = *b"PK\x05\x06";
pub(super) const END64_SIGNATURE: [u8; 4] = *b"PK\x06\x06";
pub(super) const LOCATOR64_SIGNATURE: [u8; 4] = *b"PK\x06\x07";
pub(super) const LOCAL_BYTES: usize = 30;
pub(super) const CENTRAL_BYTES: usize = 46;
pub(super) const END_BYTES: usize = 22;
pub(super) const END64_BYTES: usize = 56;
pub(super) const LOCATOR64_BYTES: usize = 20;
/// Upper bound on the directory size of a file of samples.
const MAX_DIRECTORY_BYTES: u64 = 1 << 20;
/// Bytes read for a local header, its name and fields, and the numpy header after it.
const MEMBER_HEAD_BYTES: u64 = 1024;

/// A member as listed in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpzMember {
    /// Its name, `x.npy`.
    pub name: String,
    /// Offset of its local header.
    pub header_offset: u64,
    /// Its size in bytes; stored and unpacked sizes are equal.
    pub bytes: u64,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
}

/// Reads the directory of the file `name`.
///
/// # Errors
/// If the end record or the directory does not describe a zip of stored members.
pub fn read_members(name: &str, source: &mut dyn ReadAt) -> Result<Vec<NpzMember>, FormatError> {
    let (members_listed, directory) = read_end(name, source)?;
    let bytes = read_span(name, source, directory, "the zip directory")?;
    let window = ByteWindow::new(name, directory.offset, &bytes);
    let mut members = Vec::new();
    let mut at = 0;
    for _ in 0..members_listed {
        let (member, next) = read_central(&window, at)?;
        members.push(member);
        at = next;
    }
    Ok(members)
}

/// The number of members and the place of the directory.
fn read_end(name: &str, source: &mut dyn ReadAt) -> Result<(u64, Span), FormatError> {
    let file_bytes = source.file_bytes();
    let Some(offset) = file_bytes.checked_sub(END_BYTES as u64) else {
        let expected = "a zip end record of 22 bytes";
        return Err(FormatError::truncated(name, 0, expected, file_bytes));
    };
    let span = Span { offset, bytes: END_BYTES as u64 };
    let bytes = read_span(name, source, span, "the zip end record")?;
    let window = ByteWindow::new(name, offset, &bytes);
    window.expect(0, &END_SIGNATURE, "the zip end record")?;
    let mut members = u64::from(window.u16(10, "the number of members")?);
    let mut directory = Span {
        offset: u64::from(window.u32(16, "the directory's offset")?),
        bytes: u64::from(window.u32(12, "the directory's size")?),
    };
    if directory.offset == u64::from(u32::MAX) {
        (members, directory) = read_end64(name, source, offset)?;
    }
    if directory.bytes > MAX_DIRECTORY_BYTES {
        let expected = format!("a directory of at most {MAX_DIRECTORY_BYTES} bytes");
        return Err(window.wrong(12, expected, format!("{} bytes", directory.bytes)));
    }
    if directory.end() > offset {
        let expected = "a directory that ends before the end record";
        return Err(window.wrong(16, expected, format!("its end at byte {}", directory.end())));
    }
    Ok((members, directory))
}

fn read_end64(
    name: &str,
    source: &mut dyn ReadAt,
    end_offset: u64,
) -> Result<(u64, Span), FormatError> {
    let what = "the zip64 end records";
    let both = (LOCATOR64_BYTES + END64_BYTES) as u64;
    let Some(offset) = end_offset.checked_sub(both) else {
        return Err(FormatError::truncated(name, 0, what, end_offset));
    };
    let span = Span { offset, bytes: both };
    let bytes = read_span(name, source, span, what)?;
    let window = ByteWindow::new(name, offset, &bytes);
    window.expect(END64_BYTES, &LOCATOR64_SIGNATURE, "the zip64 locator")?;
    window.expect(0, &END64_SIGNATURE, "the zip64 end record")?;
    let directory = Span {
        offset: window.u64(48, "the directory's offset")?,
        bytes: window.u64(40, "the directory's size")?,
    };
    Ok((window.u64(32, "the number of members")?, directory))
}

/// Reads the directory entry at `at`; returns it and the start of the next one.
fn read_central(window: &ByteWindow<'_>, at: usize) -> Result<(NpzMember, usize), FormatError> {
    window.expect(at, &CENTRAL_SIGNATURE, "a zip directory entry")?;
    let method = window.u16(at + 10, "the compression method")?;
    if method != 0 {
        return Err(window.wrong(
            at + 10,
            "a stored member (method 0)",
            format!("method {method}"),
        ));
    }
    let name_bytes = usize::from(window.u16(at + 28, "the name's length")?);
    let extra_bytes = usize::from(window.u16(at + 30, "the extra field's length")?);
    let comment_bytes = usize::from(window.u16(at + 32, "the comment's length")?);
    let name = window.take(at + CENTRAL_BYTES, name_bytes, "the member's name")?;
    let extra_at = at + CENTRAL_BYTES + name_bytes;
    window.take(extra_at, extra_bytes + comment_bytes, "the entry's extra fields")?;
    let mut wide = WideFields::find(window, extra_at, extra_bytes)?;
    let unpacked = wide.widen(u64::from(window.u32(at + 24, "the member's size")?))?;
    let stored = wide.widen(u64::from(window.u32(at + 20, "the stored size")?))?;
    let header_offset = wide.widen(u64::from(window.u32(at + 42, "the header's offset")?))?;
    if stored != unpacked {
        let found = format!("{stored} stored, {unpacked} unpacked");
        return Err(window.wrong(at + 20, "equal sizes of a stored member", found));
    }
    let member = NpzMember {
        name: String::from_utf8_lossy(name).into_owned(),
        header_offset,
        bytes: unpacked,
        crc32: window.u32(at + 16, "the CRC")?,
    };
    Ok((member, extra_at + extra_bytes + comment_bytes))
}

/// The 64-bit values, in order, that replace 32-bit fields of all ones.
struct WideFields<'a, 'w> {
    window: &'w ByteWindow<'a>,
    at: usize,
    end: usize,
}

impl<'a, 'w> WideFields<'a, 'w> {
    fn find(window: &'w ByteWindow<'a>, at: usize, bytes: usize) -> Result<Self, FormatError> {
        let end = at + bytes;
        let mut field = at;
        while field + 4 <= end {
            let id = window.u16(field, "an extra field")?;
            let size = usize::from(window.u16(field + 2, "an extra field")?);
            let start = field + 4;
            if id == 1 {
                let end = (start + size).min(end);
                return Ok(Self { window, at: start, end });
            }
            field = start + size;
        }
        Ok(Self { window, at: end, end })
    }

    fn widen(&mut self, narrow: u64) -> Result<u64, FormatError> {
        if narrow != u64::from(u32::MAX) {
            return Ok(narrow);
        }
        if self.at + 8 > self.end {
            let found = "none left";
            return Err(self.window.wrong(self.at, "a zip64 value", found));
        }
        let value = self.window.u64(self.at, "a zip64 value")?;
        self.at += 8;
        Ok(value)
    }
}

/// Reads the local header of the file's first member and its numpy header from the first bytes of
/// the file (512 are enough for numpy's), and returns the position of the array.
///
/// # Errors
/// If the headers do not describe a stored npy member, or it does not fit in `file_bytes`.
pub fn read_head(
    name: &str,
    file_bytes: u64,
    head: &[u8],
) -> Result<(npy::Header, Span), FormatError> {
    let window = ByteWindow::new(name, 0, head);
    window.expect(0, &LOCAL_SIGNATURE, "a zip member")?;
    let method = window.u16(8, "the compression method")?;
    if method != 0 {
        return Err(window.wrong(8, "a stored member (method 0)", format!("method {method}")));
    }
    let name_bytes = usize::from(window.u16(26, "the name's length")?);
    let extra_bytes = usize::from(window.u16(28, "the extra field's length")?);
    let member = String::from_utf8_lossy(window.take(LOCAL_BYTES, name_bytes, "a name")?);
    let extra_at = LOCAL_BYTES + name_bytes;
    let mut wide = WideFields::find(&window, extra_at, extra_bytes)?;
    let bytes = wide.widen(u64::from(window.u32(22, "the member's size")?))?;
    let data = Span { offset: (extra_at + extra_bytes) as u64, bytes };
    array_of(name, &member, data, file_bytes, &window)
}

/// Reads the headers of `member` and returns the position of its array.
pub(super) fn read_array(
    name: &str,
    source: &mut dyn ReadAt,
    member: &NpzMember,
) -> Result<(npy::Header, Span), FormatError> {
    let file_bytes = source.file_bytes();
    let head = Span {
        offset: member.header_offset,
        bytes: MEMBER_HEAD_BYTES.min(file_bytes.saturating_sub(member.header_offset)),
    };
    let head = read_span(name, source, head, "a zip member")?;
    let window = ByteWindow::new(name, member.header_offset, &head);
    window.expect(0, &LOCAL_SIGNATURE, "a zip member")?;
    let name_bytes = u64::from(window.u16(26, "the name's length")?);
    let extra_bytes = u64::from(window.u16(28, "the extra field's length")?);
    let data = Span {
        offset: member.header_offset + LOCAL_BYTES as u64 + name_bytes + extra_bytes,
        bytes: member.bytes,
    };
    array_of(name, &member.name, data, file_bytes, &window)
}

/// Checks the end record and the directory in `tail`, the bytes of the file from `offset` to its
/// end. A directory that starts before `offset` is not checked.
///
/// # Errors
/// If they are not a zip's.
pub fn check_tail(name: &str, offset: u64, tail: &[u8]) -> Result<(), FormatError> {
    let window = ByteWindow::new(name, offset, tail);
    let Some(end) = tail.len().checked_sub(END_BYTES) else {
        // The record starts in the piece before this one.
        return Ok(());
    };
    window.expect(end, &END_SIGNATURE, "the zip end record")?;
    let directory = u64::from(window.u32(end + 16, "the directory's offset")?);
    match directory.checked_sub(offset) {
        Some(at) if at < end as u64 => {
            window.expect(at as usize, &CENTRAL_SIGNATURE, "a zip directory entry")
        }
        _ => Ok(()),
    }
}

/// The array inside the member's data, which starts in the window.
fn array_of(
    name: &str,
    member: &str,
    data: Span,
    file_bytes: u64,
    window: &ByteWindow<'_>,
) -> Result<(npy::Header, Span), FormatError> {
    if data.end() > file_bytes {
        let expected = format!("member `{member}` of {} bytes", data.bytes);
        return Err(FormatError::truncated(name, data.offset, expected, file_bytes));
    }
    let start = (data.offset - window.offset) as usize;
    let available = window.bytes.get(start..).unwrap_or_default();
    let header = npy::parse(name, data.offset, available)?;
    if header.header_bytes.checked_add(header.array_bytes) != Some(data.bytes) {
        let expected = format!("an array that fills the member's {} bytes", data.bytes);
        let found = format!("{} bytes by its shape", header.array_bytes);
        return Err(FormatError::unexpected(name, data.offset, expected, found));
    }
    let array = Span { offset: data.offset + header.header_bytes, bytes: header.array_bytes };
    Ok((header, array))
}
