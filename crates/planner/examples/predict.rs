//! Holds a saved report of `train` against its own simulation: `predict STORAGE STDEV REPORT...`
//! with storage as `stormlp plan` takes it and the standard deviation of a sample's bytes. A run with
//! `--throttle read=20MB/s,latency=1ms` was on storage `read=20MB/s,latency=1ms,readahead=0`.

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
        let told = simulate(&report.plan, &scenario, &StopToken::new()).unwrap();
        let measured = report.results.mean.au_percent.profile;
        println!(
            "{path}: {} accelerators, AU measured {measured:.2} %, predicted {:.2} % ({:+.2} points); \
             {:.1} and {:.1} samples/s; limited by {}",
            report.plan.accelerators,
            told.au_percent,
            told.au_percent - measured,
            report.results.mean.samples_per_second,
            told.samples_per_second,
            told.limited_by,
        );
    }
}
