//! A host that handles events late: this neither adds compute nor hides waiting.

use super::drive_tests::{MS, RECORDS, one_sample, phase, records, workers};
use super::*;

/// A machine with this many accelerators, one prefetching worker each, at time 0.
fn begun(accelerators: usize, steps: u64) -> Machine {
    let loader = workers(1, 4, 1);
    let mut machine = Machine::new(vec![loader; accelerators], false);
    assert!(machine.begin(phase(accelerators, steps, 10 * MS), 0));
    machine
}

/// Performs the next read, which completes at `at`.
fn read(machine: &mut Machine, at: Nanos) {
    let request = machine.next_read(at).unwrap_or_else(|| panic!("no read is wanted at {at} ns"));
    machine.on_read_complete(request, one_sample(&request), at);
}

#[test]
fn compute_ends_at_its_deadline_however_late_it_is_seen() {
    let mut machine = begun(1, 3);
    for at in [MS, 2 * MS, 15 * MS] {
        read(&mut machine, at);
    }
    // No event is handled until all three steps are over.
    machine.on_deadline(40 * MS, || 40 * MS);
    assert_eq!(machine.halt(), Some(Halt::PhaseOver));
    let block = machine.blocks()[0][0];
    assert_eq!((block.end_ns, block.compute_ns), (31 * MS, 30 * MS));
    assert_eq!((block.fetch_ns, block.barrier_ns), (MS, 0));
    let late = machine.histograms().overshoot.summary();
    let late = late.map(|late| (late.max, late.mean));
    assert_eq!(late, Some((29_000.0, 19_000.0)), "but it is written down");
}

#[test]
fn a_late_end_is_compute_where_a_sleep_is_measured() {
    let mut machine = Machine::new(vec![workers(1, 4, 1)], false);
    let spec = PhaseSpec { late_counts: true, ..phase(1, 2, 10 * MS) };
    assert!(machine.begin(spec, 0));
    read(&mut machine, MS);
    read(&mut machine, 2 * MS);
    machine.on_deadline(14 * MS, || 14 * MS);
    machine.on_deadline(25 * MS, || 25 * MS);
    assert_eq!(machine.halt(), Some(Halt::PhaseOver));
    let block = machine.blocks()[0][0];
    // 3 ms late, then 1 ms.
    assert_eq!((block.end_ns, block.compute_ns, block.fetch_ns), (25 * MS, 24 * MS, MS));
    assert_eq!(machine.histograms().overshoot.summary().map(|late| late.max), Some(3_000.0));
}

#[test]
fn data_that_came_after_the_deadline_was_waited_for() {
    let mut machine = begun(1, 2);
    read(&mut machine, MS);
    // The first step ends at 11 ms, but is handled only after the second read completes.
    read(&mut machine, 15 * MS);
    machine.on_deadline(40 * MS, || 40 * MS);
    let block = machine.blocks()[0][0];
    assert_eq!((block.end_ns, block.compute_ns), (25 * MS, 20 * MS));
    assert_eq!(block.fetch_ns, MS + 4 * MS);
}

#[test]
fn a_wait_is_counted_once_if_a_deadline_precedes_a_late_read() {
    let mut machine = Machine::new(vec![workers(2, 4, 2)], false);
    let spec = PhaseSpec { preprocess: Pace::Constant(MS), ..phase(1, 2, 10 * MS) };
    assert!(machine.begin(spec, 0));
    read(&mut machine, MS);
    // The other worker's read is handled at 20 ms, and only then the deadline of 2 ms.
    read(&mut machine, 20 * MS);
    machine.on_deadline(20 * MS, || 20 * MS);
    // The second sample of the batch.
    read(&mut machine, 25 * MS);
    machine.on_deadline(40 * MS, || 40 * MS);
    assert_eq!(machine.waits(40 * MS).startup_ns, 26 * MS);
}

#[test]
fn a_barrier_opens_when_the_last_one_came() {
    let mut machine = begun(2, 1);
    read(&mut machine, MS);
    read(&mut machine, 3 * MS);
    machine.on_deadline(40 * MS, || 40 * MS);
    let ends: Vec<_> = machine.blocks().iter().map(|own| own[0].end_ns).collect();
    assert_eq!(ends, [13 * MS, 13 * MS]);
    assert_eq!(machine.delayed_others_ns(), [0, 2 * MS]);
}

#[test]
fn an_interleave_reports_when_its_batches_were_ready() {
    let mut loader = Interleave::new(InterleaveConfig {
        read_threads: 1,
        batch_size: 2,
        shuffle_size: 1,
        ..RECORDS
    });
    let mut reads = Vec::new();
    let share = Share { files: 1, ..Share::default() };
    loader.begin(&share, &mut reads);
    assert_eq!(loader.fetch(&mut reads), Fetch::NotReady);
    for at in [5, 9] {
        let read = reads.remove(0);
        let request = ReadRequest { accelerator: 0, phase: 1, read };
        let came = CompletedRead { landed: records(&request), fresh: true, at };
        assert_eq!(loader.landed(read.lane, came, &mut reads), 2);
    }
    assert_eq!(loader.fetch(&mut reads), Fetch::Taken { ready: 5 });
    assert_eq!(loader.fetch(&mut reads), Fetch::Taken { ready: 9 });
}
