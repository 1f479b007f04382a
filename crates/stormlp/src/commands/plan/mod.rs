//! `stormlp plan`: predicts by simulation how many accelerators storage can feed.

mod named;

use stormlp_core::event::{Event, Observer as _, Unit};
use stormlp_planner::plan::presets;
use stormlp_planner::plan::presets::Preset;
use stormlp_planner::plan::{Sizing, SizingAnswer, SizingRequest};
use stormlp_planner::run as predict;
use stormlp_planner::run::SizingError;
use stormlp_planner::show::{document, record_columns, sheet};
use stormlp_planner::simulate::SimulateError;
use stormlp_training::run::machine::drive::DriveError;

use super::deliver::ExportArgs;
use super::workloads;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp plan`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  stormlp plan unet3d --accelerator h100 --storage read=14.5GB/s,latency=80us --host-memory 1006GiB
      how many H100s one such drive feeds, what limits it, and what 2, 4 and 8 drives feed
  stormlp plan resnet50 -n 4096 --storage solidigm-d5-p5336,link=25GB/s --accelerators-per-host 8
      AU of 4096 accelerators, and how many drives and hosts they need
  stormlp plan unet3d --storage stormlp-results/gds-matrix-20261121-101502 --checkpoint llama3-70b
                      --mtbf 12h --output plan.html
      storage measured by `stormlp gds`; optimum checkpoint interval; HTML page with charts

Storage: [Nx:]read=14.5GB/s,write=10GB/s,iops=2.8M,latency=80us,queue=1024 per drive, with N drives
(Nx/host: in each host) striped by stripe=512K; link=25GB/s,round-trip=50us, cache=200GiB and
readahead=128K per host; or an object store: read=40GB/s,write=20GB/s,latency=20ms, and
connection=90MB/s,connections=64 per host; or a preset (--list-storage), optionally followed by figures
that override it; or a saved report of `stormlp gds`. Nothing is run or measured: all results are
predictions and list their assumptions.
The exit code is 0 whatever AU is. See docs/sizing.md."
)]
pub(crate) struct Args {
    #[command(flatten)]
    request: SizingRequest,

    /// List the presets for --storage with the sources of their figures
    // With the request's last options.
    #[arg(long, help_heading = "Checkpoints")]
    list_storage: bool,

    /// Omit tables and required drives and hosts, which take most of the time
    #[arg(long, help_heading = "Results")]
    brief: bool,

    #[command(flatten)]
    answer: ExportArgs,
}

/// Runs `stormlp plan`.
///
/// # Errors
/// With exit code 3 if workload, storage or options are invalid, 4 if a file cannot be read.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let Args { request, list_storage, brief, answer } = args;
    if list_storage {
        return list();
    }
    let answer = answer.open_answer(&record_columns())?;
    let sizing = named::sizing(request)?;
    workloads::tell_edition(&sizing.workload, sizing.asked.profile, session);
    let found = predicted(&sizing, !brief, session)?;
    answer.answer(&found, document(&found), |_| sheet(&found))
}

fn predicted(
    sizing: &Sizing,
    with_tables: bool,
    session: &Session,
) -> Result<SizingAnswer, Failure> {
    let progress = session.progress();
    progress.event(&Event::PhaseStarted {
        label: "simulating".to_string(),
        total: None,
        unit: Unit::Runs,
    });
    let look = |done| progress.event(&Event::Progress { done });
    let answer = predict::answer(sizing, with_tables, &session.stop, &look);
    progress.event(&Event::PhaseFinished);
    answer.map_err(|error| match error {
        SizingError::Problems(problems) => problems.into(),
        SizingError::Simulation(SimulateError::Drive(DriveError::Stopped)) => {
            Failure::stopped("stopped by the user; nothing was measured, so nothing is lost")
        }
        SizingError::Simulation(error) => Failure::no_plan(error.clone()).with_help(match error {
            SimulateError::Endless => "check the units of --storage",
            _ => "change --steps, or remove options that shorten the run",
        }),
    })
}

fn list() -> Result<(), Failure> {
    let found: Vec<Preset> = presets::names().map(presets::find).collect::<Result<_, _>>()?;
    output::show(&stormlp_planner::show::presets(&found))
}
