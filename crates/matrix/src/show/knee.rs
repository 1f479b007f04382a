//! Results of a knee search: the answer, one row for each knee, and the bottlenecks.

use crate::plan::{CellReport, FindKnee, Knee, KneePoint, MatrixReport};
use stormlp_core::knee::{KneeLimit, WITHIN};
use stormlp_core::units::{GIB, counted};

use stormlp_show::document::{Cell, Document, Quantity, Table, ended, number, word};

/// The headline of a search; `None` for a matrix without one.
pub(super) fn headline(report: &MatrixReport) -> Option<String> {
    let find = report.results.find_knee.as_ref()?;
    let end = ended(&report.ending);
    Some(match best_of_each_op(&find.knees).as_slice() {
        [] => format!("no cell was measured{end}"),
        knees => {
            let knees: Vec<String> = knees.iter().map(|knee| to_text(report, knee)).collect();
            format!("{}{end}", knees.join("; "))
        }
    })
}

/// The highest peak of each operation, storage before memory.
fn best_of_each_op(knees: &[Knee]) -> Vec<&Knee> {
    let mut best: Vec<&Knee> = Vec::new();
    let rate = |knee: &Knee| knee.best.throughput_bytes_per_second;
    for knee in knees {
        match best.iter_mut().find(|known| known.op == knee.op) {
            None => best.push(knee),
            Some(known) => {
                let (is, was) = (is_of_memory(knee), is_of_memory(known));
                if (was && !is) || (was == is && rate(knee) > rate(known)) {
                    *known = knee;
                }
            }
        }
    }
    best
}

fn is_of_memory(knee: &Knee) -> bool {
    knee.limited_by == Some(KneeLimit::Memory)
}

/// The subject of a knee: `cpu read of 1 MiB`.
fn subject(report: &MatrixReport, knee: &Knee) -> String {
    let op = knee.op.of_mix(report.plan.request.read_percent);
    format!("{} {op} of {}", knee.requested_path, knee.io_size.words())
}

/// Describes the best and the knee.
fn to_text(report: &MatrixReport, knee: &Knee) -> String {
    let from = if is_of_memory(knee) { " (from memory)" } else { "" };
    let so_far = if knee.is_complete { "" } else { " so far" };
    let (most, best) = (short_gib(&knee.best), setting(&knee.best));
    let peak = format!("{}: peak {most} GiB/s{from}{so_far} by {best}", subject(report, knee));
    let is_open = knee.ties.iter().any(|one| in_flight(one) < in_flight(&knee.knee));
    match (knee.is_lower_bound, knee.knee == knee.best) {
        (true, _) => format!("{peak}, the largest number tried: more may reach more"),
        (false, _) if is_open => format!(
            "{peak}; repetitions differ by {:.0} %, so fewer in flight may reach it, which a \
             larger --runs may tell",
            knee.noise_percent.unwrap_or_default()
        ),
        (false, true) => format!("{peak}; fewer in flight do not reach it"),
        (false, false) => format!("{peak}; {} by {}", short_gib(&knee.knee), setting(&knee.knee)),
    }
}

fn short_gib(point: &KneePoint) -> String {
    let gib = point.throughput_bytes_per_second / GIB as f64;
    Quantity::higher(gib, "GiB/s").text()
}

/// Transfers in flight.
fn in_flight(point: &KneePoint) -> u64 {
    u64::from(point.threads) * u64::from(point.queue_depth)
}

fn setting(point: &KneePoint) -> String {
    let threads = counted(u64::from(point.threads), "thread");
    format!("{threads} at depth {}", point.queue_depth)
}

/// Whether a cell belongs to the mean of a knee.
pub(super) fn is_at(find: &FindKnee, cell: &CellReport) -> bool {
    let of = |knee: &Knee| {
        let kind = (knee.requested_path, knee.op, knee.io_size);
        let setting = (knee.knee.threads, knee.knee.queue_depth);
        kind == (cell.requested_path, cell.op, cell.io_size)
            && setting == (cell.threads, cell.queue_depth)
    };
    cell.result().is_some() && find.knees.iter().any(of)
}

/// The knees and their confidence.
pub(super) fn sections(report: &MatrixReport, find: &FindKnee, document: &mut Document) {
    let cells: u64 = find.knees.iter().map(|knee| knee.cells).sum();
    document.brief.add(
        "search",
        format!(
            "{cells} of {} cells measured; cells that decide a result run {} times",
            report.plan.runnable_cells(),
            report.plan.request.runs()
        ),
    );
    if find.knees.is_empty() {
        return;
    }
    let title = format!(
        "The smallest number in flight within {} % of the best, or within noise of that",
        WITHIN * 100.0
    );
    document.section(&title, Some(table(report, find)));
}

/// A knee, and the marks of its footnotes.
type Marked<'a> = (&'a Knee, String);

fn table(report: &MatrixReport, find: &FindKnee) -> Table {
    let mut notes = Table::default();
    let mut marks = |knee| {
        let marks = remarks(knee).into_iter().map(|text| notes.footnote(text));
        marks.collect::<Vec<_>>().join(" ")
    };
    let rows: Vec<Marked<'_>> = find.knees.iter().map(|knee| (knee, marks(knee))).collect();
    let op = |knee: &Knee| knee.op.of_mix(report.plan.request.read_percent);
    let columns = vec![
        word("path", 0, |(knee, _): &Marked<'_>| knee.requested_path.name()).setting(),
        word("op", 0, |(knee, _): &Marked<'_>| op(knee)).setting(),
        word("I/O", 0, |(knee, _): &Marked<'_>| knee.io_size.words()).setting(),
        number("threads", 0, |(knee, _): &Marked<'_>| knee.knee.threads),
        number("depth", 0, |(knee, _): &Marked<'_>| knee.knee.queue_depth),
        number("GiB/s", 0, |(knee, marks): &Marked<'_>| {
            let gib = knee.knee.throughput_bytes_per_second / GIB as f64;
            Cell::Number(Quantity::higher(gib, "GiB/s"), marks.clone())
        })
        .leading(),
        number("% of best", 1, |(knee, _): &Marked<'_>| {
            Quantity::higher(knee.share_of_best_percent, "%")
        }),
        number("p99 µs", 2, |(knee, _): &Marked<'_>| {
            knee.latency_us_p99.map(|us| Quantity::lower(us, "µs"))
        }),
        word("limited by", 1, |(knee, _): &Marked<'_>| {
            knee.limited_by.map_or("unknown", |limit| limit.name())
        }),
    ];
    let key = |(knee, _): &Marked<'_>| {
        format!("knee {} {} {}", knee.requested_path, op(knee), knee.io_size.words())
    };
    Table { footnotes: notes.footnotes, ..Table::of(rows, key, columns) }
}

/// Remarks about a knee.
fn remarks(knee: &Knee) -> Vec<String> {
    let mut remarks = Vec::new();
    if !knee.is_complete {
        remarks.push("the search for it did not finish".to_string());
    }
    if knee.is_lower_bound {
        remarks.push(format!(
            "the best, by {}, was still gaining: larger --threads or --queue-depth may reach more",
            setting(&knee.best)
        ));
    }
    if !knee.ties.is_empty() {
        let ties = counted(1 + knee.ties.len() as u64, "setting");
        remarks.push(format!("{ties} tie; the best is {}", setting(&knee.best)));
    }
    match knee.noise_percent {
        None => remarks.push("no cell was repeated, so noise is unknown".to_string()),
        Some(noise) => remarks.push(format!("repetitions differ by {noise:.1} %")),
    }
    remarks
}
