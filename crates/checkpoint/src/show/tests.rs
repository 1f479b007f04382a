//! The output that people and MLPerf's tools see.

use super::fixtures::*;
use super::*;
use stormlp_show::document::Document;

fn shown(document: &Document) -> String {
    stormlp_show::text::render(document, None)
}

#[test]
fn every_arithmetic_is_there_by_name() {
    let text = shown(&document(&report(1.0)));
    let line = |start: &str| {
        let mut lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        let found = lines.find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start}:\n{text}"))
    };
    assert_eq!(line("save MLPerf's rules"), "save MLPerf's rules 3.00 ± 1.00 0.375 ± 0.125");
    assert_eq!(line("save DLIO"), "save DLIO 1.00 ± 0.00 2.00 ± 0.00 2.0");
    assert_eq!(line("save all ranks"), "save all ranks 3.00 ± 1.00 0.750 ± 0.250");
    assert!(text.contains("total over total 0.667 GiB/s"), "{text}");
    assert!(!text.contains("SCALED"));
}

#[test]
fn the_first_and_last_line_of_a_scaled_report_are_marked() {
    let text = shown(&document(&report(0.4)));
    let marked = |text: &str| {
        let has = |line: Option<&str>| line.is_some_and(|line| line.contains("SCALED to 33.71 %"));
        has(text.lines().next()) && has(text.lines().last()) && text.matches("SCALED").count() == 2
    };
    assert!(marked(&text), "{text}");
    let plan = plan(0.4);
    let dry = shown(&dry_run(&DryRun { plan: &plan, problems: &[] }));
    assert!(marked(&dry), "{dry}");
}
