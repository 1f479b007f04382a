//! Compares saved `train` reports with their simulation: `predict STORAGE STDEV REPORT...`, where
//! STORAGE is what `stormlp plan` accepts and STDEV the standard deviation of sample sizes in bytes. A run with
//! `--throttle read=20MB/s,latency=1ms` corresponds to storage `read=20MB/s,latency=1ms,readahead=0`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;

use stormlp_core::stop::StopToken;
use stormlp_planner::plan::{Scenario, StorageModel};
use stormlp_planner::simulate::simulate;
use stormlp_training::report::TrainReport;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let storage: StorageModel = arguments.next().unwrap().parse().unwrap();
    let scenario = Scenario {
        sample_stdev_bytes: arguments.next().unwrap().parse().unwrap(),
        ..Scenario::of(storage)
    };
    for path in arguments {
        let text = fs::read_to_string(&path).unwrap();
        let report: TrainReport = serde_json::from_str(&text).unwrap();
        let prediction = simulate(&report.plan, &scenario, &StopToken::new()).unwrap();
        let measured = report.results.mean.au_percent.profile;
        println!(
            "{path}: {} accelerators, AU measured {measured:.2} %, predicted {:.2} % ({:+.2} points); \
             {:.1} and {:.1} samples/s; limited by {}",
            report.plan.accelerators,
            prediction.au_percent,
            prediction.au_percent - measured,
            report.results.mean.samples_per_second,
            prediction.samples_per_second,
            prediction.limited_by.name(),
        );
    }
}
