//! The processes of a run on several hosts before its first byte: the members, and whether all have
//! made the same plan.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stormlp_core::difference::ConsistencyField;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::group::{BarrierUs, GroupFacts, Machine, Member, SharedFolder, clocks_apart};
use stormlp_core::json;
use stormlp_core::note::{Cause, Note};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_transfer::run_context::unix_seconds;
use stormlp_transfer::storage::{Durability, Storage, StorageRouter};

use crate::group::Group;
use crate::members::{self, PROTOCOL, differ};
use crate::multi_host::Hosts;

/// Number of empty barriers to time.
const EMPTY_BARRIERS: u32 = 1000;
/// Number of empty barriers that shows whether they are slow.
const FEW_BARRIERS: u32 = 20;
/// Time limit for all of them together.
const TRIAL: Duration = Duration::from_millis(500);
/// Time until a file from another host is visible: NFS attribute caches are valid for seconds.
const VISIBLE_WITHIN: Duration = Duration::from_secs(5);
/// Polling interval.
const POLL: Duration = Duration::from_millis(50);

/// The processes of this run; usually one.
pub struct Peers {
    group: Arc<Group>,
    members: Vec<Member>,
    local_storage: bool,
}

/// The outcome of planning in a process: its plan, or why it has none.
type Ready = Result<Vec<ConsistencyField>, Note<Cause>>;

impl Peers {
    /// Introduces the processes that run `command` to each other, each with facts about its `host`;
    /// with `local_storage`, each host has its data in a folder of its own.
    ///
    /// # Errors
    /// If they cannot work together; all of them fail alike then.
    pub fn introduce(
        group: &Arc<Group>,
        command: &str,
        local_storage: bool,
        host: impl FnOnce() -> HostFacts,
    ) -> Result<Self, Failure> {
        let members = if group.is_alone() { Vec::new() } else { met(group, command, &host())? };
        let peers = Self { group: group.clone(), members, local_storage };
        if peers.is_alone() {
            if local_storage {
                return Err(Failure::usage(
                    "--local-storage has no effect on one host: leave it out",
                ));
            }
        } else {
            let given = if local_storage { "it" } else { "none" };
            peers.same_option("--local-storage", given.to_string())?;
        }
        Ok(peers)
    }

    /// All processes, by rank; empty if this is the only one.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The names of the processes, by rank.
    pub fn names(&self) -> Vec<String> {
        Member::names(&self.members)
    }

    fn own(&self) -> Option<&Member> {
        self.members.get(self.group.rank() as usize)
    }

    /// Whether this is the only process.
    pub fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether each host has its data in a folder of its own.
    pub fn has_local_storage(&self) -> bool {
        self.local_storage
    }

    /// Number of processes on this host, including this one.
    pub fn processes_here(&self) -> usize {
        let here = |own| self.members.iter().filter(|one| one.shares_host_with(own)).count();
        self.own().map_or(1, here)
    }

    /// The rank of this process among the processes of its host.
    pub fn rank_here(&self) -> usize {
        let earlier = self.members.iter().take_while(|one| one.rank < self.group.rank());
        self.own().map_or(0, |own| earlier.filter(|one| one.shares_host_with(own)).count())
    }

    /// Whether this process does the once-per-folder work of the dataset.
    pub fn owns_folder(&self) -> bool {
        match self.own() {
            Some(own) if self.local_storage => own.leads_host(&self.members),
            _ => self.group.leads(),
        }
    }

    /// Sends a value to all processes and returns the values of all, by rank.
    ///
    /// # Errors
    /// If other processes cannot be reached, or their message does not match.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<Vec<T>, Failure> {
        exchange(&self.group, value)
    }

    /// The first process's value, sent to all.
    ///
    /// # Errors
    /// If other processes cannot be reached, or the first process has no value.
    pub fn from_first<T>(&self, own: &Option<T>) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
    {
        let first = self.exchange(own)?.into_iter().next().flatten();
        first.ok_or_else(|| Failure::bug(anyhow::anyhow!("the first process sent no value")))
    }

    /// Continues only if all processes can.
    ///
    /// # Errors
    /// All processes fail alike if one has failed.
    pub fn agree<T>(&self, prepared: Result<T, Failure>) -> Result<T, Failure> {
        self.agree_on(prepared, |_| Vec::new())
    }

    /// Continues only if all processes have made the same plan, `prepared` in this one, before
    /// anything is executed.
    ///
    /// # Errors
    /// All processes fail alike if one has failed, or if two would do different things.
    pub fn agree_on<T>(
        &self,
        prepared: Result<T, Failure>,
        consistency_fields: impl FnOnce(&T) -> Vec<ConsistencyField>,
    ) -> Result<T, Failure> {
        if self.is_alone() {
            return prepared;
        }
        let own: Ready = match &prepared {
            Ok(prepared) => Ok(consistency_fields(prepared)),
            Err(failure) => Err(failure.note.clone()),
        };
        let all = self.exchange(&own)?;
        if let Some(failure) = self.failed(&all) {
            return Err(failure);
        }
        match self.difference(&all) {
            Some(line) => Err(Failure::saying(Cause::Plan, line)
                .with_help("give every host the same options and the same dataset")
                .of_all()),
            None => prepared,
        }
    }

    /// The failure of the first failed process, with its host unless all report the same.
    fn failed(&self, all: &[Ready]) -> Option<Failure> {
        let failures = || {
            let pairs = all.iter().zip(&self.members);
            pairs.filter_map(|(one, member)| Some((one.as_ref().err()?, member)))
        };
        // A process that was stopped because another failed is not the cause.
        let is_cause = |failure: &(&Note<Cause>, &Member)| failure.0.kind != Cause::Stopped;
        let (note, member) = failures().find(is_cause).or_else(|| failures().next())?;
        let mut note = note.clone();
        if failures().filter(|(other, _)| other.fact == note.fact).count() < all.len() {
            note.fact = format!("{}: {}", member.name(&self.members), note.fact);
        }
        Some(Failure::from(note).of_all())
    }

    /// The first difference between two processes.
    fn difference(&self, all: &[Ready]) -> Option<String> {
        let pairs = all.iter().zip(&self.members);
        let mut consistency_fields =
            pairs.filter_map(|(one, member)| Some((one.as_ref().ok()?, member)));
        let (first, one) = consistency_fields.next()?;
        consistency_fields.find_map(|(theirs, other)| {
            let pairs = first.iter().zip(theirs);
            let mut differing = pairs.filter(|(ours, theirs)| ours != theirs);
            let ((what, of_one), (_, of_other)) = differing.next()?;
            Some(differ(what, (one, of_one), (other, of_other), &self.members))
        })
    }

    /// Checks that all processes have the same `value` of an `option`.
    ///
    /// # Errors
    /// With exit code 3; all processes fail alike.
    pub fn same_option(&self, option: &str, value: String) -> Result<(), Failure> {
        self.agree_on(Ok(()), |()| vec![(format!("option {option}"), value)])
    }

    /// Tests whether all processes see a file that the first of them writes to `folder`, or an object
    /// that it puts there.
    ///
    /// # Errors
    /// If the other processes cannot be reached.
    pub fn try_shared(&self, folder: &Path) -> Result<SharedFolder, Failure> {
        // Neither throttled nor made to fail: it is no part of the run.
        let storage = StorageRouter::default();
        let name = format!(".stormlp-seen-by-all-{}", std::process::id());
        let written = self.group.leads() && {
            let path = folder.join(&name);
            storage.write(&path, name.as_bytes(), Durability::Whole).is_ok()
        };
        let path = folder.to_path_buf();
        // The writer announces the file name; other processes' values are ignored.
        let answers = self.exchange(&written.then_some(name))?;
        let Some(name) = answers.into_iter().next().flatten() else {
            return Ok(SharedFolder::NotTried { path });
        };
        let file = folder.join(&name);
        let visible = self.exchange(&becomes_visible(&storage, &file, &name))?;
        if self.group.leads() {
            let _ = storage.remove(&file);
        }
        Ok(match visible.iter().position(|visible| !visible) {
            None => SharedFolder::Shared { path },
            Some(blind) => {
                SharedFolder::NotShared { path, blind: self.members[blind].name(&self.members) }
            }
        })
    }

    /// Checks that all processes see a file that one of them writes to `folder`, unless hosts are
    /// said to have separate folders. A read-only folder is not checked.
    ///
    /// # Errors
    /// All processes fail alike if one does not see it.
    pub fn check_shared(&self, folder: &Path) -> Result<(), Failure> {
        if self.is_alone() || self.local_storage {
            return Ok(());
        }
        let SharedFolder::NotShared { path, blind } = self.try_shared(folder)? else {
            return Ok(());
        };
        let fact = format!(
            "{} is not shared: {blind} does not see what {} wrote there",
            path.display(),
            self.members[0].name(&self.members)
        );
        Err(Failure::saying(Cause::Plan, fact)
            .with_help(
                "use a folder on shared storage, or --local-storage if every host has a copy",
            )
            .of_all())
    }

    /// Warnings about these hosts for the report.
    pub fn warnings(&self) -> Vec<Warning> {
        let apart = clocks_apart(&self.members);
        let warning = apart.map(|(behind, ahead, apart)| {
            Warning::new(
                WarningKind::Hosts,
                format!(
                    "the clock of {} is {apart:.1} s behind the clock of {}: durations are right, \
                     times in logs do not match",
                    behind.hostname, ahead.hostname
                ),
                "synchronise clocks (NTP)",
            )
        });
        warning.into_iter().collect()
    }

    /// The warning that hosts have separate data, if so, with the verb for its use (`did`).
    pub fn local_warning(&self, did: &str) -> Option<Warning> {
        self.local_storage.then(|| {
            let fact = format!(
                "every host {did} (--local-storage): results do not describe shared storage"
            );
            Warning::new(WarningKind::Hosts, fact, "")
        })
    }

    /// How the processes found each other, and the cost of a barrier.
    ///
    /// # Errors
    /// If other processes cannot be reached.
    pub fn facts(&self) -> Result<GroupFacts, Failure> {
        let group = &self.group;
        let mut took = group.barriers(FEW_BARRIERS)?;
        let so_far: Duration = took.iter().sum();
        // All must arrive at the same number.
        let slowest = self.exchange(&so_far.as_secs_f64())?.into_iter().fold(0.0, f64::max);
        if slowest * f64::from(EMPTY_BARRIERS / FEW_BARRIERS) < TRIAL.as_secs_f64() {
            took = group.barriers(EMPTY_BARRIERS)?;
        }
        let took: Vec<f64> = took.iter().map(|one| one.as_secs_f64() * 1e6).collect();
        Ok(GroupFacts {
            backend: group.backend().to_string(),
            library: group.library().to_string(),
            size: group.size(),
            empty_barrier_us: BarrierUs::of(&took),
            own_barrier_us: None,
            machines: Machine::all_of(&self.members),
        })
    }

    /// The hosts as the run needs them; `None` for a single process.
    ///
    /// # Errors
    /// If the other processes cannot be reached.
    pub fn hosts(&self) -> Result<Option<Hosts>, Failure> {
        if self.is_alone() {
            return Ok(None);
        }
        Ok(Some(Hosts::new(self.group.clone(), self.members.clone(), self.facts()?)))
    }

    /// The `hosts`, which leave notes in `folder` when they wait, if all of them see it.
    ///
    /// # Errors
    /// If the other processes cannot be reached.
    pub fn with_waiting_notes(
        &self,
        hosts: Option<Hosts>,
        folder: &Path,
    ) -> Result<Option<Hosts>, Failure> {
        let Some(hosts) = hosts else {
            return Ok(None);
        };
        Ok(Some(match self.try_shared(folder)? {
            SharedFolder::Shared { path } => hosts.with_waiting_notes(&path),
            SharedFolder::NotShared { .. } | SharedFolder::NotTried { .. } => hosts,
        }))
    }
}

/// Exchanges host facts with the other processes; returns the members by rank.
fn met(group: &Group, command: &str, host: &HostFacts) -> Result<Vec<Member>, Failure> {
    // So that all read their clocks at about the same time.
    group.barrier()?;
    let limit = host.memory_limit_bytes.unwrap_or(host.memory_bytes);
    let own = Member {
        rank: group.rank(),
        hostname: host.hostname.clone(),
        boot_id: boot_id(),
        version: host.stormlp_version.clone(),
        protocol: PROTOCOL,
        command: command.to_string(),
        cpus: host.cpus,
        cpu_model: host.cpu_model.clone(),
        host_memory_bytes: host.memory_bytes,
        memory_bytes: limit.min(host.memory_bytes),
        unix_seconds: unix_seconds(),
    };
    let members: Vec<Member> = exchange(group, &own)?;
    group.call_them(Member::names(&members));
    match members::disagreement(&members) {
        None => Ok(members),
        Some(difference) => Err(Failure::saying(Cause::Plan, difference)
            .with_help("run the same stormlp and the same command on every host")
            .of_all()),
    }
}

fn exchange<T: Serialize + DeserializeOwned>(group: &Group, value: &T) -> Result<Vec<T>, Failure> {
    let bytes = json::compact(value).map_err(Failure::bug)?;
    let all = group.all_gather(&bytes)?;
    let all = all.iter().map(|bytes| json::read(bytes));
    all.collect::<Result<_, _>>().map_err(|error: serde_json::Error| {
        let fact = format!(
            "the processes do not understand each other: are they the same stormlp? {error}"
        );
        Failure::saying(Cause::Plan, fact).of_all()
    })
}

/// Whether a file or object with this content becomes visible in time.
fn becomes_visible(storage: &dyn Storage, file: &Path, content: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() <= VISIBLE_WITHIN {
        if storage.read_text(file).is_ok_and(|text| text.as_deref() == Some(content)) {
            return true;
        }
        thread::sleep(POLL);
    }
    false
}

/// The kernel's random ID of this boot.
pub fn boot_id() -> String {
    let contents = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    contents.trim().to_string()
}
