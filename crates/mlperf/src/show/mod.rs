//! Output of `stormlp submission`: checks, plans, and the files of a rehearsal.

mod check;
mod columns;
mod in_tree;
mod plan;
mod rehearsal;
mod system;

pub use check::check;
pub use columns::columns;
pub use in_tree::{RunInTree, too_long_a_gap};
pub use plan::plan;
pub use rehearsal::{PROVENANCE, Rehearsal, checkpointing, training, training_reports};
pub use system::{count_of_faults, system_faults};
