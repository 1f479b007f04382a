//! Samples at synthetic times become intervals.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use super::*;

/// A sampler of the counters only.
fn sampler(interval_ns: u64) -> Sampler<'static> {
    static NONE: LazyLock<Instruments> = LazyLock::new(Instruments::default);
    let interval = Duration::from_nanos(interval_ns);
    Sampler::new(Telemetry::Every(interval), &NONE)
}

fn counters(bytes: u64) -> Counters {
    Counters {
        bytes,
        in_flight: 3,
        flown: None,
        cpu_seconds: bytes as f64 / 10.0,
        device_bytes: Some(2 * bytes),
        rank_bytes: vec![bytes / 3, bytes - bytes / 3],
    }
}

#[test]
fn counts_between_samples_are_spread_over_the_time_between() {
    let mut sampler = sampler(100);
    assert!(sampler.series().interval_bytes.is_empty());
    sampler.look(50, counters(0));
    sampler.look(200, counters(30));
    sampler.look(350, counters(60));
    sampler.look(390, counters(70));
    let series = sampler.series();
    // A remainder of 40 is less than half an interval.
    assert_eq!(series.interval_bytes, [20, 20, 30]);
    assert_eq!(series.interval_device_bytes, Some(vec![40, 40, 60]));
    assert_eq!(series.rank_interval_bytes, [vec![6, 7, 10], vec![13, 13, 21]]);
    assert_eq!(series.interval_in_flight, [3; 3]);
    assert!(series.interval_in_flight_mean.is_empty());
    assert_eq!((series.started_seconds, series.interval_seconds), (5e-8, 1e-7));
    assert_eq!(series.last_interval_seconds, Some(1.4e-7));
    assert!((series.interval_cpu_seconds.iter().sum::<f64>() - 7.0).abs() < 1e-9);
}

#[test]
fn transfers_in_flight_have_a_mean_over_time_and_a_maximum() {
    let mut sampler = sampler(100);
    // Accumulated nanoseconds in flight, and peak concurrency.
    for (now, nanos, most) in [(0, 0, 0), (110, 220, 5), (150, 220, 1), (200, 370, 3)] {
        let flown = Some(InFlightStats { transfer_seconds: f64::from(nanos) / 1e9, most });
        sampler.look(now, Counters { flown, ..counters(now) });
    }
    let series = sampler.series();
    let mean: Vec<f64> =
        (series.interval_in_flight_mean.iter()).map(|mean| (mean * 1e6).round() / 1e6).collect();
    assert_eq!(mean, [2.0, 1.7]);
    assert_eq!(series.interval_in_flight_max, [5, 3]);
}

#[test]
fn short_parts_have_short_intervals_and_others_the_usual_ones() {
    let instruments = Instruments::default();
    let course = |length_ns: u64| {
        let mut sampler = Sampler::with_fine_start(Telemetry::default(), &instruments);
        (0..=length_ns / 1_000_000).for_each(|ms| sampler.look(ms * 1_000_000, counters(ms)));
        sampler.series()
    };
    let short = course(60_000_000);
    assert_eq!((short.interval_seconds, short.interval_bytes.len()), (0.0125, 5));
    let long = course(3_000_000_000);
    assert_eq!((long.interval_seconds, long.interval_bytes.len()), (0.1, 30));
    assert_eq!(long.interval_bytes.iter().sum::<u64>(), 3000);
}

#[test]
fn a_device_is_busy_at_most_all_of_the_time() {
    let instruments = Instruments::around([Path::new(".")], [], Telemetry::default());
    let mut sampler = Sampler::new(Telemetry::default(), &instruments);
    for look in [0.0, 100.0] {
        // Values of a fifth of a second, in half that time.
        let tracks = instruments.tracks().iter();
        let readings = tracks
            .map(|(measure, _)| match measure {
                Measure::HostCpuSeconds => look,
                _ => look / 500.0,
            })
            .collect();
        let counters = Counters::default();
        sampler.see(look as u64 * 1_000_000, Sample { counters, readings });
    }
    for track in sampler.series().tracks {
        match track.measure {
            Measure::DeviceBusyShare => assert_eq!(track.values, [1.0]),
            Measure::DeviceInFlight => assert_eq!(track.values, [2.0]),
            // At most all CPUs for a tenth of a second.
            Measure::HostCpuSeconds => {
                assert_eq!(track.values, [instruments.most(track.measure, 0.1)]);
            }
            _ => {}
        }
    }
}

#[test]
fn a_long_run_has_longer_intervals_and_loses_no_byte() {
    let mut sampler = sampler(10);
    for step in 0..50_000u64 {
        sampler.look(step * 7, counters(step * step));
    }
    let series = sampler.series();
    assert!(series.interval_bytes.len() <= INTERVALS);
    let sum: u64 = series.interval_bytes.iter().sum();
    assert_eq!(sum, 49_999 * 49_999);
    let seconds = series.interval_seconds * series.interval_bytes.len() as f64;
    assert!((seconds - 350e-6).abs() < 2.0 * series.interval_seconds);
}

#[test]
fn a_missing_device_has_no_series() {
    let mut sampler = sampler(10);
    for now in [0, 25] {
        let device_bytes = None;
        sampler.look(now, Counters { device_bytes, ..counters(now) });
    }
    assert_eq!(sampler.series().interval_device_bytes, None);
}

#[test]
fn a_rarely_sampled_counter_is_spread_between_samples() {
    let none = f64::NAN;
    let read = vec![10.0, none, none, 40.0, none, 60.0];
    assert_eq!(bridged(read), Some(vec![10.0, 20.0, 30.0, 40.0, 50.0, 60.0]));
    assert_eq!(bridged(vec![1.0, none]), None);
    assert_eq!(bridged(vec![none, 1.0]), None);
    assert_eq!(bridged(vec![]), None);
}

#[test]
fn a_level_without_a_sample_is_not_invented() {
    let instruments = Instruments::around([Path::new(".")], [], Telemetry::default());
    let mut tracks = instruments.tracks().iter();
    let memory =
        tracks.position(|(measure, _)| *measure == Measure::MemoryAvailableBytes).expect("a host");
    let mut sampler = Sampler::new(Telemetry::default(), &instruments);
    for (look, number) in [(0, 1.0), (100, f64::NAN), (200, 3.0), (300, f64::NAN)] {
        let mut readings = vec![0.0; instruments.tracks().len()];
        readings[memory] = number;
        let counters = Counters::default();
        sampler.see(look * 1_000_000, Sample { counters, readings });
    }
    let track = sampler.series().tracks.swap_remove(memory);
    let read: Vec<f64> = track.values.iter().copied().filter(|one| one.is_finite()).collect();
    assert_eq!((track.values.len(), read), (3, vec![3.0]));
}

#[test]
fn tracks_are_differences_shares_and_levels() {
    let instruments = Instruments::around([Path::new(".")], [], Telemetry::default());
    let of = |wanted: Measure| {
        let mut tracks = instruments.tracks().iter();
        tracks.position(|(measure, _)| *measure == wanted)
    };
    let cpu = of(Measure::HostCpuSeconds).expect("a host");
    let memory = of(Measure::MemoryAvailableBytes).expect("a host");
    let mut sampler = Sampler::new(Telemetry::default(), &instruments);
    for (look, number) in [(0, 1.0), (100, 4.0), (200, 6.0), (250, 6.5)] {
        let mut readings = vec![number; instruments.tracks().len()];
        readings[memory] = 1000.0 - number;
        // Less than one CPU's time.
        readings[cpu] = number / 128.0;
        let counters = Counters::default();
        sampler.see(look * 1_000_000, Sample { counters, readings });
    }
    let series = sampler.series();
    let values = |index: usize| &series.tracks[index].values;
    assert_eq!(values(cpu), &[3.0, 2.0, 0.5].map(|number| number / 128.0));
    assert_eq!(values(memory), &[996.0, 994.0, 993.5]);
    if let Some(depth) = of(Measure::DeviceInFlight) {
        // The last interval is half as long as the rest.
        assert_eq!(values(depth), &[30.0, 20.0, 10.0]);
    }
    assert_eq!(series.telemetry_cpu_seconds, Some(0.0));
}
