//! The hosts of a run: who they are, how they found each other, what each of them had a part in.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::difference;

/// The version of what processes tell each other. Those that differ cannot work together.
pub const PROTOCOL: u32 = 1;
/// Clocks that differ by more are told of: times in reports and logs do not fit together then.
pub const CLOCK_SECONDS: f64 = 1.0;

/// A process of a group, as it introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// Its number, from 0.
    pub rank: u32,
    /// The name of its host.
    pub hostname: String,
    /// What the kernel drew when the host was started: equal for processes of one host.
    pub boot_id: String,
    /// Version of stormlp.
    pub version: String,
    /// Version of what processes tell each other.
    pub protocol: u32,
    /// What it runs: `gds`, `doctor`.
    #[serde(default)]
    pub command: String,
    /// CPUs that it may run on.
    pub cpus: u32,
    /// What its CPUs call themselves.
    #[serde(default)]
    pub cpu_model: String,
    /// Memory of the host in bytes, or its control group's share where that is less.
    pub memory_bytes: u64,
    /// Memory of the host in bytes, whatever its control group may have of it.
    #[serde(default)]
    pub host_memory_bytes: u64,
    /// The host's clock in seconds since 1970, read when all had just met.
    pub unix_seconds: f64,
}

/// How processes found each other, and what meeting costs them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupFacts {
    /// `mpi`, `pmix` or `pmi1`.
    pub backend: String,
    /// The library in its own words.
    #[serde(default)]
    pub library: String,
    /// Processes.
    pub size: u32,
    /// Barriers at which nobody was late, before the run.
    pub empty_barrier_us: Option<BarrierUs>,
    /// What the barriers of the steps took after the last host had come: their own cost; `null`
    /// where there were none.
    #[serde(default)]
    pub own_barrier_us: Option<BarrierUs>,
    /// AU by the profile's formula, had those cost nothing: what a collective without cost would give.
    #[serde(default)]
    pub ideal_au_percent: Option<f64>,
    /// The clock of each process beside the first one's, before the run, by rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockOffset>,
    /// The machines that the processes are on, in the order of their first ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
}

/// A machine, and which processes are on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Its host name.
    pub hostname: String,
    /// The ranks of its processes.
    pub ranks: Vec<u32>,
    /// CPUs that a process of it may run on.
    pub cpus: u32,
    /// What its CPUs call themselves.
    pub cpu_model: String,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Those that `members` are on.
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
    /// CPUs of all machines together; `None` where they are not known.
    pub fn cpus(&self) -> Option<u32> {
        let cpus: u32 = self.machines.iter().map(|machine| machine.cpus).sum();
        (cpus > 0).then_some(cpus)
    }

    /// The machine that process `rank` is on.
    pub fn machine_of(&self, rank: u32) -> Option<&Machine> {
        let mut machines = self.machines.iter();
        machines.find(|machine| machine.ranks.contains(&rank))
    }
}

/// How far a clock is ahead of another one. It is told for whoever reads logs; no figure depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockOffset {
    /// Microseconds; negative where it is behind.
    pub offset_us: f64,
    /// How wrong that can be, either way, in microseconds.
    pub error_us: f64,
}

/// What a process read on its clock when it came to a barrier, and when it left it: microseconds
/// since 1970.
pub type AtBarrier = (i64, i64);

/// The clock of each process beside the first one's, from what each read at the same barriers, by
/// rank. Nobody leaves a barrier before all have come, which bounds each offset from both sides.
pub fn clock_offsets(readings: &[Vec<AtBarrier>]) -> Vec<ClockOffset> {
    let Some(first) = readings.first() else {
        return Vec::new();
    };
    let of = |other: &Vec<AtBarrier>| {
        let pairs = || first.iter().zip(other);
        let least = pairs().map(|((_, left), (came, _))| came - left).max()?;
        let most = pairs().map(|((came, _), (_, left))| left - came).min()?;
        Some(ClockOffset {
            offset_us: (least + most) as f64 / 2.0,
            error_us: (most - least) as f64 / 2.0,
        })
    };
    let mut offsets: Vec<ClockOffset> = readings.iter().filter_map(of).collect();
    if let Some(own) = offsets.first_mut() {
        // A clock is with itself.
        (own.offset_us, own.error_us) = (0.0, 0.0);
    }
    offsets
}

/// What one process of a group had a part in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostReport {
    /// Its host, with its rank where the host has several processes.
    pub name: String,
    /// Its emulated accelerators.
    pub accelerators: u32,
    /// AU of these, by the profile's formula.
    pub au_percent: f64,
    /// Bytes that its reads brought.
    pub bytes_read: u64,
    /// Steps at whose end it came last; `null` where no barrier ended the steps.
    pub slowest_steps: Option<u64>,
}

impl HostReport {
    /// Nothing yet.
    pub fn new(name: &str, accelerators: u32) -> Self {
        Self {
            name: name.to_string(),
            accelerators,
            au_percent: 0.0,
            bytes_read: 0,
            slowest_steps: None,
        }
    }
}

/// What a barrier takes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierUs {
    /// Half of them take no longer.
    pub p50: f64,
    /// 99 of 100 take no longer.
    pub p99: f64,
}

impl BarrierUs {
    /// Of all that were measured; `None` without any.
    pub fn of(microseconds: &[f64]) -> Option<Self> {
        let mut sorted = microseconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| sorted[(share * last as f64).round() as usize];
        Some(Self { p50: at(0.50), p99: at(0.99) })
    }
}

/// The group as `doctor` tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The library and its cost.
    #[serde(flatten)]
    pub facts: GroupFacts,
    /// The processes, by rank.
    pub members: Vec<Member>,
    /// Whether all see the folder that was looked at.
    pub folder: SharedFolder,
}

/// Whether all processes see what one of them writes into a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum SharedFolder {
    /// All do.
    Shared {
        /// The folder.
        path: PathBuf,
    },
    /// At least one does not.
    NotShared {
        /// The folder.
        path: PathBuf,
        /// The first that does not see it.
        blind: String,
    },
    /// Nothing could be written there to look for.
    NotTried {
        /// The folder, or what was named in its place.
        path: PathBuf,
    },
}

impl Member {
    /// What it is called beside the others: its host, with its rank where the host has several.
    pub fn name(&self, all: &[Self]) -> String {
        let same = all.iter().filter(|other| other.hostname == self.hostname);
        match same.count() {
            0 | 1 => self.hostname.clone(),
            _ => format!("{} (rank {})", self.hostname, self.rank),
        }
    }

    /// What each of `all` is called, in their order.
    pub fn names(all: &[Self]) -> Vec<String> {
        all.iter().map(|member| member.name(all)).collect()
    }

    /// Whether both run on one host.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.hostname == other.hostname && self.boot_id == other.boot_id
    }

    /// Whether it does what a host does once: it is the first of its host.
    pub fn leads_host(&self, all: &[Self]) -> bool {
        let first = all.iter().find(|other| other.shares_host_with(self));
        first.is_none_or(|first| first.rank == self.rank)
    }
}

/// What a process tells of itself, in words.
type Told = fn(&Member) -> String;

/// Why processes cannot work together, in one line that names two of them; `None` where they can.
pub fn disagreement(members: &[Member]) -> Option<String> {
    let first = members.first()?;
    let compare: [(&str, Told); 3] = [
        ("version of stormlp", |member| member.version.clone()),
        ("protocol", |member| member.protocol.to_string()),
        ("command", |member| member.command.clone()),
    ];
    members.iter().find_map(|other| {
        let (what, get) = compare.iter().find(|(_, get)| get(first) != get(other))?;
        Some(differ(what, (first, &get(first)), (other, &get(other)), members))
    })
}

/// Two hosts that differ, in one line.
pub fn differ(
    what: &str,
    (one, of_one): (&Member, &str),
    (other, of_other): (&Member, &str),
    all: &[Member],
) -> String {
    let (one, other) = (one.name(all), other.name(all));
    difference::in_words(what, (&one, of_one), (&other, of_other))
}

/// Memory of all hosts together, each counted once.
pub fn memory_bytes(members: &[Member]) -> u64 {
    let hosts = members.iter().filter(|member| member.leads_host(members));
    hosts.map(|member| member.memory_bytes).sum()
}

/// A process of the first host that has more of them than CPUs, and how many there are. Where each may use
/// one CPU only, it is not known whether they share it.
pub fn crowded(members: &[Member]) -> Option<(&Member, usize)> {
    let counted = members.iter().map(|member| {
        let here = members.iter().filter(|other| other.shares_host_with(member));
        (member, here.count())
    });
    let mut crowded =
        counted.filter(|(member, here)| member.cpus > 1 && *here > member.cpus as usize);
    crowded.next()
}

/// The two clocks that are furthest apart, and by how many seconds, where that is worth telling.
pub fn clocks_apart(members: &[Member]) -> Option<(&Member, &Member, f64)> {
    let by_clock = |a: &&Member, b: &&Member| a.unix_seconds.total_cmp(&b.unix_seconds);
    let behind = members.iter().min_by(by_clock)?;
    let ahead = members.iter().max_by(by_clock)?;
    let apart = ahead.unix_seconds - behind.unix_seconds;
    (apart > CLOCK_SECONDS).then_some((behind, ahead, apart))
}

/// For tests, of this crate and of others.
#[cfg(any(test, feature = "fixtures"))]
impl Member {
    /// Process `rank` on host `hostname`.
    #[must_use]
    pub fn fixture(rank: u32, hostname: &str) -> Self {
        Self {
            rank,
            hostname: hostname.to_string(),
            boot_id: format!("boot of {hostname}"),
            version: "1.0".to_string(),
            protocol: PROTOCOL,
            command: "gds".to_string(),
            cpus: 4,
            cpu_model: "a CPU".to_string(),
            memory_bytes: 64 << 30,
            host_memory_bytes: 64 << 30,
            unix_seconds: 1.8e9,
        }
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl GroupFacts {
    /// How `members` found each other.
    #[must_use]
    pub fn fixture(members: &[Member]) -> Self {
        Self {
            backend: "mpi".to_string(),
            library: "Open MPI v4.1.4".to_string(),
            size: members.len() as u32,
            empty_barrier_us: None,
            own_barrier_us: None,
            ideal_au_percent: None,
            clocks: Vec::new(),
            machines: Machine::all_of(members),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn two_hosts() -> Vec<Member> {
        vec![Member::fixture(0, "h1"), Member::fixture(1, "h1"), Member::fixture(2, "h2")]
    }

    #[test]
    fn a_host_with_more_processes_than_cpus_is_crowded() {
        let mut members: Vec<Member> = (0..4).map(|rank| Member::fixture(rank, "h1")).collect();
        members.push(Member::fixture(4, "h2"));
        assert_eq!(crowded(&members), None, "four on four CPUs");
        members.push(Member::fixture(5, "h1"));
        assert_eq!(crowded(&members).map(|(member, here)| (member.rank, here)), Some((0, 5)));
        // Bound to a CPU each, they need not share one.
        members.iter_mut().for_each(|member| member.cpus = 1);
        assert_eq!(crowded(&members), None);
    }

    #[test]
    fn a_difference_names_both_hosts() {
        let mut members = two_hosts();
        assert_eq!(disagreement(&members), None);
        members[2].version = "1.1".to_string();
        let told = disagreement(&members).unwrap();
        assert_eq!(
            told,
            "the hosts differ in the version of stormlp: h1 (rank 0) has 1.0, h2 has 1.1"
        );
        let mut members = two_hosts();
        members[1].command = "doctor".to_string();
        let told = disagreement(&members).unwrap();
        assert!(told.contains("differ in the command: h1 (rank 0) has gds"), "{told}");
    }

    #[test]
    fn what_a_host_has_is_counted_once() {
        let members = two_hosts();
        assert_eq!(memory_bytes(&members), 128 << 30);
        let leads: Vec<bool> = members.iter().map(|m| m.leads_host(&members)).collect();
        assert_eq!(leads, [true, false, true]);
        // A host of the same name is another one where it was started at another time.
        let mut twins = vec![Member::fixture(0, "node"), Member::fixture(1, "node")];
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
    fn clocks_that_are_far_apart_are_told() {
        let mut members = two_hosts();
        assert_eq!(clocks_apart(&members), None);
        members[2].unix_seconds -= 90.0;
        let (behind, ahead, apart) = clocks_apart(&members).unwrap();
        assert_eq!((behind.rank, ahead.rank), (2, 1));
        assert!((apart - 90.0).abs() < 1e-6);
    }

    #[test]
    fn a_clock_is_bounded_by_what_was_read_at_barriers() {
        // The second clock is 500 ahead; barriers take 10 to 30.
        let first = vec![(0, 30), (100, 110)];
        let second = vec![(500 + 20, 500 + 31), (500 + 90, 500 + 112)];
        let offsets = clock_offsets(&[first, second]);
        assert_eq!((offsets[0].offset_us, offsets[0].error_us), (0.0, 0.0));
        assert_eq!((offsets[1].offset_us, offsets[1].error_us), (501.0, 11.0));
        assert!(clock_offsets(&[]).is_empty());
    }

    #[test]
    fn barriers_come_down_to_two_numbers() {
        assert_eq!(BarrierUs::of(&[]), None);
        let hundred: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let barrier = BarrierUs::of(&hundred).unwrap();
        assert_eq!((barrier.p50, barrier.p99), (50.0, 99.0));
    }
}
