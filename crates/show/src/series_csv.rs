//! A report's time series as CSV: a line for each interval of each quantity.

use stormlp_core::printable::printable;
use stormlp_core::report::{Interval, Series};

use crate::shown::Shown;
use crate::telemetry::latencies;

/// The columns. Units are in the names of the quantities, which are the report's.
const COLUMNS: [&str; 6] = ["part", "quantity", "of", "start_seconds", "duration_seconds", "value"];

/// A line, without its part.
struct Line {
    quantity: &'static str,
    of: String,
    time: Interval,
    value: f64,
}

/// All series of a report, below a header line.
///
/// # Errors
/// If a row does not fit the header, which would be a bug in stormlp.
pub fn render(report: &dyn Shown) -> Result<String, csv::Error> {
    of_parts(&report.series())
}

fn of_parts(parts: &[(String, &Series)]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for (part, series) in parts {
        for line in rows(series) {
            writer.write_record([
                &*printable(part),
                line.quantity,
                &*printable(&line.of),
                &line.time.from_seconds.to_string(),
                &line.time.seconds.to_string(),
                &line.value.to_string(),
            ])?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line for each interval of each quantity; unknown values have none.
fn rows(series: &Series) -> Vec<Line> {
    let counts = |row: &[u64]| row.iter().map(|count| *count as f64).collect::<Vec<f64>>();
    let levels = |row: &[u32]| row.iter().map(|level| f64::from(*level)).collect::<Vec<f64>>();
    let device = series.interval_device_bytes.as_deref().unwrap_or_default();
    let own = [
        ("interval_bytes", counts(&series.interval_bytes)),
        ("interval_device_bytes", counts(device)),
        ("interval_in_flight", levels(&series.interval_in_flight)),
        ("interval_in_flight_mean", series.interval_in_flight_mean.clone()),
        ("interval_in_flight_max", levels(&series.interval_in_flight_max)),
        ("interval_cpu_seconds", series.interval_cpu_seconds.clone()),
    ];
    let own = own.into_iter().map(|(name, values)| (name, String::new(), values));
    let ranks = series.rank_interval_bytes.iter().enumerate();
    let ranks = ranks.map(|(rank, row)| ("rank_interval_bytes", rank.to_string(), counts(row)));
    let tracks = series.tracks.iter();
    let tracks = tracks.map(|one| (one.measure.name(), one.of.clone(), one.values.clone()));
    let means = latencies(series).into_iter();
    let means = means.map(|(name, of, values)| (name, of.to_string(), values));
    let lines = |(quantity, of, values): (&'static str, String, Vec<f64>)| {
        let known = series.timed(&values).filter(|(_, value)| value.is_finite());
        let line = |(time, value)| Line { quantity, of: of.clone(), time, value };
        known.map(line).collect::<Vec<Line>>()
    };
    own.chain(ranks).chain(tracks).chain(means).flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::telemetry::{Measure, Track};

    #[test]
    fn every_interval_of_every_quantity_has_a_line() {
        let of = "nvme0n1".to_string();
        let track =
            |measure, values: &[f64]| Track { measure, of: of.clone(), values: values.to_vec() };
        let series = Series {
            started_seconds: 1.0,
            interval_seconds: 0.5,
            last_interval_seconds: Some(0.25),
            interval_bytes: vec![10, 20],
            rank_interval_bytes: vec![vec![4, 8], vec![6, 12]],
            tracks: vec![
                track(Measure::DeviceReads, &[8.0, 0.0]),
                track(Measure::DeviceReadSeconds, &[0.016, 0.0]),
            ],
            ..Series::default()
        };
        let csv = of_parts(&[("run 1".to_string(), &series)]).unwrap();
        let expected = "\
part,quantity,of,start_seconds,duration_seconds,value
run 1,interval_bytes,,1,0.5,10
run 1,interval_bytes,,1.5,0.25,20
run 1,rank_interval_bytes,0,1,0.5,4
run 1,rank_interval_bytes,0,1.5,0.25,8
run 1,rank_interval_bytes,1,1,0.5,6
run 1,rank_interval_bytes,1,1.5,0.25,12
run 1,device_reads,nvme0n1,1,0.5,8
run 1,device_reads,nvme0n1,1.5,0.25,0
run 1,device_read_seconds,nvme0n1,1,0.5,0.016
run 1,device_read_seconds,nvme0n1,1.5,0.25,0
run 1,device_read_latency_us,nvme0n1,1,0.5,2000
";
        // Without requests there is no latency.
        assert_eq!(csv, expected);
    }
}
