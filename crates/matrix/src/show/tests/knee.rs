//! Knees in every output format.

use crate::plan::{find_knees, next_cell};
use stormlp_core::report::Ending;

use super::*;
use stormlp_show::document::Document;

/// A search over two paths: throughput stops growing at 12 transfers in flight on one and at 4 on
/// the other, limited to `most_cells` cells of `measured` results.
fn searched(most_cells: usize, repeat: u32) -> MatrixReport {
    let request = MatrixRequest {
        find_knee: true,
        paths: PathChoice::each(&[PathKind::Cpu, PathKind::PageCache]),
        threads: vec![1, 2, 4],
        queue_depths: vec![1, 2, 3, 4, 6, 8, 12, 16],
        runs: Some(repeat),
        ..plain()
    };
    let mut report = report(&request, |_, _| None);
    report.results = MatrixResults::default();
    let plan = report.plan.clone();
    let mut tried = vec![false; plan.cells.len()];
    while let Some(index) = next_cell(&plan, &report.results, &tried)
        && report.results.cells.len() < most_cells
    {
        tried[index] = true;
        let cell = &plan.cells[index];
        let path = cell.transport.path;
        let most = if path == PathKind::Cpu { 12 } else { 4 };
        let in_flight = (cell.transport.threads * cell.transport.queue_depth).min(most);
        let noise = 1.0 + 0.004 * f64::from(cell.repeat);
        let mut entry = CellReport::without_numbers(index, cell, "");
        entry.status = CellStatus::Ok;
        entry.effective_path = Some(path);
        entry.measurement = Some(numbers(path, in_flight as f64 * noise, entry.io_size.max_bytes));
        report.results.push(entry);
    }
    report.results.find_knee = find_knees(&report);
    report
}

#[test]
fn a_search_is_summarized_by_its_knees() {
    let report = searched(usize::MAX, 3);
    let page = document(&report);
    assert!(page.headline.starts_with("cpu read of 1 MiB: peak "), "{}", page.headline);
    assert!(page.headline.contains(" by 1 thread at depth 12; fewer in flight do not reach it"));
    let mut knees = page
        .sections
        .iter()
        .find(|one| one.title.starts_with("The smallest number in flight"))
        .unwrap()
        .clone();
    knees.title = String::new();
    let mut alone = Document::new("knees");
    alone.sections.push(knees);
    insta::assert_snapshot!("knees_as_text", text::render(&alone, None));
    insta::assert_snapshot!("knees_as_markdown", markdown::render(&alone));
    let rows = csv::render(&page, true).unwrap();
    assert_eq!(rows.matches(",true,1,,,,").count(), 6, "{rows}");
}

#[test]
fn a_stopped_search_is_marked_so_far() {
    let mut report = searched(3, 3);
    report.ending = Ending::Stopped;
    let page = table(&report);
    assert!(page.contains("so far"), "{page}");
    assert!(page.contains("did not finish"), "{page}");
    assert!(page.contains("stopped by the user"), "{page}");
}

#[test]
fn without_repetitions_noise_is_not_known() {
    let page = table(&searched(usize::MAX, 1));
    assert!(page.contains("so noise is unknown"), "{page}");
}
