//! `stormlp kvcache size`: the sizes of KV caches, and what MLPerf's benchmark asks of storage.

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_kvcache::plan::{SizeRequest, size};
use stormlp_kvcache::show;

use crate::output::Format;

/// Arguments of `stormlp kvcache size`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stormlp kvcache size                                    llama3.1-8b
  stormlp kvcache size llama3.1-70b-instruct --tokens 131072 --capacity 8T
                                                          a long context, and how many fit
  stormlp kvcache size --rate 20G --format json           what a run of 300 s writes at 20 GiB/s

Sizes: K, M, G, T are powers of 1024, kB, MB, GB, TB powers of 1000.")]
pub(super) struct Args {
    #[command(flatten)]
    request: SizeRequest,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the sizes.
///
/// # Errors
/// With exit code 3 if there is no such model.
pub(super) fn run(args: Args) -> Result<(), Failure> {
    let answer = size(&args.request).map_err(|error| Failure::saying(Cause::Plan, error))?;
    args.format.print(&answer, show::size)
}
