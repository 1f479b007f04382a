//! Tests of comparisons between synthetic runs.

use proptest::prelude::*;
use serde_json::json;
use stormlp_core::report::Ending;
use stormlp_matrix::plan::{CellStatus, MatrixReport};
use stormlp_show::comparison::history::History;
use stormlp_show::comparison::judge::{Basis, Design, Verdict};

use super::fixtures::matrix::run_of;
use super::fixtures::training as fixtures;
use stormlp_show::comparison::{Compared, Comparison, Named, Terms};
use stormlp_show::document::Document;
use stormlp_show::html::{self, Sheet};
use stormlp_show::text;

use crate::any_report::AnyReport;

fn named(reports: &[AnyReport]) -> Vec<Named<'_>> {
    const NAMES: [&str; 8] = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
    let names = NAMES.iter().chain(std::iter::repeat(&"later"));
    reports.iter().zip(names).map(|(report, name)| Named { name, report: &**report }).collect()
}

fn compare(baseline: &[AnyReport], now: &[AnyReport]) -> Comparison {
    let terms = Terms { force: true, ..Terms::default() };
    Comparison::of(&named(baseline), &named(now), terms)
}

/// The same reports, started `step` minutes apart from minute `first` on.
fn started(reports: Vec<AnyReport>, first: usize, step: usize) -> Vec<AnyReport> {
    let at = |(nth, report): (usize, AnyReport)| {
        let mut json = serde_json::to_value(&report).unwrap();
        let minutes = first + nth * step;
        let (hours, minutes) = (minutes / 60, minutes % 60);
        json["started_at"] = json!(format!("2026-11-21T{hours:02}:{minutes:02}:00Z"));
        AnyReport::from_json(&json.to_string()).unwrap()
    };
    reports.into_iter().enumerate().map(at).collect()
}

/// Runs of these rates in GiB, which started in turns.
fn in_turns(before: &[f64], now: &[f64]) -> Comparison {
    compare(&started(runs(before), 0, 10), &started(runs(now), 5, 10))
}

/// One run per value in GiB.
fn runs(gib: &[f64]) -> Vec<AnyReport> {
    gib.iter().map(|gib| run_of(*gib).into()).collect()
}

/// A run of one cell with these interval values in GiB.
fn course(rate: f64) -> MatrixReport {
    let mut report = run_of(rate);
    let numbers = report.results.cells[0].measurement.as_mut().unwrap();
    let waves = (0..40).map(|n| rate * (1.0 + 0.02 * f64::from(n * 7 % 5)));
    let share = (1 << 30) as f64 / 40.0;
    numbers.series.interval_bytes = waves.map(|gib| (gib * share) as u64).collect();
    let device = numbers.series.interval_bytes.clone();
    numbers.series.interval_device_bytes = Some(device);
    numbers.series.interval_seconds = 0.1;
    report
}

fn shown(comparison: &Comparison) -> String {
    text::render(&comparison.document(), None)
}

#[test]
fn sets_of_runs_are_distinguished_by_their_variation() {
    let slower = in_turns(&[20.0, 20.2, 19.8], &[18.0, 18.2, 17.8]);
    assert_eq!(slower.verdict, Verdict::Regressed);
    let throughput = &slower.figures[0];
    assert_eq!(throughput.verdict, Verdict::Regressed);
    assert_eq!(throughput.name, "cpu, read of 1 MiB, 8 threads, depth 1: throughput");
    assert!((throughput.change_percent.unwrap() + 10.0).abs() < 0.1);
    assert_eq!(slower.regressions(5.0).len(), 2, "{slower:?}");
    assert_eq!(slower.regressions(50.0), Vec::<&Compared>::new());
    let first = "candidate is slower than baseline: throughput is 10.0 % lower (between -";
    assert!(slower.sentence.starts_with(first), "{}", slower.sentence);
    assert!(slower.sentence.ends_with("; 2 of 6 figures got worse, CPU time by 11.1 %"));
    let text = shown(&slower);
    assert!(text.contains("over 3 and 3 independent runs"), "{text}");
    assert!(text.contains("95 %, for all figures together"), "{text}");
    let faster = in_turns(&[18.0, 18.2, 17.8], &[20.0, 20.2, 19.8]);
    assert_eq!(faster.verdict, Verdict::Improved);
    let noisy = in_turns(&[20.0, 15.0, 25.0], &[18.0, 14.0, 22.0]);
    assert_eq!(noisy.verdict, Verdict::CannotTell);
    let steady = in_turns(&[20.0, 20.2, 19.8], &[20.1, 20.0, 19.9]);
    assert_eq!(steady.verdict, Verdict::Same);
    assert!(steady.sentence.contains("less than 5 % either way"), "{}", steady.sentence);
}

#[test]
fn a_page_shows_every_interval_against_the_baseline_and_what_made_it() {
    let page = |comparison: &Comparison| {
        let sheet = Sheet::of_answer("compare", comparison.document(), comparison.charts());
        let command = "stormlp compare a b";
        html::page(vec![sheet.made_by(command, "node1", "2026-11-21T07:25:00Z")])
    };
    let slower = page(&in_turns(&[20.0, 20.2, 19.8], &[18.0, 18.2, 17.8]));
    for words in [
        ">stormlp compare on node1, 2026-11-21T07:25:00Z<",
        ">stormlp compare a b<",
        "<figcaption>candidate as a share of baseline<",
        "class=\"n lead\">change<",
        "class=\"lead\">verdict<",
    ] {
        assert!(slower.contains(words), "{words}: {slower}");
    }
    let single = page(&compare(&runs(&[20.0]), &runs(&[18.0])));
    assert!(single.contains("no figure has an interval") && !single.contains("<svg"), "{single}");
}

#[test]
fn sides_measured_one_after_the_other_are_recognised() {
    let rates = [[20.0, 20.2, 19.8], [18.0, 18.2, 17.8]];
    let [before, now] = rates.map(|rates| runs(&rates));
    let turns = compare(&started(before.clone(), 0, 10), &started(now.clone(), 5, 10));
    assert_eq!((turns.design, turns.verdict), (Design::Turns, Verdict::Regressed));
    let blocks = compare(&started(before, 0, 10), &started(now, 60, 10));
    assert_eq!((blocks.design, blocks.verdict), (Design::Blocks, Verdict::CannotTell));
    assert!(blocks.sentence.contains("the runs of both sides are not mixed enough"));
    assert!(blocks.figures.iter().all(|one| one.interval.is_none()), "{blocks:?}");
    // Starts have whole seconds: short runs of the same one show no order.
    let at_once = compare(&runs(&rates[0]), &runs(&rates[1]));
    assert_eq!((at_once.design, at_once.verdict), (Design::Blocks, Verdict::CannotTell));
}

#[test]
fn earlier_reports_of_the_same_work_are_the_noise() {
    let rates: Vec<f64> = (0..24).map(|n| 20.0 + 0.1 * f64::from(n * 5 % 7)).collect();
    let mut earlier = started(runs(&rates), 0, 10);
    let mut elsewhere = run_of(99.0);
    elsewhere.head.host.hostname = "other".to_string();
    earlier.push(elsewhere.into());
    let (then, now) = (runs(&[20.3]), runs(&[17.0]));
    let named_earlier = named(&earlier);
    let terms = Terms { earlier: &named_earlier, ..Terms::default() };
    let comparison = Comparison::of(&named(&then), &named(&now), terms);
    assert_eq!(comparison.verdict, Verdict::Regressed, "{comparison:?}");
    assert_eq!((comparison.earlier, comparison.figures[0].basis), (24, Some(Basis::Earlier)));
    let text = shown(&comparison);
    assert!(text.contains("the spread of 24 earlier reports"), "{text}");
    assert!(text.contains("1 of 25 earlier reports do not count"), "{text}");
}

#[test]
fn pairs_are_judged_in_their_order_with_their_number() {
    let rates: Vec<f64> = (0..5).map(|n| 20.0 + 2.0 * f64::from(n)).collect();
    let slower: Vec<f64> =
        rates.iter().zip(0..).map(|(x, n)| x * (0.9 + 0.002 * f64::from(n % 2))).collect();
    let (then, now) = (runs(&rates), runs(&slower));
    let terms = Terms { pairs: true, ..Terms::default() };
    let comparison = Comparison::of(&named(&then), &named(&now), terms);
    assert_eq!(comparison.verdict, Verdict::Regressed, "{comparison:?}");
    assert_eq!((comparison.pairs, comparison.design), (Some(5), Design::Pairs));
    assert!(comparison.is_settled());
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!((&json["pairs"], &json["verdict"]), (&json!(5), &json!("worse")));
    for figure in json["figures"].as_array().unwrap() {
        let ends = figure["interval"].as_array().unwrap();
        assert!(ends.len() == 2 && ends.iter().all(serde_json::Value::is_number), "{figure}");
    }
    // The same reports as sets: the runs of a side differ by more than the sides.
    assert_eq!(compare(&then, &now).verdict, Verdict::CannotTell);
    let one = Comparison::of(&named(&then[..1]), &named(&now[..1]), terms);
    assert_eq!((one.verdict, one.is_settled()), (Verdict::CannotTell, false));
}

#[test]
fn a_series_of_reports_shows_since_when_it_is_slower() {
    let rate = |n: u32| if n < 20 { 20.0 } else { 17.0 } + 0.1 * f64::from(n * 7 % 5);
    let reports = started(runs(&(0..30).map(rate).collect::<Vec<f64>>()), 0, 30);
    let history = History::of(&named(&reports), None);
    let throughput = &history.figures[0];
    assert_eq!(throughput.changes.len(), 1, "{history:?}");
    let change = &throughput.changes[0];
    assert_eq!((change.report, change.verdict), (20, Verdict::Regressed));
    assert_eq!(change.started_at, "2026-11-21T10:00:00Z");
    assert!(
        change.interval[0] < change.change_percent && change.change_percent < change.interval[1]
    );
    assert!(history.sentence.starts_with("regressed on 2026-11-21 10:00: throughput by 14."));
    assert_eq!(history.declines(5.0).len(), 2, "throughput and CPU time");
    assert!(history.declines(50.0).is_empty());
    let page = html::page(vec![Sheet::of_answer("compare", history.document(), history.charts())]);
    assert!(page.contains("<svg") && page.contains("level") && page.contains(">hours<"), "{page}");
    let text = text::render(&history.document(), Some(80));
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(text.lines().count() <= 24 && text.lines().all(fits), "{text}");
    let steady = History::of(&named(&reports[..20]), None);
    assert!(steady.sentence.starts_with("no change found in 20 reports"), "{}", steady.sentence);
    let few = History::of(&named(&reports[..3]), None);
    assert!(few.warnings[0].contains("use at least 10"), "{few:?}");
}

#[test]
fn a_series_is_of_the_most_frequent_work_and_judged_by_its_best_level() {
    let noise = |n: u32| 0.1 * f64::from(n * 7 % 5);
    let halved = |n: u32| if n < 15 { 20.0 } else { 10.0 } + noise(n);
    let mut reports = started(runs(&(0..30).map(halved).collect::<Vec<f64>>()), 0, 30);
    let mut elsewhere = run_of(20.0);
    elsewhere.head.host.hostname = "other".to_string();
    reports.extend(started(vec![elsewhere.into()], 1200, 30));
    let history = History::of(&named(&reports), None);
    assert_eq!(history.reports.len(), 30, "{:?}", history.warnings);
    let throughput = |history: &History| {
        let declines = history.declines(5.0);
        let of = declines.iter().find(|decline| decline.figure.figure == "throughput");
        of.map(|decline| (decline.percent, decline.since.report)).unwrap()
    };
    let (percent, since) = throughput(&history);
    assert!((48.0..52.0).contains(&percent) && since == 15, "{percent} since {since}");
    let recovered = |n: u32| match n {
        0..15 => 20.0 + noise(n),
        15..30 => 10.0 + noise(n),
        _ => 11.5 + noise(n),
    };
    let reports = started(runs(&(0..45).map(recovered).collect::<Vec<f64>>()), 0, 30);
    let history = History::of(&named(&reports), None);
    assert_eq!(history.figures[0].changes.len(), 2, "{:?}", history.figures[0]);
    let (percent, since) = throughput(&history);
    assert!((40.0..44.0).contains(&percent) && since == 15, "{percent} since {since}");
    let one = History::of(&named(&reports[..1]), None);
    assert!(one.sentence.contains("1 report is too few"), "{}", one.sentence);
    assert!(one.warnings[0].starts_with("1 report is too few"), "{:?}", one.warnings);
}

#[test]
fn baseline_candidate_and_change_of_a_row_are_of_the_same_means() {
    let compared = in_turns(&[2.0, 9.0, 40.0], &[30.0, 100.0, 170.0]);
    for one in &compared.figures {
        let change = 100.0 * (one.candidate / one.baseline - 1.0);
        assert!((change - one.change_percent.unwrap()).abs() < 1e-9, "{one:?}");
    }
    let rate = |n: u32| if n < 20 { 20.0 } else { 7.0 } + f64::from(n * 7 % 5);
    let reports = started(runs(&(0..30).map(rate).collect::<Vec<f64>>()), 0, 30);
    let history = History::of(&named(&reports), None);
    let change = &history.figures[0].changes[0];
    let percent = 100.0 * (change.after / change.before - 1.0);
    assert!((percent - change.change_percent).abs() < 1e-9, "{change:?}");
}

#[test]
fn one_run_a_side_has_a_change_and_no_verdict() {
    let [then, now] = [20.0, 18.0].map(|rate| [course(rate).into()]);
    let slower = compare(&then, &now);
    assert_eq!((slower.verdict, slower.design), (Verdict::CannotTell, Design::OneRun));
    let change = slower.figures[0].change_percent.unwrap();
    assert!((change + 10.0).abs() < 0.1, "{change}");
    assert!(slower.figures.iter().all(|one| one.interval.is_none()));
    let text = shown(&slower);
    let answer = text.trim_end().lines().last().unwrap();
    assert!(
        answer.contains("cannot tell candidate from baseline: throughput is 10.0 % lower"),
        "{text}"
    );
    assert!(text.contains("this may be noise; run each side at least 3 times"), "{text}");
    assert!(text.contains("--baseline 'A' --candidate 'B'"), "{text}");
}

#[test]
fn new_failures_are_reported_even_without_figures() {
    let then = runs(&[20.0, 20.2, 19.8]);
    let mut failed = run_of(20.0);
    failed.results.cells[0].status = CellStatus::Failed;
    failed.results.cells[0].reason = Some("EIO".to_string());
    let mut cut = run_of(20.0);
    cut.results.cells.clear();
    for (report, message) in [(failed.clone(), "EIO"), (cut, "it did not run")] {
        let comparison = compare(&then, &[report.into(), run_of(20.1).into()]);
        let expected = "failed now: cpu, read of 1 MiB, 8 threads, depth 1: ";
        let broken = comparison.broken.join("; ");
        assert!(broken.starts_with(expected) && broken.contains(message), "{broken}");
        assert!(shown(&comparison).contains(expected));
    }
    // A cell that never worked is not reported as failing now.
    let never = compare(&[failed.clone().into()], &[failed.into()]);
    assert_eq!(never.broken, Vec::<String>::new());
    let mut unfinished = run_of(20.0);
    unfinished.ending = Ending::Unfinished;
    let outcome = compare(&then, &[unfinished.into()]);
    assert_eq!(outcome.broken, ["a1 is unfinished, but the baseline is complete"]);
    assert!(outcome.sentence.ends_with("1 part of the baseline broke or did not complete"));
}

#[test]
fn a_report_on_both_sides_of_different_sets_is_noted() {
    let runs = runs(&[20.0, 20.2, 19.8]);
    let message = compare(&runs[..2], &runs[1..]).warnings.join("; ");
    assert!(message.contains("is on both sides"), "{message}");
}

#[test]
fn the_keys_that_scripts_rely_on_are_there() {
    let comparison = in_turns(&[20.0, 20.2], &[18.0, 18.2]);
    let json = serde_json::to_value(&comparison).unwrap();
    assert!(json["verdict"].is_string());
    let figure = &json["figures"][0];
    for key in ["baseline", "candidate", "change_percent", "p_value"] {
        assert!(figure[key].is_f64(), "{key}: {figure}");
    }
    assert!(figure["name"].is_string() && figure["unit"].is_string());
    assert_eq!(figure["higher_is_better"], true);
    let words = ["better", "worse", "same", "cannot_tell"];
    let verdict = figure["verdict"].as_str().unwrap();
    assert!(words.contains(&verdict), "{verdict}");
    assert!(json.get("mark").is_none());
}

#[test]
fn every_command_has_figures_and_the_same_report_twice_is_identical() {
    for report in [
        run_of(20.0).into(),
        fixtures::report().into(),
        super::fixtures::checkpoint::report(1.0).into(),
    ] {
        let side = [report];
        let same = compare(&side, &side);
        assert!(same.identical && same.sentence.starts_with("identical"));
        assert_eq!(same.verdict, Verdict::Same);
        assert!(same.figures.iter().all(|one| one.interval == Some([0.0, 0.0])));
        assert!(same.figures.len() > 3, "{same:?}");
        assert!(same.differences.is_empty() && same.warnings.is_empty());
        let unchanged = |figure: &Compared| figure.change_percent.is_none_or(|p| p == 0.0);
        assert!(same.figures.iter().all(unchanged));
    }
}

#[test]
fn what_is_not_the_same_work_is_named_with_both_values() {
    let mut other = run_of(20.0);
    for cell in &mut other.results.cells {
        cell.io_size = stormlp_matrix::plan::IoSize::fixed(4 << 20);
    }
    let comparison = compare(&runs(&[20.0]), &[other.into()]);
    let lines = comparison.difference_lines();
    assert_eq!(lines, ["I/O sizes: 1 MiB (baseline), 4 MiB (candidate)"]);
    // A single combination per side is compared nevertheless.
    let subject = &comparison.figures[0].subject;
    assert!(subject.contains("4 MiB") && subject.contains("against"), "{subject}");
    let text = shown(&comparison);
    assert!(text.contains("compared anyway:\n  - I/O sizes: 1 MiB"), "{text}");
}

#[test]
fn what_differs_comes_first_where_there_are_many_combinations() {
    let of = |gib: f64| {
        let mut report = course(gib);
        let mut other = report.results.cells[0].clone();
        (other.cell, other.threads) = (1, 16);
        report.results.cells.push(other);
        report
    };
    let side =
        |rates: [f64; 3], first| started(rates.map(|rate| of(rate).into()).to_vec(), first, 10);
    let (then, now) = (side([20.0, 20.2, 19.8], 0), side([18.0, 18.2, 17.8], 5));
    let text = shown(&compare(&then, &now));
    let (first, _) = text.split_once("8 threads, depth 1\n").unwrap();
    assert!(first.contains("differences") && first.contains("16 threads"), "{text}");
    let alone = shown(&in_turns(&[20.0, 20.2, 19.8], &[18.0, 18.2, 17.8]));
    assert!(!alone.contains("differences"), "{alone}");
}

#[test]
fn reasons_to_doubt_a_verdict_are_reported() {
    let mut now = run_of(20.0);
    now.head.host.kernel = "6.1.0".to_string();
    now.ending = Ending::Stopped;
    let twice = [now.clone().into(), now.into()];
    let comparison = compare(&runs(&[20.0, 20.1]), &twice);
    let message = comparison.warnings.join("\n");
    for words in ["the same report; it counts once", "a1 is stopped", "under Linux 6.1.0"] {
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(comparison.candidate.len(), 1);
    let shared = runs(&[20.0, 21.0, 22.0]);
    let overlapping = compare(&shared, &shared[1..]);
    assert!(overlapping.warnings.contains(&"a1 is on both sides".to_string()));
}

#[test]
fn figures_of_nothing_have_no_change_and_break_nothing() {
    let mut nothing = run_of(20.0);
    let numbers = nothing.results.cells[0].measurement.as_mut().unwrap();
    numbers.throughput_bytes_per_second = 0.0;
    numbers.series.interval_bytes = vec![0; 40];
    let comparison = compare(&[nothing.clone().into()], &[course(20.0).into()]);
    // An increase from zero does not count as an improvement.
    let named = |one: &Compared| one.figure == "throughput";
    assert!(!comparison.figures.iter().any(named), "{comparison:?}");
    let left_out = comparison.unmatched.join("\n");
    assert!(left_out.contains("throughput (0 in the baseline)"), "{left_out}");
    assert!(shown(&comparison).contains("0 in the baseline"));
    let comparison = compare(&[course(20.0).into()], &[nothing.clone().into()]);
    assert_eq!(comparison.figures[0].change_percent, Some(-100.0));
    numbers_of(&mut nothing).cpu_seconds_per_gib = 0.0;
    let mut other = nothing.clone();
    numbers_of(&mut other).throughput_bytes_per_second = 1.0;
    let comparison = compare(&[nothing.into()], &[other.into()]);
    let has_cpu = comparison.figures.iter().any(|one| one.figure == "CPU time");
    assert!(!has_cpu, "what was nothing and stayed nothing is left out");
}

#[test]
fn what_one_side_lacks_is_named_with_the_side() {
    let mut lacks = run_of(20.0);
    numbers_of(&mut lacks).latency_us.p999 = None;
    let figure = "cpu, read of 1 MiB, 8 threads, depth 1: p99.9 latency";
    let comparison = compare(&runs(&[20.0]), &[lacks.clone().into()]);
    assert_eq!(comparison.unmatched, [format!("{figure} (not in all reports)")]);
    let text = shown(&comparison);
    assert!(text.contains("not compared: cpu, read of 1 MiB"), "{text}");
    let some = [lacks.into(), run_of(20.1).into()];
    let comparison = compare(&some, &runs(&[20.0]));
    let message = format!("{figure} (not in all reports)");
    assert_eq!(comparison.unmatched, [message]);
}

/// The path of every number in a report.
fn places(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            let inner = |(key, value): (&String, &serde_json::Value)| {
                places(value, &format!("{path}/{key}"), found);
            };
            fields.iter().for_each(inner);
        }
        serde_json::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                places(value, &format!("{path}/{index}"), found);
            }
        }
        serde_json::Value::Number(_) => found.push(path.to_string()),
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_report_that_somebody_changed_is_refused_or_compared(
        lane in 0..3usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..6usize), 1..6),
    ) {
        let whole: AnyReport = match lane {
            0 => course(20.0).into(),
            1 => fixtures::report().into(),
            _ => super::fixtures::checkpoint::report(1.0).into(),
        };
        let mut json = serde_json::to_value(&whole).unwrap();
        let mut numbers = Vec::new();
        places(&json, "", &mut numbers);
        for (index, odd) in changes {
            let odds = [json!(null), json!(0), json!(-1), json!(1e20), json!(u64::MAX), json!(1e-300)];
            let odd = odds[odd].clone();
            let place: &String = index.get(&numbers[..]);
            *json.pointer_mut(place).unwrap() = odd;
        }
        let Ok(changed) = AnyReport::from_json(&json.to_string()) else {
            return Ok(());
        };
        let (whole, changed) = ([whole], [changed]);
        for (baseline, now) in [(&whole, &changed), (&changed, &whole)] {
            let comparison = compare(baseline, now);
            let text = shown(&comparison);
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{}", text);
            prop_assert!(serde_json::to_string(&comparison).is_ok());
        }
    }
}

fn numbers_of(report: &mut MatrixReport) -> &mut stormlp_matrix::plan::Measurement {
    report.results.cells[0].measurement.as_mut().unwrap()
}

/// Sample comparisons, for the tests of every renderer.
pub(crate) fn samples() -> Vec<(&'static str, Document)> {
    let sets = in_turns(&[20.0, 20.2, 19.8], &[18.0, 18.2, 17.8]);
    let now = course(18.0);
    let mut closed = stormlp_matrix::show::document(&now);
    compare(&[course(20.0).into()], &[now.into()]).close(&mut closed);
    vec![("comparison", sets.document()), ("gds_baseline", closed)]
}
