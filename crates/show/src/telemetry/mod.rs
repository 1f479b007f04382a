//! System telemetry of a run: devices, host, network, GPUs, and the run's queue depth.

pub mod charts;

use stormlp_core::report::{Interval, Series};
use stormlp_core::telemetry::{DepthCount, Load, Measure, Track};
use stormlp_core::units::{GIB, KIB, MIB};

use crate::document::{Column, Document, Quantity, Table};

/// A metric over all intervals of a report.
struct Followed {
    name: String,
    unit: &'static str,
    /// The values with their weights in the mean.
    values: Vec<(f64, f64)>,
}

/// Section title of a single run.
pub const TITLE: &str = "Around the run";

/// Maximum number of block devices shown separately; the first ones are drawn last, on top.
const MOST_DEVICES: usize = 2;

/// Adds the section as `title`, if there was any telemetry.
pub fn section<'s>(
    document: &mut Document,
    title: &str,
    series: impl Iterator<Item = &'s Series> + Clone,
) {
    let table = table(&followed(series.clone()));
    let loads: Vec<&Load> = series.clone().filter_map(|one| one.load.as_ref()).collect();
    if table.is_none() && loads.is_empty() {
        return;
    }
    let devices = series.clone().map(|one| devices(one).len()).max();
    let section = document.details(title, table);
    if let Some(devices) = devices.filter(|devices| *devices > MOST_DEVICES) {
        let words = format!("the first of {devices}; the report (JSON) has all");
        section.facts.add("block devices", words);
    }
    if let Some(depths) = depths(&loads) {
        section.facts.add("queue depth", depths);
    }
}

/// The distinct monitored block devices.
fn devices(series: &Series) -> Vec<&str> {
    let busy = (series.tracks.iter()).filter(|track| track.measure == Measure::DeviceBusyShare);
    busy.map(|track| track.of.as_str()).collect()
}

/// The telemetry, each metric over all parts of the run; those that stayed 0 are omitted.
fn followed<'s>(series: impl Iterator<Item = &'s Series>) -> Vec<Followed> {
    let mut all: Vec<Followed> = Vec::new();
    let mut add = |one: Followed| match all.iter_mut().find(|other| other.name == one.name) {
        Some(other) => other.values.extend(one.values),
        None => all.push(one),
    };
    for series in series {
        let over_time = |values: &[f64], amount: Amount| -> Vec<(f64, f64)> {
            let is_known = |(_, value): &(Interval, f64)| value.is_finite();
            let weighed = |(interval, value): (Interval, f64)| {
                (interval.seconds, amount.shown(value, interval))
            };
            series.timed(values).filter(is_known).map(weighed).collect()
        };
        let (name, in_flight) = in_flight(series);
        add(Followed {
            name: name.to_string(),
            unit: "transfers",
            values: over_time(&in_flight, Amount::Level(1.0)),
        });
        let devices = devices(series);
        let hidden = devices.get(1..).filter(|_| devices.len() > MOST_DEVICES).unwrap_or_default();
        for track in (series.tracks.iter()).filter(|one| !hidden.contains(&one.of.as_str())) {
            if let Some(shown) = DISPLAYS.iter().find(|one| one.measure == track.measure) {
                add(Followed {
                    name: format!("{} {}", track.of, shown.what),
                    unit: shown.unit,
                    values: over_time(&track.values, shown.amount),
                });
            }
            for Mean { what, unit, values } in means(track, &series.tracks) {
                let weighed = track.values.iter().copied().zip(values);
                add(Followed {
                    name: format!("{} {what}", track.of),
                    unit,
                    values: weighed.filter(|(_, mean)| mean.is_finite()).collect(),
                });
            }
        }
    }
    all.retain(|one| one.values.iter().any(|(_, value)| *value != 0.0));
    all
}

/// The run's transfers in flight in each interval with the label: averaged over the interval, or
/// sampled at its end.
fn in_flight(series: &Series) -> (&'static str, Vec<f64>) {
    match series.interval_in_flight_mean.as_slice() {
        [] => ("in flight, sampled", sampled(series)),
        mean => ("in flight", mean.to_vec()),
    }
}

/// Sampled transfers in flight; the last sample is NaN since it was taken after the end.
fn sampled(series: &Series) -> Vec<f64> {
    let mut samples: Vec<f64> =
        series.interval_in_flight.iter().map(|count| f64::from(*count)).collect();
    if let Some(last) = samples.last_mut() {
        *last = f64::NAN;
    }
    samples
}

/// The divisor of an interval's value for display.
#[derive(Debug, Clone, Copy)]
enum Amount {
    /// A counter, divided by this and by the seconds of the interval.
    Rate(f64),
    /// A level or a mean, divided by this alone.
    Level(f64),
}

impl Amount {
    fn shown(self, value: f64, interval: Interval) -> f64 {
        match self {
            Self::Rate(unit) => value / unit / interval.seconds,
            Self::Level(unit) => value / unit,
        }
    }
}

/// How a measure is shown.
struct Display {
    measure: Measure,
    /// The quantity, after the name of the device.
    what: &'static str,
    unit: &'static str,
    amount: Amount,
    /// The title of its chart; empty for none.
    chart: &'static str,
}

const RATE: Amount = Amount::Rate(MIB as f64);
const SIZE: Amount = Amount::Level(GIB as f64);
const PERCENT: Amount = Amount::Level(0.01);

/// All measures, except the ones shown only as means over requests. Neighbours with the same title
/// share a chart.
const DISPLAYS: [Display; 17] = {
    const fn display(
        measure: Measure,
        what: &'static str,
        unit: &'static str,
        amount: Amount,
        chart: &'static str,
    ) -> Display {
        Display { measure, what, unit, amount, chart }
    }
    use Measure::*;
    const DEVICES: &str = "Block devices over time";
    const MEMORY: &str = "Memory over time";
    const NETWORK: &str = "Network over time";
    const PCIE: &str = "PCIe of GPUs over time";
    const NVLINK: &str = "NVLink of GPUs over time";
    [
        display(DeviceReadBytes, "read", "MiB/s", RATE, DEVICES),
        display(DeviceWrittenBytes, "written", "MiB/s", RATE, DEVICES),
        display(DeviceReads, "reads", "1/s", Amount::Rate(1.0), ""),
        display(DeviceWrites, "writes", "1/s", Amount::Rate(1.0), ""),
        display(
            DeviceInFlight,
            "in flight",
            "requests",
            Amount::Level(1.0),
            "Requests in flight at block devices over time",
        ),
        display(DeviceBusyShare, "busy", "%", PERCENT, "Block devices busy over time"),
        display(HostCpuSeconds, "CPU", "CPUs", Amount::Rate(1.0), ""),
        display(LimitUsedShare, "in use", "%", PERCENT, ""),
        display(MemoryAvailableBytes, "memory available", "GiB", SIZE, MEMORY),
        display(PageCacheBytes, "page cache", "GiB", SIZE, MEMORY),
        display(NetworkReceivedBytes, "received", "MiB/s", RATE, NETWORK),
        display(NetworkSentBytes, "sent", "MiB/s", RATE, NETWORK),
        display(GpuBusyShare, "busy", "%", PERCENT, "GPUs busy over time"),
        display(PcieReceivedBytes, "received over PCIe", "MiB/s", RATE, PCIE),
        display(PcieSentBytes, "sent over PCIe", "MiB/s", RATE, PCIE),
        display(NvlinkReceivedBytes, "received over NVLink", "MiB/s", RATE, NVLINK),
        display(NvlinkSentBytes, "sent over NVLink", "MiB/s", RATE, NVLINK),
    ]
};

/// Means over the requests of a device in each interval; NaN where they are unknown.
struct Mean {
    what: &'static str,
    unit: &'static str,
    values: Vec<f64>,
}

/// Minimum time of requests for a mean latency: the kernel counts it in whole milliseconds.
const LEAST_SECONDS: f64 = 0.01;

/// Mean size and latency of the requests that `count` counts; empty for other tracks.
fn means(count: &Track, tracks: &[Track]) -> Vec<Mean> {
    type Kind = (&'static str, &'static str, Measure, f64, f64);
    let kinds: [Kind; 2] = match count.measure {
        Measure::DeviceReads => [
            ("mean read", "KiB", Measure::DeviceReadBytes, 1.0 / KIB as f64, 0.0),
            ("read latency", "µs", Measure::DeviceReadSeconds, 1e6, LEAST_SECONDS),
        ],
        Measure::DeviceWrites => [
            ("mean write", "KiB", Measure::DeviceWrittenBytes, 1.0 / KIB as f64, 0.0),
            ("write latency", "µs", Measure::DeviceWriteSeconds, 1e6, LEAST_SECONDS),
        ],
        _ => return Vec::new(),
    };
    let mean = |(what, unit, sum, scale, least): Kind| {
        let sums = tracks.iter().find(|track| track.measure == sum && track.of == count.of)?;
        let both = sums.values.iter().zip(&count.values);
        let mean = |(sum, requests): (&f64, &f64)| match *requests > 0.0 && *sum >= least {
            true => sum / requests * scale,
            false => f64::NAN,
        };
        Some(Mean { what, unit, values: both.map(mean).collect() })
    };
    kinds.into_iter().filter_map(mean).collect()
}

/// Mean latency in microseconds of the requests of each device: its name, the device, and the value
/// of each interval, NaN where it is unknown.
pub(crate) fn latencies(series: &Series) -> Vec<(&'static str, &str, Vec<f64>)> {
    let mut found = Vec::new();
    for count in &series.tracks {
        let name = match count.measure {
            Measure::DeviceReads => "device_read_latency_us",
            _ => "device_write_latency_us",
        };
        let means = means(count, &series.tracks).into_iter().filter(|mean| mean.unit == "µs");
        found.extend(means.map(|mean| (name, count.of.as_str(), mean.values)));
    }
    found
}

fn table(followed: &[Followed]) -> Option<Table> {
    let words = ["over all intervals", "unit"].map(|name| Column::words(name, 0));
    let numbers = ["min", "mean", "max"].map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for one in followed {
        let values = one.values.iter().map(|(_, value)| *value);
        let min = values.clone().fold(f64::INFINITY, f64::min);
        let max = values.fold(f64::NEG_INFINITY, f64::max);
        let weight: f64 = one.values.iter().map(|(weight, _)| weight).sum();
        let sum: f64 = one.values.iter().map(|(weight, value)| weight * value).sum();
        let mean = sum / weight;
        let mut row = vec![one.name.clone().into(), one.unit.into()];
        let numbers = [min, mean, max].map(|value| Quantity::neutral(value, one.unit));
        row.extend(numbers.map(Into::into));
        table.row(one.name.clone(), row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The queue depth at submission as text.
fn depths(loads: &[&Load]) -> Option<String> {
    let mut counts: Vec<DepthCount> = loads.iter().flat_map(|load| &load.depths).copied().collect();
    counts.sort_by_key(|one| one.depth);
    let transfers: u64 = counts.iter().map(|one| one.transfers).sum();
    let deepest = counts.last()?.depth;
    let at = |share: f64| {
        let mut seen = 0;
        let wanted = (share * transfers as f64).ceil() as u64;
        counts.iter().find(|one| {
            seen += one.transfers;
            seen >= wanted
        })
    };
    let sum: f64 = (counts.iter()).map(|one| f64::from(one.depth) * one.transfers as f64).sum();
    Some(format!(
        "median {}, mean {:.1}, 90 % up to {}, at most {deepest} at submission (all threads \
         together, {transfers} transfers)",
        at(0.5)?.depth,
        sum / transfers as f64,
        at(0.9)?.depth,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::report::NamedSeries;
    use stormlp_core::telemetry::SizeCount;

    pub(super) fn series() -> NamedSeries {
        let track = |measure, values: &[f64]| Track {
            measure,
            of: "nvme0n1".to_string(),
            values: values.to_vec(),
        };
        let depth = |depth, transfers| DepthCount { depth, transfers };
        let size = |up_to_bytes, transfers| SizeCount { up_to_bytes, transfers };
        NamedSeries {
            name: "run 1".to_string(),
            series: Series {
                interval_seconds: 0.5,
                last_interval_seconds: Some(0.25),
                interval_in_flight_mean: vec![1.5, 2.0, 1.0],
                interval_in_flight_max: vec![2, 4, 1],
                telemetry_cpu_seconds: Some(0.012),
                tracks: vec![
                    track(Measure::DeviceReadBytes, &[1048576.0, 2097152.0, 1048576.0]),
                    track(Measure::DeviceReads, &[8.0, 8.0, 0.0]),
                    track(Measure::DeviceReadSeconds, &[0.016, 0.004, 0.0]),
                    track(Measure::DeviceWrites, &[0.0, 0.0, 0.0]),
                    track(Measure::DeviceBusyShare, &[0.5, 1.0, 0.0]),
                ],
                load: Some(Load {
                    depths: vec![depth(1, 1), depth(2, 6), depth(4, 3)],
                    sizes: vec![size(4096, 2), size(262144, 8)],
                }),
                ..Series::default()
            },
        }
    }

    #[test]
    fn tracks_become_rates_and_mean_request_sizes() {
        let mut document = Document::default();
        let both = [series().series, series().series];
        section(&mut document, TITLE, both.iter());
        let section = &document.sections[0];
        let rows = &section.table.as_ref().unwrap().rows;
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        let expected = [
            "in flight",
            "nvme0n1 read",
            "nvme0n1 reads",
            "nvme0n1 mean read",
            "nvme0n1 read latency",
            "nvme0n1 busy",
        ];
        assert_eq!(keys, expected, "what stayed 0 is left out");
        let shown = crate::text::render(&document, Some(100));
        // Each interval is divided by its length.
        // 4 ms of reads are too few to know their latency by a clock of whole milliseconds.
        let latency = "µs  2,000  2,000  2,000";
        for line in ["2.00  3.20  4.00", "128  192  256", latency, "1.00  1.60  2.00"] {
            let line: Vec<&str> = line.split_ascii_whitespace().collect();
            let words = shown.lines().map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
            assert!(
                words.clone().any(|row| row.windows(line.len()).any(|part| part == line)),
                "{shown}"
            );
        }
        assert!(shown.contains("median 2, mean 2.5, 90 % up to 4, at most 4"), "{shown}");
    }

    #[test]
    fn a_section_shows_the_first_of_many_devices() {
        let keys = |document: &Document| -> Vec<String> {
            let rows = &document.sections[0].table.as_ref().unwrap().rows;
            rows.iter().map(|row| row.key.clone()).collect()
        };
        let mut one = series().series;
        let mut document = Document::default();
        section(&mut document, TITLE, [&one].into_iter());
        let alone = keys(&document);
        for of in ["nvme1n1", "nvme2n1"] {
            one.tracks.push(Track {
                measure: Measure::DeviceBusyShare,
                of: of.to_string(),
                values: vec![0.5; 3],
            });
        }
        let mut document = Document::default();
        section(&mut document, TITLE, [&one].into_iter());
        assert_eq!(keys(&document), alone);
        let shown = crate::text::render(&document, Some(100));
        assert!(shown.contains("the first of 3"), "{shown}");
    }

    #[test]
    fn a_run_without_telemetry_has_no_section() {
        let mut document = Document::default();
        section(&mut document, TITLE, std::iter::empty());
        assert!(document.sections.is_empty());
    }
}
