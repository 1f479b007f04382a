//! What `stormlp submission` says: the rules on a tree, and the plan of a campaign.

mod check;
mod plan;

pub use check::check;
pub use plan::plan;
