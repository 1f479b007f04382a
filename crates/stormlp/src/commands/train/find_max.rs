//! `stormlp train --find-max`.

use std::path::Path;

use stormlp_core::cache::CacheChoice;
use stormlp_core::failure::Failure;
use stormlp_core::largest::{CONFIRM_RUNS, outlook};
use stormlp_core::report::ReportKind;
use stormlp_hosts::peers::Peers;
use stormlp_hosts::session::Session;
use stormlp_training::plan::find_max::expected_seconds;
use stormlp_training::run::find_max::{AcceleratorFinder, SavedSearch};
use stormlp_training::run::start::RequestedRun;

use super::{Args, head};
use crate::commands::saved;

/// Runs the search.
///
/// # Errors
/// The errors of a run, and with exit code 6 if not even one accelerator meets the threshold.
pub(super) fn run(
    args: Args,
    mut asked: RequestedRun,
    peers: &Peers,
    session: &Session,
) -> Result<(), Failure> {
    // A probe that reads data cached by the previous one would not measure the storage.
    if !asked.request.is_null() {
        asked.request.cache = Some(CacheChoice::Cold);
    }
    let as_asked = asked.workload.clone();
    let one = asked.prepare(|_| Vec::new(), peers, session)?;
    if one.plan.compute.mean_seconds() <= 0.0 {
        return Err(Failure::usage("--find-max has no AU to search by: no compute is emulated"));
    }
    if args.dry_run {
        let confirm = one.plan.request.confirm.unwrap_or(CONFIRM_RUNS);
        return super::print_plan(&args, &one, session, |document| {
            let takes = outlook(confirm, |kind| expected_seconds(&one.plan, kind));
            let search = format!("from 1 accelerator, as above; takes {takes}");
            document.brief.add("search", search);
        });
    }
    let mut delivery = args.output.open(ReportKind::Train)?;
    let read = |path: &Path| SavedSearch::of(saved::file(path)?, saved::train(path)?);
    let saved = args.request.resume.as_deref().map(read).transpose()?;
    delivery.resumes = saved.as_ref().map(|saved| saved.path.clone());
    let mut saver = delivery.saver(&format!("{}-find-max", one.plan.workload), peers, session)?;
    let head = head(&one.plan, one.facts.clone(), &delivery, session);
    let mut finder = AcceleratorFinder::new(as_asked, one, head, session);
    let report = finder.search(saved, &mut saver)?;
    let outcome = |saved: Option<&Path>| finder.ended(&report, saved);
    delivery.finish(saver, &report, session, outcome)
}
