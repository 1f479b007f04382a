//! Tests that a machine cannot run report it on one line of one form, so that one search lists them.

use std::io::Write as _;

/// Reports on stderr, past the capture of the test harness, that the test of this thread is skipped or
/// leaves something out: `skipped: NAME: why; remedy`.
pub fn skipped(why: impl std::fmt::Display, remedy: &str) {
    let thread = std::thread::current();
    named(thread.name().unwrap_or("main"), why, remedy);
}

/// The same for a test with this name, in an executable with a `main` of its own.
pub fn named(name: &str, why: impl std::fmt::Display, remedy: &str) {
    let why = why.to_string().replace('\n', " ");
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {why}; {remedy}");
}
