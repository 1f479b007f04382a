//! Plans, reports and answers about KV caches as documents.

mod charts;
mod find_max;
#[cfg(test)]
#[path = "../../tests/fixtures/mod.rs"]
pub mod fixtures;
mod lane;
mod plan;
mod records;
mod run;
mod serving;
mod size;
mod trials;

pub use stormlp_show::document::DryRun;

pub use plan::{dry_run, opening};
pub use records::RECORDS;
pub use run::document;
pub use size::{models, size};

use stormlp_core::units::{ByteSize, GIB};

/// A size with two decimals from a GiB on.
fn size_of(bytes: u64) -> String {
    match bytes {
        small if small < 1 << 20 => ByteSize(small).to_string(),
        below if below < GIB => format!("{:.0} MiB", below as f64 / (1u64 << 20) as f64),
        below if below < GIB << 10 => format!("{:.2} GiB", below as f64 / GIB as f64),
        large => format!("{:.2} TiB", large as f64 / (GIB << 10) as f64),
    }
}
