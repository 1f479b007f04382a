//! What went on around a run: its devices, its host, its network, its GPUs, and how deep the queue
//! was that it kept.

pub(crate) mod charts;

use stormlp_model::report::NamedSeries;
use stormlp_model::telemetry::{DepthCount, Load, Measure, Track};
use stormlp_model::units::{ByteSize, GIB, KIB, MIB};

use crate::document::{Column, Document, Quantity, Table};

/// A number over all intervals of a report.
struct Followed {
    name: String,
    unit: &'static str,
    values: Vec<f64>,
}

/// What the section is called where there is one run.
pub(crate) const TITLE: &str = "Around the run";

/// Adds the section as `title`, if anything was looked at.
pub(crate) fn section(document: &mut Document, title: &str, series: &[NamedSeries]) {
    let table = table(&followed(series));
    let loads: Vec<&Load> = (series.iter())
        .filter_map(|one| one.series.load.as_ref())
        .collect();
    if table.is_none() && loads.is_empty() {
        return;
    }
    let section = document.section(title, table);
    if let Some(depths) = depths(&loads) {
        section.facts.add("queue depth", depths);
    }
    if let Some(sizes) = sizes(&loads) {
        section.facts.add("transfer sizes", sizes);
    }
    let costs = series
        .iter()
        .filter_map(|one| one.series.telemetry_cpu_seconds);
    let cost: f64 = costs.sum();
    if cost > 0.0 {
        section.facts.add(
            "cost of looking",
            format!("{:.1} ms of CPU time", cost * 1e3),
        );
    }
}

/// What was looked at, each number over all parts of the run; those that stayed 0 are left out.
fn followed(series: &[NamedSeries]) -> Vec<Followed> {
    let mut all: Vec<Followed> = Vec::new();
    let mut add = |name: String, unit: &'static str, values: Vec<f64>| match all
        .iter_mut()
        .find(|one| one.name == name)
    {
        Some(one) => one.values.extend(values),
        None => all.push(Followed { name, unit, values }),
    };
    for one in series {
        let seconds = one.series.interval_seconds;
        for track in &one.series.tracks {
            let (what, unit, divisor) = shown(track.measure, seconds);
            let values = track.values.iter().map(|value| value / divisor).collect();
            add(format!("{} {what}", track.of), unit, values);
            if let Some((what, sizes)) = mean_sizes(track, &one.series.tracks) {
                let had_any = sizes.into_iter().filter(|size| size.is_finite()).collect();
                add(format!("{} mean {what}", track.of), "KiB", had_any);
            }
        }
    }
    all.retain(|one| one.values.iter().any(|value| *value != 0.0));
    all
}

/// How a measure is shown: its words, its unit, and what values are divided by.
fn shown(measure: Measure, interval_seconds: f64) -> (&'static str, &'static str, f64) {
    let rate = MIB as f64 * interval_seconds;
    match measure {
        Measure::DeviceReadBytes => ("read", "MiB/s", rate),
        Measure::DeviceReads => ("reads", "1/s", interval_seconds),
        Measure::DeviceWrittenBytes => ("written", "MiB/s", rate),
        Measure::DeviceWrites => ("writes", "1/s", interval_seconds),
        Measure::DeviceBusyShare => ("busy", "%", 0.01),
        Measure::DeviceInFlight => ("in flight", "requests", 1.0),
        Measure::HostCpuSeconds => ("CPU", "CPUs", interval_seconds),
        Measure::MemoryAvailableBytes => ("memory available", "GiB", GIB as f64),
        Measure::PageCacheBytes => ("page cache", "GiB", GIB as f64),
        Measure::NetworkReceivedBytes => ("received", "MiB/s", rate),
        Measure::NetworkSentBytes => ("sent", "MiB/s", rate),
        Measure::GpuBusyShare => ("busy", "%", 0.01),
        Measure::PcieReceivedBytes => ("received over PCIe", "MiB/s", rate),
        Measure::PcieSentBytes => ("sent over PCIe", "MiB/s", rate),
        Measure::NvlinkReceivedBytes => ("received over NVLink", "MiB/s", rate),
        Measure::NvlinkSentBytes => ("sent over NVLink", "MiB/s", rate),
    }
}

/// Mean request size of a device in each interval, in KiB, beside its count; no number where it had
/// no request.
fn mean_sizes(count: &Track, tracks: &[Track]) -> Option<(&'static str, Vec<f64>)> {
    let (what, of_bytes) = match count.measure {
        Measure::DeviceReads => ("read", Measure::DeviceReadBytes),
        Measure::DeviceWrites => ("write", Measure::DeviceWrittenBytes),
        _ => return None,
    };
    let bytes = (tracks.iter()).find(|track| track.measure == of_bytes && track.of == count.of)?;
    let both = bytes.values.iter().zip(&count.values);
    let size = |(bytes, requests): (&f64, &f64)| match *requests > 0.0 {
        true => bytes / requests / KIB as f64,
        false => f64::NAN,
    };
    Some((what, both.map(size).collect()))
}

fn table(followed: &[Followed]) -> Option<Table> {
    let words = ["over all intervals", "unit"].map(|name| Column::words(name, 0));
    let numbers = ["min", "mean", "max"].map(|name| Column::numbers(name, 0));
    let mut table = Table::new(words.into_iter().chain(numbers));
    for one in followed {
        let values = one.values.iter().copied();
        let min = values.clone().fold(f64::INFINITY, f64::min);
        let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let mean = values.sum::<f64>() / one.values.len() as f64;
        let mut row = vec![one.name.clone().into(), one.unit.into()];
        let numbers = [min, mean, max].map(|value| Quantity::neutral(value, one.unit));
        row.extend(numbers.map(Into::into));
        table.row(one.name.clone(), row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The queue depth at which transfers were submitted, in words.
fn depths(loads: &[&Load]) -> Option<String> {
    let mut counts: Vec<DepthCount> = loads
        .iter()
        .flat_map(|load| &load.depths)
        .copied()
        .collect();
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
    let sum: f64 = (counts.iter())
        .map(|one| f64::from(one.depth) * one.transfers as f64)
        .sum();
    Some(format!(
        "median {}, mean {:.1}, 90 % up to {}, at most {deepest} as a transfer was submitted \
         (all threads together, {transfers} transfers)",
        at(0.5)?.depth,
        sum / transfers as f64,
        at(0.9)?.depth,
    ))
}

/// The sizes of transfers, the most frequent first.
fn sizes(loads: &[&Load]) -> Option<String> {
    let mut counts: Vec<(u64, u64)> = Vec::new();
    for one in loads.iter().flat_map(|load| &load.sizes) {
        match counts
            .iter_mut()
            .find(|(up_to, _)| *up_to == one.up_to_bytes)
        {
            Some((_, transfers)) => *transfers += one.transfers,
            None => counts.push((one.up_to_bytes, one.transfers)),
        }
    }
    let all: u64 = counts.iter().map(|(_, transfers)| transfers).sum();
    counts.sort_by_key(|(up_to, transfers)| (std::cmp::Reverse(*transfers), *up_to));
    let share = |(up_to, transfers): &(u64, u64)| {
        let percent = 100.0 * *transfers as f64 / all as f64;
        format!("{percent:.1} % up to {}", ByteSize(*up_to))
    };
    let words: Vec<String> = counts.iter().take(4).map(share).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use stormlp_model::report::Series;
    use stormlp_model::telemetry::SizeCount;

    pub(super) fn series() -> NamedSeries {
        let track = |measure, values: &[f64]| Track {
            measure,
            of: "nvme0n1".to_string(),
            values: values.to_vec(),
        };
        let depth = |depth, transfers| DepthCount { depth, transfers };
        let size = |up_to_bytes, transfers| SizeCount {
            up_to_bytes,
            transfers,
        };
        NamedSeries {
            name: "run 1".to_string(),
            series: Series {
                interval_seconds: 0.5,
                telemetry_cpu_seconds: Some(0.012),
                tracks: vec![
                    track(Measure::DeviceReadBytes, &[1048576.0, 2097152.0, 0.0]),
                    track(Measure::DeviceReads, &[8.0, 8.0, 0.0]),
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
        section(&mut document, TITLE, &[series(), series()]);
        let section = &document.sections[0];
        let rows = &section.table.as_ref().unwrap().rows;
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        let expected = [
            "nvme0n1 read",
            "nvme0n1 reads",
            "nvme0n1 mean read",
            "nvme0n1 busy",
        ];
        assert_eq!(keys, expected, "what stayed 0 is left out");
        let shown = crate::text::render(&document, Some(100));
        for line in ["0.00  2.00  4.00", "128  192  256"] {
            let line: Vec<&str> = line.split_ascii_whitespace().collect();
            let words = shown
                .lines()
                .map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
            assert!(
                words
                    .clone()
                    .any(|row| row.windows(line.len()).any(|part| part == line)),
                "{shown}"
            );
        }
        assert!(
            shown.contains("median 2, mean 2.5, 90 % up to 4, at most 4"),
            "{shown}"
        );
        assert!(
            shown.contains("80.0 % up to 256 KiB, 20.0 % up to 4 KiB"),
            "{shown}"
        );
        assert!(shown.contains("24.0 ms of CPU time"), "{shown}");
    }

    #[test]
    fn a_run_that_looked_at_nothing_has_no_section() {
        let mut document = Document::default();
        section(&mut document, TITLE, &[]);
        assert!(document.sections.is_empty());
    }
}
