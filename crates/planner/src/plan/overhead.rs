//! `--client-overhead`: the cost of the client on a host, by name, as typed, or as a training run
//! without storage measured it.

use std::path::Path;
use std::str::FromStr;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::units::{GIB, parse_seconds};
use stormlp_training::plan::client::{Client, ClientCost};
use stormlp_training::report::TrainReport;

/// An overhead as typed for `--client-overhead`.
#[derive(Debug, Clone, PartialEq)]
pub enum Overhead {
    /// The overhead of a client, or the one in a file.
    Of(Client),
    /// The time per step, and CPU time per GiB: `step=0.7ms,gib=0.9s`.
    Typed(ClientCost),
}

impl FromStr for Overhead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') || text.contains('/') {
            return Ok(Self::Of(text.to_string().into()));
        }
        let mut cost = ClientCost::NONE;
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let slot = match key {
                "step" => &mut cost.step_seconds,
                "gib" => &mut cost.cpu_seconds_per_gib,
                _ => {
                    return Err(format!(
                        "`{part}` is not a part of an overhead: use step=0.7ms,gib=0.9s, or one of \
                         these"
                    ));
                }
            };
            *slot = parse_seconds(value).map_err(|error| error.to_string())?;
        }
        Ok(Self::Typed(cost))
    }
}

/// The cost per step and per GiB from a report saved in `place`.
///
/// # Errors
/// If the report is from a run on storage, or incomplete.
pub fn measured(report: &TrainReport, place: &Path) -> Result<ClientCost, Failure> {
    let why = if !report.plan.is_null() {
        "was run on storage, which also affects AU"
    } else if report.ending != Ending::Complete {
        "is incomplete"
    } else {
        match cost(report) {
            Some(cost) => return Ok(cost),
            None => "has no AU or no compute time",
        }
    };
    let what = format!("--client-overhead: {} {why}", place.display());
    Err(Failure::saying(Cause::Plan, what).with_help(
        "use a report of `stormlp train WORKLOAD --path null`, or type the cost: \
         step=0.7ms,gib=0.9s",
    ))
}

/// Time not spent computing is the cost of steps; CPU time is divided by the size of the samples,
/// although the run read none of them.
fn cost(report: &TrainReport) -> Option<ClientCost> {
    let results = &report.results;
    let share = results.mean.au_percent.measured / 100.0;
    let compute = report.plan.compute.mean_seconds();
    if share <= 0.0 || compute <= 0.0 {
        return None;
    }
    let cpu = results.cost.cpu_user_seconds + results.cost.cpu_system_seconds;
    let plan = &report.plan;
    let steps = plan.steps_per_epoch as f64 * f64::from(plan.epochs);
    let samples = steps * f64::from(plan.batch_size) * f64::from(plan.accelerators);
    let gib = samples * plan.data.read_sample_bytes / GIB as f64;
    Some(ClientCost {
        step_seconds: (compute / share - compute).max(0.0),
        cpu_seconds_per_gib: if gib > 0.0 { cpu / gib } else { 0.0 },
        ..ClientCost::NONE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_is_a_client_or_its_figures() {
        for (text, client) in [
            ("none", Client::None),
            ("dlio", Client::Dlio),
            ("a=1/dlio.json", Client::Calibrated("a=1/dlio.json".into())),
        ] {
            assert_eq!(text.parse(), Ok(Overhead::Of(client)));
        }
        let of = |step_seconds, cpu_seconds_per_gib| {
            Ok(Overhead::Typed(ClientCost {
                step_seconds,
                cpu_seconds_per_gib,
                ..ClientCost::NONE
            }))
        };
        assert_eq!("step=1ms,gib=0.5s".parse(), of(0.001, 0.5));
        assert_eq!("step=2ms".parse(), of(0.002, 0.0));
        for wrong in ["step=fast", "stp=1ms", "step=1ms,5"] {
            assert!(wrong.parse::<Overhead>().is_err(), "{wrong}");
        }
    }
}
