//! The hot loops: what the harness itself costs for every transfer, event, sector and sample.
//! `cargo bench` measures them, CI runs each once so that they do not rot.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stormlp_checkpoint::plan::{Container, ContentFacts};
use stormlp_checkpoint::run::CheckpointContent;
use stormlp_core::histogram::LatencyHistogram;
use stormlp_core::operation::Direction;
use stormlp_core::path::{EngineKind, PathKind};
use stormlp_dataset::content::Content;
use stormlp_dataset::dataset::{Dataset, Recipe};
use stormlp_dataset::format::{ChunkSink, SinkError};
use stormlp_dataset::section::{DataFormat, ParquetSpec};
use stormlp_dataset::sizes::{SizeDraw, SizeRule};
use stormlp_training::run::machine::drive;
use stormlp_training::run::machine::drive::{Device, VirtualClock};
use stormlp_training::run::machine::{
    ClientWork, Loader, Machine, Nanos, Pace, PhaseSpec, ReadRequest, ReadResult, Share, Workers,
    WorkersConfig,
};
use stormlp_transfer::{
    Driver, DriverSet, FileRange, HostStandIn, PathSpec, Region, TransferError, build_path,
};

/// Recording is done once for every transfer: it bounds how many transfers a core can time.
/// Merging is done once for every thread at the end of a cell, before the next may start.
fn histogram(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("histogram");
    group.throughput(Throughput::Elements(1));
    let mut histogram = LatencyHistogram::new();
    let mut latency_ns = 1_000u64;
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            // Walks over the decades from a microsecond to a second.
            latency_ns = latency_ns * 7 % 1_000_000_007;
            histogram.record_ns(black_box(latency_ns));
        });
    });
    group.bench_function("summary", |bencher| bencher.iter(|| black_box(&histogram).summary()));
    let mut all = LatencyHistogram::new();
    group.bench_function("merge", |bencher| {
        bencher.iter(|| all.merge(black_box(&histogram)));
    });
    group.finish();
}

/// A driver with `depth` slots over the path that moves nothing.
fn null_driver<'a>(
    set: &'a DriverSet,
    region: &mut Region,
    depth: usize,
) -> Result<Driver<'a, u64>, TransferError> {
    let spec = PathSpec {
        kind: PathKind::Null,
        engine: EngineKind::Psync,
        host: (0..depth).filter_map(|_| region.carve(4096, 4096)).collect(),
        accelerator_buffers: Vec::new(),
        accelerator: Arc::new(HostStandIn),
        submit_batch: 1,
        max_files: 1,
        register_buffers: false,
        page_aligned: false,
    };
    Ok(Driver::new(build_path(spec)?, set, 0))
}

/// A transfer that moves nothing, from its submission to its slot's return: what is left of a
/// core's time is the storage's.
fn in_flight(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("driver");
    for depth in [1, 32] {
        let mut region = Region::new(1 << 20).expect("a megabyte");
        let set = DriverSet::new(1);
        let mut driver = null_driver(&set, &mut region, depth).expect("the null path");
        let nothing = std::fs::File::open("/dev/null").expect("/dev/null");
        let place = FileRange {
            direction: Direction::Read,
            file: driver.attach(nothing).expect("any file will do"),
            offset: 0,
            len: 4096,
        };
        group.throughput(Throughput::Elements(depth as u64));
        group.bench_function(format!("null/depth-{depth}"), |bencher| {
            bencher.iter(|| {
                while let Some(slot) = driver.take_slot() {
                    driver.submit(slot, place, 7).expect("it takes everything");
                }
                driver.wait(1).expect("it never breaks");
                while let Some(landed) = driver.next_landed() {
                    black_box(landed.submitted);
                    driver.put_back(landed.slot);
                }
            });
        });
    }
    group.finish();
}

/// Stamping runs in the timed part of a save, checking in that of a restore with `--verify`.
fn checkpoint_content(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkpoint");
    let facts =
        ContentFacts { seed: 7, source_bytes: 4 << 20, stamped: true, container: Container::Raw };
    let content = CheckpointContent::new(facts);
    let mut buffer = content.source().to_vec();
    group.throughput(Throughput::Bytes(facts.source_bytes));
    group.bench_function("stamp", |bencher| {
        bencher.iter(|| content.stamp(3, 0, black_box(&mut buffer)));
    });
    content.stamp(3, 0, &mut buffer);
    group.bench_function("check", |bencher| {
        bencher.iter(|| content.check(3, 0, black_box(&buffer)));
    });
    group.finish();
}

/// Takes every buffer and writes none.
struct Nowhere(Vec<u8>);

impl ChunkSink for Nowhere {
    fn buffer(&mut self) -> Result<&mut [u8], SinkError> {
        Ok(&mut self.0)
    }

    fn commit(&mut self, bytes: usize) -> Result<(), SinkError> {
        black_box(&self.0[..bytes]);
        Ok(())
    }
}

/// Writing a file of a dataset, checksums included, to where nothing is slow.
fn formats(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("format");
    for (name, format) in [("npz", DataFormat::Npz), ("tfrecord", DataFormat::Tfrecord)] {
        let dataset = Dataset::new(Recipe {
            format,
            parquet: ParquetSpec { row_group_size: 2, ..ParquetSpec::default() },
            prefix: "img".to_string(),
            train_files: 1,
            train_subfolders: 0,
            valid_files: 0,
            valid_subfolders: 0,
            samples_per_file: 64,
            size: SizeRule::Length { mean_bytes: 114_660.0, stdev_bytes: 0.0 },
            draw: SizeDraw::Shared,
            content: Content::Random,
            seed: 42,
        })
        .expect("a plain dataset");
        let file = dataset.file(0);
        let mut sink = Nowhere(vec![0; 2 << 20]);
        group.throughput(Throughput::Bytes(file.samples * file.shape.bytes()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| dataset.format().encode(&file, &mut sink).expect("it fits"));
        });
    }
    group.finish();
}

/// Steps of each accelerator of the machine that is driven.
const STEPS: u64 = 200;
/// Accelerators of that machine.
const ACCELERATORS: usize = 8;

/// A drive that reads 140 MiB at 20 GB/s, one after the other.
struct Drive {
    free_at: Nanos,
}

impl Device for Drive {
    fn queue_depth(&self) -> usize {
        32
    }

    fn start(&mut self, _: &ReadRequest, now: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + 7_340_032;
        self.free_at + 100_000
    }

    fn finish(&mut self, _: &ReadRequest) -> ReadResult {
        ReadResult { samples: 1, ..ReadResult::default() }
    }

    fn checkpoint(&mut self) -> Nanos {
        0
    }
}

/// The training machine over a device that is a little too slow, through one phase.
fn drive_machine() -> u64 {
    let loader = Loader::Workers(Workers::new(WorkersConfig {
        read_threads: 4,
        batches_outstanding: 4,
        batch_size: 7,
        persistent: false,
        group_window: 1,
    }));
    let mut machine = Machine::new(vec![loader; ACCELERATORS], false);
    let mut device = Drive { free_at: 0 };
    let share = Share { batches: STEPS, ..Share::default() };
    let phase = PhaseSpec {
        steps: STEPS,
        barrier: true,
        barrier_ns: 0,
        fetch_after_last: false,
        exclude_start_steps: 1,
        exclude_end_steps: 0,
        checkpoint_steps: None,
        writes_checkpoints: false,
        late_counts: false,
        compute: Pace::Constant(323_000_000),
        preprocess: Pace::Constant(0),
        client: ClientWork::default(),
        shares: vec![share; ACCELERATORS],
    };
    let mut clock = VirtualClock::default();
    let mut flights = drive::InFlightReads::default();
    drive::run_on(&mut machine, &mut device, phase, &mut clock, &mut flights, &|| false)
        .expect("a phase that ends");
    clock.events
}

/// Events of the training machine: they bound how many accelerators one host can emulate, and
/// how long a simulated cluster takes.
fn machine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("training");
    group.throughput(Throughput::Elements(drive_machine()));
    group.bench_function("machine", |bencher| bencher.iter(drive_machine));
    group.finish();
}

criterion_group!(benches, histogram, in_flight, checkpoint_content, formats, machine);
criterion_main!(benches);
