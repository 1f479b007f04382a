//! Runs a transfer matrix: cell after cell, path after path.

mod layout;
mod offsets;
mod recorder;
mod worker;
