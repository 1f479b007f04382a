//! The hosts of a run: their identity, how they found each other, and the share of each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Clock differences above this are reported: timestamps in reports and logs would not match.
pub const CLOCK_SECONDS: f64 = 1.0;

/// A process of a group, as it introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// Its rank, from 0.
    pub rank: u32,
    /// Its host name.
    pub hostname: String,
    /// The kernel's boot id: equal for processes of one host.
    pub boot_id: String,
    /// Version of stormlp.
    pub version: String,
    /// Version of the protocol between processes.
    pub protocol: u32,
    /// The command it runs: `gds`, `doctor`.
    pub command: String,
    /// CPUs it may run on.
    pub cpus: u32,
    /// CPU model name.
    pub cpu_model: String,
    /// Memory of the host in bytes, or the control group's limit if lower.
    pub memory_bytes: u64,
    /// Memory of the host in bytes, regardless of the control group's limit.
    pub host_memory_bytes: u64,
    /// The host's clock in seconds since 1970, read right after all processes met.
    pub unix_seconds: f64,
}

/// How processes found each other, and the cost of synchronising them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupFacts {
    /// `mpi`, `pmix` or `pmi1`.
    pub backend: String,
    /// The library's description of itself.
    pub library: String,
    /// Number of processes.
    pub size: u32,
    /// Latency of barriers without a late host, measured before the run.
    pub empty_barrier_us: Option<BarrierUs>,
    /// Time the barriers of the steps took after the last host arrived, i.e. the cost of the
    /// barrier itself; `null` if there were none.
    pub own_barrier_us: Option<BarrierUs>,
    /// The machines the processes run on, ordered by their lowest rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
}

/// A machine and the processes on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Its host name.
    pub hostname: String,
    /// The ranks of the processes on it.
    pub ranks: Vec<u32>,
    /// CPUs that one of its processes may use.
    pub cpus: u32,
    /// CPU model name.
    pub cpu_model: String,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// The machines of `members`.
    pub fn all_of(members: &[Member]) -> Vec<Self> {
        let first = members.iter().filter(|member| member.leads_host(members));
        let machine = |first: &Member| {
            let own = members.iter().filter(|other| other.shares_host_with(first));
            Self {
                hostname: first.hostname.clone(),
                cpus: own.clone().map(|member| member.cpus).max().unwrap_or(0),
                ranks: own.map(|member| member.rank).collect(),
                cpu_model: first.cpu_model.clone(),
                memory_bytes: first.host_memory_bytes,
            }
        };
        first.map(machine).collect()
    }
}

impl GroupFacts {
    /// CPUs of all machines together; `None` if unknown.
    pub fn cpus(&self) -> Option<u32> {
        let cpus: u32 = self.machines.iter().map(|machine| machine.cpus).sum();
        (cpus > 0).then_some(cpus)
    }

    /// The machine of process `rank`.
    pub fn machine_of(&self, rank: u32) -> Option<&Machine> {
        let mut machines = self.machines.iter();
        machines.find(|machine| machine.ranks.contains(&rank))
    }
}

/// Barrier latency in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierUs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl BarrierUs {
    /// Percentiles of the measurements; `None` if there are none.
    pub fn of(microseconds: &[f64]) -> Option<Self> {
        let mut sorted = microseconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        Some(Self { p50: at(0.50), p99: at(0.99) })
    }
}

/// The group as shown by `doctor`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The library and its cost.
    #[serde(flatten)]
    pub facts: GroupFacts,
    /// The processes, by rank.
    pub members: Vec<Member>,
    /// Whether all processes see the directory that was checked.
    pub folder: SharedFolder,
}

/// Whether all processes see what one of them writes into a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum SharedFolder {
    /// All processes see it.
    Shared {
        /// The directory.
        path: PathBuf,
    },
    /// At least one process does not see it.
    NotShared {
        /// The directory.
        path: PathBuf,
        /// The first process that does not see it.
        blind: String,
    },
    /// The file for the check could not be written there.
    NotTried {
        /// The directory, or the path given instead.
        path: PathBuf,
    },
}

impl Member {
    /// Its display name: its host, with the rank if the host has several processes.
    pub fn name(&self, all: &[Self]) -> String {
        let same = all.iter().filter(|other| other.hostname == self.hostname);
        match same.count() {
            0 | 1 => self.hostname.clone(),
            _ => format!("{} (rank {})", self.hostname, self.rank),
        }
    }

    /// The display names of `all`, in order.
    pub fn names(all: &[Self]) -> Vec<String> {
        all.iter().map(|member| member.name(all)).collect()
    }

    /// Whether both run on the same host.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.hostname == other.hostname && self.boot_id == other.boot_id
    }

    /// Whether it does the once-per-host work: it is the first process of its host.
    pub fn leads_host(&self, all: &[Self]) -> bool {
        let first = all.iter().find(|other| other.shares_host_with(self));
        first.is_none_or(|first| first.rank == self.rank)
    }
}

/// The two clocks that are furthest apart and their difference in seconds, if large enough to
/// report.
pub fn clocks_apart(members: &[Member]) -> Option<(&Member, &Member, f64)> {
    let by_clock = |a: &&Member, b: &&Member| a.unix_seconds.total_cmp(&b.unix_seconds);
    let behind = members.iter().min_by(by_clock)?;
    let ahead = members.iter().max_by(by_clock)?;
    let apart = ahead.unix_seconds - behind.unix_seconds;
    (apart > CLOCK_SECONDS).then_some((behind, ahead, apart))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_hosts() -> Vec<Member> {
        vec![
            crate::fixtures::member(0, "h1"),
            crate::fixtures::member(1, "h1"),
            crate::fixtures::member(2, "h2"),
        ]
    }

    #[test]
    fn resources_of_a_host_are_counted_once() {
        let members = two_hosts();
        let leads: Vec<bool> = members.iter().map(|m| m.leads_host(&members)).collect();
        assert_eq!(leads, [true, false, true]);
        // The same host name with a different boot id is another host.
        let mut twins =
            vec![crate::fixtures::member(0, "node"), crate::fixtures::member(1, "node")];
        twins[1].boot_id = "another".to_string();
        assert!(twins[1].leads_host(&twins));
    }

    #[test]
    fn each_machine_has_its_processes() {
        let machines = Machine::all_of(&two_hosts());
        let ranks: Vec<_> = machines.iter().map(|one| one.ranks.as_slice()).collect();
        assert_eq!(ranks, [&[0, 1][..], &[2]]);
        assert_eq!((machines[0].cpus, &*machines[1].hostname), (4, "h2"));
    }

    #[test]
    fn clocks_that_are_far_apart_are_reported() {
        let mut members = two_hosts();
        assert_eq!(clocks_apart(&members), None);
        members[2].unix_seconds -= 90.0;
        let (behind, ahead, apart) = clocks_apart(&members).unwrap();
        assert_eq!((behind.rank, ahead.rank), (2, 1));
        assert!((apart - 90.0).abs() < 1e-6);
    }

    #[test]
    fn barriers_are_summarised_in_two_numbers() {
        assert_eq!(BarrierUs::of(&[]), None);
        let hundred: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let barrier = BarrierUs::of(&hundred).unwrap();
        assert_eq!((barrier.p50, barrier.p99), (50.0, 99.0));
    }
}
