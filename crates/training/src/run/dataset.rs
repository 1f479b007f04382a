//! The dataset as seen by loaders: an epoch's order over the files of a folder, in the plan's read
//! pattern.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stormlp_dataset::format::hdf5;
use stormlp_dataset::format::indexed_binary::{OFFSETS_SUFFIX, SIZES_SUFFIX, read_index};
use stormlp_dataset::format::parquet::read_footer;
use stormlp_dataset::format::{FormatError, OpenFile, Span, Spans};
use stormlp_transfer::storage::Storage;

use super::error::TrainError;
use super::machine::{Cursor, ReadRequest, ReadResult, Unit};
use super::requests::{self, Requests};
use super::source::{self, DataFile, Extents, ReadPlan, Reads, Source};

/// An epoch's order: maps a loader's next read to a file.
pub trait EpochIndex: Send + Sync {
    /// File and position within it of an accelerator's n-th sample.
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64);

    /// An accelerator's n-th file.
    fn file(&self, accelerator: u32, nth: u64) -> u64;
}

/// The read pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessPattern {
    /// The whole file for each sample.
    File {
        /// The sequence of reads.
        requests: Requests,
        /// The headers of every file.
        framing: Option<source::Framing>,
    },
    /// One sample of a file with an index beside it.
    Indexed,
    /// One sample of an HDF5 file.
    Hdf5 {
        /// Samples per file.
        samples: u64,
        /// Whether to also issue h5py's other reads of the file.
        as_h5py: bool,
    },
    /// Record files, in reads of a fixed size.
    Records {
        /// Bytes per read.
        transfer_bytes: u64,
    },
    /// Row groups of a columnar file.
    RowGroups {
        /// The columns to read; empty for all.
        columns: Vec<String>,
        /// Row groups per file.
        groups_per_file: u64,
        /// Workers per accelerator, which share its files.
        workers: u64,
    },
    /// Imaginary records of fixed size, with a fixed number per file.
    NullRecords {
        /// Bytes per record with its framing.
        record_bytes: u64,
        /// Bytes per read.
        transfer_bytes: u64,
    },
    /// Imaginary samples or row groups.
    Null {
        /// Bytes of each.
        bytes: u64,
    },
}

/// One epoch over the files of a folder.
pub struct DatasetSource {
    files: Arc<Vec<DataFile>>,
    pattern: AccessPattern,
    index: Arc<dyn EpochIndex>,
    /// The number of this host's first accelerator in that order.
    first_accelerator: u32,
    framing: Arc<FramingCache>,
}

impl DatasetSource {
    /// An epoch in the order of `index` for the accelerators from `first_accelerator` on. All epochs
    /// of a run share `framing`.
    pub fn new(
        files: Arc<Vec<DataFile>>,
        pattern: AccessPattern,
        (index, first_accelerator): (Arc<dyn EpochIndex>, u32),
        framing: Arc<FramingCache>,
    ) -> Self {
        Self { files, pattern, index, first_accelerator, framing }
    }

    fn whole(&self, file: usize) -> Span {
        Span { offset: 0, bytes: self.files[file].bytes }
    }

    fn sample(&self, accelerator: u32, nth: u64) -> Result<ReadPlan, TrainError> {
        let (file, position) = self.index.sample(accelerator, nth);
        let file = file as usize;
        let whole = self.whole(file);
        let mut framing = None;
        let extents = match &self.pattern {
            AccessPattern::Indexed => {
                Extents::One(self.framing.sample(&self.files[file], position)?)
            }
            AccessPattern::Hdf5 { samples, as_h5py } => {
                hdf5_sample(&self.files[file], *samples, position, *as_h5py)?
            }
            AccessPattern::Null { bytes } => Extents::One(Span { offset: 0, bytes: *bytes }),
            AccessPattern::File { requests, framing: known } => {
                framing = *known;
                Extents::File(*requests, whole.bytes)
            }
            _ => Extents::One(whole),
        };
        let landed = ReadResult { samples: 1, ..ReadResult::default() };
        Ok(known(file, extents, landed, framing))
    }

    fn group(&self, accelerator: u32, worker: u64, nth: u64) -> Result<ReadPlan, TrainError> {
        let (columns, groups_per_file, workers) = match &self.pattern {
            AccessPattern::RowGroups { columns, groups_per_file, workers } => {
                (columns, groups_per_file, workers)
            }
            AccessPattern::Null { bytes } => {
                let group = Span { offset: 0, bytes: *bytes };
                return Ok(known(0, Extents::One(group), ReadResult::default(), None));
            }
            _ => return Ok(known(0, Extents::One(self.whole(0)), ReadResult::default(), None)),
        };
        // Worker k takes every W-th file of its accelerator, starting from the k-th.
        let own = worker + nth / groups_per_file * workers;
        let file = self.index.file(accelerator, own) as usize;
        let group = nth % groups_per_file;
        let spans = self.framing.row_group(&self.files[file], columns, group)?;
        let extents = Extents::Many(joined(&spans));
        Ok(known(file, extents, ReadResult::default(), None))
    }

    fn records(&self, accelerator: u32, nth: u64, from: Cursor) -> ReadPlan {
        let file = self.index.file(accelerator, nth) as usize;
        match self.pattern {
            AccessPattern::NullRecords { record_bytes, transfer_bytes } => {
                let file_bytes = self.files[file].bytes;
                null_records(file, file_bytes, record_bytes, transfer_bytes, from)
            }
            AccessPattern::Records { transfer_bytes } => {
                ReadPlan { file, reads: Reads::Records { from, transfer_bytes }, framing: None }
            }
            _ => known(
                file,
                Extents::One(self.whole(file)),
                ReadResult { samples: 1, cursor: from, ended: true },
                None,
            ),
        }
    }
}

/// The next records of an imaginary file.
pub fn null_records(
    file: usize,
    file_bytes: u64,
    record_bytes: u64,
    transfer_bytes: u64,
    from: Cursor,
) -> ReadPlan {
    let record_end = (from.record + 1) * record_bytes;
    let read_to = record_end.next_multiple_of(transfer_bytes.max(1)).min(file_bytes);
    let record = read_to / record_bytes;
    let extent =
        Span { offset: from.read_to_bytes, bytes: read_to.saturating_sub(from.read_to_bytes) };
    let landed = ReadResult {
        samples: record - from.record,
        cursor: Cursor { record, read_to_bytes: read_to },
        ended: read_to == file_bytes,
    };
    known(file, Extents::One(extent), landed, None)
}

/// The reads of a sample of an HDF5 file, located from the file size.
fn hdf5_sample(
    file: &DataFile,
    samples: u64,
    position: u64,
    as_h5py: bool,
) -> Result<Extents, TrainError> {
    let records = hdf5::records(file.bytes, samples).ok_or_else(|| {
        TrainError::Corrupt(FormatError::Unexpected {
            file: file.path.display().to_string(),
            offset: 0,
            expected: format!("{samples} samples of one size and their labels"),
            found: format!("{} bytes", file.bytes),
        })
    })?;
    let bytes = records.bytes / samples;
    let offset = records.offset + position * bytes;
    let sample = Span { offset, bytes };
    Ok(if as_h5py {
        Extents::Many(requests::h5py(sample, records.end()))
    } else {
        Extents::One(sample)
    })
}

/// Merges adjacent spans: a row group whose columns are all read becomes a single read.
fn joined(spans: &[Span]) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if last.end() == span.offset => last.bytes += span.bytes,
            _ => joined.push(*span),
        }
    }
    joined
}

fn known(
    file: usize,
    extents: Extents,
    landed: ReadResult,
    framing: Option<source::Framing>,
) -> ReadPlan {
    ReadPlan { file, reads: Reads::Known { extents, keep_open: false, landed }, framing }
}

impl Source for DatasetSource {
    fn files(&self) -> &[DataFile] {
        &self.files
    }

    fn plan(&self, request: &ReadRequest) -> Result<ReadPlan, TrainError> {
        let accelerator = self.first_accelerator + request.accelerator;
        match request.read.unit {
            Unit::Sample(nth) => self.sample(accelerator, nth),
            Unit::Group { worker, nth } => self.group(accelerator, u64::from(worker), nth),
            Unit::Records { file, from } => Ok(self.records(accelerator, file, from)),
        }
    }
}

/// Framing that must be read before a sample can be located: the row groups of columnar files and
/// the offsets in indexed files. Results are cached; the oldest are evicted.
pub struct FramingCache {
    storage: Arc<dyn Storage>,
    limit: usize,
    kept: Mutex<CachedFraming>,
}

#[derive(Default)]
struct CachedFraming {
    files: HashMap<PathBuf, Arc<Vec<Vec<Span>>>>,
    order: std::collections::VecDeque<PathBuf>,
}

impl FramingCache {
    /// Caches the framing of up to `limit` files.
    pub fn new(storage: Arc<dyn Storage>, limit: usize) -> Self {
        Self { storage, limit: limit.max(1), kept: Mutex::default() }
    }

    fn get(
        &self,
        file: &DataFile,
        read: impl FnOnce() -> Result<Vec<Vec<Span>>, TrainError>,
    ) -> Result<Arc<Vec<Vec<Span>>>, TrainError> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(framing) = kept().files.get(&file.path) {
            return Ok(Arc::clone(framing));
        }
        let framing = Arc::new(read()?);
        let mut kept = kept();
        kept.files.insert(file.path.clone(), Arc::clone(&framing));
        kept.order.push_back(file.path.clone());
        if kept.order.len() > self.limit
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.files.remove(&oldest);
        }
        Ok(framing)
    }

    /// The position of a sample in an indexed file.
    fn sample(&self, file: &DataFile, position: u64) -> Result<Span, TrainError> {
        let framing = self.get(file, || {
            let name = file.path.display().to_string();
            let mut offsets = open(&*self.storage, format!("{name}{OFFSETS_SUFFIX}").as_ref())?;
            let mut sizes = open(&*self.storage, format!("{name}{SIZES_SUFFIX}").as_ref())?;
            let layout = read_index(&name, file.bytes, &mut offsets, &mut sizes)?;
            let Spans::Each(spans) = layout.spans else {
                return Ok(vec![Vec::new()]);
            };
            Ok(vec![spans])
        })?;
        let span = framing[0].get(position as usize).copied();
        span.ok_or_else(|| missing(file, &format!("sample {position}"), framing[0].len()))
    }

    fn row_group(
        &self,
        file: &DataFile,
        columns: &[String],
        group: u64,
    ) -> Result<Vec<Span>, TrainError> {
        let framing = self.get(file, || {
            let name = file.path.display().to_string();
            let footer = read_footer(&name, &mut open(&*self.storage, &file.path)?)?;
            let wanted = |path: &String| {
                let base = path.split('.').next().unwrap_or(path);
                columns.is_empty() || columns.iter().any(|column| column == base)
            };
            let wanted: Vec<bool> = footer.columns.iter().map(wanted).collect();
            let groups = footer.row_groups.into_iter().map(|group| {
                let chunks = group.chunks.into_iter().zip(&wanted);
                chunks.filter(|(_, wanted)| **wanted).map(|(chunk, _)| chunk).collect()
            });
            Ok(groups.collect())
        })?;
        let spans = framing.get(group as usize).cloned();
        spans.ok_or_else(|| missing(file, &format!("row group {group}"), framing.len()))
    }
}

fn missing(file: &DataFile, what: &str, found: usize) -> TrainError {
    TrainError::Corrupt(FormatError::Unexpected {
        file: file.path.display().to_string(),
        offset: 0,
        expected: what.to_string(),
        found: format!("only {found} of them"),
    })
}

/// Opens a file to read its framing.
pub(super) fn open<'a>(storage: &'a dyn Storage, path: &Path) -> Result<OpenFile<'a>, TrainError> {
    OpenFile::open(storage, path).map_err(|error| {
        TrainError::Corrupt(FormatError::Read {
            file: path.display().to_string(),
            offset: 0,
            source: error.into_io(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_that_touch_each_other_are_one_read() {
        let span = |offset, bytes| Span { offset, bytes };
        let columns = [span(4, 10), span(14, 6), span(30, 5), span(35, 1)];
        assert_eq!(joined(&columns), [span(4, 16), span(30, 6)]);
    }

    #[test]
    fn an_hdf5_sample_is_located_by_the_file_size() {
        let file = |bytes| DataFile { path: "a.hdf5".into(), bytes };
        let sample = hdf5_sample(&file(642_080), 4, 2, false).unwrap();
        let span = Span { offset: 322_048, bytes: 160_000 };
        assert_eq!(sample, Extents::One(span));
        let read = hdf5_sample(&file(642_080), 4, 2, true).unwrap();
        assert_eq!((read.nth(8), read.nth(9)), (Some(span), None));
        let error = hdf5_sample(&file(642_081), 4, 2, true).unwrap_err();
        assert!(error.to_string().contains("4 samples of one size"), "{error}");
    }

    proptest! {
        #[test]
        fn null_records_cover_the_file_once(
            record_bytes in 1u64..5000, records in 1u64..200, transfer_bytes in 1u64..10_000,
        ) {
            let file_bytes = record_bytes * records;
            let (mut from, mut samples, mut bytes) = (Cursor::default(), 0, 0);
            for _ in 0..=records {
                let plan = null_records(0, file_bytes, record_bytes, transfer_bytes, from);
                let Reads::Known { extents, landed, .. } = plan.reads else { panic!("known") };
                prop_assert!(landed.samples > 0);
                samples += landed.samples;
                bytes += extents.nth(0).unwrap().bytes;
                from = landed.cursor;
                if landed.ended {
                    break;
                }
            }
            prop_assert_eq!((samples, bytes), (records, file_bytes));
        }
    }
}
