//! `stormlp compare`: whether two reports, or two sets of reports, differ.

use std::path::PathBuf;

use crate::any_report::AnyReport;
use stormlp_core::units::counted;
use stormlp_show::comparison::judge::Verdict;
use stormlp_show::comparison::{Comparison, Named};

use super::deliver::AnswerArgs;
use super::saved;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp compare`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stormlp compare [OPTIONS] BASELINE NOW\n       \
        stormlp compare [OPTIONS] BASELINE... -- NOW...",
    after_help = "\
Examples:
  stormlp compare before/report.json after/report.json
                                            one run each; noise is estimated within the run
  stormlp compare a1 a2 a3 -- b1 b2 b3      runs of the same work, best taken in turns: a b a b
  stormlp compare --fail-on-regression 5 nightly/ today/ --format markdown
                                            folders of runs; exit code 7 when one got 5 % worse

A figure improved or regressed if the difference is significant at the 5 % level over all figures
(Welch's test, Holm's method). See docs/compare.md."
)]
pub(crate) struct Args {
    /// Baseline reports, their folders, or folders of such folders; two places without -- are
    /// baseline and current
    #[arg(value_name = "BASELINE", required = true)]
    baseline: Vec<PathBuf>,

    /// Current reports
    #[arg(value_name = "NOW", last = true)]
    now: Vec<PathBuf>,

    /// Compare even if the work differs, with a warning
    #[arg(long)]
    force: bool,

    /// Exit with code 7 if a figure is significantly worse by at least this percentage, or if
    /// something measured in the baseline failed or is incomplete
    #[arg(long, value_name = "PCT", value_parser = percent, allow_negative_numbers = true)]
    fail_on_regression: Option<f64>,

    #[command(flatten)]
    answer: AnswerArgs,
}

/// Compares the reports.
pub(crate) fn run(args: Args, _session: &Session) -> Result<(), Failure> {
    let (baseline, now) = sides(args.baseline, args.now)?;
    let answer = args.answer.open(&Comparison::record_columns())?;
    let (baseline, now) = (read(&baseline)?, read(&now)?);
    check_kinds(&baseline, &now)?;
    let comparison = Comparison::of(&named(&baseline), &named(&now), args.force);
    if let Some(words) = comparison.difference_words().filter(|_| !args.force) {
        let help = "compare runs of the same options, or add --force to compare them anyway";
        return Err(Failure::no_plan(anyhow::anyhow!("{words}")).with_help(help));
    }
    if comparison.figures.is_empty() {
        let help = "name reports that measured the same";
        let sentence = &comparison.sentence;
        return Err(Failure::no_plan(anyhow::anyhow!("{sentence}")).with_help(help));
    }
    answer.write(&comparison, &comparison.document())?;
    match args.fail_on_regression {
        None => Ok(()),
        Some(percent) => fail_beyond(percent, &comparison),
    }
}

/// The paths of both sides: without `--`, two paths are one for each side.
fn sides(
    mut baseline: Vec<PathBuf>,
    now: Vec<PathBuf>,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    // After `--`, everything is a path.
    let mut places = now.iter().map(|place| place.to_string_lossy());
    if let Some(option) = places.find(|place| place.starts_with("--")) {
        let message = format!("{option} comes after --, where only paths are allowed");
        return Err(Failure::usage(message).with_help("give options before the paths"));
    }
    match (now.is_empty(), baseline.len()) {
        (false, _) => Ok((baseline, now)),
        (true, 2) => {
            let now = baseline.split_off(1);
            Ok((baseline, now))
        }
        (true, count) => Err(Failure::usage(format!(
            "a comparison has two sides, and {} without -- could be either",
            counted(count as u64, "place")
        ))
        .with_help("stormlp compare BASELINE NOW, or BASELINE... -- NOW...")),
    }
}

/// A report and its file.
type Saved = (String, AnyReport);

/// Reads every report in `places`.
fn read(places: &[PathBuf]) -> Result<Vec<Saved>, Failure> {
    let mut reports = Vec::new();
    for place in places {
        for file in saved::files(place)? {
            let report = saved::any(&file)?;
            reports.push((file.display().to_string(), report));
        }
    }
    Ok(reports)
}

fn named(side: &[Saved]) -> Vec<Named<'_>> {
    let named = side.iter().map(|(name, report)| Named { name, report: &**report });
    named.collect()
}

/// Rejects reports of different commands, which have no metric in common.
fn check_kinds(baseline: &[Saved], now: &[Saved]) -> Result<(), Failure> {
    let mut all = baseline.iter().chain(now);
    let Some((first, report)) = all.next() else {
        return Ok(());
    };
    let kind = report.head().kind;
    match all.find(|(_, report)| report.head().kind != kind) {
        None => Ok(()),
        Some((other, report)) => Err(Failure::no_plan(anyhow::anyhow!(
            "nothing to compare: {first} is the report of `stormlp {}`, and {other} of `stormlp {}`",
            kind.name(),
            report.head().kind.name()
        ))
        .with_help("compare reports of the same command; `stormlp report DIR` lists the reports \
                    in a folder")),
    }
}

/// Exit code 7 if a metric regressed by `percent` or more, or if something measured in the baseline
/// failed.
fn fail_beyond(percent: f64, comparison: &Comparison) -> Result<(), Failure> {
    if let Some((first, others)) = comparison.broken.split_first() {
        let besides = match others.len() {
            0 => String::new(),
            others => format!("; see the warnings for {others} more"),
        };
        return Err(Failure::regressed(format!("{first}{besides}")));
    }
    if comparison.verdict == Verdict::TooFewSamples {
        output::say("warning: --fail-on-regression has no effect: too few samples");
    }
    let worse = comparison.regressions(percent);
    match worse.first() {
        None => Ok(()),
        Some(worst) => Err(Failure::regressed(format!(
            "{} of {} figures got worse by {percent} % or more; the worst: {}{}",
            worse.len(),
            comparison.figures.len(),
            worst.name,
            worst
                .change_percent
                .map_or(String::new(), |change| format!(" by {:.1} %", change.abs()))
        ))),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').trim_end().parse().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("`{text}` is not a percentage: use a number such as 5"))
}
