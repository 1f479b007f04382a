//! What `stormlp submission` says and writes: the rules on a tree, the plan of a campaign, the files
//! of a rehearsal.

mod check;
mod columns;
mod plan;
mod rehearsal;

pub use check::check;
pub use columns::columns;
pub use plan::plan;
pub use rehearsal::{Rehearsal, checkpointing, training};
