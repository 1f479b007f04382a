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
    let line = line(name, &why.to_string(), remedy);
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// In one piece, and after the end of the harness's own line: with one thread, that is `test NAME ... `.
fn line(name: &str, why: &str, remedy: &str) -> String {
    format!("\nskipped: {name}: {}; {remedy}\n", why.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_skipped_test_has_a_line_of_its_own() {
        let text = format!("test a ... {}ok", super::line("a", "no\ncc", "install gcc"));
        let found: Vec<&str> = text.lines().filter(|line| line.starts_with("skipped: ")).collect();
        assert_eq!(found, ["skipped: a: no cc; install gcc"]);
    }
}
