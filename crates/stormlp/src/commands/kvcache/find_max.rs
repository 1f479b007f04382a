//! `stormlp kvcache --find-max`: the most servers that storage feeds.

use std::path::Path;

use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::ReportKind;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_kvcache::plan::KvcacheRequest;
use stormlp_kvcache::run::find_max::{SearchInput, ended, find_max};
use stormlp_kvcache::run::{KvcacheError, ScanDepth, scan};
use stormlp_kvcache::show::opening;

use super::OutputArgs;
use crate::output;

/// Runs the search.
///
/// # Errors
/// Those of a run, and with exit code 6 if not even one server is fed.
pub(super) fn run(
    output: OutputArgs,
    request: &KvcacheRequest,
    host: &HostFacts,
    (peers, session): (&Peers, &Session),
) -> Result<(), Failure> {
    let folder = request.own_folder();
    let look =
        |look: ScanDepth| scan(&*session.storage, &folder, look).map_err(KvcacheError::not_started);
    // Nothing is written before checks that need no writes have passed.
    let facts = look(ScanDepth::Only)?;
    SearchInput { request, host, facts: &facts }.first()?;
    let delivery = output.open(ReportKind::Kvcache)?;
    let facts = look(ScanDepth::AndTry)?;
    let asked = SearchInput { request, host, facts: &facts };
    let first = asked.first()?;
    let mut saver = delivery.saver(&format!("{}-find-max", first.name()), peers, session)?;
    if let Some((require_gds, devices)) = super::cufile(&first) {
        saver.prepare_cufile(require_gds, devices, host);
    }
    if !session.quiet {
        output::say_page(&output::drawn(&opening(&first)));
    }
    let head = delivery.head(host.clone(), session);
    let report = find_max(&asked, (head, session), &mut saver)?;
    let outcome = |saved: Option<&Path>| ended(&report, saved);
    delivery.finish(saver, &report, session, outcome)
}
