//! A checkpoint run as a document.

use crate::plan::{Arithmetic, CheckpointProfile, FsyncPolicy, gib};
use crate::report::{
    CheckpointReport, CheckpointResult, CheckpointResults, DeviceBytes, DurationAndRate,
    PhaseSummary,
};
use serde_json::Value;
use stormlp_core::evidence::Evidence;
use stormlp_core::path::PathKind;
use stormlp_core::report::MODELLED;
use stormlp_core::units::{ByteSize, GIB, counted};

use super::plan::mark;
use super::plan::setup;
use stormlp_show::document::{
    Cell, Document, Facts, Quantity, Section, Table, ended, mismatch, number, word,
};
use stormlp_show::hosts::processes;
use stormlp_show::records::Records;
use stormlp_show::series::TimeSummary;
use stormlp_show::{hosts, objects, storage, telemetry};

/// JSON pointers to the columns of the records: with a leading `/` into the save or restore,
/// otherwise into the report.
pub const RECORDS: [(&str, &str); 42] = [
    ("format_version", "format_version"),
    ("started_at", "started_at"),
    ("hostname", "host/hostname"),
    ("command", "command"),
    ("model", "plan/model"),
    ("scale", "plan/scaling/factor"),
    ("profile", "plan/profile"),
    ("path", "plan/save/path"),
    ("phase", "/phase"),
    ("step", "/step"),
    ("bytes", "/bytes"),
    ("duration_seconds_max", "/duration_seconds/max"),
    ("duration_seconds_mean", "/duration_seconds/mean"),
    ("duration_seconds_min", "/duration_seconds/min"),
    ("duration_seconds_rank0", "/duration_seconds/rank0"),
    ("gib_per_second_total", "/gib_per_second/total"),
    ("gib_per_second_rank0", "/gib_per_second/rank0"),
    ("gib_per_second_min_rank", "/gib_per_second/min_rank"),
    ("gib_per_second_mean_rank", "/gib_per_second/mean_rank"),
    ("gib_per_second_max_rank", "/gib_per_second/max_rank"),
    ("open_seconds", "/mean_parts/open_seconds"),
    ("transfer_seconds", "/mean_parts/transfer_seconds"),
    ("fsync_seconds", "/mean_parts/fsync_seconds"),
    ("rename_seconds", "/mean_parts/rename_seconds"),
    ("close_seconds", "/mean_parts/close_seconds"),
    ("page_cache_share", "/page_cache_before/share"),
    ("device_read_bytes", "/device/read_bytes"),
    ("device_written_bytes", "/device/written_bytes"),
    ("overlap_held_seconds", "/overlap/stall_seconds"),
    ("overlap_late_seconds", "/overlap/late_seconds"),
    ("cpu_user_seconds", "/cpu_user_seconds"),
    ("cpu_system_seconds", "/cpu_system_seconds"),
    ("started_at_seconds", "/started_at_seconds"),
    ("hosts", "/hosts"),
    ("first_byte_us_mean", "/first_byte_us/mean"),
    ("first_byte_us_p50", "/first_byte_us/p50"),
    ("first_byte_us_p99", "/first_byte_us/p99"),
    ("first_byte_us_max", "/first_byte_us/max"),
    ("requests", "/object_store/requests"),
    ("retries", "/object_store/retries"),
    ("retries_after_loss", "/object_store/retries_after_loss"),
    ("tags", "tags"),
];

/// The document of a run.
pub fn document(report: &CheckpointReport) -> Document {
    let mut document = Document::new(headline(report));
    document.mark = mark(&report.plan);
    setup(&report.plan, &mut document);
    document.facts.add("figure", MODELLED);
    storage::describe(&report.head.host, &mut document.facts);
    ran("saves ran", report.evidence_of("saves"), &mut document.facts);
    ran("restores ran", report.evidence_of("restores"), &mut document.facts);
    for name in ["saves", "restores"] {
        let evidence = report.evidence_of(name);
        if let Some(store) = evidence.and_then(|evidence| evidence.object_store.as_ref()) {
            document.facts.add(format!("{name} asked"), objects::requests(store));
            if let Some(words) = objects::verified([store]) {
                document.brief.add(format!("{name} verified"), words);
            }
        }
    }
    means(&mut document, report);
    for (title, results, part) in [
        ("Saves", &report.results.saves, "save"),
        ("Restores", &report.results.restores, "restore"),
    ] {
        if !results.is_empty() {
            let section = phase(&mut document, title, report.plan.made_durable_by(), results);
            latencies(section, report, part);
        }
    }
    arithmetics(&mut document, report);
    let group = report.results.group.as_ref();
    let shares = &report.results.hosts;
    hosts::section(shares, group, "checkpoints", &mut document);
    let series = report.series.iter().map(|one| &one.series);
    telemetry::section(&mut document, telemetry::TITLE, series);
    document.warn(&report.warnings);
    let mut alone = report.clone();
    alone.results.saves.clear();
    alone.results.restores.clear();
    document.records = Records::new(&alone, units(report), &RECORDS);
    document
}

/// The records of saves and restores, each with the number of participating hosts.
fn units(report: &CheckpointReport) -> impl Iterator<Item = Value> {
    let hosts = report.results.hosts.len().max(1);
    let unit = |phase: &'static str| {
        move |result: &CheckpointResult| {
            // A result is plain data, so it always serialises to JSON.
            let mut value = serde_json::to_value(result).unwrap_or_default();
            value["phase"] = phase.into();
            value["hosts"] = hosts.into();
            // Over all saves, or all restores.
            let evidence = report.evidence_of(&format!("{phase}s"));
            let first_byte = evidence.and_then(Evidence::first_byte).filter(|_| phase == "restore");
            if let Some(one) = first_byte {
                value["first_byte_us"] = serde_json::to_value(one.summary_us).unwrap_or_default();
            }
            let store = evidence.and_then(|evidence| evidence.object_store.as_ref());
            value["object_store"] = serde_json::to_value(store).unwrap_or_default();
            value
        }
    };
    let saves = report.results.saves.iter().map(unit("save"));
    saves.chain(report.results.restores.iter().map(unit("restore")))
}

/// All saves, or all restores.
struct Phase<'r> {
    name: &'static str,
    results: &'r [CheckpointResult],
    summary: PhaseSummary,
}

impl Phase<'_> {
    fn is_save(&self) -> bool {
        self.name == "save"
    }

    fn mean(&self, number: fn(&CheckpointResult) -> f64) -> f64 {
        self.results.iter().map(number).sum::<f64>() / self.results.len().max(1) as f64
    }
}

fn phases(report: &CheckpointReport) -> Vec<Phase<'_>> {
    let CheckpointResults { saves, restores, summary, .. } = &report.results;
    let phases = [("save", saves, summary.save), ("restore", restores, summary.restore)];
    let phases = phases.into_iter();
    phases.filter_map(|(name, results, of)| Some(Phase { name, results, summary: of? })).collect()
}

/// The rates of all ranks, and how the run ended if it failed.
fn headline(report: &CheckpointReport) -> String {
    if let Some(mismatch) = mismatch(&report.ending) {
        return mismatch;
    }
    let rates: Vec<String> = phases(report)
        .iter()
        .map(|phase| {
            let remarks = match phase.is_save() {
                true => [
                    (is_unsynced(report), "not synced"),
                    (saved_to_memory(report), "mostly to memory"),
                ],
                false => [
                    (restored_from_memory(report), "mostly from memory"),
                    (restored_unknown(report), "not known to be cold"),
                ],
            };
            let remarks: Vec<&str> = remarks
                .into_iter()
                .filter_map(|(applies, words)| applies.then_some(words))
                .collect();
            let remarks = match remarks.is_empty() {
                true => String::new(),
                false => format!(" ({})", remarks.join(", ")),
            };
            let rate = phase.summary.all_ranks.gib_per_second.mean;
            format!("{}s at {rate:.3} GiB/s{remarks}", phase.name)
        })
        .collect();
    let answer = match rates.is_empty() {
        true => "no measurement".to_string(),
        false => rates.join(", "),
    };
    let planned = report.plan.path();
    let other = ["saves", "restores"].iter().find_map(|name| report.other_path(name, planned));
    let other = other.map_or(String::new(), |words| format!("; {words}"));
    let ended = ended(&report.ending);
    let of = match report.results.hosts.len() {
        hosts if hosts > 1 => {
            format!(" on {}", processes(report.results.group.as_ref(), hosts))
        }
        _ => String::new(),
    };
    format!("{}{of} {answer}{other}{ended}", report.plan.model)
}

/// Whether saves of files were not synced.
fn is_unsynced(report: &CheckpointReport) -> bool {
    report.plan.fsync == FsyncPolicy::None && report.plan.path() != PathKind::S3
}

/// The share of restored bytes that was in the page cache; `None` unless known for all.
fn cached_share(restores: &[CheckpointResult]) -> Option<f64> {
    let cached = |result: &CheckpointResult| {
        let cache = result.page_cache_before?;
        Some(cache.share * result.bytes as f64)
    };
    let cached = restores.iter().map(cached).sum::<Option<f64>>()?;
    let bytes = restores.iter().map(|result| result.bytes as f64).sum::<f64>();
    (bytes > 0.0).then(|| cached / bytes)
}

/// Whether most of the restored data came from the page cache.
fn restored_from_memory(report: &CheckpointReport) -> bool {
    let restores = &report.results.restores;
    let of_devices = device_bytes(restores, |device| device.read_bytes);
    let bytes = restores.iter().map(|result| result.bytes as f64).sum::<f64>();
    report.path_of("restores", report.plan.path()).uses_page_cache()
        && bytes > 0.0
        && storage::is_from_memory(bytes, of_devices, cached_share(restores))
}

/// Whether a restore that should have been cold may have come from the page cache.
fn restored_unknown(report: &CheckpointReport) -> bool {
    let uses_cache = report.plan.request.is_cold() && report.plan.path().uses_page_cache();
    uses_cache && report.results.restores.iter().any(|one| one.page_cache_before.is_none())
}

/// Whether most of the saved data was still in memory at the end of the saves.
fn saved_to_memory(report: &CheckpointReport) -> bool {
    let saves = &report.results.saves;
    let bytes = saves.iter().map(|result| result.bytes as f64).sum::<f64>();
    report.path_of("saves", report.plan.path()).uses_page_cache()
        && report.plan.fsync == FsyncPolicy::None
        && device_bytes(saves, |device| device.written_bytes).is_none_or(|b| b < bytes / 2.0)
}

/// Bytes that the block devices moved in all of `results`; `None` unless known for each.
fn device_bytes(results: &[CheckpointResult], moved: fn(&DeviceBytes) -> u64) -> Option<f64> {
    results.iter().map(|result| result.device.as_ref().map(|of| moved(of) as f64)).sum()
}

/// The path that moved the bytes, with evidence.
fn ran(name: &str, evidence: Option<&Evidence>, facts: &mut Facts) {
    if let Some(evidence) = evidence {
        let path = evidence.effective_path.map_or("unknown", |path| path.name());
        let engine = evidence.engine.as_ref();
        let engine = engine.map_or(String::new(), |facts| format!(", engine {}", facts.engine));
        facts.add(name, format!("path {path}{engine}: {}", evidence.summary));
    }
}

/// The means over the saves and the restores, with MLPerf's arithmetic in a line below.
fn means(document: &mut Document, report: &CheckpointReport) {
    let phases = phases(report);
    if phases.is_empty() {
        return;
    }
    let durable_by = report.plan.made_durable_by();
    let overlaps = report.results.saves.iter().any(|save| save.overlap.is_some());
    let in_gib = |bytes: f64| Quantity::neutral(bytes / GIB as f64, "GiB");
    let device = |phase: &&Phase<'_>| match phase.is_save() {
        true => device_bytes(phase.results, |device| device.written_bytes),
        false => device_bytes(phase.results, |device| device.read_bytes),
    };
    let table = Table::of(
        &phases,
        |phase| phase.name.to_string(),
        vec![
            word("", 0, |phase: &&Phase<'_>| phase.name),
            number("n", 0, |phase: &&Phase<'_>| phase.summary.checkpoints),
            number("GiB/s", 0, |phase: &&Phase<'_>| {
                let rate = phase.summary.all_ranks.gib_per_second;
                Quantity::higher(rate.mean, "GiB/s").spread(Some(rate.deviation))
            }),
            number("slowest rank s", 0, |phase: &&Phase<'_>| {
                let seconds = phase.summary.all_ranks.duration_seconds;
                Quantity::lower(seconds.mean, "s").spread(Some(seconds.deviation))
            }),
            number(&format!("{durable_by} s"), 1, |phase: &&Phase<'_>| {
                phase
                    .is_save()
                    .then(|| Quantity::lower(phase.mean(|one| one.mean_parts.fsync_seconds), "s"))
            }),
            number("training waits s", 0, |phase: &&Phase<'_>| {
                phase.is_save().then(|| {
                    let stall =
                        |one: &CheckpointResult| one.overlap.map_or(0.0, |o| o.stall_seconds);
                    Quantity::lower(phase.mean(stall), "s")
                })
            })
            .when(overlaps),
            number("from page cache %", 0, |phase: &&Phase<'_>| {
                match (phase.is_save(), cached_share(phase.results)) {
                    (true, _) => String::new(),
                    (false, Some(share)) => format!("{:.1}", share * 100.0),
                    (false, None) => "?".to_string(),
                }
            })
            .when(!report.results.restores.is_empty()),
            number("device GiB", 2, |phase: &&Phase<'_>| match device(phase) {
                Some(bytes) => in_gib(bytes / phase.results.len() as f64).into(),
                None => Cell::from("?"),
            }),
        ],
    );
    let lines = &mut document.table(table).lines;
    if report.plan.profile.headline() == Arithmetic::Dlio {
        lines.push(of_mlperf(report.plan.profile, &phases));
    }
}

/// The rates by MLPerf's arithmetic.
fn of_mlperf(edition: CheckpointProfile, phases: &[Phase<'_>]) -> String {
    let rate = |phase: &Phase<'_>| {
        format!("{} {:.3} GiB/s", phase.name, phase.summary.dlio.gib_per_second.mean)
    };
    let rates: Vec<String> = phases.iter().map(rate).collect();
    format!("MLPerf {edition} arithmetic (rank 0's time): {}", rates.join(", "))
}

/// The table of saves or restores.
fn phase<'d>(
    document: &'d mut Document,
    title: &str,
    durable_by: &str,
    results: &[CheckpointResult],
) -> &'d mut Section {
    let saving = title == "Saves";
    let seconds = |value: f64| Quantity::lower(value, "s");
    let speed = |value: f64| Quantity::higher(value, "GiB/s");
    let in_gib = |bytes: u64| Quantity::neutral(bytes as f64 / (1u64 << 30) as f64, "GiB");
    let table = Table::of(
        results,
        |one| one.step.to_string(),
        vec![
            number("step", 0, |one: &&CheckpointResult| one.step),
            number("GiB", 2, |one: &&CheckpointResult| in_gib(one.bytes)),
            number("max s", 0, |one: &&CheckpointResult| seconds(one.duration_seconds.max)),
            number("rank 0 s", 0, |one: &&CheckpointResult| seconds(one.duration_seconds.rank0)),
            number("GiB/s", 0, |one: &&CheckpointResult| speed(one.gib_per_second.total)),
            number("rank 0 GiB/s", 0, |one: &&CheckpointResult| speed(one.gib_per_second.rank0)),
            number("lowest rank GiB/s", 1, |one: &&CheckpointResult| {
                speed(one.gib_per_second.min_rank)
            }),
            number(if saving { "write s" } else { "read s" }, 4, |one: &&CheckpointResult| {
                seconds(one.mean_parts.transfer_seconds)
            }),
            number(&format!("{durable_by} s"), 4, |one: &&CheckpointResult| {
                seconds(one.mean_parts.fsync_seconds)
            })
            .when(saving),
            number("cached %", 2, |one: &&CheckpointResult| match one.page_cache_before {
                Some(cache) => format!("{:.1}", cache.share * 100.0),
                None => "?".to_string(),
            })
            .when(!saving),
            number("device GiB", 6, |one: &&CheckpointResult| match one.device {
                Some(device) if saving => Cell::from(in_gib(device.written_bytes)),
                Some(device) => in_gib(device.read_bytes).into(),
                None => "?".into(),
            }),
        ],
    );
    let overlaps = results.iter().filter_map(|result| {
        let overlap = result.overlap?;
        let steps = counted(overlap.steps.into(), "training step");
        Some(format!(
            "step {}: {steps} of {:.3} s ran alongside; training was held up {:.3} s",
            result.step, overlap.step_seconds, overlap.stall_seconds,
        ))
    });
    let title = format!("{title} (seconds over the ranks; parts are means over the ranks)");
    let section = document.details(&title, Some(table));
    section.lines = overlaps.collect();
    section
}

/// The latencies of all transfers of the saves or restores.
fn latencies(section: &mut Section, report: &CheckpointReport, part: &str) {
    let is_of = |name: &str| name.starts_with(part);
    let timed = report
        .histograms
        .iter()
        .filter(|one| is_of(&one.name))
        .map(|one| TimeSummary::of(one.name.replace('_', " "), &one.summary_us));
    let evidence = report.evidence_of("restores").filter(|_| part == "restore");
    let first_byte = evidence.and_then(Evidence::first_byte);
    let first_byte = first_byte.map(|one| TimeSummary::of("first byte", &one.summary_us));
    section.distributions = timed.chain(first_byte).collect();
}

const ARITHMETICS: [(Arithmetic, &str, &str); 3] = [
    (Arithmetic::MlperfRules, "MLPerf's rules", "the slowest rank's time, the lowest rank's rate"),
    (Arithmetic::Dlio, "DLIO", "rank 0's time, all bytes over it"),
    (Arithmetic::AllRanks, "all ranks", "the slowest rank's time, all bytes over it"),
];

pub(super) fn figure(summary: &PhaseSummary, arithmetic: Arithmetic) -> DurationAndRate {
    match arithmetic {
        Arithmetic::MlperfRules => summary.mlperf_rules,
        Arithmetic::Dlio => summary.dlio,
        Arithmetic::AllRanks => summary.all_ranks,
    }
}

/// The arithmetics side by side, with the edition's own marked, followed by their definitions and the
/// cost on the host.
fn arithmetics(document: &mut Document, report: &CheckpointReport) {
    let own = report.plan.profile.headline();
    let summary = &report.results.summary;
    let phases = phases(report).into_iter().map(|phase| (phase.name, phase.summary));
    let rows = phases.flat_map(|(name, summary)| ARITHMETICS.map(|one| (name, one, summary)));
    type Mean = (&'static str, (Arithmetic, &'static str, &'static str), PhaseSummary);
    let table = Table::of(
        rows,
        |(name, (_, label, _), _)| format!("{name} {label}"),
        vec![
            word("", 0, |(name, ..): &Mean| *name),
            word("arithmetic", 0, |(_, (_, label, _), _): &Mean| *label),
            number("seconds", 0, |(_, (arithmetic, ..), summary): &Mean| {
                let seconds = figure(summary, *arithmetic).duration_seconds;
                Quantity::lower(seconds.mean, "s").spread(Some(seconds.deviation))
            }),
            number("GiB/s", 0, |(_, (arithmetic, ..), summary): &Mean| {
                let rate = figure(summary, *arithmetic).gib_per_second;
                Quantity::higher(rate.mean, "GiB/s").spread(Some(rate.deviation))
            }),
            word("edition", 1, |(_, (arithmetic, ..), _): &Mean| match *arithmetic == own {
                true => report.plan.profile.name(),
                false => "",
            }),
        ],
    );
    let title = "Means over the checkpoints (± spread)";
    document.details(title, (!table.rows.is_empty()).then_some(table));
    let section = document.details("Arithmetic and cost", None);
    for &(_, label, takes) in &ARITHMETICS {
        section.facts.add(label, takes);
    }
    for (name, summary) in [("save", &summary.save), ("restore", &summary.restore)] {
        if let Some(one) = summary {
            let (rate, cpu) = (one.total_over_total_gib_per_second, one.cpu_seconds_per_gib);
            let words = format!("total over total {rate:.3} GiB/s, CPU {cpu:.3} s a GiB");
            section.facts.add(format!("{name}s"), words);
        }
    }
    section.facts.add("peak memory", ByteSize(report.results.peak_rss_bytes));
    if report.plan.request.verify {
        let verified = gib(report.results.verified_bytes);
        section.facts.add("verified", format!("{verified} of restored content"));
    }
}
