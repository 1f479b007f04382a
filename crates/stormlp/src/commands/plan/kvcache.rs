//! `stormlp plan kvcache`: what storage would do for KV caches.

use stormlp_core::failure::Failure;
use stormlp_kvcache::plan::{Figures, PredictRequest, predict};
use stormlp_kvcache::show;
use stormlp_planner::plan::StorageModel;

use super::named;
use crate::output::Format;

/// Arguments of `stormlp plan kvcache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp plan kvcache --storage read=14.5GB/s,write=10GB/s,latency=80us
                                                          one such drive, llama3.1-8b
  stormlp plan kvcache llama3.1-70b-instruct --storage 8x:read=7GB/s,write=5GB/s --prefill-rate 5000
                                                          eight drives; servers that they feed
  stormlp plan kvcache --storage stormlp-results/gds-matrix-20261121-101502 --prefix-tokens 16384
                                                          storage measured by `stormlp gds`

Storage as for `stormlp plan`. Nothing is run or measured: all follows from bandwidth and latency.")]
pub(super) struct Args {
    #[command(flatten)]
    request: PredictRequest,

    /// Figures such as read=14.5GB/s,write=10GB/s, a preset name, or a saved `stormlp gds` report
    #[arg(long, value_name = "STORAGE")]
    storage: String,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the prediction.
///
/// # Errors
/// With exit code 3 if model, storage or numbers are invalid.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let known = named::storage(&args.storage)?;
    let problems = known.model.problems();
    if !problems.is_empty() {
        return Err(problems.into());
    }
    if known.model.connections.is_some() {
        return Err(Failure::usage(
            "--storage: connection= is of an object store, and KV caches are kept in files: remove it",
        ));
    }
    let read = |bytes: u64, depth: u32| read_rate(&known.model, bytes, depth);
    let figures = Figures {
        read_bytes_per_second: &read,
        write_bytes_per_second: write_rate(&known.model),
        source: format!("{} ({})", args.storage, known.source),
    };
    let found = predict(&args.request, &figures)?;
    args.format.print(&found, show::predict)
}

/// Bytes per second that one host reads with so many transfers of a size in flight.
fn read_rate(model: &StorageModel, bytes: u64, depth: u32) -> f64 {
    if let Some(surface) = &model.surface {
        return surface.at(bytes, depth).bytes_per_second;
    }
    let device = &model.device;
    let most = model.read_bytes_per_second();
    let served =
        device.queue_depth.map_or(depth, |queue| depth.min(queue.saturating_mul(model.devices)));
    let trip = model.link.map_or(0.0, |link| link.round_trip_seconds);
    let seconds = device.latency_seconds + trip + bytes as f64 / device.read_bytes_per_second;
    let rate = (f64::from(served) * bytes as f64 / seconds).min(most);
    model.link.map_or(rate, |link| rate.min(link.bytes_per_second))
}

/// Bytes per second that one host writes, if known.
fn write_rate(model: &StorageModel) -> Option<f64> {
    let rate = model.write_bytes_per_second()?;
    Some(model.link.map_or(rate, |link| rate.min(link.bytes_per_second)))
}
