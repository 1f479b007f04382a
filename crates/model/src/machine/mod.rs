//! What `stormlp doctor` says of a machine: plain data, every value known or unknown with its
//! reason. Gathered by `transfer::probe`, rendered by `report::doctor`.

mod fact;

pub use fact::Fact;
