//! The core types of stormlp: units, plans, events, reports, statistics, formulas.
//!
//! Text and facts in, values out. No code here does I/O, starts a thread or reads a clock, so every
//! rule of the benchmark can be tested by calling a function.
//!
//! ```
//! use stormlp_core::units::ByteSize;
//! let size: ByteSize = "1M".parse().expect("a size");
//! assert_eq!(size.bytes(), 1 << 20);
//! assert_eq!(size.to_string(), "1 MiB");
//! ```

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as stormlp_core;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, reason = "only tests of other crates use it")]
#[path = "../../../tests/fixtures/src/lib.rs"]
mod fixtures;

pub mod cache;
pub mod calibration;
pub mod capacity;
pub mod change_points;
pub mod devices;
pub mod difference;
pub mod distinct;
pub mod event;
pub mod evidence;
pub mod facts;
pub mod failure;
pub mod gpu_limits;
pub mod group;
pub mod histogram;
pub mod host_spec;
pub mod impairment;
pub mod json;
pub mod knee;
pub mod largest;
pub mod location;
pub mod machine;
pub mod mt19937;
pub mod names;
pub mod note;
pub mod numbers;
pub mod operation;
pub mod others;
pub mod panics;
pub mod path;
pub mod pattern;
pub mod placement;
pub mod printable;
pub mod profile;
pub mod report;
pub mod sequential;
pub mod shell;
pub mod stats;
pub mod stop;
pub mod tag;
pub mod telemetry;
pub mod threads;
pub mod transport;
pub mod tune;
pub mod units;
pub mod verify;
pub mod warning;
pub mod workload_file;
pub mod yaml;
