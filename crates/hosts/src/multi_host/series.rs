//! Combines the time series of several hosts into one.

use stormlp_core::report::Series;

/// The sum of series that started together. Other telemetry, such as device counters, stays in each
/// host's report.
pub fn sum(all: &[&Series]) -> Series {
    let longest = all.iter().map(|series| series.interval_seconds);
    let interval_seconds = longest.fold(0.0, f64::max);
    let alike: Vec<Series> = all.iter().map(|series| coarser(series, interval_seconds)).collect();
    let Some(last) = alike.iter().max_by_key(|one| one.interval_bytes.len()) else {
        return Series::default();
    };
    let rows = |row: fn(&Series) -> &Vec<u64>| add(alike.iter().map(row));
    let device = alike.iter().all(|series| series.interval_device_bytes.is_some());
    let flights = add(alike.iter().map(|series| &series.interval_in_flight));
    Series {
        started_seconds: last.started_seconds,
        interval_seconds,
        last_interval_seconds: last.last_interval_seconds,
        interval_bytes: rows(|series| &series.interval_bytes),
        interval_device_bytes: device.then(|| {
            let own = alike.iter().filter_map(|one| one.interval_device_bytes.as_ref());
            add(own)
        }),
        interval_in_flight: flights,
        interval_cpu_seconds: add(alike.iter().map(|series| &series.interval_cpu_seconds)),
        rank_interval_bytes: if all.len() > 1 {
            alike.iter().map(|series| series.interval_bytes.clone()).collect()
        } else {
            Vec::new()
        },
        ..Series::default()
    }
}

/// Adds rows of numbers element by element, padding shorter ones with zeros.
fn add<'r, T: Copy + Default + std::ops::AddAssign + 'r>(
    rows: impl Iterator<Item = &'r Vec<T>>,
) -> Vec<T> {
    let mut sums = Vec::new();
    for row in rows {
        sums.resize(sums.len().max(row.len()), T::default());
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += *value;
        }
    }
    sums
}

/// Resamples to longer intervals: intervals double in length on hosts that run longer.
fn coarser(series: &Series, interval_seconds: f64) -> Series {
    let times = (interval_seconds / series.interval_seconds).round();
    if !times.is_finite() || times <= 1.0 {
        return series.clone();
    }
    let times = times as usize;
    let bytes = |row: &Vec<u64>| row.chunks(times).map(|part| part.iter().sum()).collect();
    let cpu = series.interval_cpu_seconds.chunks(times);
    let flights = series.interval_in_flight.chunks(times);
    let intervals = series.interval_bytes.len();
    // The last long interval covers the remaining short ones.
    let left = intervals.saturating_sub(1) % times;
    Series {
        interval_seconds,
        last_interval_seconds: series
            .last_interval_seconds
            .map(|last| last + left as f64 * series.interval_seconds),
        interval_bytes: bytes(&series.interval_bytes),
        interval_device_bytes: series.interval_device_bytes.as_ref().map(bytes),
        interval_in_flight: flights.filter_map(|part| part.last().copied()).collect(),
        interval_cpu_seconds: cpu.map(|part| part.iter().sum()).collect(),
        ..series.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(interval_seconds: f64, bytes: &[u64]) -> Series {
        Series {
            interval_seconds,
            last_interval_seconds: Some(interval_seconds),
            interval_bytes: bytes.to_vec(),
            interval_cpu_seconds: vec![0.5; bytes.len()],
            ..Series::default()
        }
    }

    #[test]
    fn intervals_of_hosts_add_up() {
        let whole = sum(&[&series(0.1, &[1, 2, 3]), &series(0.1, &[10, 20])]);
        assert_eq!(whole.interval_bytes, [11, 22, 3]);
        assert_eq!(whole.interval_cpu_seconds, [1.0, 1.0, 0.5]);
        assert_eq!(whole.interval_seconds, 0.1);
        assert_eq!(whole.rank_interval_bytes, [vec![1, 2, 3], vec![10, 20]]);
    }

    #[test]
    fn intervals_of_different_lengths_are_merged() {
        let whole = sum(&[&series(0.2, &[1, 2]), &series(0.1, &[10, 20, 30])]);
        assert_eq!(whole.interval_bytes, [31, 32]);
        assert_eq!(whole.interval_device_bytes, None);
        assert_eq!(whole.rank_interval_bytes, [vec![1, 2], vec![30, 30]]);
        assert!(sum(&[&series(0.2, &[1])]).rank_interval_bytes.is_empty());
        assert_eq!(sum(&[]), Series::default());
    }
}
