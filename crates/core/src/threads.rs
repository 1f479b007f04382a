//! The requested placement of a run's threads, and the CPUs and NUMA nodes that they may be bound
//! to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::names::{Named, unknown};

/// A set of CPU numbers, ascending and distinct.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// The CPUs of `numbers`.
    pub fn new(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self(numbers)
    }

    /// The CPU numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }

    /// The CPUs that are also in `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self::new(self.0.iter().copied().filter(|cpu| other.0.contains(cpu)))
    }
}

/// More CPUs than any machine has.
const MOST_CPUS: u32 = 1 << 16;

impl FromStr for CpuList {
    type Err = String;

    /// Parses the kernel's format, `0-3,8,10-11`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("`{text}` is not a list of CPUs such as 0-3,8");
        let mut numbers = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n < MOST_CPUS);
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(fault());
            };
            if first > last {
                return Err(fault());
            }
            numbers.extend(first..=last);
        }
        Ok(Self::new(numbers))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.chunk_by(|a, b| a + 1 == *b);
        let words: Vec<String> = ranges
            .map(|range| match range {
                [only] => only.to_string(),
                range => format!("{}-{}", range[0], range[range.len() - 1]),
            })
            .collect();
        f.pad(&words.join(","))
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() { Ok(Self::default()) } else { text.parse() }
    }
}

/// The NUMA node to run on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub enum NumaChoice {
    /// The GPU's node, otherwise the drives' node.
    #[default]
    Auto,
    /// Wherever the kernel schedules the threads.
    Off,
    /// The given node.
    Node(u32),
}

impl FromStr for NumaChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            number => number.parse().map(Self::Node).map_err(|_| {
                format!("`{text}` is not a NUMA node: use auto, off or a node number")
            }),
        }
    }
}

impl fmt::Display for NumaChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Off => f.pad("off"),
            Self::Node(node) => f.pad(&node.to_string()),
        }
    }
}

impl TryFrom<String> for NumaChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// A NUMA node, as far as this process may use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostNode {
    /// The node number.
    pub node: u32,
    /// The CPUs of the node that this process may run on.
    pub cpus: CpuList,
}

/// The requested placement of a run's threads and their buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(clap::Args)]
#[serde(default)]
pub struct Threading {
    /// NUMA node for threads and buffers: auto (of the GPU or drives), off or a number
    #[arg(long, value_name = "NODE", default_value_t)]
    pub numa: NumaChoice,

    /// CPUs to bind threads to, such as 0-15,32 [default: those of the NUMA node]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
}

/// How a thread waits for a GPU: for streams, events and copies, and for cuFile's batches and
/// streams.
///
/// Spinning notices the end of a transfer some microseconds sooner, which matters for small ones,
/// but occupies a whole CPU per waiting thread. With blocking, a run's CPU seconds count actual
/// work, as in programs that feed a GPU alongside other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum WaitMode {
    /// Polls continuously.
    Spin,
    /// Sleeps until it is woken.
    #[default]
    Block,
}

impl Named for WaitMode {
    const WHAT: &'static str = "a way to wait";
}

impl WaitMode {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}
