//! MLPerf Storage's result files of a checkpoint run, with DLIO's keys and units ("GB" is GiB).

use serde_json::{Map, Value, json};
use stormlp_model::checkpoint::{
    CheckpointProfile, CheckpointReport, CheckpointResult, PhaseSummary,
};
use stormlp_model::units::GIB;

/// `summary.json`. Values of phases that did not run are left out.
pub fn summary(report: &CheckpointReport) -> Value {
    let host = &report.head.host;
    let memory_gib = host.memory_bytes as f64 / GIB as f64;
    let mut metric = Map::new();
    let phases = [
        ("save", &report.results.summary.save),
        ("load", &report.results.summary.restore),
    ];
    for (name, phase) in phases {
        if let Some(phase) = phase {
            metric.extend(phase_metrics(report, name, phase));
        }
    }
    metric.insert(
        "checkpoint_size_GB".to_string(),
        json!(report.plan.dlio_counted_bytes as f64 / GIB as f64),
    );
    json!({
        "start": local(&report.head.started_at, 0.0),
        "num_accelerators": report.plan.scaling.ranks,
        "num_hosts": 1,
        "hostname": host.hostname,
        "metric": metric,
        "num_files_train": 0,
        "num_files_eval": 0,
        "num_samples_per_file": 1,
        "host_cpu_count": [host.cpus],
        "host_processor_name": [host.cpu_model],
        "potential_caching": [0],
        "host_cpuinfo": { "model name": host.cpu_model },
        "host_meminfo": { "MemTotal": format!("{} kB", host.memory_bytes >> 10) },
        "host_memory_GB": [memory_gib],
        "data_size_per_host_GB": 0.0,
        "epochs": 1,
        "end": local(&report.head.started_at, report.results.elapsed_seconds),
        "stormlp": {
            "profile": report.plan.profile,
            "scale": report.plan.scale,
            "scaled": report.plan.is_scaled(),
            "emulated_accelerator_memory": report.plan.save.emulated,
        },
    })
}

/// The four values of a phase.
fn phase_metrics(
    report: &CheckpointReport,
    name: &str,
    phase: &PhaseSummary,
) -> Map<String, Value> {
    let plan = &report.plan;
    // Under ZeRO 2 DLIO divides more bytes than it wrote.
    let counted = plan.dlio_counted_bytes as f64 / plan.total_bytes.max(1) as f64;
    let (values, factor) = match plan.profile {
        CheckpointProfile::V2 | CheckpointProfile::V3 => (phase.dlio, counted),
        CheckpointProfile::Native => (phase.all_ranks, 1.0),
    };
    let entry = |key: &str, value: f64| (format!("{name}_checkpoint_{key}"), json!(value));
    Map::from_iter([
        entry("io_mean_GB_per_second", values.gib_per_second.mean * factor),
        entry(
            "io_stdev_GB_per_second",
            values.gib_per_second.deviation * factor,
        ),
        entry("duration_mean_seconds", values.duration_seconds.mean),
        entry("duration_stdev_seconds", values.duration_seconds.deviation),
    ])
}

/// `0_per_epoch_stats.json`.
pub fn per_epoch_stats(report: &CheckpointReport) -> Value {
    let started = &report.head.started_at;
    let mut epoch = Map::new();
    epoch.insert("start".to_string(), json!(local(started, 0.0)));
    let phases = [
        ("save", &report.results.saves),
        ("load", &report.results.restores),
    ];
    for (name, results) in phases {
        for (number, result) in (1..).zip(results) {
            epoch.insert(format!("{name}_ckpt{number}"), phase_stats(started, result));
        }
    }
    epoch.insert(
        "end".to_string(),
        json!(local(started, report.results.elapsed_seconds)),
    );
    epoch.insert(
        "duration".to_string(),
        json!(format!("{:.2}", report.results.elapsed_seconds)),
    );
    json!({ "1": epoch })
}

fn phase_stats(started: &str, result: &CheckpointResult) -> Value {
    let (at, seconds) = (result.started_at_seconds, result.duration_seconds.rank0);
    json!({
        "start": local(started, at),
        "end": local(started, at + seconds),
        "duration": seconds,
        "throughput": result.gib_per_second.rank0,
    })
}

/// `seconds` after an RFC 3339 moment in UTC, in DLIO's form without a zone. Text that is no such
/// moment comes back as it is.
fn local(started: &str, seconds: f64) -> String {
    let Some(unix) = unix_seconds(started) else {
        return started.to_string();
    };
    let micros = (seconds.max(0.0) * 1e6) as u64;
    let total = unix + micros / 1_000_000;
    let (year, month, day) = civil(total / 86_400);
    let second = total % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        micros % 1_000_000
    )
}

/// Seconds since 1970 of `2026-11-21T07:25:00Z`.
fn unix_seconds(text: &str) -> Option<u64> {
    let (date, time) = text.trim_end_matches('Z').split_once('T')?;
    let mut numbers = date
        .split('-')
        .chain(time.split(':'))
        .map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let valid = (1970..=9999).contains(&year) && (1..=12).contains(&month);
    if !valid || !(1..=31).contains(&day) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days since 1970-01-01 (Howard Hinnant's `days_from_civil`; years begin in March).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a number of days since 1970-01-01 (`civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_move_on_over_days_and_leap_days() {
        assert_eq!(
            local("2026-11-21T07:25:00Z", 0.5),
            "2026-11-21T07:25:00.500000"
        );
        assert_eq!(
            local("2024-02-28T23:59:59Z", 1.0),
            "2024-02-29T00:00:00.000000"
        );
        assert_eq!(
            local("2026-12-31T23:59:59Z", 2.25),
            "2027-01-01T00:00:01.250000"
        );
        assert_eq!(local("yesterday", 2.0), "yesterday");
    }
}
