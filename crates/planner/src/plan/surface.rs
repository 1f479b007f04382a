//! Measured storage: throughput and latency by transfer size and depth.

use serde::{Deserialize, Serialize};

/// Measurements sorted by size, then by depth; never empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surface {
    points: Vec<SurfacePoint>,
}

/// The measurement for one transfer size and depth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SurfacePoint {
    /// Transfer size.
    pub io_bytes: u64,
    /// Transfers in flight over all threads.
    pub depth: u32,
    /// Total throughput.
    pub bytes_per_second: f64,
    /// Mean time from submission to completion.
    pub latency_seconds: f64,
}

impl Surface {
    /// The surface through `points`; `None` if none of them moved bytes. Points of the same size and
    /// depth (repetitions) are averaged.
    pub fn through(points: impl IntoIterator<Item = SurfacePoint>) -> Option<Self> {
        let usable = |point: &SurfacePoint| {
            let SurfacePoint { io_bytes, depth, bytes_per_second, latency_seconds } = *point;
            let rate_is_fine = bytes_per_second.is_finite() && bytes_per_second > 0.0;
            let time_is_fine = latency_seconds.is_finite() && latency_seconds >= 0.0;
            io_bytes > 0 && depth > 0 && rate_is_fine && time_is_fine
        };
        let mut points: Vec<SurfacePoint> = points.into_iter().filter(usable).collect();
        points.sort_by_key(|point| (point.io_bytes, point.depth));
        let alike = points.chunk_by(|a, b| (a.io_bytes, a.depth) == (b.io_bytes, b.depth));
        let points: Vec<SurfacePoint> = alike.map(mean).collect();
        (!points.is_empty()).then_some(Self { points })
    }

    /// The measurements.
    pub fn points(&self) -> &[SurfacePoint] {
        &self.points
    }

    /// Makes it `times` as fast.
    pub fn speed_up(&mut self, times: f64) {
        for point in &mut self.points {
            point.bytes_per_second *= times;
            point.latency_seconds /= times;
        }
    }

    /// Highest measured throughput.
    pub fn best_bytes_per_second(&self) -> f64 {
        let rates = self.points.iter().map(|point| point.bytes_per_second);
        rates.fold(0.0, f64::max)
    }

    /// Lowest measured latency.
    pub fn least_latency_seconds(&self) -> f64 {
        let times = self.points.iter().map(|point| point.latency_seconds);
        times.fold(f64::INFINITY, f64::min)
    }

    /// Throughput and latency of transfers of `io_bytes` at `depth`, interpolated logarithmically;
    /// outside the measured range, the nearest point's.
    pub fn at(&self, io_bytes: u64, depth: u32) -> SurfacePoint {
        let sizes: Vec<&[SurfacePoint]> =
            self.points.chunk_by(|a, b| a.io_bytes == b.io_bytes).collect();
        let rows: Vec<(f64, SurfacePoint)> = sizes
            .iter()
            .map(|row| {
                let depths = row.iter().map(|point| (f64::from(point.depth), *point));
                let along: Vec<_> = depths.collect();
                (row[0].io_bytes as f64, between(&along, f64::from(depth)))
            })
            .collect();
        SurfacePoint { io_bytes, depth, ..between(&rows, io_bytes as f64) }
    }
}

fn mean(points: &[SurfacePoint]) -> SurfacePoint {
    let count = points.len() as f64;
    let sum = |of: fn(&SurfacePoint) -> f64| points.iter().map(of).sum::<f64>();
    SurfacePoint {
        bytes_per_second: sum(|point| point.bytes_per_second) / count,
        latency_seconds: sum(|point| point.latency_seconds) / count,
        ..points[0]
    }
}

/// Interpolates `places`, which are sorted and not empty, at `at`.
fn between(places: &[(f64, SurfacePoint)], at: f64) -> SurfacePoint {
    let above = places.partition_point(|(place, _)| *place < at);
    let (low, high) = match above {
        0 => return places[0].1,
        above if above == places.len() => return places[above - 1].1,
        above => (&places[above - 1], &places[above]),
    };
    let share = (at.ln() - low.0.ln()) / (high.0.ln() - low.0.ln());
    let mix = |a: f64, b: f64| {
        if a > 0.0 && b > 0.0 {
            (a.ln() * (1.0 - share) + b.ln() * share).exp()
        } else {
            a * (1.0 - share) + b * share
        }
    };
    SurfacePoint {
        bytes_per_second: mix(low.1.bytes_per_second, high.1.bytes_per_second),
        latency_seconds: mix(low.1.latency_seconds, high.1.latency_seconds),
        ..low.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(io_bytes: u64, depth: u32, bytes_per_second: f64) -> SurfacePoint {
        SurfacePoint {
            io_bytes,
            depth,
            bytes_per_second,
            latency_seconds: io_bytes as f64 * f64::from(depth) / bytes_per_second,
        }
    }

    #[test]
    fn measured_points_are_exact_and_others_are_interpolated() {
        let surface = Surface::through([
            point(4096, 1, 4e7),
            point(4096, 16, 4e8),
            point(1 << 20, 1, 1e9),
            point(1 << 20, 16, 4e9),
            point(1 << 20, 16, 6e9),
        ])
        .unwrap();
        assert_eq!(surface.points().len(), 4, "repetitions are one point");
        let rate = |size, depth| surface.at(size, depth).bytes_per_second;
        assert!((rate(1 << 20, 16) - 5e9).abs() < 1.0);
        assert!((rate(4096, 4) - 4e7 * 10f64.sqrt()).abs() < 1.0);
        assert_eq!(rate(512, 1), rate(4096, 1));
        assert!((rate(8 << 20, 64) - 5e9).abs() < 1.0);
        let middle = rate(64 << 10, 16);
        assert!(4e8 < middle && middle < 5e9);
        assert_eq!(surface.best_bytes_per_second(), 5e9);
    }

    #[test]
    fn points_without_throughput_are_ignored() {
        assert_eq!(Surface::through([]), None);
        assert_eq!(Surface::through([point(4096, 1, 0.0)]), None);
    }
}
