//! `stormlp compare`: whether saved reports, or the runs of two commands, differ.

mod kept;
mod turns;

use std::path::PathBuf;

use stormlp_core::note::{Cause, Note};
use stormlp_core::printable::printable;
use stormlp_core::units::counted;
use stormlp_show::comparison::history::History;
use stormlp_show::comparison::{Comparison, Named, Terms};
use stormlp_show::html::Sheet;

use self::kept::{Folder, Request};
use super::deliver::{ExportArgs, Targets};
use super::saved::{self, Saved};
use super::seed::fresh_seed;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp compare`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stormlp compare [OPTIONS] --baseline CMD --candidate CMD\n       \
        stormlp compare [OPTIONS] --resume DIR\n       \
        stormlp compare [OPTIONS] BASELINE CANDIDATE\n       \
        stormlp compare [OPTIONS] BASELINE... -- CANDIDATE...\n       \
        stormlp compare [OPTIONS] --history DIR",
    after_help = "\
Examples:
  stormlp compare --baseline './old gds' --candidate './new gds'
                                        run both in turns until it is clear
  stormlp compare old/ new/             two folders of reports
  stormlp compare a1 a2 a3 -- b1 b2 b3  three reports per side
  stormlp compare --history nightly/    since when is a series slower?
  stormlp compare old/ new/ --fail-on-regression 5
                                        exit code 7 if a figure is 5 % worse

A figure is better or worse if the 95 % interval of its change excludes 0.
With one run per side and no --history, the answer is 'cannot tell'."
)]
pub(crate) struct Args {
    /// Reports of the baseline, or their folders; two paths are baseline and candidate
    #[arg(value_name = "BASELINE",
        required_unless_present_any = ["baseline_command", "resume", "history"])]
    baseline: Vec<PathBuf>,

    /// Reports of the candidate, after --
    #[arg(value_name = "CANDIDATE", last = true)]
    candidate: Vec<PathBuf>,

    /// Shell command of the baseline
    #[arg(long = "baseline", value_name = "CMD", requires = "candidate_command",
        conflicts_with_all = ["baseline", "candidate"])]
    baseline_command: Option<String>,

    /// Shell command of the candidate
    #[arg(long = "candidate", value_name = "CMD", requires = "baseline_command")]
    candidate_command: Option<String>,

    /// Name of a side, such as A=old or B=new [default: a tag in which they differ]
    #[arg(long, value_name = "A=NAME|B=NAME", value_parser = side_name)]
    name: Vec<(usize, String)>,

    /// Command before every run; STORMLP_SIDE is baseline or candidate; repeatable
    #[arg(long, value_name = "CMD", requires = "baseline_command")]
    setup: Vec<String>,

    /// Continue the comparison of commands in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "baseline", "candidate", "baseline_command", "candidate_command", "setup", "min_change",
        "force", "name",
    ])]
    resume: Option<PathBuf>,

    /// Folder for reports [default: $STORMLP_RESULTS_DIR, otherwise stormlp-results]
    #[arg(long, value_name = "DIR", requires = "baseline_command")]
    results_dir: Option<PathBuf>,

    /// Earlier reports, to estimate the noise; alone: when they changed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["baseline_command", "resume"])]
    history: Option<PathBuf>,

    /// Smallest change that matters [default: 5; 10 for percentiles and CPU time]
    #[arg(long, value_name = "PCT", value_parser = percent, allow_negative_numbers = true)]
    min_change: Option<f64>,

    /// Compare even if the work differs
    #[arg(long)]
    force: bool,

    /// Exit with code 7 if a figure is worse by this percentage, or a run failed
    #[arg(long, value_name = "PCT", value_parser = percent, allow_negative_numbers = true)]
    fail_on_regression: Option<f64>,

    #[command(flatten)]
    answer: ExportArgs,
}

impl Args {
    /// Whether it runs commands: a signal must not lose their results.
    pub(crate) fn keeps_what_it_has(&self) -> bool {
        self.baseline_command.is_some() || self.resume.is_some()
    }
}

/// Compares reports or commands.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let gate = args.fail_on_regression;
    match (&args.baseline_command, &args.candidate_command, &args.resume, &args.history) {
        (Some(baseline), Some(candidate), ..) => {
            let answer = args.answer.open_answer(&Comparison::record_columns())?;
            let request = Request {
                commands: [baseline.clone(), candidate.clone()],
                names: [0, 1].map(|side| name_of(&args.name, side).map(str::to_string)),
                setup: args.setup.clone(),
                min_change_percent: args.min_change,
                force: args.force,
                seed: fresh_seed() as u32,
                folder: std::env::current_dir().unwrap_or_else(|_| ".".into()),
            };
            let folder = Folder::create(args.results_dir.as_deref(), request, session)?;
            in_turns(&folder, &answer, gate, session)
        }
        (_, _, Some(place), _) => {
            let answer = args.answer.open_answer(&Comparison::record_columns())?;
            in_turns(&Folder::resume(place)?, &answer, gate, session)
        }
        (_, _, _, Some(place)) if args.baseline.is_empty() && args.candidate.is_empty() => {
            let answer = args.answer.open_answer(&History::record_columns())?;
            over_time(place.clone(), args.min_change, &answer, gate)
        }
        _ => saved_reports(args),
    }
}

/// Compares the runs of two commands. The answer so far is printed however it ends.
fn in_turns(
    folder: &Folder,
    answer: &Targets,
    gate: Option<f64>,
    session: &Session,
) -> Result<(), Failure> {
    let (comparison, ended) = turns::compare(folder, session);
    let printed = comparison.as_ref().map_or(Ok(()), |comparison| shown(answer, comparison));
    if !session.quiet {
        output::say(format!("reports: {}", folder.place.display()));
    }
    ended?;
    printed?;
    match (gate, &comparison) {
        (Some(percent), Some(comparison)) => fail_beyond(percent, comparison),
        _ => Ok(()),
    }
}

/// Prints a comparison and exports it.
fn shown(answer: &Targets, comparison: &Comparison) -> Result<(), Failure> {
    let page = |document| Sheet::of_answer("compare", document, comparison.charts());
    answer.answer(comparison, comparison.document(), page)
}

/// Finds the changes in a series of reports.
fn over_time(
    place: PathBuf,
    effect: Option<f64>,
    answer: &Targets,
    gate: Option<f64>,
) -> Result<(), Failure> {
    let reports = read(&[place])?;
    let history = History::of(&named(&reports), effect.map(|percent| percent / 100.0));
    let page = |document| Sheet::of_answer("compare", document, history.charts());
    answer.answer(&history, history.document(), page)?;
    let Some(percent) = gate else {
        return Ok(());
    };
    if history.is_too_short() {
        output::say(format!(
            "warning: --fail-on-regression has no effect: {}",
            history.warnings.last().unwrap_or(&history.sentence)
        ));
    }
    match history.declines(percent).first() {
        None => Ok(()),
        Some(worst) => Err(Failure::regressed(format!(
            "{} is {:.1} % worse than at its best and has not recovered, since {}",
            worst.figure.name, worst.percent, worst.since.started_at
        ))),
    }
}

/// Compares saved reports.
fn saved_reports(args: Args) -> Result<(), Failure> {
    let (baseline, now) = sides(args.baseline, args.candidate)?;
    let answer = args.answer.open_answer(&Comparison::record_columns())?;
    let (baseline, now) = (read(&baseline)?, read(&now)?);
    let earlier = read(args.history.as_slice())?;
    let terms = Terms {
        force: args.force,
        effect: args.min_change.map(|percent| percent / 100.0),
        earlier: &named(&earlier),
        pairs: false,
        names: [0, 1].map(|side| name_of(&args.name, side)),
    };
    let comparison = compared(&named(&baseline), &named(&now), terms)?;
    shown(&answer, &comparison)?;
    args.fail_on_regression.map_or(Ok(()), |percent| fail_beyond(percent, &comparison))
}

/// The comparison of two sides.
///
/// # Errors
/// With exit code 3 if they are of different commands, did different work, or have no comparable
/// figures.
fn compared(
    baseline: &[Named<'_>],
    now: &[Named<'_>],
    terms: Terms<'_>,
) -> Result<Comparison, Failure> {
    let mut all = baseline.iter().chain(now);
    let kind = |named: &Named<'_>| named.report.head().kind;
    if let Some(first) = all.next()
        && let Some(other) = all.find(|other| kind(other) != kind(first))
    {
        let [one, of_other] = [first, other].map(|named| kind(named).name());
        let message = format!(
            "no figures to compare: {} is the report of `stormlp {one}`, and {} of `stormlp {of_other}`",
            first.name, other.name
        );
        let help = "compare reports of the same command; `stormlp report DIR` lists a folder";
        return Err(Failure::no_plan(anyhow::anyhow!(message)).with_help(help));
    }
    let may_differ = terms.force;
    let comparison = Comparison::of(baseline, now, terms);
    let differences = comparison.difference_lines();
    if !differences.is_empty() && !may_differ {
        let lines = differences.iter().map(|line| format!("\n  - {}", printable(line)));
        let fact = format!("the runs are not the same work:{}", lines.collect::<String>());
        let help = "compare runs with the same options, or add --force";
        return Err(Note::new(Cause::Plan, fact, help).into());
    }
    if comparison.figures.is_empty() {
        let help = "both sides must have measured the same";
        return Err(Failure::no_plan(anyhow::anyhow!(comparison.sentence)).with_help(help));
    }
    Ok(comparison)
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
            "a comparison has two sides, and {} without -- do not say which is on which",
            counted(count as u64, "report")
        ))
        .with_help("stormlp compare BASELINE CANDIDATE, or BASELINE... -- CANDIDATE...")),
    }
}

/// Reads every report in `places`.
fn read(places: &[PathBuf]) -> Result<Vec<Saved>, Failure> {
    let mut reports = Vec::new();
    for place in places {
        let files = saved::files(place)?;
        for file in &files {
            match saved::any(file) {
                // One of many that a crash tore leaves the rest.
                Err(failure) if failure.cause() == Cause::Plan && files.len() > 1 => {
                    output::say(format!("left out: {}", failure.note.fact));
                }
                report => reports.push((file.display().to_string(), report?)),
            }
        }
    }
    Ok(reports)
}

fn named<'a>(side: impl IntoIterator<Item = &'a Saved>) -> Vec<Named<'a>> {
    let named = side.into_iter().map(|(name, report)| Named { name, report: &**report });
    named.collect()
}

/// Exit code 7 if a metric regressed by `percent` or more, or if something measured in the baseline
/// failed.
fn fail_beyond(percent: f64, comparison: &Comparison) -> Result<(), Failure> {
    if let Some((first, others)) = comparison.broken.split_first() {
        let number = others.len();
        let more = format!("; see the warnings for {number} more");
        return Err(Failure::regressed(format!("{first}{}", if number > 0 { &more } else { "" })));
    }
    let undecided: Vec<&str> = comparison.undecided().collect();
    if !undecided.is_empty() {
        output::say(format!(
            "warning: --fail-on-regression has no effect on {}: these runs are too few or too noisy to \
             decide",
            undecided.join("; ")
        ));
    }
    let worse = comparison.regressions(percent);
    match worse.first() {
        None => Ok(()),
        Some(worst) => Err(Failure::regressed(format!(
            "{} of {} figures got worse by {percent} % or more; the worst: {}{}",
            worse.len(),
            comparison.figures.len(),
            worst.name,
            worst.change_percent.map_or(String::new(), |by| format!(" by {:.1} %", by.abs()))
        ))),
    }
}

/// Parses the name of a side, A or B.
fn side_name(text: &str) -> Result<(usize, String), String> {
    let (side, name) = text.split_once('=').unwrap_or_default();
    let side = ["A", "B"].iter().position(|one| one.eq_ignore_ascii_case(side));
    match side {
        Some(side) if !name.trim().is_empty() => Ok((side, name.trim().to_string())),
        _ => Err(format!("`{text}` names no side: use A=NAME for the baseline, B=NAME")),
    }
}

/// The last name given to a side.
fn name_of(names: &[(usize, String)], side: usize) -> Option<&str> {
    names.iter().rfind(|(of, _)| *of == side).map(|(_, name)| name.as_str())
}

fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim_end_matches('%').trim_end().parse().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| format!("`{text}` is not a percentage: use a number such as 5"))
}
