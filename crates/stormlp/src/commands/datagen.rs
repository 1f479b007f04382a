//! `stormlp datagen`.

use crate::exit::Failure;
use crate::session::Session;

/// Arguments of `stormlp datagen`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Refuses: this build has no `datagen` yet.
pub(crate) fn run(_args: Args, _session: &Session) -> Result<(), Failure> {
    Err(Failure::usage("this build has no `datagen` yet"))
}
