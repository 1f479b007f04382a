//! Calculates the requests that reads send to storage; there are no files.

use std::sync::Arc;

use crate::plan::Scenario;
use stormlp_core::path::PathKind;
use stormlp_dataset::format::Span;
use stormlp_dataset::section::DataFormat;
use stormlp_dataset::sizes::{FileSizes, SizeDraw, SizeRule};
use stormlp_training::plan::train_plan::{LoaderPlan, ReadPattern, TrainPlan};

use stormlp_training::run::dataset::{EpochIndex, null_records};
use stormlp_training::run::machine::{ReadRequest, ReadResult, Unit};
use stormlp_training::run::prepare;
use stormlp_training::run::requests;
use stormlp_training::run::requests::Requests;
use stormlp_training::run::source::Reads as Known;

/// Number of files with individual sizes, which the following files repeat. More would dominate memory
/// and time.
const SIZES_DRAWN: u64 = 1 << 16;
/// Requests that kernel read-ahead keeps in flight for a sequential reader: the current one and the
/// next.
const READ_AHEAD_WINDOW: u64 = 2;
/// Direct I/O: request size, and requests in flight per file, as in a real run.
const DIRECT_REQUEST_BYTES: u64 = 1 << 20;
const DIRECT_WINDOW: u64 = 4;
/// Largest request for an object, as in a real run.
const OBJECT_REQUEST_BYTES: u64 = 16 << 20;
/// Default size of a buffered read.
const BUFFERED_REQUEST_BYTES: u64 = 256 << 10;
/// Largest single read of a whole file.
const ONE_READ_BYTES: u64 = 16 << 20;
/// Framing of a TFRecord: length and two checksums.
const RECORD_FRAMING_BYTES: f64 = 16.0;
/// Offset of the array in an HDF5 file.
const HDF5_ARRAY_OFFSET: u64 = 2048;

/// The data and requests of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimulatedRead {
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Requests that reach the devices or the network.
    pub(super) requests: u64,
    /// Whether the same bytes were read just before.
    pub(super) again: bool,
}

/// How reads are split into requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Calls {
    /// Largest request.
    pub(super) most_bytes: u64,
    /// Requests in flight per read.
    pub(super) window: u64,
    /// Kernel read-ahead; `None` if requests reach storage unchanged.
    pub(super) read_ahead: Option<u64>,
    /// A HEAD goes before each read of an object of this size or more.
    pub(super) head_from_bytes: Option<u64>,
    /// Whether reads bypass the page cache.
    pub(super) direct: bool,
    /// Reads in flight at a time.
    pub(super) reads_at_once: usize,
}

impl Calls {
    /// The requests of `plan`; with null storage, on a host without a limit on reads in flight.
    pub(super) fn of(plan: &TrainPlan, scenario: &Scenario) -> Self {
        let transport = &plan.transport;
        let is_null = transport.path == PathKind::Null;
        let direct = scenario.direct || (!is_null && transport.path.wants_direct());
        let reads_at_once =
            if is_null { usize::MAX } else { transport.threads * transport.queue_depth };
        let read_ahead = scenario.storage.read_ahead_bytes_or_default();
        let read_ahead = (!direct && read_ahead > 0).then_some(read_ahead);
        let (most_bytes, window) = match (is_null, direct) {
            _ if scenario.objects => (OBJECT_REQUEST_BYTES, 1),
            (false, _) => (transport.chunk_bytes, transport.window as u64),
            (true, true) => (DIRECT_REQUEST_BYTES, DIRECT_WINDOW),
            (true, false) => (buffered_bytes(plan), 1),
        };
        Self {
            most_bytes: most_bytes.max(1),
            window: match read_ahead {
                Some(_) => READ_AHEAD_WINDOW,
                None => window.max(1),
            },
            read_ahead,
            head_from_bytes: plan.head_from_bytes().filter(|_| scenario.objects),
            direct,
            reads_at_once,
        }
    }

    /// Bytes and requests of a read of a whole file.
    fn of_file(&self, reads: Requests, file_bytes: u64) -> (u64, u64) {
        let (made, bytes) = reads.sum(file_bytes, self.most_bytes);
        let at_end = self.read_ahead.is_some() && reads.looks_at_end();
        let head = self.head_from_bytes.is_some_and(|from| file_bytes >= from);
        (bytes, self.requests(bytes, made) + u64::from(at_end) + u64::from(head))
    }

    /// Number of requests for `bytes` read in `made` calls.
    fn requests(&self, bytes: u64, made: u64) -> u64 {
        let requests = match self.read_ahead {
            Some(ahead) => bytes.div_ceil(ahead),
            None => made,
        };
        requests.max(1)
    }
}

/// Size of buffered reads, as chosen by a run's transport.
fn buffered_bytes(plan: &TrainPlan) -> u64 {
    if !plan.reads.is_one_read() {
        return BUFFERED_REQUEST_BYTES;
    }
    let wanted = (2.0 * plan.data.read_bytes(&plan.reads)) as u64;
    wanted.clamp(BUFFERED_REQUEST_BYTES, ONE_READ_BYTES)
}

/// Sizes of the first files, which repeat for the rest.
#[derive(Debug)]
pub(super) struct Sizes(Vec<u64>);

impl Sizes {
    /// Sizes of the training files of `plan`, drawn as by DLIO if they differ.
    pub(super) fn of(plan: &TrainPlan, scenario: &Scenario) -> Self {
        let data = &plan.data;
        if scenario.sample_stdev_bytes <= 0.0 {
            return Self::mean(plan);
        }
        let rule = SizeRule::Length {
            mean_bytes: data.sample_bytes,
            stdev_bytes: scenario.sample_stdev_bytes,
        };
        let files = data.files.clamp(1, SIZES_DRAWN);
        let drawn = FileSizes::draw(&rule, files, SizeDraw::Shared);
        let of_file = |file| drawn.shape(file).bytes() * data.samples_per_file;
        Self((0..files).map(of_file).collect())
    }

    /// The mean size for all files.
    pub(super) fn mean(plan: &TrainPlan) -> Self {
        Self(vec![plan.data.mean_file_bytes().round() as u64])
    }

    fn each(&self) -> &[u64] {
        &self.0
    }

    fn bytes(&self, file: u64) -> u64 {
        self.0[(file % self.0.len() as u64) as usize]
    }
}

/// The extent of a read.
#[derive(Debug)]
enum What {
    /// Whole files: bytes and requests by file number, modulo the length.
    Files(Vec<(u64, u64)>, Requests),
    Samples {
        bytes: u64,
        of_file: u64,
        as_h5py: bool,
    },
    Records {
        record_bytes: u64,
        transfer_bytes: u64,
    },
    Groups {
        row_bytes: f64,
        /// Rows of each row group of a file.
        rows: Vec<u64>,
        /// Contiguous ranges that the columns are stored in.
        stretches: u64,
        workers: u64,
    },
}

impl What {
    fn of(plan: &TrainPlan, calls: &Calls, sizes: &Sizes) -> Self {
        let data = &plan.data;
        let samples = data.samples_per_file.max(1);
        match &plan.reads {
            ReadPattern::Records { transfer_size } => Self::Records {
                record_bytes: (data.mean_file_bytes() / samples as f64).max(RECORD_FRAMING_BYTES)
                    as u64,
                transfer_bytes: (*transfer_size).max(1),
            },
            ReadPattern::RowGroups => Self::Groups {
                row_bytes: data.read_sample_bytes,
                rows: prepare::rows_of_groups(samples, data.row_group_rows),
                stretches: stretches(plan),
                workers: match plan.loader {
                    LoaderPlan::Workers { read_threads, .. } => u64::from(read_threads.max(1)),
                    LoaderPlan::Interleave { .. } => 1,
                },
            },
            ReadPattern::IndexedSample | ReadPattern::H5py => Self::Samples {
                bytes: data.sample_bytes as u64,
                of_file: samples,
                as_h5py: plan.reads == ReadPattern::H5py,
            },
            pattern => {
                let requests = requests::of(pattern);
                let files = sizes.each().iter().map(|bytes| calls.of_file(requests, *bytes));
                Self::Files(files.collect(), requests)
            }
        }
    }
}

/// Number of contiguous ranges of the columns that are read.
fn stretches(plan: &TrainPlan) -> u64 {
    let columns = &plan.data.columns;
    let begins = |nth: usize| columns[nth].read && (nth == 0 || !columns[nth - 1].read);
    let count = (0..columns.len()).filter(|nth| begins(*nth)).count();
    count.max(1) as u64
}

/// The reads of one phase.
pub(super) struct Reads {
    what: What,
    calls: Calls,
    sizes: Arc<Sizes>,
    index: Arc<dyn EpochIndex>,
}

impl Reads {
    pub(super) fn new(
        plan: &TrainPlan,
        calls: Calls,
        sizes: &Arc<Sizes>,
        index: Arc<dyn EpochIndex>,
    ) -> Self {
        Self { what: What::of(plan, &calls, sizes), calls, sizes: Arc::clone(sizes), index }
    }

    /// Request size of a typical read.
    pub(super) fn usual_request_bytes(&self) -> u64 {
        let asked = match &self.what {
            What::Files(..) | What::Samples { .. } => self.sample(0, 0),
            What::Records { transfer_bytes, .. } => {
                let span = Span { offset: 0, bytes: *transfer_bytes };
                self.of_span(0, span, transfer_bytes.div_ceil(self.calls.most_bytes))
            }
            What::Groups { .. } => self.group(0, 0, 0),
        };
        (asked.bytes / asked.requests).max(1)
    }

    /// The data and requests of a read.
    pub(super) fn asked(&self, request: &ReadRequest) -> SimulatedRead {
        let rank = request.accelerator;
        match request.read.unit {
            Unit::Sample(nth) => {
                let (file, position) = self.index.sample(rank, nth);
                self.sample(file, position)
            }
            Unit::Group { worker, nth } => self.group(rank, u64::from(worker), nth),
            Unit::Records { file, .. } => {
                let file = self.index.file(rank, file);
                let Some(span) = self.records(request, file).0 else {
                    return self.sample(file, 0);
                };
                let made = span.bytes.div_ceil(self.calls.most_bytes);
                self.of_span(file, span, made)
            }
        }
    }

    /// Bytes of the first `count` requests of a read. Request sizes can differ, depending on the library
    /// that reads the file.
    pub(super) fn bytes_of_first(&self, count: u64, asked: &SimulatedRead) -> u64 {
        match &self.what {
            What::Files(_, requests) if self.calls.read_ahead.is_none() => {
                let file_bytes = self.sizes.bytes(asked.file);
                requests.first(count, file_bytes, self.calls.most_bytes)
            }
            _ => asked.bytes.saturating_mul(count) / asked.requests.max(1),
        }
    }

    /// The samples that a read returns.
    pub(super) fn landed(&self, request: &ReadRequest) -> ReadResult {
        match request.read.unit {
            Unit::Sample(_) => ReadResult { samples: 1, ..ReadResult::default() },
            Unit::Group { .. } => ReadResult::default(),
            Unit::Records { file, .. } => {
                let file = self.index.file(request.accelerator, file);
                self.records(request, file).1
            }
        }
    }

    fn of_span(&self, file: u64, span: Span, made: u64) -> SimulatedRead {
        SimulatedRead {
            file,
            offset: span.offset,
            bytes: span.bytes,
            requests: self.calls.requests(span.bytes, made),
            again: false,
        }
    }

    fn sample(&self, file: u64, position: u64) -> SimulatedRead {
        let most = self.calls.most_bytes;
        match self.what {
            What::Samples { bytes, of_file, as_h5py } => {
                let offset = HDF5_ARRAY_OFFSET + position * bytes;
                let span = Span { offset, bytes };
                if !as_h5py {
                    return self.of_span(file, span, bytes.div_ceil(most));
                }
                let end = HDF5_ARRAY_OFFSET + of_file * bytes;
                let reads = requests::h5py(span, end);
                let made = reads.iter().map(|read| read.bytes.div_ceil(most)).sum();
                let bytes = reads.iter().map(|read| read.bytes).sum();
                self.of_span(file, Span { offset, bytes }, made)
            }
            What::Files(ref files, _) => {
                let (bytes, requests) = files[(file % files.len() as u64) as usize];
                SimulatedRead {
                    file,
                    offset: 0,
                    bytes,
                    requests,
                    again: position > 0 && !self.calls.direct,
                }
            }
            // Loaders do not request single samples of these.
            What::Records { .. } | What::Groups { .. } => {
                self.of_span(file, Span { offset: 0, bytes: 0 }, 1)
            }
        }
    }

    fn group(&self, rank: u32, worker: u64, nth: u64) -> SimulatedRead {
        let What::Groups { row_bytes, ref rows, stretches, workers } = self.what else {
            return self.sample(0, 0);
        };
        let groups = rows.len() as u64;
        let file = self.index.file(rank, worker + nth / groups * workers);
        let of_rows = |rows: u64| (rows as f64 * row_bytes) as u64;
        let group = (nth % groups) as usize;
        let span =
            Span { offset: of_rows(rows[..group].iter().sum()), bytes: of_rows(rows[group]) };
        let of_stretch = span.bytes.div_ceil(stretches);
        let made = stretches * of_stretch.div_ceil(self.calls.most_bytes);
        self.of_span(file, span, made)
    }

    /// The range of a read of records, and the samples it returns; no range for files without records.
    fn records(&self, request: &ReadRequest, file: u64) -> (Option<Span>, ReadResult) {
        let Unit::Records { from, .. } = request.read.unit else {
            return (None, ReadResult::default());
        };
        let What::Records { record_bytes, transfer_bytes } = self.what else {
            let whole = ReadResult { samples: 1, cursor: from, ended: true };
            return (None, whole);
        };
        let file_bytes = self.sizes.bytes(file);
        let plan = null_records(0, file_bytes, record_bytes, transfer_bytes, from);
        match plan.reads {
            Known::Known { extents, landed, .. } => (extents.nth(0), landed),
            Known::Records { .. } => (None, ReadResult::default()),
        }
    }
}

/// Whether file sizes of `plan` vary with sample sizes.
pub(super) fn sizes_matter(plan: &TrainPlan) -> bool {
    use ReadPattern::{H5py, IndexedSample, Records, RowGroups};
    let in_part = matches!(plan.reads, Records { .. } | RowGroups | IndexedSample | H5py);
    !in_part && plan.data.format != DataFormat::Csv
}
