//! What reports of this lane show.

use stormlp_core::checkpoint::{
    CheckpointPlan, CheckpointReport, CheckpointResults, contradictions,
};

use crate::chart::Group;
use crate::comparison::Figure;
use crate::document::Document;
use crate::outcome::Outcome;
use crate::settings::Work;
use crate::shown::Lane;

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
