//! The container that `torch.save` writes and `torch.load` reads: a zip with stored entries.
//! `data.pkl` describes the tensors; `data/0`, `data/1` and so on are their bytes.
//!
//! Everything except the tensors' bytes follows from their number and length, so it is made
//! beforehand and overlaid on the content while a file is written. The checksums of the tensors'
//! bytes are left 0, as with `torch.serialization.set_crc32_options(False)`: `torch.load` does not
//! check them.

use super::architecture::DataType;

/// Tensors are aligned to this.
const ALIGNMENT: u64 = 64;
/// Marks a 32-bit field that has its value in a zip64 field.
const LARGE: u64 = 0xffff_ffff;
const LOCAL_HEAD: u64 = 30;
const ZIP64_FIELD: u16 = 1;
/// The extra field that torch pads to the alignment with.
const PADDING_FIELD: [u8; 2] = *b"FB";
const FIELD_HEAD: u64 = 4;
/// Version 4.5 of the zip specification: zip64.
const VERSION: u16 = 45;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
/// The version of the container.
const CONTAINER_VERSION: &[u8] = b"3\n";

/// Tensors of one layer, or of the optimizer, in order. Those without elements are left out of the
/// file but keep their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorGroup {
    /// The layer, if the file has the tensors of several.
    pub layer: Option<u64>,
    /// Number of elements of each tensor.
    pub elements: Vec<u64>,
}

/// The contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTensors {
    /// Its name in the folder of the checkpoint.
    pub name: String,
    /// Element type of all tensors.
    pub datatype: DataType,
    /// The tensors.
    pub groups: Vec<TensorGroup>,
}

impl FileTensors {
    /// Elements of each tensor.
    pub fn elements(&self) -> impl Iterator<Item = u64> {
        self.groups.iter().flat_map(|group| &group.elements).copied()
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.elements().sum::<u64>() * self.datatype.bytes()
    }
}

/// Everything in a file except its tensors' bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFraming {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Offset and bytes of each part, in ascending order.
    pub parts: Vec<(u64, Vec<u8>)>,
}

/// Upper bound on the container's overhead for a file with this many tensors, for any version of
/// torch.
pub(super) fn most_overhead(tensors: u64) -> u64 {
    (1 << 14) + 1024 * tensors
}

impl FileFraming {
    /// The framing of a file with `tensors`.
    pub fn of(tensors: &FileTensors) -> Self {
        let mut zip = Zip::default();
        zip.add("data.pkl", ZipData::Known(pickle(tensors)));
        zip.add("byteorder", ZipData::Known(b"little".to_vec()));
        let element_bytes = tensors.datatype.bytes();
        for (index, elements) in tensors.elements().filter(|elements| *elements > 0).enumerate() {
            zip.add(&format!("data/{index}"), ZipData::Tensor(elements * element_bytes));
        }
        zip.add("version", ZipData::Known(CONTAINER_VERSION.to_vec()));
        zip.finish()
    }

    /// The parts within `len` bytes from `offset`, each with its position relative to `offset`.
    pub fn within(&self, offset: u64, len: u64) -> impl Iterator<Item = (usize, &[u8])> {
        let end = offset + len;
        let first =
            self.parts.partition_point(move |(at, bytes)| at + bytes.len() as u64 <= offset);
        let parts = self.parts[first..].iter();
        parts.take_while(move |(at, _)| *at < end).map(move |(at, bytes)| {
            let skipped = offset.saturating_sub(*at) as usize;
            let place = at.saturating_sub(offset);
            let room = (len - place) as usize;
            let rest = &bytes[skipped..];
            (place as usize, &rest[..rest.len().min(room)])
        })
    }
}

/// The data of a zip entry.
enum ZipData {
    Known(Vec<u8>),
    /// This many bytes of content.
    Tensor(u64),
}

#[derive(Default)]
struct Zip {
    framing: FileFraming,
    directory: Vec<u8>,
    entries: u64,
}

impl Zip {
    fn add(&mut self, name: &str, data: ZipData) {
        let name = format!("archive/{name}");
        let (bytes, sum) = match &data {
            ZipData::Known(known) => (known.len() as u64, crc32(known)),
            ZipData::Tensor(bytes) => (*bytes, 0),
        };
        let offset = self.framing.file_bytes;
        let fields = |sizes: bool, place: Option<u64>| {
            let mut large = Vec::new();
            if sizes {
                put(&mut large, &[bytes, bytes]);
            }
            if let Some(place) = place {
                put(&mut large, &[place]);
            }
            let mut field = Vec::new();
            if !large.is_empty() {
                put(&mut field, &[ZIP64_FIELD, large.len() as u16]);
                field.extend(large);
            }
            field
        };
        let is_large = bytes >= LARGE;
        let mut extra = fields(is_large, None);
        let head = offset + LOCAL_HEAD + name.len() as u64 + extra.len() as u64 + FIELD_HEAD;
        let padding = head.next_multiple_of(ALIGNMENT) - head;
        extra.extend(PADDING_FIELD);
        put(&mut extra, &[padding as u16]);
        extra.resize(extra.len() + padding as usize, b'Z');
        let short = |value: u64| value.min(LARGE) as u32;
        // Stored, without a date.
        let common = |out: &mut Vec<u8>, extra: &[u8]| {
            put(out, &[VERSION, FLAGS, 0, 0, 0]);
            put(out, &[sum, short(bytes), short(bytes)]);
            put(out, &[name.len() as u16, extra.len() as u16]);
        };
        let mut local = b"PK\x03\x04".to_vec();
        common(&mut local, &extra);
        local.extend(name.bytes());
        local.extend(extra);
        let far = (offset >= LARGE).then_some(offset);
        let extra = fields(is_large, far);
        self.directory.extend(b"PK\x01\x02");
        put(&mut self.directory, &[VERSION]);
        common(&mut self.directory, &extra);
        // No comment, first disk, no attributes.
        put(&mut self.directory, &[0u16, 0, 0]);
        put(&mut self.directory, &[0u32, short(offset)]);
        self.directory.extend(name.bytes());
        self.directory.extend(extra);
        self.entries += 1;
        let skipped = match data {
            ZipData::Known(known) => {
                local.extend(known);
                0
            }
            ZipData::Tensor(bytes) => bytes,
        };
        self.part(local);
        self.framing.file_bytes += skipped;
    }

    fn part(&mut self, bytes: Vec<u8>) {
        let at = self.framing.file_bytes;
        self.framing.file_bytes += bytes.len() as u64;
        self.framing.parts.push((at, bytes));
    }

    /// Appends the central directory and its end record, also in zip64 form where 32 bits are not
    /// enough.
    fn finish(mut self) -> FileFraming {
        let (start, bytes) = (self.framing.file_bytes, self.directory.len() as u64);
        let mut end = std::mem::take(&mut self.directory);
        if start >= LARGE || self.entries >= 0xffff {
            end.extend(b"PK\x06\x06");
            put(&mut end, &[44u64]);
            put(&mut end, &[VERSION, VERSION]);
            put(&mut end, &[0u32, 0]);
            put(&mut end, &[self.entries, self.entries, bytes, start]);
            end.extend(b"PK\x06\x07");
            put(&mut end, &[0u32]);
            put(&mut end, &[start + bytes]);
            put(&mut end, &[1u32]);
        }
        let entries = self.entries.min(0xffff) as u16;
        end.extend(b"PK\x05\x06");
        put(&mut end, &[0u16, 0, entries, entries]);
        put(&mut end, &[bytes.min(LARGE) as u32, start.min(LARGE) as u32]);
        put(&mut end, &[0u16]);
        self.part(end);
        self.framing
    }
}

/// An integer of a zip file.
trait LittleEndian: Copy {
    fn append(self, out: &mut Vec<u8>);
}

impl LittleEndian for u16 {
    fn append(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl LittleEndian for u32 {
    fn append(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl LittleEndian for u64 {
    fn append(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

fn put<N: LittleEndian>(out: &mut Vec<u8>, numbers: &[N]) {
    for number in numbers {
        number.append(out);
    }
}

/// CRC-32 of a few bytes; tensors get none.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            let mask = (sum & 1).wrapping_neg();
            sum >> 1 ^ 0xedb8_8320 & mask
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// `{"0": tensor, …}`, or a dictionary of these by layer, in pickle protocol 2.
fn pickle(tensors: &FileTensors) -> Vec<u8> {
    let mut out = b"\x80\x02}(".to_vec();
    let mut number = 0u64;
    for group in &tensors.groups {
        if let Some(layer) = group.layer {
            word(&mut out, &layer.to_string());
            out.extend(b"}(");
        }
        for (index, elements) in group.elements.iter().enumerate() {
            if *elements == 0 {
                continue;
            }
            word(&mut out, &index.to_string());
            tensor(&mut out, tensors.datatype, number, *elements);
            number += 1;
        }
        if group.layer.is_some() {
            out.push(b'u');
        }
    }
    out.extend(b"u.");
    out
}

/// A one-dimensional tensor over storage `number`.
fn tensor(out: &mut Vec<u8>, datatype: DataType, number: u64, elements: u64) {
    out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    word(out, "storage");
    out.extend(format!("ctorch\n{}\n", storage(datatype)).bytes());
    word(out, &number.to_string());
    word(out, "cpu");
    whole(out, elements);
    // Offset 0, stride 1.
    out.extend(b"tQK\x00");
    whole(out, elements);
    out.extend(b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR");
}

fn word(out: &mut Vec<u8>, word: &str) {
    out.push(b'X');
    put(out, &[word.len() as u32]);
    out.extend(word.bytes());
}

fn whole(out: &mut Vec<u8>, number: u64) {
    // Nine bytes, so that the highest bit is not taken as the sign.
    out.extend(b"\x8a\x09");
    put(out, &[number]);
    out.push(0);
}

/// torch's name for the storage of such elements. It has no legacy name for 8-bit floats, which are
/// stored as bytes.
fn storage(datatype: DataType) -> &'static str {
    match datatype {
        DataType::Fp8 | DataType::Uint8 => "ByteStorage",
        DataType::Fp16 => "HalfStorage",
        DataType::Bf16 => "BFloat16Storage",
        DataType::Fp32 => "FloatStorage",
        DataType::Fp64 => "DoubleStorage",
        DataType::Int8 => "CharStorage",
        DataType::Int16 => "ShortStorage",
        DataType::Int32 => "IntStorage",
        DataType::Int64 => "LongStorage",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensors(elements: &[u64]) -> FileTensors {
        FileTensors {
            name: String::new(),
            datatype: DataType::Fp32,
            groups: vec![TensorGroup { layer: None, elements: elements.to_vec() }],
        }
    }

    #[test]
    fn checksums_match_those_of_zip() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn tensors_begin_aligned_and_large_ones_have_wide_fields() {
        let framing = FileFraming::of(&tensors(&[10, 0, 1 << 31, 7]));
        let named = |name: &str| {
            let holds =
                |part: &&(u64, Vec<u8>)| part.1.windows(name.len()).any(|w| w == name.as_bytes());
            framing.parts.iter().find(holds).map(|(at, bytes)| at + bytes.len() as u64)
        };
        for name in ["archive/data/0", "archive/data/1", "archive/data/2"] {
            assert_eq!(named(name).map(|end| end % ALIGNMENT), Some(0), "{name}");
        }
        assert_eq!(named("archive/data/3"), None, "a tensor without elements");
        let (_, end) = framing.parts.last().cloned().unwrap_or_default();
        assert!(end.windows(4).any(|word| word == b"PK\x06\x07"));
    }

    proptest! {
        #[test]
        fn parts_are_cut_to_any_stretch(
            elements in proptest::collection::vec(0u64..5000, 1..20), from: u64, len in 1u64..9000
        ) {
            let framing = FileFraming::of(&tensors(&elements));
            let payload: u64 = elements.iter().sum::<u64>() * 4;
            let overhead = framing.file_bytes - payload;
            prop_assert!(overhead <= most_overhead(elements.len() as u64), "{}", overhead);
            let mut file = vec![0u8; framing.file_bytes as usize];
            for (at, bytes) in &framing.parts {
                file[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            let from = from % framing.file_bytes;
            let len = len.min(framing.file_bytes - from);
            let mut stretch = vec![0u8; len as usize];
            for (place, bytes) in framing.within(from, len) {
                stretch[place..place + bytes.len()].copy_from_slice(bytes);
            }
            prop_assert_eq!(&stretch[..], &file[from as usize..(from + len) as usize]);
        }
    }
}
