//! What differs between the libraries of GPU vendors: one table each.
//!
//! AMD's hipFile has nearly cuFile's calls and codes, so everything around this table is written
//! once. Another library is another [`Vendor`], beside [`LIBCUFILE`].

use std::ffi::c_int;
use std::fmt;

use stormlp_core::path::GpuVendor;

use super::driver::Properties;
use super::nvidia::LIBCUFILE;
use super::stats::{RawStatistics, RouteCounters};
use super::sys::{CUfileError_t, FnGetProperties};
use super::version::LibraryVersion;

/// A vendor's library for direct storage.
#[derive(Debug)]
pub struct Vendor {
    /// Its name.
    pub(super) library: &'static str,
    /// Its files as the loader knows them, that of the runtime package first.
    pub(super) files: &'static [&'static str],
    /// What its functions begin with: `cuFile` of `cuFileRead`.
    pub(super) prefix: &'static str,
    pub(super) environment: Environment,
    /// Asks for the driver's properties, which each library lays out in its own way; the function
    /// must be the library's, whose driver is open.
    pub(super) properties: unsafe fn(FnGetProperties) -> Result<Properties, CUfileError_t>,
    pub(super) parameters: ParameterTable,
    pub(super) targets: TargetTable,
    /// Parses the statistics by route; `None` if they are not laid out as expected.
    pub(super) statistics: fn(&RawStatistics, LibraryVersion) -> Option<RouteCounters>,
    /// Name and meaning of a code that a function, named without its prefix, returned.
    pub(super) meaning: fn(&str, c_int) -> Option<(&'static str, &'static str)>,
    pub(super) remedies: Remedies,
}

/// The variables with which it is set.
#[derive(Debug)]
pub(super) struct Environment {
    /// The file of its settings, and where it is if no variable names it.
    pub(super) settings: &'static str,
    pub(super) default_settings: &'static str,
    /// The file of its log.
    pub(super) log: &'static str,
    /// Whether it may fall back, in versions that have no parameter for it.
    pub(super) allow_fallback: &'static str,
}

/// A numbered parameter of the library.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) number: c_int,
    pub(super) name: &'static str,
    /// The first version that has it.
    pub(super) since: LibraryVersion,
}

/// The parameters that affect the route and the speed, and what some of them mean.
#[derive(Debug)]
pub(super) struct ParameterTable {
    /// Switches.
    pub(super) flags: &'static [Parameter],
    /// Numbers.
    pub(super) sizes: &'static [Parameter],
    /// The switches that each allow a fallback.
    pub(super) allow_fallback: &'static [&'static str],
    /// The switch of peer-to-peer DMA.
    pub(super) p2pdma: &'static str,
    /// The number of stream transfers in flight at most.
    pub(super) stream_transfers: &'static str,
}

/// Kinds of storage with a direct route, as numbered bits.
#[derive(Debug)]
pub(super) struct TargetTable {
    pub(super) names: &'static [(i32, &'static str)],
    /// The routes to a target.
    pub(super) routes: &'static [(i32, &'static str)],
}

/// What to do about failures.
#[derive(Debug)]
pub(super) struct Remedies {
    /// No library was found.
    pub(super) not_found: &'static str,
    /// It is too old.
    pub(super) too_old: &'static str,
    /// It ignored the parameter that forbids its fallback.
    pub(super) fallback_not_forbidden: &'static str,
    /// A function, named without its prefix, returned a code.
    pub(super) of_call: fn(&str, c_int) -> &'static str,
}

impl Vendor {
    /// The library of a vendor's GPUs.
    pub(super) fn of(maker: GpuVendor) -> &'static Self {
        match maker {
            GpuVendor::Nvidia => &LIBCUFILE,
        }
    }

    /// One of its functions, named without the prefix.
    pub(crate) fn call(&'static self, name: &'static str) -> Call {
        Call { vendor: self, prefix: self.prefix, name }
    }

    /// What is no function, `a batch entry`.
    pub(crate) fn part(&'static self, name: &'static str) -> Call {
        Call { vendor: self, prefix: "", name }
    }
}

impl PartialEq for Vendor {
    fn eq(&self, other: &Self) -> bool {
        self.library == other.library
    }
}

impl Eq for Vendor {}

/// A function of a vendor's library, or what else returns its codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub(super) vendor: &'static Vendor,
    prefix: &'static str,
    /// Its name without the prefix.
    pub(super) name: &'static str,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.name)
    }
}
