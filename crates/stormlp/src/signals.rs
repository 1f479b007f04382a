//! SIGINT and SIGTERM: the first asks the run to end with what it has, the second ends it at once.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use stormlp_model::stop::StopToken;

use crate::exit::{Code, Failure};

/// Arms both signals and returns the token they pull.
///
/// # Errors
/// When the kernel refuses a handler.
pub(crate) fn arm() -> Result<StopToken, Failure> {
    let stop = StopToken::new();
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the exit comes first, so that it sees the flag of an earlier signal
        // and not the one that the second handler is about to set.
        flag::register_conditional_shutdown(signal, Code::Stopped as i32, stop.flag())
            .and_then(|_| flag::register(signal, stop.flag()))
            .context("cannot install a signal handler")?;
    }
    Ok(stop)
}
