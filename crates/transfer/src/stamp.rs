//! Timestamps of transfers, from the CPU's counter if the kernel trusts it.
//!
//! A transfer of a few microseconds is stamped twice. Calling the kernel's clock is slower than all
//! other work of the driver per transfer, so the underlying counter is read directly, with its
//! frequency calibrated once against the kernel's clock.

use std::fs;
use std::ops::Add;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The file in which the kernel names its clock source.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A time on a [`StampClock`], in nanoseconds from an arbitrary origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    /// Nanoseconds since an earlier stamp; zero if that is not earlier.
    #[inline]
    pub fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same as a duration.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}

impl Add<Duration> for Stamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// The source of stamps: one clock for the whole process.
#[derive(Debug, Clone)]
pub struct StampClock(StampSource);

#[derive(Debug, Clone)]
enum StampSource {
    Counter(quanta::Clock),
    Kernel(Instant),
}

impl StampClock {
    /// The process's clock. The first call may take up to 0.2 s to calibrate it.
    pub fn of_process() -> Self {
        static CLOCK: OnceLock<StampClock> = OnceLock::new();
        let source = || {
            if is_trusted() {
                StampSource::Counter(quanta::Clock::new())
            } else {
                StampSource::Kernel(Instant::now())
            }
        };
        CLOCK.get_or_init(|| Self(source())).clone()
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Stamp {
        Stamp(match &self.0 {
            StampSource::Counter(clock) => clock.delta_as_nanos(0, clock.raw()),
            StampSource::Kernel(beginning) => beginning.elapsed().as_nanos() as u64,
        })
    }
}

/// Whether the kernel's clock uses the counter: then it is synchronised across CPUs and never
/// stops.
fn is_trusted() -> bool {
    fs::read_to_string(CLOCK_SOURCE)
        .is_ok_and(|name| matches!(name.trim(), "tsc" | "arch_sys_counter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_source_agrees_with_the_kernels_clock() {
        let kernel = StampClock(StampSource::Kernel(Instant::now()));
        for clock in [kernel, StampClock::of_process()] {
            // The result lies between the kernel clock's durations just inside and just around it,
            // however busy the machine is.
            let around = Instant::now();
            let begun = clock.now();
            let within = Instant::now();
            std::thread::sleep(Duration::from_millis(20));
            let within = within.elapsed();
            let measured = clock.now().since(begun);
            let around = around.elapsed();
            assert!(measured >= within.mul_f64(0.99), "{measured:?} {within:?}");
            assert!(measured <= around.mul_f64(1.01), "{measured:?} {around:?}");
        }
    }

    #[test]
    fn stamps_add_up_and_never_go_below_zero() {
        let stamp = Stamp(5);
        assert_eq!((stamp + Duration::from_nanos(7)).nanos_since(stamp), 7);
        assert_eq!(stamp.nanos_since(Stamp(9)), 0);
        assert_eq!(stamp + Duration::MAX, Stamp(u64::MAX));
    }
}
