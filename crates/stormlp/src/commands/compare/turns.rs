//! Runs two commands in turns, each run in a fresh process, until the answer is clear.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::Context as _;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::sequential::{MOST_PAIRS, is_look};
use stormlp_core::shell::shell_word;
use stormlp_core::units::counted;
use stormlp_hosts::session::Session;
use stormlp_show::comparison::{Comparison, Named, Terms};

use super::Saved;
use super::kept::{Folder, Side};
use crate::commands::process;
use crate::output;

/// The exit code of a run that measured everything and missed its target.
const MISSED: u8 = 6;
/// A shell's exit code for a command that it did not find.
const NOT_FOUND: i32 = 127;

/// Compares the commands of `folder`: the answer so far, unless nothing was measured, and why it
/// ended early, if it did.
pub(super) fn compare(
    folder: &Folder,
    session: &Session,
) -> (Option<Comparison>, Result<(), Failure>) {
    let mut answer = None;
    let ended = until_settled(folder, session, &mut answer);
    (answer, ended)
}

fn until_settled(
    folder: &Folder,
    session: &Session,
    answer: &mut Option<Comparison>,
) -> Result<(), Failure> {
    let say = |line: String| {
        if !session.quiet {
            output::say(line)
        }
    };
    let mut pairs = folder.pairs()?;
    let there = match pairs.len() as u64 {
        0 => String::new(),
        pairs => format!("; {} measured before", counted(pairs, "pair")),
    };
    say(format!("each command runs at most {MOST_PAIRS} times, in turns{there}"));
    if let Some(judged) = judged(folder, &pairs)? {
        *answer = Some(judged);
    }
    loop {
        let settled = answer.as_ref().is_some_and(Comparison::is_settled);
        if pairs.len() >= MOST_PAIRS || is_look(pairs.len()) && settled {
            return Ok(());
        }
        let pair = measured(folder, pairs.len(), session)?;
        pairs.push(pair);
        let comparison = judged(folder, &pairs)?;
        if let Some(comparison) = &comparison {
            let count = pairs.len();
            say(format!("pair {count} of at most {MOST_PAIRS}: {}", comparison.progress()));
            folder.keep(comparison)?;
        }
        *answer = comparison;
    }
}

/// The comparison of all pairs; `None` without any.
///
/// # Errors
/// With exit code 3 if the commands do different work, or nothing that can be compared.
fn judged(folder: &Folder, pairs: &[[Saved; 2]]) -> Result<Option<Comparison>, Failure> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let side = |nth: usize| -> Vec<Named<'_>> {
        let named = pairs.iter().map(|pair| {
            let (name, report) = &pair[nth];
            Named { name, report: &**report }
        });
        named.collect()
    };
    let request = &folder.request;
    let effect = request.effect_percent.map(|percent| percent / 100.0);
    // What is typed on one side only is what the comparison is of.
    let may_differ = request.force || request.differs_in_options();
    let terms = Terms { force: may_differ, effect, pairs: true, earlier: &[] };
    let comparison = Comparison::of(&side(0), &side(1), terms);
    if let Some(words) = comparison.difference_words().filter(|_| !may_differ) {
        let help = "give both commands the same options, or add --force to compare them anyway";
        return Err(Failure::no_plan(anyhow::anyhow!("{words}")).with_help(help));
    }
    if comparison.figures.is_empty() {
        let help = "both commands must measure the same";
        let sentence = &comparison.sentence;
        return Err(Failure::no_plan(anyhow::anyhow!("{sentence}")).with_help(help));
    }
    Ok(Some(comparison))
}

/// Measures a pair, the first of which is 0.
fn measured(folder: &Folder, pair: usize, session: &Session) -> Result<[Saved; 2], Failure> {
    for side in folder.request.order(pair) {
        let place = folder.of_run(pair, side);
        fs::create_dir_all(&place)
            .with_context(|| format!("cannot make the folder {}", place.display()))
            .map_err(Failure::machine)?;
        for (nth, setup) in folder.request.setup.iter().enumerate() {
            let logs = place.join(format!("setup-{}", nth + 1));
            fs::create_dir_all(&logs)
                .with_context(|| format!("cannot make the folder {}", logs.display()))
                .map_err(Failure::machine)?;
            let status = run(folder, (pair, side), setup, &logs, session)?;
            if !status.success() {
                return Err(failed(folder, (pair, side), "--setup", &logs, status));
            }
        }
        let command = folder.request.command(side);
        let status = run(folder, (pair, side), command, &place, session)?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        if !status.success() && code != Some(MISSED) {
            let option = format!("--{}", side.name());
            return Err(failed(folder, (pair, side), &option, &place, status));
        }
    }
    Ok([folder.report(pair, Side::Run)?, folder.report(pair, Side::Against)?])
}

/// Runs a command of a pair; its output goes to `logs`.
///
/// # Errors
/// With exit code 130 if the user stopped it, and 4 if it could not be started.
fn run(
    folder: &Folder,
    (pair, side): (usize, Side),
    command: &str,
    logs: &Path,
    session: &Session,
) -> Result<ExitStatus, Failure> {
    let results = folder.of_run(pair, side).into_os_string();
    let variables = [
        ("STORMLP_RESULTS_DIR", results),
        ("STORMLP_SIDE", side.name().into()),
        ("PATH", search_path(&session.executable()?)),
    ];
    let place = &folder.request.folder;
    let status = process::run(command, (place, &variables), logs, &session.stop)
        .with_context(|| format!("cannot start {command}"))
        .map_err(Failure::machine)?;
    if session.stop.is_stopped() {
        let message = format!("stopped after {pair} pairs, which are kept");
        return Err(Failure::stopped(message).with_help(resume(folder)));
    }
    Ok(status)
}

/// The folders in which commands are looked for, that of this executable first.
fn search_path(executable: &Path) -> OsString {
    let own = executable.parent().map(|folder| folder.as_os_str().to_os_string());
    let given = std::env::var_os("PATH").filter(|path| !path.is_empty());
    let parts: Vec<OsString> = own.into_iter().chain(given).collect();
    parts.join(std::ffi::OsStr::new(":"))
}

/// A command that failed, with the last line of its messages.
fn failed(
    folder: &Folder,
    (pair, side): (usize, Side),
    option: &str,
    logs: &Path,
    status: ExitStatus,
) -> Failure {
    let cause = match status.code() {
        Some(2) if option != "--setup" => Cause::Usage,
        Some(3) if option != "--setup" => Cause::Plan,
        Some(5) if option != "--setup" => Cause::Storage,
        _ => Cause::Machine,
    };
    let messages = fs::read_to_string(logs.join("stderr")).unwrap_or_default();
    let lines = || messages.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.starts_with("error: ")).or_else(|| lines().next_back());
    let said = error.map_or(String::new(), |line| format!(": {line}"));
    let (number, name) = (pair + 1, side.name());
    let fact = format!("{option} failed in pair {number} ({name}), {status}{said}");
    let output = format!("its output is in {}; ", shell_word(&logs.to_string_lossy()));
    if status.code() == Some(NOT_FOUND) && option != "--setup" {
        let whole = "give the whole command, such as 'stormlp gds --threads 8'";
        return Failure::saying(cause, fact).with_help(whole);
    }
    Failure::saying(cause, fact).with_help(output + &resume(folder))
}

/// How to continue.
fn resume(folder: &Folder) -> String {
    let place = folder.place().to_string_lossy();
    format!("`stormlp compare --resume {}` continues", shell_word(&place))
}
