//! Hosts that no launcher started, each with its own checkpoints: how their report differs from
//! that of a single checkpoint, whose ranks start together.

use crate::plan::{Arithmetic, CheckpointProfile, FsyncPolicy};
use crate::report::{CheckpointReport, CheckpointResult, CheckpointResults};
use serde_json::Value;
use stormlp_core::path::PathKind;

use stormlp_show::document::{Cell, Column, Document, Quantity, Section};
use stormlp_show::hosts::{SUMMED_AT_ONCE, on_each};

/// Prefix of the columns that are for rank 0 only.
const RANK_0: &str = "rank 0 ";

/// Mentions such hosts in the headline.
pub(super) fn in_words(results: &CheckpointResults) -> String {
    match (results.is_of_detached_hosts(), results.hosts.len()) {
        (false, _) => String::new(),
        (true, 1) => " on 1 detached host".to_string(),
        (true, hosts) => {
            format!(" on {hosts} detached hosts, each with checkpoints of its own")
        }
    }
}

/// What the rates of the headline are based on.
pub(super) fn by_what(report: &CheckpointReport) -> String {
    if !report.results.is_of_detached_hosts() {
        return format!("profile {}{}", report.plan.profile, synced(report));
    }
    let at_once = least_at_once(&report.results).map_or(String::new(), |least| {
        let percent = least * 100.0;
        format!(", with all hosts active for at least {percent:.0} % of it")
    });
    format!("all bytes over the longest time of all{at_once}")
}

/// Whether saves of files were synced, where the profile does not tell: v2 does by default, and does
/// not if it is named.
fn synced(report: &CheckpointReport) -> &'static str {
    let plan = &report.plan;
    match (plan.fsync, plan.profile) {
        _ if plan.path() == PathKind::S3 || report.results.saves.is_empty() => "",
        (FsyncPolicy::None, _) => ", not synced",
        (_, CheckpointProfile::V2) => ", synced",
        _ => "",
    }
}

/// The least share of a save or restore in which all hosts were active.
fn least_at_once(results: &CheckpointResults) -> Option<f64> {
    let all = results.saves.iter().chain(&results.restores);
    all.filter_map(|result| result.at_once_share).reduce(f64::min)
}

/// Why such hosts have no common rate: they were active at once for too short a time.
pub(super) fn no_sum(report: &CheckpointReport) -> Option<String> {
    let least = least_at_once(&report.results).filter(|least| *least < SUMMED_AT_ONCE)?;
    Some(format!(
        "no sum: the hosts were active at once for only {:.0} % of the time; each host's rate is \
         under --details",
        least * 100.0
    ))
}

/// Facts about such hosts.
pub(super) fn describe(results: &CheckpointResults, document: &mut Document) {
    if !results.is_of_detached_hosts() {
        return;
    }
    let hosts = results.hosts.len();
    let each = on_each(hosts);
    if let Some((_, text)) = document.brief.0.iter_mut().find(|(name, _)| name == "checkpoint") {
        text.push_str(&each);
    }
    let text = "started by their own clocks (--start-at), each with checkpoints of its own; not a \
                run of the benchmark";
    document.brief.add("hosts", format!("{hosts} that {text}"));
}

/// Whether an arithmetic applies to a report: the benchmark's own apply to a single checkpoint.
pub(super) fn has(report: &CheckpointReport, arithmetic: Arithmetic) -> bool {
    arithmetic == Arithmetic::AllRanks || !report.results.is_of_detached_hosts()
}

/// Marks the `record` of a save or restore as one of such hosts. Values for rank 0, a rank of the
/// first host, are left out.
pub(super) fn note(record: &mut Value, results: &CheckpointResults) {
    if !results.is_of_detached_hosts() {
        return;
    }
    record["detached"] = true.into();
    for figure in ["duration_seconds", "gib_per_second"] {
        record[figure]["rank0"] = Value::Null;
    }
}

/// Removes the rank 0 columns from the table of `results`, and adds the fraction of the time during
/// which all hosts were active.
pub(super) fn narrow(section: &mut Section, results: &[CheckpointResult]) {
    let Some(table) = &mut section.table else {
        return;
    };
    if results.iter().all(|result| result.hosts.is_empty()) {
        return;
    }
    let keep: Vec<bool> =
        table.columns.iter().map(|column| !column.name.starts_with(RANK_0)).collect();
    let mut kept = keep.iter();
    table.columns.retain(|_| kept.next() == Some(&true));
    table.columns.push(Column::numbers("at once %", 1));
    for (row, result) in table.rows.iter_mut().zip(results) {
        let mut kept = keep.iter();
        row.cells.retain(|_| kept.next() == Some(&true));
        row.cells.push(match result.at_once_share {
            Some(share) => Quantity::higher(share * 100.0, "%").into(),
            None => Cell::from("?"),
        });
    }
}
