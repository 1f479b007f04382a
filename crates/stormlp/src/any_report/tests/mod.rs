//! The reports of all lanes, in every output format.

mod comparison;
mod documents;
mod extremes;
#[allow(dead_code, unreachable_pub, reason = "each lane's own tests use the others")]
mod fixtures;
mod pages;
mod schema;
mod work;
