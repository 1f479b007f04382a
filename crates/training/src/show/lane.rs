//! How reports of this lane are shown.

use crate::plan::train_plan::TrainPlan;
use crate::report::contradictions;
use crate::report::{TrainReport, TrainResults};

use stormlp_show::chart::Group;
use stormlp_show::comparison::Figure;
use stormlp_show::document::Document;
use stormlp_show::outcome::Outcome;
use stormlp_show::settings::Work;
use stormlp_show::shown::Lane;

impl Lane for TrainResults {
    type Plan = TrainPlan;

    fn hosts(report: &TrainReport) -> usize {
        report.plan.hosts.len()
    }

    fn contradictions(report: &TrainReport) -> Vec<String> {
        contradictions::contradictions(report)
    }

    fn document(report: &TrainReport) -> Document {
        super::run::document(report)
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
