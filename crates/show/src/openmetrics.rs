//! Reports as OpenMetrics text for monitoring systems: one gauge for each number of a cell, an
//! epoch or a checkpoint. The rows are the CSV's, in base units.
//!
//! There are gauges only: the older text format of Prometheus, which node_exporter's textfile
//! collector reads, knows no `info`, and refuses the whole file for one.
//!
//! Series with a label for each run would accumulate in a monitoring system, so `work` tells apart
//! only runs of different settings or data. Of several reports of the same work on the same host
//! with the same tags, only the newest is exported.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;
use stormlp_core::printable::printable;
use stormlp_core::report::ReportKind;
use stormlp_core::tag::Tags;
use stormlp_core::units::{GIB, MIB};

use crate::document::Document;
use crate::records::plain;
use crate::shown::{Shown, status};
use crate::stamp;

/// Columns with numbers that are no measurements.
const NO_GAUGES: [&str; 2] = ["format_version", "seed"];

/// The record columns that tell the units of a report apart: labels. Every other column with a number
/// is a gauge.
pub fn labels(kind: ReportKind) -> &'static [&'static str] {
    match kind {
        ReportKind::Gds => &[
            "requested_path",
            "effective_path",
            "op",
            "read_percent",
            "io_size_bytes",
            "threads",
            "queue_depth",
            "repeat",
            "memory",
            "hosts",
        ],
        ReportKind::Train => &[
            "workload",
            "accelerator",
            "accelerators",
            "profile",
            "path",
            "run",
            "warm_up",
            "epoch",
            "hosts",
        ],
        ReportKind::Checkpoint => &["model", "scale", "profile", "path", "phase", "step", "hosts"],
        ReportKind::Kvcache => {
            &["model", "option", "workload", "users", "trial", "prefix_tokens", "hosts"]
        }
    }
}

/// The units in the names of columns with their base units, and how many of the one make up the
/// other. A name has the first that it contains.
const UNITS: [(&str, &str, f64); 9] = [
    ("seconds_per_gib", "seconds_per_byte", GIB as f64),
    ("gib_per_second", "bytes_per_second", 1.0 / GIB as f64),
    ("mib_per_second", "bytes_per_second", 1.0 / MIB as f64),
    ("bytes_per_second", "bytes_per_second", 1.0),
    ("bytes", "bytes", 1.0),
    ("seconds", "seconds", 1.0),
    ("ms", "seconds", 1e3),
    ("us", "seconds", 1e6),
    ("percent", "ratio", 100.0),
];

/// The gauge of a column.
struct Gauge {
    /// Its name, which ends with its unit, as OpenMetrics demands.
    name: String,
    /// Its unit, if it has one.
    unit: Option<&'static str>,
    help: String,
    /// The divisor of the column's values.
    divisor: f64,
}

impl Gauge {
    fn of(kind: ReportKind, column: &str) -> Self {
        let (prefix, padded) = (format!("stormlp_{}", kind.name()), format!("_{column}_"));
        let found = UNITS.iter().find(|(word, ..)| padded.contains(&format!("_{word}_")));
        let Some(&(word, unit, divisor)) = found else {
            let help = format!("Column {column} of CSV.");
            return Self { name: format!("{prefix}_{column}"), unit: None, help, divisor: 1.0 };
        };
        let rest = padded.replacen(&format!("_{word}_"), "_", 1);
        let name = format!("{prefix}{rest}{unit}");
        let help = format!("Column {column} of CSV, in {}.", unit.replace('_', " "));
        Self { name, unit: Some(unit), help, divisor }
    }

    /// One about runs, which is no column.
    fn about_runs(name: &str, help: &str) -> Self {
        let unit = name.ends_with("_seconds").then_some("seconds");
        Self { name: name.to_string(), unit, help: help.to_string(), divisor: 1.0 }
    }
}

/// The data of a report needed for metrics.
struct MetricsSource<'a> {
    report: &'a dyn Shown,
    document: Document,
    /// Labels for host, work and tags.
    labels: Vec<(String, String)>,
}

impl<'a> MetricsSource<'a> {
    fn new(report: &'a dyn Shown) -> Self {
        let head = report.head();
        let work = format!("{:08x}", report.work().digest(&head.host.storage));
        let mut labels =
            vec![("host".to_string(), head.host.hostname.clone()), ("work".to_string(), work)];
        labels.extend(tag_labels(&head.tags));
        Self { report, document: report.document(), labels }
    }

    fn kind(&self) -> ReportKind {
        self.report.head().kind
    }

    /// Labels of metrics about the whole run.
    fn run_labels(&self) -> Labels {
        let kind = ("kind".to_string(), self.kind().name().to_string());
        [kind].into_iter().chain(self.labels.iter().cloned()).collect()
    }

    /// The labels and value of each row with a number in this column.
    fn samples(&self, name: &str) -> Vec<(Labels, f64)> {
        let records = &self.document.records;
        let column = |name: &str| records.columns.iter().position(|column| *column == name);
        let labels = labels(self.kind());
        let places: Vec<_> = labels.iter().map(|label| (*label, column(label))).collect();
        let Some(value) = column(name) else { return Vec::new() };
        let sample = |row: &Vec<Value>| {
            let number = row[value].as_f64()?;
            let named = places.iter().filter_map(|(label, place)| {
                let text = plain(row.get((*place)?)?);
                (!text.is_empty()).then(|| (label.to_string(), text))
            });
            Some((self.labels.iter().cloned().chain(named).collect(), number))
        };
        records.rows.iter().filter_map(sample).collect()
    }
}

/// Tags as labels; label names consist of letters, digits and `_`.
fn tag_labels(tags: &Tags) -> Labels {
    let mut labels: Vec<(String, String)> = Vec::new();
    for (key, value) in tags {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = "tag_".chars().chain(key.chars().map(plain)).collect();
        while labels.iter().any(|(other, _)| *other == name) {
            name.push('_');
        }
        labels.push((name, value.clone()));
    }
    labels
}

/// Writes reports, newest last, as one exposition.
pub fn render(reports: &[&dyn Shown]) -> String {
    let sources: Vec<MetricsSource<'_>> = reports.iter().copied().map(MetricsSource::new).collect();
    let mut text = String::new();
    about_runs(&mut text, &sources);
    for kind in ReportKind::ALL {
        let of_kind: Vec<_> = sources.iter().filter(|source| source.kind() == kind).collect();
        let columns = of_kind.first().map_or(&[][..], |first| &first.document.records.columns);
        let is_gauge =
            |column: &&&str| !labels(kind).contains(column) && !NO_GAUGES.contains(column);
        for column in columns.iter().filter(is_gauge) {
            let samples = of_kind.iter().map(|source| source.samples(column)).collect();
            write_family(&mut text, &Gauge::of(kind, column), samples);
        }
    }
    text.push_str("# EOF\n");
    text
}

/// Writes metrics about the runs: when they started and how they ended.
fn about_runs(text: &mut String, sources: &[MetricsSource<'_>]) {
    let one = |labels: Vec<(String, String)>, value| vec![(labels, value)];
    let info = sources.iter().map(|source| {
        let head = source.report.head();
        let outcome = source.report.outcome();
        let hosts = source.report.hosts().to_string();
        let mut labels = source.run_labels();
        let more = [
            ("status", status(source.report.ending())),
            ("verdict", outcome.verdict.as_str()),
            ("stormlp_version", head.host.stormlp_version.as_str()),
            ("kernel", head.host.kernel.as_str()),
            ("command", head.command.as_str()),
            ("hosts", &hosts),
        ];
        labels.extend(more.map(|(name, value)| (name.to_string(), value.to_string())));
        one(labels, 1.0)
    });
    let help = "The newest stormlp run of each command, always 1.";
    write_newest(text, &Gauge::about_runs("stormlp_run_info", help), info.collect(), |labels| {
        labels.iter().take_while(|(name, _)| name != "status").cloned().collect()
    });
    for (name, help, value) in ABOUT_RUNS {
        let samples = sources.iter().map(|source| {
            value(source.report).map_or(Vec::new(), |value| one(source.run_labels(), value))
        });
        write_family(text, &Gauge::about_runs(name, help), samples.collect());
    }
}

type AboutRun = (&'static str, &'static str, fn(&dyn Shown) -> Option<f64>);

/// Metrics about a run: name, help and value.
const ABOUT_RUNS: [AboutRun; 4] = [
    ("stormlp_run_start_timestamp_seconds", "When it started.", |run| {
        Some(stamp::unix_seconds(&run.head().started_at))
    }),
    (
        "stormlp_run_data_mismatch",
        "1 if data read differed from the data written, else 0.",
        |run| Some(f64::from(u8::from(run.mismatch().is_some()))),
    ),
    ("stormlp_run_object_requests", "Requests to an object store.", |run| {
        run.object_store().map(|store| store.requests as f64)
    }),
    ("stormlp_run_object_retries", "Requests to an object store made again.", |run| {
        run.object_store().map(|store| store.retries as f64)
    }),
];

type Labels = Vec<(String, String)>;

fn write_family(text: &mut String, gauge: &Gauge, reports: Vec<Vec<(Labels, f64)>>) {
    write_newest(text, gauge, reports, Labels::clone);
}

/// Writes a family of gauges; among samples with the same `identity`, the newest report's.
fn write_newest(
    text: &mut String,
    gauge: &Gauge,
    reports: Vec<Vec<(Labels, f64)>>,
    identity: impl Fn(&Labels) -> Labels,
) {
    let mut seen: HashSet<Labels> = HashSet::new();
    let newest_first = reports.into_iter().rev().map(|samples| {
        let is_new = |(labels, _): &(Labels, f64)| seen.insert(identity(labels));
        samples.into_iter().filter(is_new).collect::<Vec<_>>()
    });
    let kept: Vec<_> = newest_first.collect::<Vec<_>>().into_iter().rev().flatten().collect();
    if kept.is_empty() {
        return;
    }
    let Gauge { name, unit, help, divisor } = gauge;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# TYPE {name} gauge");
    if let Some(unit) = unit {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {help}");
    for (labels, value) in kept {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(text, "{name}{{{}}} {}", labels.join(","), value / divisor);
    }
}

/// Escapes a label value.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_in_base_units_at_the_end_of_their_names() {
        let gauge = |column| {
            let Gauge { name, unit, divisor, .. } = Gauge::of(ReportKind::Train, column);
            (name.replace("stormlp_train_", ""), unit, 3.0 / divisor)
        };
        for (column, name, unit, three) in [
            ("latency_us_p99", "latency_p99_seconds", Some("seconds"), 3e-6),
            ("load_p95_ms", "load_p95_seconds", Some("seconds"), 3e-3),
            ("au_percent_measured", "au_measured_ratio", Some("ratio"), 0.03),
            ("mib_per_second", "bytes_per_second", Some("bytes_per_second"), 3.0 * MIB as f64),
            ("device_bytes_read", "device_read_bytes", Some("bytes"), 3.0),
            ("samples_per_second", "samples_per_second", None, 3.0),
        ] {
            assert_eq!(gauge(column), (name.to_string(), unit, three), "{column}");
        }
    }

    #[test]
    fn names_of_labels_are_plain_and_each_is_there_once() {
        let tags: Tags = [("a-b", "1"), ("a.b", "2")]
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .into();
        let names: Vec<String> = tag_labels(&tags).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["tag_a_b", "tag_a_b_"]);
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\\\nd");
    }
}
