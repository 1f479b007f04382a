//! Hosts that no launcher started, each with checkpoints of its own: what is told of them otherwise than
//! of one checkpoint, whose ranks begin together.

use crate::plan::{Arithmetic, CheckpointReport, CheckpointResult, CheckpointResults};
use serde_json::Value;

use stormlp_show::document::{Cell, Column, Facts, Quantity, Section};
use stormlp_show::hosts::on_each;

/// What begins the columns that are of rank 0 alone.
const RANK_0: &str = "rank 0 ";

/// That there are such hosts, for the headline.
pub(super) fn in_words(results: &CheckpointResults) -> String {
    match (results.is_of_detached_hosts(), results.hosts.len()) {
        (false, _) => String::new(),
        (true, 1) => " on 1 detached host".to_string(),
        (true, hosts) => {
            format!(" on {hosts} detached hosts, each with checkpoints of its own")
        }
    }
}

/// What the rates of the headline are reckoned by.
pub(super) fn by_what(report: &CheckpointReport) -> String {
    if !report.results.is_of_detached_hosts() {
        return format!("profile {}", report.plan.profile);
    }
    let results = report.results.saves.iter().chain(&report.results.restores);
    let shares = results.filter_map(|result| result.at_once_share);
    let at_once = shares.reduce(f64::min).map_or(String::new(), |least| {
        let percent = least * 100.0;
        format!(", in which the hosts were at it at once for {percent:.0} % or more")
    });
    format!("all bytes over the longest time of all{at_once}")
}

/// The facts of such hosts.
pub(super) fn describe(results: &CheckpointResults, facts: &mut Facts) {
    if !results.is_of_detached_hosts() {
        return;
    }
    let hosts = results.hosts.len();
    let each = on_each(hosts);
    if let Some((_, text)) = facts.0.iter_mut().find(|(name, _)| name == "checkpoint") {
        text.push_str(&each);
    }
    let text = "began by their own clocks (--start-at), each with checkpoints of its own; no run of \
                the benchmark";
    facts.add("hosts", format!("{hosts} that {text}"));
}

/// Whether an arithmetic is told of a report: those of the benchmark are of one checkpoint.
pub(super) fn has(report: &CheckpointReport, arithmetic: Arithmetic) -> bool {
    arithmetic == Arithmetic::AllRanks || !report.results.is_of_detached_hosts()
}

/// Says in the `record` of a save or restore that it is of such hosts. What is of rank 0, which is one of
/// the first host, is left out.
pub(super) fn note(record: &mut Value, results: &CheckpointResults) {
    if !results.is_of_detached_hosts() {
        return;
    }
    record["detached"] = true.into();
    for figure in ["duration_seconds", "gib_per_second"] {
        record[figure]["rank0"] = Value::Null;
    }
}

/// Leaves out of the table of `results` what is of rank 0, and adds for which share of the time all hosts
/// were at it.
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
