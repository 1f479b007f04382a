//! `stormlp checkpoint --find-knee`.

use std::path::Path;

use stormlp_checkpoint::plan::CheckpointRequest;
use stormlp_checkpoint::run::find_knee::{StreamFinder, first_run};
use stormlp_checkpoint::show::{mark, opening};
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_show::document::Columns;

use super::args::Args;
use crate::output;

/// Runs the search.
///
/// # Errors
/// Those of a run.
pub(super) fn run(
    args: Args,
    mut request: CheckpointRequest,
    host: HostFacts,
    peers: &Peers,
    session: &Session,
) -> Result<(), Failure> {
    first_run(&mut request);
    let delivery = args.output.open(ReportKind::Checkpoint, Columns::Standard);
    let delivery = peers.agree(delivery)?;
    let mut finder = StreamFinder::new(request, delivery.head(host, session), peers, session)?;
    let first = finder.first().clone();
    let mut saver = delivery.saver(&format!("{}-find-knee", first.model), peers, session)?;
    if !session.quiet {
        output::say_page(&output::drawn(&opening(&first)));
    }
    let report = finder.search(&mut saver)?;
    let ended = |saved: Option<&Path>| finder.ended(&report, saved);
    let went = delivery.finish(saver, &report, session, ended);
    went.map_err(|failure| match mark(&first) {
        Some(mark) => failure.marked(&mark),
        None => failure,
    })
}
