//! A finished run for people.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};
use stormlp_model::checkpoint::{
    Arithmetic, CheckpointReport, CheckpointResult, DurationAndRate, PhaseSummary,
};
use stormlp_model::evidence::Evidence;
use stormlp_model::report::Ending;
use stormlp_model::units::ByteSize;

use super::{gib, marked, opening};

/// The report as text.
pub fn text(report: &CheckpointReport) -> String {
    let mut text = opening(&report.plan);
    ran(&mut text, "saves", report.evidence_of("saves"));
    ran(&mut text, "restores", report.evidence_of("restores"));
    phases(&mut text, "Saves", "write s", &report.results.saves);
    phases(&mut text, "Restores", "read s", &report.results.restores);
    summary(&mut text, report);
    costs(&mut text, report);
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    match &report.ending {
        Ending::Complete => {}
        Ending::Unfinished => text.push_str("not finished; what was measured before is above\n"),
        Ending::Stopped => {
            text.push_str("stopped by the user; what was measured before is above\n")
        }
        Ending::Failed { message, .. } => {
            let _ = writeln!(text, "FAILED: {message}");
        }
    }
    marked(&report.plan, &text)
}

/// What moved the bytes, with its proof.
fn ran(text: &mut String, what: &str, evidence: Option<&Evidence>) {
    if let Some(evidence) = evidence {
        let path = evidence
            .effective_path
            .map_or("unknown", |path| path.name());
        let engine = evidence
            .engine
            .as_ref()
            .map_or(String::new(), |facts| format!(", engine {}", facts.engine));
        let _ = writeln!(text, "{what}: path {path}{engine}: {}", evidence.summary);
    }
}

/// One table of saves or restores.
fn phases(text: &mut String, title: &str, transfer: &str, results: &[CheckpointResult]) {
    if results.is_empty() {
        return;
    }
    let saving = title == "Saves";
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![
        "step",
        "GiB",
        "max s",
        "mean s",
        "min s",
        "rank 0 s",
        "GiB/s",
        "rank 0 GiB/s",
        "lowest rank GiB/s",
        transfer,
    ];
    header.extend(match saving {
        true => &["fsync s", "rename s", "close s", "device GiB"][..],
        false => &["close s", "cached %", "device GiB"][..],
    });
    table.set_header(header);
    for result in results {
        table.add_row(row(result, saving));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = write!(
        text,
        "\n{title} (durations in seconds over the ranks; parts are means over the ranks)\n{}\n",
        table.trim_fmt()
    );
    for result in results {
        if let Some(overlap) = &result.overlap {
            let _ = writeln!(
                text,
                "step {}: {} training steps of {:.3} s ran beside it; training was held up {:.3} s (and {:.3} s late in its steps), a blocking save holds it up {:.3} s",
                result.step,
                overlap.steps,
                overlap.step_seconds,
                overlap.held_seconds,
                overlap.late_seconds,
                overlap.blocking_seconds
            );
        }
    }
}

fn row(result: &CheckpointResult, saving: bool) -> Vec<String> {
    let seconds = |value: f64| format!("{value:.3}");
    let (duration, rate) = (&result.duration_seconds, &result.gib_per_second);
    let parts = &result.mean_parts;
    let in_gib = |bytes: u64| format!("{:.2}", bytes as f64 / (1u64 << 30) as f64);
    let mut row = vec![
        result.step.to_string(),
        in_gib(result.bytes),
        seconds(duration.max),
        seconds(duration.mean),
        seconds(duration.min),
        seconds(duration.rank0),
        seconds(rate.total),
        seconds(rate.rank0),
        seconds(rate.min_rank),
        seconds(parts.transfer_seconds),
    ];
    if saving {
        row.push(seconds(parts.fsync_seconds));
        row.push(seconds(parts.rename_seconds));
        row.push(seconds(parts.close_seconds));
    } else {
        row.push(seconds(parts.close_seconds));
        row.push(result.page_cache_before.map_or("?".to_string(), |cache| {
            format!("{:.1}", cache.share * 100.0)
        }));
    }
    row.push(match (result.device, saving) {
        (Some(device), true) => in_gib(device.written_bytes),
        (Some(device), false) => in_gib(device.read_bytes),
        (None, _) => "?".to_string(),
    });
    row
}

/// The arithmetics side by side, the profile's own marked.
fn summary(text: &mut String, report: &CheckpointReport) {
    let phases = [
        ("save", &report.results.summary.save),
        ("restore", &report.results.summary.restore),
    ];
    for (name, summary) in phases {
        let Some(summary) = summary else { continue };
        let _ = writeln!(
            text,
            "\nMeans over {} {name}s (± spread)",
            summary.checkpoints
        );
        let own = report.plan.profile.headline();
        type Figure = fn(&PhaseSummary) -> DurationAndRate;
        let rows: [(Arithmetic, &str, Figure); 3] = [
            (
                Arithmetic::MlperfRules,
                "MLPerf's rules: slowest rank, lowest rank's rate",
                |summary| summary.mlperf_rules,
            ),
            (
                Arithmetic::Dlio,
                "DLIO: rank 0, all bytes over its time",
                |summary| summary.dlio,
            ),
            (
                Arithmetic::AllRanks,
                "all ranks: all bytes over the slowest's time",
                |summary| summary.all_ranks,
            ),
        ];
        for (arithmetic, label, pick) in rows {
            let pair = pick(summary);
            let mark = match arithmetic == own {
                true => format!("  <- profile {}", report.plan.profile),
                false => String::new(),
            };
            let _ = writeln!(
                text,
                "  {label:<49} {:>9.3} s ± {:.3}  {:>9.3} GiB/s ± {:.3}{mark}",
                pair.duration_seconds.mean,
                pair.duration_seconds.deviation,
                pair.gib_per_second.mean,
                pair.gib_per_second.deviation,
            );
        }
        let _ = writeln!(
            text,
            "  {:<49} {:>24.3} GiB/s",
            "total over total", summary.total_over_total_gib_per_second
        );
        let _ = writeln!(
            text,
            "  {:<49} {:>24.3} s a GiB",
            "CPU time of the process", summary.cpu_seconds_per_gib
        );
    }
}

/// What the run cost the host, and what was checked.
fn costs(text: &mut String, report: &CheckpointReport) {
    let _ = writeln!(
        text,
        "\nCPU {:.2} s user, {:.2} s system; peak resident memory {}; buffers {}",
        report.results.cpu_user_seconds,
        report.results.cpu_system_seconds,
        ByteSize(report.results.peak_rss_bytes),
        ByteSize(report.plan.buffer_bytes),
    );
    if report.plan.verify {
        let _ = writeln!(
            text,
            "verified {} of restored content",
            gib(report.results.verified_bytes)
        );
    }
}
