//! Output of `stormlp submission`.

mod check;
mod system;

pub use check::check;
pub use system::{count_of_faults, system_faults};
