//! Contents of this lane's reports.

use crate::plan::{CellReport, MatrixPlan, MatrixReport, MatrixResults};
use crate::report::contradictions;

use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::Document;
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::Work;
pub(super) use stormlp_show::shown::{Lane, Subject};

impl Lane for MatrixResults {
    type Plan = MatrixPlan;

    fn hosts(report: &MatrixReport) -> usize {
        report.results.hosts.len()
    }

    fn contradictions(report: &MatrixReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &MatrixReport) -> Document {
        super::document(report, super::Columns::Standard)
    }

    fn charts(report: &MatrixReport) -> Vec<Group> {
        super::charts(report)
    }

    fn figures(report: &MatrixReport) -> Vec<Figure> {
        super::figures(report)
    }

    fn work(report: &MatrixReport) -> Work {
        super::settings::work(report)
    }

    fn outcome(report: &MatrixReport, status: String) -> Outcome {
        super::outcome::outcome(report, status)
    }

    fn subjects(report: &MatrixReport) -> Vec<Subject> {
        let done = &report.results.cells;
        let planned = report.plan.cells.iter().enumerate();
        let left_out = planned
            .filter(|(index, _)| done.iter().all(|cell| cell.cell != *index))
            .map(|(index, planned)| {
                let cell = CellReport::without_numbers(index, planned, "it did not run");
                (super::subject(report, &cell), cell.reason)
            });
        let done = done.iter().map(|cell| {
            let reason = cell.reason.clone().unwrap_or_default();
            let fault = cell.result().is_none().then_some(reason);
            (super::subject(report, cell), fault)
        });
        done.chain(left_out).collect()
    }
}
