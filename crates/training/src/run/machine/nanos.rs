//! Time as the machine sees it.

/// Nanoseconds on the driver's clock.
pub type Nanos = u64;
