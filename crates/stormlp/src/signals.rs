//! SIGINT, SIGTERM and SIGHUP: the first asks the run to end with partial results, the second ends
//! it immediately, even during I/O. A command without partial results ends at the first.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use stormlp_core::stop::StopToken;

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_transfer::error::THREADS_HELP;

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Installs the signal handlers and returns the stop token they set. `keeps` says whether the
/// command polls the token and ends with partial results.
///
/// # Errors
/// If the kernel rejects a handler or a thread cannot be started.
pub(crate) fn arm(keeps: bool) -> Result<StopToken, Failure> {
    let stop = StopToken::new();
    for signal in SIGNALS {
        if signal == SIGHUP && hangup_is_ignored() {
            // `nohup` asks for the run to outlive its terminal.
            continue;
        }
        let at_once = if keeps { stop.flag() } else { Arc::new(AtomicBool::new(true)) };
        // Order matters: the exit is registered first, so that it sees the flag of an earlier
        // signal and not the one that the second handler is about to set.
        flag::register_conditional_shutdown(signal, i32::from(Cause::Stopped.exit_code()), at_once)
            .and_then(|_| flag::register(signal, stop.flag()))
            .and_then(|_| match signal {
                // A launcher kills processes that are still running a second after SIGTERM.
                SIGTERM => flag::register(signal, stop.hurry_flag()).map(drop),
                _ => Ok(()),
            })
            .context("cannot install a signal handler")?;
    }
    stormlp_transfer::signals::heed(&stop);
    stormlp_transfer::signals::handle_on_thread(&SIGNALS)
        .context("no thread for signals could be started")
        .map_err(|error| Failure::machine(error).with_help(THREADS_HELP))?;
    Ok(stop)
}

/// Whether the parent process set SIGHUP to be ignored.
fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, SIGHUP)
}

/// Whether `status`, the text of `/proc/self/status`, lists `signal` as ignored.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = |mask: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores(&status("0000000000001001"), SIGHUP));
        assert!(!ignores(&status("0000000000001000"), SIGHUP));
        assert!(ignores(&status("0000000000000002"), SIGINT));
        assert!(!ignores("", SIGHUP));
    }
}
