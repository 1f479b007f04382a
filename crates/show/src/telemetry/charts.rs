//! Charts of system telemetry over part of a run, and of its storage load.

use stormlp_core::report::Series;
use stormlp_core::telemetry::{Load, Measure, Track};
use stormlp_core::units::ByteSize;

use super::{Amount, DISPLAYS, Display, Mean, means, sampled};
use crate::chart::{Axis, Chart, Group, Line, MOST_LINES, Scale};
use crate::series::{depth_class, shares};

/// Maximum total intervals in the charts of many cells, saves or restores: the page contains all
/// their values.
const MOST_INTERVALS: usize = 2048;

/// The number of `series` that fit on a page, in order; at least one.
pub fn room_for<'s>(series: impl Iterator<Item = &'s Series>, most: usize) -> usize {
    let mut intervals = 0;
    let fits = series.take(most).take_while(|one| {
        intervals += one.interval_bytes.len();
        intervals <= MOST_INTERVALS
    });
    fits.count().max(1)
}

/// Why there is no chart over time.
pub const NO_COURSE: &str = "the report contains fewer than two intervals, or no bytes were moved";

/// Devices, host, network and GPUs over time, with labelled marks.
pub fn over_time(title: impl Into<String>, series: &Series, marks: &[(f64, String)]) -> Group {
    let mut drawn = Group::new(title);
    if series.tracks.is_empty() {
        let why = "telemetry was off (`--tune telemetry`)";
        drawn.absent.push(format!("Devices, host and network over time: {why}."));
        return drawn;
    }
    let alike = |a: &Display, b: &Display| a.chart == b.chart;
    for shown in DISPLAYS.chunk_by(alike).filter(|shown| !shown[0].chart.is_empty()) {
        add(&mut drawn, shown[0].chart, shown[0].unit, lines(series, shown), marks);
    }
    let title = "Mean size of a request of block devices over time";
    add(&mut drawn, title, "KiB", of_requests(series, "KiB"), marks);
    let title = "Mean latency of block devices over time";
    add(&mut drawn, title, "µs", of_requests(series, "µs"), marks);
    add(&mut drawn, "CPU over time", "CPUs", processors(series), marks);
    if drawn.charts.is_empty() {
        drawn.absent.push(format!("Devices, host and network over time: {NO_COURSE}."));
    }
    drawn
}

/// Adds a chart of the lines that are not 0 throughout; absent hardware gets no note.
fn add(drawn: &mut Group, title: &str, unit: &str, lines: Vec<Line>, marks: &[(f64, String)]) {
    let moves = |line: &Line| line.points().any(|(_, value)| value > 0.0);
    let mut lines: Vec<Line> = lines.into_iter().filter(moves).collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new(unit, Scale::Linear));
    let chart = Chart::lines(title, x, y, lines).map(|chart| chart.marks(marks.to_vec()));
    drawn.charts.extend(chart.map(|chart| match left_out {
        0 => chart,
        more => chart.note(format!("{more} more are in the report (JSON).")),
    }));
}

/// The midpoint of each interval with its value.
fn points(series: &Series, values: &[f64], amount: Amount) -> impl Iterator<Item = (f64, f64)> {
    series
        .timed(values)
        .map(move |(interval, value)| (interval.middle(), amount.shown(value, interval)))
}

/// The tracks of these measures, with a name if there are several.
fn lines(series: &Series, displays: &[Display]) -> Vec<Line> {
    let of = |shown: &Display| {
        let tracks = series.tracks.iter().filter(|track| track.measure == shown.measure);
        let line = |track: &Track| {
            let name = match displays.len() {
                1 => track.of.clone(),
                _ => format!("{} {}", track.of, shown.what),
            };
            // Sparse samples of a level are connected with lines.
            let is_read = |(_, value): &(f64, f64)| value.is_finite();
            Line::new(name, points(series, &track.values, shown.amount).filter(is_read))
        };
        tracks.map(line).collect::<Vec<Line>>()
    };
    displays.iter().flat_map(of).collect()
}

/// Means over the requests of each device that have this unit; their lines are interrupted where
/// there were no requests.
fn of_requests(series: &Series, unit: &str) -> Vec<Line> {
    let of_track = |count: &Track| -> Vec<Line> {
        let means = means(count, &series.tracks).into_iter().filter(|mean| mean.unit == unit);
        let line = |Mean { what, values, .. }: Mean| {
            let name = what.replace("mean ", "").replace(" latency", "");
            let points: Vec<(f64, f64)> = points(series, &values, Amount::Level(1.0)).collect();
            Line::new(format!("{} {name}", count.of), points)
        };
        means.map(line).collect()
    };
    series.tracks.iter().flat_map(of_track).collect()
}

/// CPU time of the process and of the whole host.
fn processors(series: &Series) -> Vec<Line> {
    let cpus = |values| points(series, values, Amount::Rate(1.0));
    let mut lines = vec![Line::new("stormlp", cpus(&series.interval_cpu_seconds))];
    let host = (series.tracks.iter()).find(|track| track.measure == Measure::HostCpuSeconds);
    lines.extend(host.map(|track| Line::new("the host", cpus(&track.values))));
    lines
}

/// The run's transfers in flight: averaged over each interval, or sampled at its end.
pub fn in_flight(series: &Series) -> Option<Chart> {
    let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new("in flight", Scale::Linear));
    let most: Vec<f64> =
        (series.interval_in_flight_max.iter()).map(|most| f64::from(*most)).collect();
    if most.is_empty() {
        let sampled = sampled(series);
        let sampled = series.timed(&sampled);
        let points = sampled.map(|(interval, count)| (interval.end(), count));
        let title = "Transfers in flight over time, sampled";
        let chart = Chart::lines(title, x, y, vec![Line::new("", points)]);
        return chart.map(|chart| chart.note("Sampled at the end of each interval."));
    }
    let level = |values| points(series, values, Amount::Level(1.0));
    let lines = vec![
        Line::new("mean over each interval", level(&series.interval_in_flight_mean)),
        Line::new("maximum", level(&most)),
    ];
    Chart::lines("Transfers in flight over time", x, y, lines)
}

/// Queue depth at each submission, in percent of the transfers.
pub fn depths(load: &Load) -> Option<Chart> {
    let counts = load.depths.iter().map(|one| (u64::from(one.depth), one.transfers as f64));
    let chart = Chart::bars("Queue depth", "% of the transfers", shares(counts, depth_class));
    let note = "Transfers in flight over all threads at each submission, the new one included.";
    chart.map(|chart| chart.note(note))
}

/// Throughput of each rank over time, or of some of many; `None` for a single one.
pub fn ranks(series: &Series, unit: (&str, u64)) -> Option<Chart> {
    let (name, bytes) = unit;
    let ranks = crate::series::ranks(series).into_iter();
    let lines =
        ranks.map(|(rank, moved)| Line::new(rank, crate::series::over_time(series, moved, bytes)));
    let (x, y) = (Axis::new("seconds", Scale::Linear), Axis::new(name, Scale::Linear));
    Chart::lines("Throughput of each rank over time", x, y, lines.collect())
}

/// Transfer sizes, in percent of the transfers.
pub fn sizes(load: &Load) -> Option<Chart> {
    let counts = load.sizes.iter().map(|one| (one.up_to_bytes, one.transfers as f64));
    let name = |most: u64| format!("up to {}", ByteSize(most));
    let title = "Sizes of the transfers";
    Chart::bars(title, "% of the transfers", shares(counts, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Plot;
    use crate::telemetry::tests::series;

    #[test]
    fn telemetry_is_drawn_except_what_stayed_0() {
        let group = over_time("Around the run", &series().series, &[]);
        let titles: Vec<&str> = group.charts.iter().map(|chart| chart.title.as_str()).collect();
        let expected = [
            "Block devices over time",
            "Block devices busy over time",
            "Mean size of a request of block devices over time",
        ];
        assert_eq!(titles, expected);
        let Plot::Lines(lines) = &group.charts[0].plot else {
            panic!("bars");
        };
        let points: Vec<_> = lines.lines[0].points().collect();
        assert_eq!(points, [(0.25, 2.0), (0.75, 4.0), (1.125, 4.0)]);
        let none = over_time("Around the run", &Series::default(), &[]);
        assert!(none.charts.is_empty() && none.absent[0].contains("--tune telemetry"));
    }

    #[test]
    fn an_older_reports_last_interval_is_not_drawn_but_a_late_start_is() {
        let mut series = series().series;
        series.started_seconds = 10.0;
        let mean = |series: &Series| {
            let Some(Plot::Lines(lines)) = in_flight(series).map(|chart| chart.plot) else {
                panic!("no lines");
            };
            lines.lines[0].points().collect::<Vec<_>>()
        };
        assert_eq!(mean(&series), [(10.25, 1.5), (10.75, 2.0), (11.125, 1.0)]);
        series.last_interval_seconds = None;
        assert_eq!(mean(&series), [(10.25, 1.5), (10.75, 2.0)]);
        series.interval_in_flight_max.clear();
        // The last sample is taken at the end, when nothing can be in flight.
        series.interval_in_flight = vec![1, 2, 0];
        assert_eq!(mean(&series), [(10.5, 1.0), (11.0, 2.0)]);
        series.last_interval_seconds = Some(0.5);
        assert_eq!(mean(&series), [(10.5, 1.0), (11.0, 2.0)]);
        let chart = in_flight(&series).unwrap();
        assert!(chart.title.ends_with("sampled"), "{}", chart.title);
    }

    #[test]
    fn a_page_has_room_for_so_many_intervals() {
        let of =
            |intervals: usize| Series { interval_bytes: vec![0; intervals], ..Series::default() };
        let room = |series: &[Series]| room_for(series.iter(), 8);
        assert_eq!(room(&vec![of(10); 20]), 8);
        assert_eq!(room(&vec![of(1000); 20]), 2);
        assert_eq!(room(&[of(5000)]), 1);
    }

    #[test]
    fn loads_are_shares_of_the_transfers() {
        let load = series().series.load.unwrap();
        let Plot::Bars(bars) = depths(&load).unwrap().plot else {
            panic!("lines");
        };
        let rows: Vec<_> =
            (bars.rows.iter()).map(|row| (row.name.as_str(), row.values[0])).collect();
        assert_eq!(rows, [("1", 10.0), ("2", 60.0), ("3 to 4", 30.0)]);
        let Plot::Bars(bars) = sizes(&load).unwrap().plot else {
            panic!("lines");
        };
        assert_eq!(bars.rows[1].name, "up to 256 KiB");
        assert!(depths(&Load::default()).is_none());
    }
}
