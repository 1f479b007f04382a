//! What reports of checkpoint runs show.

use crate::plan::CheckpointPlan;
use crate::report::contradictions;
use crate::report::{CheckpointReport, CheckpointResults};

use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::Document;
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::Work;
pub(super) use stormlp_show::shown::Lane;

impl Lane for CheckpointResults {
    type Plan = CheckpointPlan;

    fn hosts(report: &CheckpointReport) -> usize {
        report.results.hosts.len()
    }

    fn contradictions(report: &CheckpointReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &CheckpointReport) -> Document {
        super::document(report)
    }

    fn charts(report: &CheckpointReport) -> Vec<Group> {
        super::charts(report)
    }

    fn figures(report: &CheckpointReport) -> Vec<Figure> {
        super::figures(report)
    }

    fn work(report: &CheckpointReport) -> Work {
        super::settings::work(report)
    }

    fn outcome(report: &CheckpointReport, status: String) -> Outcome {
        super::outcome::outcome(report, status)
    }

    fn mark(report: &CheckpointReport) -> Option<String> {
        super::mark(&report.plan)
    }
}
