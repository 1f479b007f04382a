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
use stormlp_show::comparison::{Comparison, Terms};

use super::kept::{EXIT_CODE, Folder, SIDES};
use super::{compared, named};
use crate::commands::process;
use crate::commands::saved::Saved;
use crate::output;

/// A shell's exit code for a command that it did not find.
const NOT_FOUND: i32 = 127;

/// Compares the commands of `folder`: the answer so far, unless there is no measurement, and why it
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
    let before = match pairs.len() as u64 {
        0 => String::new(),
        pairs => format!("; {} measured before", counted(pairs, "pair")),
    };
    say(format!("each command runs at most {MOST_PAIRS} times, in turns{before}"));
    *answer = judged(folder, &pairs)?;
    loop {
        let count = pairs.len();
        let is_settled = is_look(count) && answer.as_ref().is_some_and(Comparison::is_settled);
        if count >= MOST_PAIRS || is_settled {
            return Ok(());
        }
        pairs.push(measured(folder, count, session)?);
        *answer = judged(folder, &pairs)?;
        if let Some(comparison) = &*answer {
            let (pair, known) = (count + 1, comparison.progress());
            say(format!("pair {pair} of at most {MOST_PAIRS}: {known}"));
            folder.write("comparison.json", comparison)?;
        }
    }
}

/// The comparison of all pairs; `None` without any.
///
/// # Errors
/// With exit code 3 if the commands do different work, or have no comparable figures.
fn judged(folder: &Folder, pairs: &[[Saved; 2]]) -> Result<Option<Comparison>, Failure> {
    if pairs.is_empty() {
        return Ok(None);
    }
    let request = &folder.request;
    let effect = request.min_change_percent.map(|percent| percent / 100.0);
    // Options typed on one side only are the subject of the comparison.
    let force = request.force || request.differs_in_options();
    let names = request.names.each_ref().map(|name| name.as_deref());
    let terms = Terms { force, effect, pairs: true, earlier: &[], names };
    let [run, against] = [0, 1].map(|side: usize| named(pairs.iter().map(|pair| &pair[side])));
    compared(&run, &against, terms).map(Some)
}

/// Measures a pair, the first of which is 0.
fn measured(folder: &Folder, pair: usize, session: &Session) -> Result<[Saved; 2], Failure> {
    for side in folder.request.order(pair) {
        let place = folder.of_run(pair, side);
        for (nth, setup) in folder.request.setup.iter().enumerate() {
            let logs = place.join(format!("setup-{}", nth + 1));
            let status = run(folder, (pair, side), setup, &logs, session)?;
            if !status.success() {
                return Err(failed(folder, (pair, side), "setup", &logs, status));
            }
        }
        let status = run(folder, (pair, side), &folder.request.commands[side], &place, session)?;
        let code = status.code().map_or_else(String::new, |code| code.to_string());
        fs::write(place.join(EXIT_CODE), code).map_err(Failure::machine)?;
        // A run that missed its target measured everything.
        if !status.success() && status.code() != Some(Cause::MissedTarget.exit_code().into()) {
            return Err(failed(folder, (pair, side), SIDES[side], &place, status));
        }
    }
    folder.pair(pair)
}

/// Runs a command of a pair; its output goes to `logs`.
///
/// # Errors
/// With exit code 130 if the user stopped it, and 4 if it could not be started.
fn run(
    folder: &Folder,
    (pair, side): (usize, usize),
    command: &str,
    logs: &Path,
    session: &Session,
) -> Result<ExitStatus, Failure> {
    let results = folder.of_run(pair, side).into_os_string();
    let variables = [
        ("STORMLP_RESULTS_DIR", results),
        ("STORMLP_SIDE", SIDES[side].into()),
        ("PATH", search_path(&session.executable()?)),
    ];
    fs::create_dir_all(logs)
        .with_context(|| format!("cannot make the folder {}", logs.display()))
        .map_err(Failure::machine)?;
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

/// The folders in which commands are searched, this executable's first.
fn search_path(executable: &Path) -> OsString {
    let own = executable.parent().map(|folder| folder.as_os_str().to_os_string());
    let given = std::env::var_os("PATH").filter(|path| !path.is_empty());
    let parts: Vec<OsString> = own.into_iter().chain(given).collect();
    parts.join(std::ffi::OsStr::new(":"))
}

/// A command that failed, the value of an `option`, with the last line of its messages.
fn failed(
    folder: &Folder,
    (pair, side): (usize, usize),
    option: &str,
    logs: &Path,
    status: ExitStatus,
) -> Failure {
    let cause = match status.code() {
        _ if option == "setup" => Cause::Machine,
        Some(2) => Cause::Usage,
        Some(3) => Cause::Plan,
        Some(5) => Cause::Storage,
        _ => Cause::Machine,
    };
    let said = process::last_words(logs).map_or(String::new(), |line| format!(": {line}"));
    let (number, name) = (pair + 1, SIDES[side]);
    let fact = format!("--{option} failed in pair {number} ({name}), {status}{said}");
    let output = shell_word(&logs.to_string_lossy());
    let help = match status.code() {
        Some(NOT_FOUND) if option != "setup" => {
            "give the whole command, such as 'stormlp gds --threads 8'".to_string()
        }
        Some(2 | 3) => format!("correct the command, and compare again; its output is in {output}"),
        _ => format!("its output is in {output}; {}", resume(folder)),
    };
    Failure::saying(cause, fact).with_help(help)
}

/// How to continue.
fn resume(folder: &Folder) -> String {
    let place = folder.place.to_string_lossy();
    format!("`stormlp compare --resume {}` continues", shell_word(&place))
}
