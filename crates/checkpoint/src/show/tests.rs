//! The output that people and MLPerf's tools see.

use super::fixtures::*;
use super::*;
use stormlp_show::document::Document;
use stormlp_show::shown::Shown as _;

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
    assert_eq!(line("save DLIO"), "save DLIO 1.00 ± 0.00 2.00 ± 0.00 v2");
    assert_eq!(line("save all ranks"), "save all ranks 3.00 ± 1.00 0.750 ± 0.250");
    assert!(text.contains("total over total 0.667 GiB/s"), "{text}");
    assert!(!text.contains("SCALED"));
}

#[test]
fn every_line_of_a_scaled_report_is_marked() {
    let text = shown(&document(&report(0.4)));
    assert!(text.lines().all(|line| line.starts_with("SCALED 0.")), "{text}");
    let plan = plan(0.4);
    let dry = shown(&dry_run(&DryRun { plan: &plan, problems: &[] }));
    assert!(dry.lines().all(|line| line.starts_with("SCALED 0.")), "{dry}");
}

#[test]
fn detached_hosts_are_not_shown_as_one_checkpoint() {
    let (mut apart, mut together) = (detached(), detached());
    apart.results.saves[0].at_once_share = Some(0.25);
    let refused = shown(&document(&apart));
    assert!(refused.contains("no sum: the hosts were active at once for only 25 % of the time"));
    let both = together.results.saves.iter_mut().chain(&mut together.results.restores);
    both.for_each(|result| result.at_once_share = Some(0.95));
    let text = shown(&document(&together));
    let headline = text.lines().last().unwrap_or_default();
    assert!(
        headline.starts_with(
            "checkpoint small on 2 detached hosts, each with checkpoints of its own: saved at 0.750"
        ),
        "{headline}"
    );
    assert!(!headline.contains("profile"), "{headline}");
    assert!(text.contains("and as many on each of the 2 hosts"), "{text}");
    assert!(text.contains("at once %"), "{text}");
    // Rank 0 is a rank of the first host.
    assert!(
        !text.contains("rank 0 GiB/s") && !text.contains("DLIO") && !text.contains("MLPerf"),
        "{text}"
    );
    let found = detached().contradictions();
    assert_eq!(found, Vec::<String>::new());
    let mut other = detached();
    other.results.saves[0].hosts[1].duration_seconds = 9.0;
    let found = other.contradictions().join("; ");
    assert!(found.contains("saves.0.duration_seconds.max is"), "{found}");
}
