//! The I/O engine as `train` and `datagen` take it.

use clap::ValueEnum;
use stormlp_model::path::EngineKind;

/// I/O engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// io_uring where the kernel allows it, else psync.
    Auto,
    /// io_uring, one ring for each thread.
    Uring,
    /// io_uring through tokio-uring.
    TokioUring,
    /// pread and pwrite.
    Psync,
}

impl Engine {
    /// The engine that was named; `None` leaves the choice to the command.
    pub(crate) fn named(self) -> Option<EngineKind> {
        match self {
            Self::Auto => None,
            Self::Uring => Some(EngineKind::Uring),
            Self::TokioUring => Some(EngineKind::TokioUring),
            Self::Psync => Some(EngineKind::Psync),
        }
    }
}
