//! A search for the fewest streams: the answer, and every run.

use crate::plan::{FindStreams, StreamKnee, TriedStreams};
use crate::report::CheckpointReport;
use stormlp_core::stats::{mean, sample_deviation};
use stormlp_core::units::{counted, format_duration};

use stormlp_show::document::{Cell, Column, Document, Quantity, Table, ended};

/// The result of a search.
pub(super) fn headline(report: &CheckpointReport, find: &FindStreams) -> String {
    let phases = [("saves", &find.save), ("restores", &find.restore)];
    let known: Vec<String> = phases
        .into_iter()
        .filter_map(|(what, knee)| {
            let knee = knee.as_ref()?;
            let streams = counted(u64::from(knee.streams), "stream");
            let peak = format!("{what} peak {:.3} GiB/s", knee.best_gib_per_second);
            let rate = knee.gib_per_second;
            let open = || std::iter::once(&knee.streams).chain(&knee.alike);
            let (least, most) = (open().min()?, open().max()?);
            Some(match (knee.is_lower_bound, knee.alike.len()) {
                (false, _) if *least < knee.streams => format!(
                    "{peak} with {}; cannot tell how few reach it: {least} to {most} per rank",
                    counted(u64::from(knee.best_streams), "stream")
                ),
                (true, _) => format!(
                    "{peak} with {}, the most that were tried: more may reach more",
                    counted(u64::from(knee.best_streams), "stream")
                ),
                (false, _) if knee.streams == knee.best_streams => {
                    format!("{peak} with {streams} per rank")
                }
                (false, 0) => format!("{peak}; {streams} per rank reach {rate:.3} GiB/s"),
                (false, ties) => format!(
                    "{peak}; {} tie, the fewest streams per rank are {} ({rate:.3} GiB/s)",
                    counted(1 + ties as u64, "setting"),
                    knee.streams
                ),
            })
        })
        .collect();
    let answer =
        if known.is_empty() { "nothing was measured".to_string() } else { known.join("; ") };
    format!("checkpoint {}: {answer}{}", report.plan.model, ended(&report.ending))
}

/// Which run of the search the saves and restores of its report belong to.
pub(super) fn which_run(report: &CheckpointReport) -> String {
    let streams = report.plan.request.streams.map_or(1, u64::from);
    format!(" of the last run with {} per rank", counted(streams, "stream"))
}

/// The knees and every run.
pub(super) fn sections(find: &FindStreams, document: &mut Document) {
    let phases = [("saves", &find.save), ("restores", &find.restore)];
    for (what, knee) in phases {
        if let Some(knee) = knee {
            document.facts.add(what, in_words(find, knee));
        }
    }
    let seconds: f64 = find.tried.iter().map(|run| run.seconds).sum();
    let runs = counted(find.tried.len() as u64, "run");
    document.facts.add("search", format!("{runs} in {}", format_duration(seconds)));
    if !find.tried.is_empty() {
        document.section("All numbers of streams tried", Some(table(find)));
    }
}

fn in_words(find: &FindStreams, knee: &StreamKnee) -> String {
    let mut words = format!(
        "{} per rank reach {:.1} % of the best ({:.3} GiB/s with {})",
        counted(u64::from(knee.streams), "stream"),
        knee.share_of_best_percent,
        knee.best_gib_per_second,
        knee.best_streams
    );
    match knee.limited_by {
        Some(limit) => words.push_str(&format!("; limited by {}", limit.name())),
        None => words.push_str("; what limits it is unknown"),
    }
    if let Some(noise) = knee.noise_percent {
        words.push_str(&format!("; repetitions differ by {noise:.1} %"));
    }
    if knee.is_lower_bound {
        let most = find.tried.iter().map(|run| run.streams).max();
        words.push_str(&format!(
            "; {} were the most that were tried: more may reach more",
            most.unwrap_or(1)
        ));
    }
    words
}

fn table(find: &FindStreams) -> Table {
    let mut table = Table::new([
        Column::numbers("streams", 0),
        Column::numbers("save GiB/s", 0),
        Column::numbers("restore GiB/s", 0),
        Column::words("answer", 0),
        Column::words("limited by", 1),
        Column::numbers("took", 2),
    ]);
    for streams in &find.streams {
        let runs: Vec<&TriedStreams> =
            find.tried.iter().filter(|run| run.streams == *streams).collect();
        if runs.is_empty() {
            continue;
        }
        let rate = |of: fn(&TriedStreams) -> &Vec<f64>| -> Cell {
            let rates: Vec<f64> = runs.iter().flat_map(|run| of(run)).copied().collect();
            let spread = (rates.len() > 1).then(|| sample_deviation(&rates));
            if rates.is_empty() {
                "".into()
            } else {
                Quantity::higher(mean(&rates), "GiB/s").spread(spread).into()
            }
        };
        let is = |knee: &Option<StreamKnee>, what: &str| {
            let here = knee.as_ref().is_some_and(|knee| knee.streams == *streams);
            here.then(|| format!("enough to {what}"))
        };
        let answers: Vec<String> =
            [is(&find.save, "save"), is(&find.restore, "restore")].into_iter().flatten().collect();
        let knees = [&find.save, &find.restore].into_iter().flatten();
        let mut limits: Vec<&str> = knees
            .filter(|knee| knee.streams == *streams)
            .map(|knee| knee.limited_by.map_or("unknown", |limit| limit.name()))
            .collect();
        limits.dedup();
        let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
        table.row(
            format!("{streams} streams"),
            vec![
                streams.to_string().into(),
                rate(|run| &run.save_gib_per_second),
                rate(|run| &run.restore_gib_per_second),
                answers.join(", ").into(),
                limits.join(", ").into(),
                format_duration(seconds).into(),
            ],
        );
    }
    table
}
