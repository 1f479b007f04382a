//! The load that a thread group's drivers put on storage: the number of transfers in flight, their
//! durations and sizes. Counted, not sampled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stormlp_core::telemetry::{self as model, DepthCount, SizeCount};

use crate::stamp::Stamp;

/// Depths above this are counted as this depth.
const DEEPEST: usize = 1024;

/// The number of transfers in flight at each submission, itself included, and the transfer sizes.
#[derive(Debug)]
struct DriverLoad {
    /// By the number in flight.
    depths: Box<[u64]>,
    /// By transfer size, rounded up to a power of two.
    sizes: [u64; 64],
}

impl Default for DriverLoad {
    fn default() -> Self {
        Self { depths: vec![0; DEEPEST + 1].into_boxed_slice(), sizes: [0; 64] }
    }
}

impl DriverLoad {
    fn count(&mut self, in_flight: u64, bytes: usize) {
        self.depths[(in_flight as usize).min(DEEPEST)] += 1;
        self.sizes[bytes.max(1).next_power_of_two().ilog2() as usize] += 1;
    }

    fn merge(&mut self, other: &Self) {
        let add = |into: &mut [u64], from: &[u64]| {
            into.iter_mut().zip(from).for_each(|(sum, more)| *sum += more);
        };
        add(&mut self.depths, &other.depths);
        add(&mut self.sizes, &other.sizes);
    }
}

/// The transfers of one driver in flight over time, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct FlightTime {
    in_flight: u64,
    /// The time of the last change.
    since: Option<Stamp>,
    /// Nanoseconds in flight up to then, summed over all transfers.
    nanos: u64,
}

impl FlightTime {
    /// Nanoseconds in flight up to `now`.
    fn until(&self, now: Stamp) -> u64 {
        let since = self.since.map_or(0, |since| now.nanos_since(since));
        self.nanos + self.in_flight * since
    }

    fn change(&mut self, now: Stamp, in_flight: u64) {
        *self = Self { nanos: self.until(now), since: Some(now), in_flight };
    }
}

/// Accumulated time in flight, and peak concurrency.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct InFlightStats {
    /// Seconds in flight so far, summed over all transfers: its growth per second is the mean
    /// number in flight.
    pub transfer_seconds: f64,
    /// The peak number in flight since the last query.
    pub most: u32,
}

/// Statistics shared by the drivers of a thread group.
#[derive(Debug)]
pub(super) struct Together {
    /// Transfers in flight across all drivers, and the peak since the last query.
    in_flight: AtomicU64,
    most: AtomicU64,
    /// Per driver. Its thread updates it, and the monitoring thread reads it occasionally.
    flights: Vec<Mutex<FlightTime>>,
    /// The load submitted by finished drivers.
    load: Mutex<DriverLoad>,
}

impl Together {
    pub(super) fn new(drivers: usize) -> Self {
        Self {
            in_flight: AtomicU64::new(0),
            most: AtomicU64::new(0),
            flights: (0..drivers).map(|_| Mutex::default()).collect(),
            load: Mutex::default(),
        }
    }

    /// Accumulated time in flight up to `now`.
    pub(super) fn flown(&self, now: Stamp) -> InFlightStats {
        let nanos: u64 = self.flights.iter().map(|flight| lock(flight).until(now)).sum();
        let most = self.most.swap(0, Ordering::Relaxed);
        // Transfers in flight now count towards the next period too.
        let now_in_flight = self.in_flight.load(Ordering::Relaxed);
        self.most.fetch_max(now_in_flight, Ordering::Relaxed);
        InFlightStats { transfer_seconds: nanos as f64 / 1e9, most: most.max(now_in_flight) as u32 }
    }

    /// The queue depth and transfer sizes of finished drivers.
    pub(super) fn load(&self) -> model::Load {
        let load = lock(&self.load);
        let counted = |counts: &[u64]| {
            let counts = counts.iter().copied().enumerate();
            counts.filter(|(_, transfers)| *transfers > 0).collect::<Vec<_>>()
        };
        let depths = counted(&load.depths).into_iter();
        let sizes = counted(&load.sizes).into_iter();
        model::Load {
            depths: depths
                .map(|(depth, transfers)| DepthCount { depth: depth as u32, transfers })
                .collect(),
            sizes: sizes
                .map(|(power, transfers)| SizeCount { up_to_bytes: 1 << power, transfers })
                .collect(),
        }
    }
}

/// One driver's share of the statistics.
pub(super) struct Counting<'a> {
    together: &'a Together,
    flight: &'a Mutex<FlightTime>,
    in_flight: u64,
    load: DriverLoad,
}

impl<'a> Counting<'a> {
    /// The share of the driver with this `index`.
    pub(super) fn new(together: &'a Together, index: usize) -> Self {
        let flight = &together.flights[index];
        Self {
            together,
            flight,
            // A thread may have several drivers in succession, and one that failed may have left
            // transfers behind.
            in_flight: lock(flight).in_flight,
            load: DriverLoad::default(),
        }
    }

    /// Records the submission of `bytes` at time `at`.
    pub(super) fn submitted(&mut self, at: Stamp, bytes: usize) {
        let of_all = self.together.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        // A submission is rarely a new peak, and otherwise no shared cache line is written.
        if self.together.most.load(Ordering::Relaxed) < of_all {
            self.together.most.fetch_max(of_all, Ordering::Relaxed);
        }
        self.load.count(of_all, bytes);
        self.in_flight += 1;
        lock(self.flight).change(at, self.in_flight);
    }

    /// Records a completion at time `at`.
    pub(super) fn landed(&mut self, at: Stamp) {
        self.together.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.in_flight -= 1;
        lock(self.flight).change(at, self.in_flight);
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        lock(&self.together.load).merge(&self.load);
    }
}

/// The values are consistent at any time, even after a panic.
fn lock<T>(numbers: &Mutex<T>) -> MutexGuard<'_, T> {
    numbers.lock().unwrap_or_else(PoisonError::into_inner)
}
