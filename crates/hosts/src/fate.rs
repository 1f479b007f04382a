//! How a run on several hosts ended for this process.

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::report::Ending;
use stormlp_core::stop::StopToken;

use crate::multi_host::Hosts;

/// Reports a run on several `hosts` as failed if SIGTERM ended it for an unknown reason: the
/// launcher ended it, because it was interrupted (known if all hosts were present to the end) or
/// because another host failed.
pub fn blame_launcher(ending: &mut Ending, hosts: Option<&Hosts>, stop: &StopToken) {
    let unsure = hosts.is_some_and(|hosts| !hosts.was_terminated() && !hosts.were_all_stopped());
    // Launchers end processes with SIGTERM, while users press Ctrl-C.
    if unsure && *ending == Ending::Stopped && stop.is_hurried() {
        *ending = Ending::failed(
            Cause::Hosts,
            "the launcher ended this process: it was interrupted (Ctrl-C, a cancelled job), or \
             another host failed",
            "if it was not interrupted, look for the first error on the other hosts",
        );
    }
}

/// Marks a failure as common to all if the run completed on all `hosts`, or if all of them were
/// told to end.
pub fn shared_fate(failure: Failure, ending: &Ending, hosts: Option<&Hosts>) -> Failure {
    let together = hosts.filter(|hosts| !hosts.are_apart());
    let alike = together.is_some_and(|hosts| match ending {
        Ending::Complete => true,
        Ending::Stopped => hosts.was_terminated(),
        Ending::Failed(_) | Ending::Unfinished => false,
    });
    if alike { failure.of_all() } else { failure }
}
