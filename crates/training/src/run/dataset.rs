//! The dataset as seen by loaders: an epoch's order over the files of a folder, in the plan's read
//! pattern.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stormlp_dataset::format::hdf5;
use stormlp_dataset::format::indexed_binary::{OFFSETS_SUFFIX, SIZES_SUFFIX, read_index};
use stormlp_dataset::format::parquet::read_footer;
use stormlp_dataset::format::{FormatError, OpenFile, Span, Spans};
use stormlp_dataset::section::{DataFormat, ParquetColumn};
use stormlp_transfer::storage::Storage;

use super::error::TrainError;
use super::machine::{Cursor, ReadRequest, ReadResult, Unit};
use super::requests;
use super::source::{self, DataFile, Extents, ReadPlan, Reads, Source};
use crate::plan::train_plan::{ReadPattern, TrainPlan};

/// Bytes of framing around a tfrecord's payload: length, CRC, CRC (and the Example's).
const RECORD_FRAMING_BYTES: f64 = 16.0;

/// An epoch's order: maps a loader's next read to a file.
pub trait EpochIndex: Send + Sync {
    /// File and position within it of an accelerator's n-th sample.
    fn sample(&self, accelerator: u32, nth: u64) -> (u64, u64);

    /// An accelerator's n-th file.
    fn file(&self, accelerator: u32, nth: u64) -> u64;
}

/// One epoch over the files of a folder, in the read pattern of its plan.
pub struct DatasetSource {
    pub(super) plan: Arc<TrainPlan>,
    pub(super) files: Arc<Vec<DataFile>>,
    pub(super) index: Arc<dyn EpochIndex>,
    /// The number of this host's first accelerator in that order.
    pub(super) first_accelerator: u32,
    /// Shared by all epochs of a run.
    pub(super) framing: Arc<FramingCache>,
}

impl DatasetSource {
    fn sample(&self, accelerator: u32, nth: u64) -> Result<ReadPlan, TrainError> {
        let (index, position) = self.index.sample(accelerator, nth);
        let (file, data) = (&self.files[index as usize], &self.plan.data);
        let mut framing = None;
        let extents = match &self.plan.reads {
            ReadPattern::IndexedSample | ReadPattern::H5py if self.plan.is_null() => {
                Extents::One(Span { offset: 0, bytes: data.sample_bytes as u64 })
            }
            _ if self.plan.is_null() => Extents::One(Span { offset: 0, bytes: file.bytes }),
            ReadPattern::IndexedSample if data.format != DataFormat::Hdf5 => {
                Extents::One(self.framing.sample(file, position)?)
            }
            pattern @ (ReadPattern::IndexedSample | ReadPattern::H5py) => {
                let as_h5py = *pattern == ReadPattern::H5py;
                hdf5_sample(file, data.samples_per_file, position, as_h5py)?
            }
            pattern => {
                framing = headers(data.format);
                Extents::File(requests::of(pattern), file.bytes)
            }
        };
        let landed = ReadResult { samples: 1, ..ReadResult::default() };
        Ok(known(index as usize, extents, landed, framing))
    }

    fn group(&self, accelerator: u32, worker: u64, nth: u64) -> Result<ReadPlan, TrainError> {
        let data = &self.plan.data;
        let landed = ReadResult::default();
        if self.plan.is_null() {
            let bytes = (data.read_sample_bytes * data.row_group_rows as f64) as u64;
            return Ok(known(0, Extents::One(Span { offset: 0, bytes }), landed, None));
        }
        // Worker k reads every W-th file of its accelerator, starting from the k-th.
        let groups_per_file = data.samples_per_file.div_ceil(data.rows_of_group());
        let workers = u64::from(self.plan.loader.read_threads().max(1));
        let own = worker + nth / groups_per_file * workers;
        let file = self.index.file(accelerator, own) as usize;
        let group = nth % groups_per_file;
        let spans = self.framing.row_group(&self.files[file], &data.columns, group)?;
        Ok(known(file, Extents::Many(joined(&spans)), landed, None))
    }

    fn records(&self, accelerator: u32, nth: u64, from: Cursor) -> ReadPlan {
        let file = self.index.file(accelerator, nth) as usize;
        let (file_bytes, data) = (self.files[file].bytes, &self.plan.data);
        let transfer_bytes = match self.plan.reads {
            ReadPattern::Records { transfer_size } => transfer_size,
            _ => file_bytes,
        };
        if self.plan.is_null() {
            let record = data.mean_file_bytes() / data.samples_per_file.max(1) as f64;
            let record_bytes = record.max(RECORD_FRAMING_BYTES) as u64;
            return null_records(file, file_bytes, record_bytes, transfer_bytes, from);
        }
        ReadPlan { file, reads: Reads::Records { from, transfer_bytes }, framing: None }
    }
}

/// The headers in every file of a format. v3.0's jpeg files are raw bytes without headers.
fn headers(format: DataFormat) -> Option<source::Framing> {
    match format {
        DataFormat::Npz => Some(source::Framing::Npz),
        DataFormat::Npy => Some(source::Framing::Npy),
        _ => None,
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

/// Merges adjacent spans: a row group with all columns read becomes a single read.
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
/// the offsets in indexed files. Results are cached.
pub struct FramingCache {
    storage: Arc<dyn Storage>,
    limit: usize,
    kept: Mutex<HashMap<PathBuf, Arc<Vec<Vec<Span>>>>>,
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
        if let Some(framing) = kept().get(&file.path) {
            return Ok(Arc::clone(framing));
        }
        let framing = Arc::new(read()?);
        let mut kept = kept();
        // Readers go on to other files, so that hardly any is read twice.
        if kept.len() >= self.limit {
            kept.clear();
        }
        kept.insert(file.path.clone(), Arc::clone(&framing));
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
        columns: &[ParquetColumn],
        group: u64,
    ) -> Result<Vec<Span>, TrainError> {
        let framing = self.get(file, || {
            let name = file.path.display().to_string();
            let footer = read_footer(&name, &mut open(&*self.storage, &file.path)?)?;
            let all = columns.iter().all(|column| column.read);
            let wanted = |path: &String| {
                let base = path.split('.').next().unwrap_or(path);
                all || columns.iter().any(|column| column.read && column.name == base)
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
