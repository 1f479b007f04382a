//! What reports of this lane show.

use stormlp_core::training::contradictions;
use stormlp_core::training::plan::TrainPlan;
use stormlp_core::training::report::{TrainReport, TrainResults};

use crate::chart::Group;
use crate::comparison::Figure;
use crate::document::Document;
use crate::outcome::Outcome;
use crate::settings::Work;
use crate::shown::Lane;

impl Lane for TrainResults {
    type Plan = TrainPlan;

    fn hosts(report: &TrainReport) -> usize {
        report.plan.hosts.len()
    }

    fn contradictions(report: &TrainReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &TrainReport) -> Document {
        super::document(report)
    }

    fn charts(report: &TrainReport) -> Vec<Group> {
        super::charts(report)
    }

    fn figures(report: &TrainReport) -> Vec<Figure> {
        super::figures(report)
    }

    fn work(report: &TrainReport) -> Work {
        super::settings::work(report)
    }

    fn outcome(report: &TrainReport, status: String) -> Outcome {
        super::outcome::outcome(report, status)
    }
}
