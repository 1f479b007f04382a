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
use stormlp_show::html::Sheet;
use stormlp_training::run::machine::drive::DriveError;

use super::deliver::{ExportArgs, Format};
use super::workloads;
use crate::output;
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// Arguments of `stormlp plan`.
#[derive(Debug, clap::Args)]
#[command(
    allow_negative_numbers = true,
    override_usage = "stormlp plan [OPTIONS] WORKLOAD --storage STORAGE",
    after_help = "\
Examples:
  stormlp plan unet3d --storage 4x:read=14.5GB/s,latency=80us --host memory=1TiB
      how many H100s four such drives feed on one host, and what limits them
  stormlp plan resnet50 -n 512 --storage solidigm-d5-p5336 --host accelerators=8
      the hosts and drives that 512 accelerators need
  stormlp plan unet3d --storage REPORT --checkpoint llama3-70b --mtbf 12h
      storage as `stormlp gds` measured it, and the best checkpoint interval

STORAGE is [Nx:]KEY=VALUE,… or [Nx:]DRIVE[,KEY=VALUE,…], with Nx/host: for drives in each host. Keys \
of a drive: read write iops write-iops latency queue; of all: stripe; of a host: link round-trip cache \
readahead; of an object store: connection connections. Every result is a prediction; the exit code is \
0 whatever AU is. See docs/sizing.md."
)]
pub(crate) struct Args {
    #[command(flatten)]
    request: SizingRequest,

    #[command(flatten)]
    answer: ExportArgs,
}

/// Runs `stormlp plan`.
///
/// # Errors
/// With exit code 3 if workload, storage or options are invalid, 4 if a file cannot be read.
pub(crate) fn run(args: Args, session: &Session) -> Result<(), Failure> {
    let Args { request, answer } = args;
    if request.storage.as_deref() == Some("list") {
        return list(answer);
    }
    let answer = answer.open_answer(&record_columns())?;
    let sizing = named::sizing(request)?;
    workloads::tell_edition(&sizing.workload, sizing.asked.profile, session);
    // A page has charts over accelerators and drives.
    let with_tables = output::details() || answer.any(|format| format == Format::Html);
    let found = predicted(&sizing, with_tables, session)?;
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
            Failure::stopped("stopped by the user before the first result")
        }
        SizingError::Simulation(error) => Failure::no_plan(error.clone()).with_help(match error {
            SimulateError::Endless => "check the units of --storage",
            _ => "change --steps, or remove options that shorten the run",
        }),
    })
}

fn list(answer: ExportArgs) -> Result<(), Failure> {
    let found: Vec<Preset> = presets::names().map(presets::find).collect::<Result<_, _>>()?;
    let document = stormlp_planner::show::presets(&found);
    answer.open_answer(&document.records.columns.clone())?.answer(&found, document, Sheet::from)
}
