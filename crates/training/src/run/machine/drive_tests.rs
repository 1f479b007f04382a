//! Tests the machine on a virtual clock over a simulated device, and its invariants.

use std::collections::HashSet;

use crate::plan::distribution::Distribution;
use crate::plan::train_plan::LoaderPlan;
use proptest::prelude::*;

use super::drive::{self, Device, DriveError, VirtualClock};
use super::scripted::Scripted;
use super::*;
use crate::run::prepare::drawn;

pub(super) const MS: Nanos = 1_000_000;

pub(super) fn one_sample(_: &ReadRequest) -> ReadResult {
    ReadResult { samples: 1, ..ReadResult::default() }
}

/// Parameters of a simulated device.
#[derive(Debug)]
struct DeviceModel {
    /// Total read bandwidth in bytes per second.
    bytes_per_second: f64,
    /// Latency per read in addition to its transfer; draws are reproducible by seed.
    latency: Pace,
    /// Maximum reads in flight.
    queue_depth: usize,
    /// Duration of a checkpoint.
    checkpoint: Nanos,
}

/// A device of fixed bandwidth. Reads share it one after another, and each has a latency.
#[derive(Debug)]
struct ModelledDevice<R> {
    model: DeviceModel,
    reads: R,
    /// When the transfers of all reads so far complete.
    free_at: Nanos,
}

impl<R: FnMut(&ReadRequest) -> (u64, ReadResult)> ModelledDevice<R> {
    /// An idle device; `reads` gives the size and result of a read.
    fn new(model: DeviceModel, reads: R) -> Self {
        Self { model, reads, free_at: 0 }
    }
}

impl<R: FnMut(&ReadRequest) -> (u64, ReadResult)> Device for ModelledDevice<R> {
    fn queue_depth(&self) -> usize {
        self.model.queue_depth
    }

    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos {
        let (bytes, _) = (self.reads)(request);
        let transfer = (bytes as f64 / self.model.bytes_per_second * 1e9).round() as Nanos;
        self.free_at = self.free_at.max(now) + transfer;
        self.free_at + self.model.latency.draw()
    }

    fn finish(&mut self, request: &ReadRequest) -> ReadResult {
        (self.reads)(request).1
    }

    fn checkpoint(&mut self) -> Nanos {
        self.model.checkpoint
    }
}

/// Drives the machine through one phase from the current time.
fn run(machine: &mut Machine, device: &mut impl Device, spec: PhaseSpec, clock: &mut VirtualClock) {
    drive::run(machine, device, spec, clock).unwrap();
}

pub(super) fn workers(read_threads: u32, prefetch_size: u32, batch_size: u64) -> Loader {
    Loader::Workers(Workers::new(WorkersConfig {
        read_threads,
        batches_outstanding: LoaderPlan::outstanding(read_threads, prefetch_size),
        batch_size,
        persistent: false,
        group_window: 1,
    }))
}

pub(super) fn phase(accelerators: usize, steps: u64, compute: Nanos) -> PhaseSpec {
    PhaseSpec {
        steps,
        barrier: true,
        barrier_ns: 0,
        fetch_after_last: false,
        exclude_start_steps: 1,
        exclude_end_steps: 0,
        checkpoint_steps: None,
        writes_checkpoints: true,
        compute: Pace::Constant(compute),
        late_counts: false,
        preprocess: Pace::Constant(0),
        client: ClientWork::default(),
        shares: vec![Share { batches: steps, ..Share::default() }; accelerators],
    }
}

/// AU by measured compute, in percent.
fn au(block: &BlockTally) -> f64 {
    let window = block.end_ns - block.start_ns - block.excluded_ns;
    100.0 * block.window_compute_ns as f64 / window as f64
}

fn constant(depth: usize, service: Nanos) -> Scripted {
    Scripted::new(depth, move |_| service)
}

#[test]
fn storage_that_keeps_up_gives_full_utilisation() {
    let mut machine = Machine::new(vec![workers(4, 2, 7)], false);
    let mut clock = VirtualClock::default();
    let spec = phase(1, 20, 320 * MS);
    run(&mut machine, &mut constant(64, 40 * MS), spec, &mut clock);
    let block = machine.blocks()[0][0];
    assert_eq!(block.steps, 20);
    assert_eq!(block.first_fetch_ns, 280 * MS, "seven reads, one after the other");
    assert_eq!(au(&block), 100.0);
}

#[test]
fn a_single_worker_gives_compute_over_read_time() {
    // One worker, one outstanding batch: a step lasts as long as its reads.
    let mut machine = Machine::new(vec![workers(1, 1, 4)], false);
    let mut clock = VirtualClock::default();
    let spec = phase(1, 50, 10 * MS);
    run(&mut machine, &mut constant(8, 5 * MS), spec, &mut clock);
    let block = machine.blocks()[0][0];
    // 49 steps of 20 ms, except that no read delays the end of the last one.
    let window = 48 * 20 + 10 + 10;
    assert!((au(&block) - 100.0 * 490.0 / f64::from(window)).abs() < 1e-9);
    assert_eq!(machine.waits(clock.now).reading_ns, 49 * 10 * MS);
}

#[test]
fn the_clients_own_time_is_in_every_step() {
    let mut machine = Machine::new(vec![workers(4, 2, 2)], false);
    let mut clock = VirtualClock::default();
    let spec = PhaseSpec { client: ClientWork::new(MS, 0.0, 1), ..phase(1, 20, 10 * MS) };
    run(&mut machine, &mut constant(64, MS), spec, &mut clock);
    assert!((au(&machine.blocks()[0][0]) - 100.0 * 10.0 / 11.0).abs() < 1e-9);
    assert_eq!(machine.waits(0).client_ns, 20 * MS);
}

#[test]
fn reads_in_flight_for_centuries_are_not_added_up_beyond_their_type() {
    let mut machine = Machine::new(vec![workers(16, 2, 1)], false);
    let mut clock = VirtualClock::default();
    run(&mut machine, &mut constant(64, 1 << 61), phase(1, 16, MS), &mut clock);
    assert_eq!(machine.waits(clock.now).in_flight_ns, u64::MAX);
}

#[test]
fn workers_go_no_faster_than_the_clients_cpus() {
    for (cpus, expected) in [(1, 25.0), (2, 50.0), (8, 100.0)] {
        let mut machine = Machine::new(vec![workers(8, 8, 2)], false);
        let mut clock = VirtualClock::default();
        let spec = PhaseSpec {
            client: ClientWork::new(0, 20.0 * MS as f64, cpus),
            ..phase(1, 1000, 10 * MS)
        };
        run(&mut machine, &mut constant(64, MS), spec, &mut clock);
        let got = au(&machine.blocks()[0][0]);
        assert!((got - expected).abs() < 1.0, "{cpus}: {got}");
    }
}

#[test]
fn the_barrier_books_who_kept_whom_waiting() {
    let mut machine = Machine::new(vec![workers(1, 1, 1), workers(1, 1, 1)], false);
    let mut clock = VirtualClock::default();
    let mut device = Scripted::new(8, |read| if read.accelerator == 1 { 30 * MS } else { MS });
    run(&mut machine, &mut device, phase(2, 10, 10 * MS), &mut clock);
    let waited = 29 * MS + 9 * 20 * MS;
    assert_eq!(machine.blocks()[0][0].barrier_ns, waited);
    assert_eq!(machine.delayed_others_ns(), [0, waited]);
}

#[test]
fn a_checkpoint_splits_the_block_and_excludes_a_step_of_each() {
    let mut machine = Machine::new(vec![workers(2, 2, 1), workers(2, 2, 1)], false);
    let mut clock = VirtualClock::default();
    let spec = PhaseSpec { checkpoint_steps: Some(4), ..phase(2, 10, 10 * MS) };
    run(&mut machine, &mut constant(8, MS), spec, &mut clock);
    assert_eq!(clock.checkpoints, 2);
    let blocks = &machine.blocks()[0];
    let steps: Vec<_> = blocks.iter().map(|b| (b.steps, b.window_steps)).collect();
    assert_eq!(steps, [(4, 3), (4, 3), (2, 1)]);
}

#[test]
fn a_checkpoint_delays_its_writer_and_the_others_at_their_next_barrier() {
    let mut machine = Machine::new(vec![workers(2, 2, 1), workers(2, 2, 1)], false);
    let mut clock = VirtualClock::default();
    let spec = PhaseSpec { checkpoint_steps: Some(4), ..phase(2, 8, 10 * MS) };
    let model = DeviceModel {
        bytes_per_second: 1e12,
        latency: Pace::Constant(MS),
        queue_depth: 8,
        checkpoint: 500 * MS,
    };
    let mut device = ModelledDevice::new(model, |read| (1000, one_sample(read)));
    run(&mut machine, &mut device, spec, &mut clock);
    assert_eq!(clock.checkpoints, 2, "the last one is at the end");
    let [writer, other] = [0, 1].map(|index| machine.blocks()[index][1]);
    assert!(writer.barrier_ns < 100 * MS, "{writer:?}");
    assert!(other.barrier_ns > 450 * MS, "{other:?}");
    assert_eq!(other.start_ns + 500 * MS, writer.start_ns);
}

#[test]
fn checkpoints_of_another_host_delay_nothing_here() {
    let mut machine = Machine::new(vec![workers(2, 2, 1), workers(2, 2, 1)], false);
    let mut clock = VirtualClock::default();
    let spec =
        PhaseSpec { checkpoint_steps: Some(4), writes_checkpoints: false, ..phase(2, 8, 10 * MS) };
    run(&mut machine, &mut constant(8, MS), spec, &mut clock);
    assert_eq!(clock.checkpoints, 0);
    let steps: Vec<_> = machine.blocks()[1].iter().map(|b| b.steps).collect();
    assert_eq!(steps, [4, 4]);
}

#[test]
fn the_fetch_after_the_last_step_is_waited_for() {
    for (after, waits) in [(false, 0), (true, 1)] {
        let mut machine = Machine::new(vec![workers(1, 1, 1)], false);
        let mut clock = VirtualClock::default();
        let mut spec = phase(1, 3, MS);
        spec.fetch_after_last = after;
        spec.shares[0].batches = 10;
        run(&mut machine, &mut constant(1, 50 * MS), spec, &mut clock);
        let block = machine.blocks()[0][0];
        let span = (block.end_ns - block.start_ns) / MS;
        assert_eq!(span, 3 * 50 + 1 + waits * 49);
    }
}

#[test]
fn an_accelerator_without_batches_does_not_hang_the_barrier() {
    let mut machine = Machine::new(vec![workers(2, 2, 1), workers(2, 2, 1)], false);
    let mut clock = VirtualClock::default();
    let mut spec = phase(2, 10, MS);
    spec.shares[1].batches = 3;
    run(&mut machine, &mut constant(8, MS), spec, &mut clock);
    assert_eq!(machine.blocks()[0][0].steps, 10);
    assert!(!machine.blocks()[1][0].complete);
}

#[test]
fn an_aborted_run_keeps_what_was_measured() {
    let mut machine = Machine::new(vec![workers(1, 1, 1), workers(1, 1, 1)], false);
    assert!(machine.begin(phase(2, 10, MS), 0));
    let first = machine.next_read(0).unwrap();
    let second = machine.next_read(0).unwrap();
    machine.on_read_complete(first, one_sample(&first), MS);
    machine.on_deadline(2 * MS, || 2 * MS);
    machine.abort(3 * MS);
    machine.on_read_complete(second, one_sample(&second), 4 * MS);
    assert_eq!(machine.halt(), Some(Halt::PhaseOver));
    assert_eq!((machine.reads_waiting(), machine.next_deadline()), (0, None));
    let blocks = machine.blocks();
    assert_eq!((blocks[0][0].steps, blocks[0][0].complete), (1, false));
    assert!(!machine.begin(phase(2, 10, MS), 5 * MS), "nothing follows");
    assert_eq!(machine.blocks(), blocks);
}

#[test]
fn persistent_workers_finish_the_remains_of_an_epoch() {
    let config = WorkersConfig {
        read_threads: 2,
        batches_outstanding: 2,
        batch_size: 3,
        persistent: true,
        group_window: 1,
    };
    let loader = Loader::Workers(Workers::new(config));
    let mut machine = Machine::new(vec![loader], false);
    let mut clock = VirtualClock::default();
    let mut device = constant(1, MS);
    for epoch in 1..=2 {
        let mut spec = phase(1, 2, MS);
        spec.shares[0].batches = 100;
        run(&mut machine, &mut device, spec, &mut clock);
        assert_eq!(machine.blocks()[0][0].steps, 2, "epoch {epoch}");
        // The first two batches, in turn; leftovers of the previous epoch are read first, but
        // discarded.
        assert_eq!(machine.preread_samples(), 6, "epoch {epoch}");
    }
    let second = &device.units[&(2, 0)];
    assert!(
        second.contains(&Unit::Sample(8)),
        "a batch of the first epoch is read in the second: {second:?}"
    );
}

#[test]
fn preprocessing_occupies_the_worker() {
    let mut machine = Machine::new(vec![workers(1, 1, 2)], false);
    let mut clock = VirtualClock::default();
    let mut spec = phase(1, 5, MS);
    spec.preprocess = Pace::Constant(4 * MS);
    run(&mut machine, &mut constant(4, MS), spec, &mut clock);
    assert_eq!(machine.blocks()[0][0].first_fetch_ns, 2 * 5 * MS);
}

#[test]
fn row_groups_are_cut_into_batches_within_the_window() {
    let config = WorkersConfig {
        read_threads: 2,
        batches_outstanding: 4,
        batch_size: 25,
        persistent: false,
        group_window: 4,
    };
    let mut machine = Machine::new(vec![Loader::Workers(Workers::new(config))], false);
    let mut clock = VirtualClock::default();
    let mut device = constant(64, MS);
    let mut spec = phase(1, 7, MS);
    // Worker 0 has 4 whole batches, worker 1 has 3.
    spec.shares[0].groups = [11, 9].map(|files| RowGroups { of_file: [10].into(), files }).into();
    run(&mut machine, &mut device, spec, &mut clock);
    assert_eq!(machine.blocks()[0][0].steps, 7);
    assert!(device.most_on_lane <= 4);
}

/// Records of a file in the interleave tests: 5 records, 2 to a read.
pub(super) fn records(read: &ReadRequest) -> ReadResult {
    let Unit::Records { from, .. } = read.read.unit else {
        panic!("the interleave reads records");
    };
    let record = (from.record + 2).min(5);
    ReadResult {
        samples: record - from.record,
        cursor: Cursor { record, read_to_bytes: record * 100 },
        ended: record == 5,
    }
}

fn interleave(config: InterleaveConfig) -> Loader {
    Loader::Interleave(Box::new(Interleave::new(config)))
}

pub(super) const RECORDS: InterleaveConfig = InterleaveConfig {
    read_threads: 3,
    batch_size: 4,
    shuffle_size: 6,
    batches_ahead: 2,
    keep_every: 1,
    repeat: true,
};

fn record_phase(steps: u64, files: u64) -> PhaseSpec {
    let mut spec = phase(1, steps, MS);
    spec.shares[0] = Share { files, ..Share::default() };
    spec
}

#[test]
fn an_interleave_reads_every_file_in_cycle_order_and_repeats() {
    let mut machine = Machine::new(vec![interleave(RECORDS)], false);
    let mut clock = VirtualClock::default();
    let mut device = Scripted::of_records(64, |_| MS);
    // 8 files of 5 records make 10 batches; 13 steps need a second pass over the data.
    run(&mut machine, &mut device, record_phase(13, 8), &mut clock);
    assert_eq!(machine.blocks()[0][0].steps, 13);
    // The cycle has 3 files; 5 of the 6 that can wait behind it are open.
    assert_eq!((device.most_in_flight[&0], device.most_on_lane), (8, 1));
    let files: Vec<_> = device.units[&(1, 0)]
        .iter()
        .filter_map(|unit| match unit {
            Unit::Records { file, from } if from.record == 0 => Some(*file),
            _ => None,
        })
        .collect();
    assert_eq!(files[..3], [0, 1, 2]);
    assert_eq!(files[..8].iter().collect::<HashSet<_>>().len(), 8);
    assert!(files.len() > 8, "the second pass has begun");
}

#[test]
fn without_repeat_an_interleave_is_exhausted() {
    let once = InterleaveConfig { repeat: false, ..RECORDS };
    let mut machine = Machine::new(vec![interleave(once)], false);
    let mut clock = VirtualClock::default();
    let mut device = Scripted::of_records(64, |_| MS);
    run(&mut machine, &mut device, record_phase(100, 8), &mut clock);
    let block = machine.blocks()[0][0];
    assert_eq!((block.steps, block.complete), (10, false));
}

#[test]
fn sharding_by_record_keeps_every_nth() {
    let sharded = InterleaveConfig { repeat: false, keep_every: 2, shuffle_size: 1, ..RECORDS };
    let mut machine = Machine::new(vec![interleave(sharded)], false);
    let mut clock = VirtualClock::default();
    let mut device = Scripted::of_records(64, |_| MS);
    run(&mut machine, &mut device, record_phase(100, 8), &mut clock);
    assert_eq!(machine.blocks()[0][0].steps, 5);
}

#[test]
fn a_repeating_loader_without_a_full_batch_ends() {
    let huge = InterleaveConfig { batch_size: 1000, ..RECORDS };
    let mut machine = Machine::new(vec![interleave(huge)], false);
    let mut device = Scripted::of_records(64, |_| MS);
    run(&mut machine, &mut device, record_phase(5, 8), &mut VirtualClock::default());
    assert!(machine.blocks()[0].is_empty());
}

/// A device of 1 GB/s with one million bytes per sample read: one millisecond each.
fn modelled(queue_depth: usize, latency: Pace) -> impl Device {
    let model = DeviceModel { bytes_per_second: 1e9, latency, queue_depth, checkpoint: 0 };
    ModelledDevice::new(model, |read| (1_000_000, one_sample(read)))
}

/// Time and event count after four accelerators have computed 50 steps of 8 samples each.
fn finish(queue_depth: usize, latency: Pace) -> VirtualClock {
    let mut machine = Machine::new(vec![workers(8, 2, 8); 4], false);
    let mut clock = VirtualClock::default();
    run(&mut machine, &mut modelled(queue_depth, latency), phase(4, 50, MS), &mut clock);
    clock
}

#[test]
fn bandwidth_bounds_a_deep_queue_and_latency_a_shallow_one() {
    let reads = 4 * 50 * 8;
    let deep = finish(64, Pace::Constant(3 * MS));
    assert!((reads * MS..reads * MS + 10 * MS).contains(&deep.now), "{deep:?}");
    let shallow = finish(1, Pace::Constant(3 * MS));
    assert!((4 * reads * MS..4 * reads * MS + 10 * MS).contains(&shallow.now), "{shallow:?}");
    assert_eq!(deep.events, reads + 4 * 50, "a read is an event, and so is the end of a step");
}

#[test]
fn a_seed_decides_the_whole_run() {
    let drawn = |seed| {
        let distribution = Distribution::Exponential { scale: 0.002 };
        finish(16, drawn(distribution, seed))
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_stuck_machine_reports_an_error() {
    let mut machine = Machine::new(vec![workers(1, 1, 1)], false);
    let mut clock = VirtualClock::default();
    let mut drive = |machine: &mut Machine| {
        drive::run(machine, &mut constant(0, MS), phase(1, 1, MS), &mut clock)
    };
    assert_eq!(drive(&mut machine), Err(DriveError::Stalled { at_ns: 0 }));
    machine.abort(MS);
    assert_eq!(drive(&mut machine), Err(DriveError::Stopped));
}

proptest! {
    #[test]
    fn every_batch_arrives_in_order_and_nothing_runs_ahead(
        read_threads in 0u32..6,
        prefetch in 0u32..9,
        batch_size in 1u64..6,
        accelerators in 1usize..5,
        steps in 1u64..20,
        depth in 1usize..20,
        services in prop::collection::vec(0..20 * MS, 1..50),
        compute in 0..8 * MS,
    ) {
        let loaders = vec![workers(read_threads, prefetch, batch_size); accelerators];
        let mut machine = Machine::new(loaders, true);
        let mut at = 0;
        let mut device = Scripted::new(depth, move |_| { at += 1; services[at % services.len()] });
        let mut clock = VirtualClock::default();
        run(&mut machine, &mut device, phase(accelerators, steps, compute), &mut clock);
        for (index, blocks) in machine.blocks().iter().enumerate() {
            prop_assert_eq!(blocks[0].steps, steps);
            prop_assert_eq!(blocks[0].compute_ns, steps * compute);
            // Every sample once, and in order within each batch.
            let units = &device.units[&(1, index as u32)];
            let samples: Vec<u64> = units.iter().map(|unit| match unit {
                Unit::Sample(sample) => *sample,
                other => panic!("{other:?}"),
            }).collect();
            prop_assert_eq!(samples.len() as u64, steps * batch_size);
            for batch in 0..steps {
                let own: Vec<_> = samples.iter().filter(|s| **s / batch_size == batch).collect();
                prop_assert!(own.is_sorted() && own.len() as u64 == batch_size);
            }
        }
        let most = device.most_in_flight.values().max().copied().unwrap_or(0);
        prop_assert!(most <= read_threads.max(1) as usize);
        prop_assert_eq!(device.most_on_lane, 1);
        prop_assert_eq!(machine.step_times().len(), accelerators);
    }

    #[test]
    fn a_loader_hands_over_only_complete_batches_and_never_exceeds_its_outstanding(
        read_threads in 1u32..6,
        prefetch in 0u32..9,
        batch_size in 1u64..5,
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..300),
    ) {
        let config = WorkersConfig {
            read_threads, batches_outstanding: LoaderPlan::outstanding(read_threads, prefetch), batch_size,
            persistent: false, group_window: 1,
        };
        let mut loader = Workers::new(config);
        let mut flying = Vec::new();
        loader.begin(&Share { batches: 1000, ..Share::default() }, &mut flying);
        let (mut landed, mut fetched) = (HashSet::new(), 0u64);
        for (pick, fetch) in picks {
            if fetch {
                let complete = (fetched * batch_size..(fetched + 1) * batch_size)
                    .all(|sample| landed.contains(&sample));
                let got = loader.fetch(&mut flying);
                prop_assert_eq!(matches!(got, Fetch::Taken { .. }), complete);
                fetched += u64::from(complete);
            } else if !flying.is_empty() {
                let read = flying.swap_remove(pick.index(flying.len()));
                let Unit::Sample(sample) = read.unit else { panic!("samples only") };
                prop_assert!(landed.insert(sample));
                let landed = ReadResult { samples: 1, ..ReadResult::default() };
                loader.landed(read, CompletedRead { landed, fresh: true, at: 0 }, &mut flying);
            }
            prop_assert!(flying.len() <= read_threads as usize);
            for read in &flying {
                let Unit::Sample(sample) = read.unit else { panic!("samples only") };
                let bound = fetched + u64::from(config.batches_outstanding);
                prop_assert!(sample / batch_size < bound);
            }
        }
    }

    #[test]
    fn an_interleave_never_reads_more_at_a_time_than_it_may(
        read_threads in 1u32..6,
        batch_size in 1u64..9,
        shuffle_size in 0u64..20,
        batches_ahead in 1u64..5,
        files in 1u64..30,
        steps in 1u64..20,
        services in prop::collection::vec(0..20 * MS, 1..50),
    ) {
        let config = InterleaveConfig {
            read_threads, batch_size, shuffle_size, batches_ahead, keep_every: 1, repeat: true,
        };
        let mut machine = Machine::new(vec![interleave(config)], false);
        let mut at = 0;
        let mut device = Scripted::of_records(100, move |_| { at += 1; services[at % services.len()] });
        let mut clock = VirtualClock::default();
        run(&mut machine, &mut device, record_phase(steps, files), &mut clock);
        prop_assert!(device.most_in_flight[&0] <= 3 * read_threads as usize);
        prop_assert_eq!(device.most_on_lane, 1);
        let done = machine.blocks()[0].first().map_or(0, |block| block.steps);
        prop_assert_eq!(done, if files * 5 >= batch_size { steps } else { 0 });
    }
}
