//! What `stormlp submission` says and writes: the rules on a tree, the plan of a campaign, the files
//! of a rehearsal.

mod check;
mod columns;
mod in_tree;
mod plan;
mod rehearsal;

pub use check::check;
pub use columns::columns;
pub use in_tree::{RunInTree, too_long_a_gap};
pub use plan::plan;
pub use rehearsal::{PROVENANCE, Rehearsal, checkpointing, training, training_reports};
