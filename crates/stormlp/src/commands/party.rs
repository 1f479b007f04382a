//! The processes of a run on several hosts before its first byte: who takes part, and whether all
//! have made the same plan.

use std::path::Path;

use stormlp_core::difference::Promise;
use stormlp_core::group::{GroupFacts, Machine, Member, SharedFolder, clocks_apart, differ};
use stormlp_core::report::Ending;
use stormlp_core::report::PartOf;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::company::Hosts;
use stormlp_transfer::probe;

use super::shared;
use crate::session::Session;
use crate::{hosts, signals};
use stormlp_core::failure::Failure;
use stormlp_core::note::{Cause, Note};

/// The processes of this run; usually one.
pub(crate) struct Party {
    members: Vec<Member>,
    own: usize,
    local_data: bool,
}

/// The outcome of planning in a process: what it would run, or why it cannot.
type Ready = Result<Vec<Promise>, Note<Cause>>;

impl Party {
    /// Introduces the processes to each other; `local_data` says that each host has its data in a
    /// folder of its own.
    ///
    /// # Errors
    /// If they cannot work together.
    pub(crate) fn introduce(local_data: bool, session: &Session) -> Result<Self, Failure> {
        let group = &*session.group;
        let members = if group.is_alone() {
            Vec::new()
        } else {
            hosts::introduce(session, &probe::host_facts())?
        };
        if !members.is_empty() {
            agree_on_local_data(local_data, &members, session)?;
        }
        if local_data && members.is_empty() {
            return Err(Failure::usage("--local-data has no effect on one host: leave it out"));
        }
        Ok(Self { members, own: group.rank() as usize, local_data })
    }

    /// All processes, by rank; empty if this is the only one.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The names of the processes, by rank.
    pub(crate) fn names(&self) -> Vec<String> {
        Member::names(&self.members)
    }

    /// Whether each host has its data in a folder of its own.
    pub(crate) fn has_local_data(&self) -> bool {
        self.local_data
    }

    /// Number of processes on this host, including this one.
    pub(crate) fn processes_here(&self) -> usize {
        let own = self.members.get(self.own);
        own.map_or(1, |own| {
            let here = self.members.iter().filter(|one| one.shares_host_with(own));
            here.count()
        })
    }

    /// The run that this process's report is a part of; `None` for a single process.
    pub(crate) fn part_of(&self, run_id: &str) -> Option<PartOf> {
        let own = self.members.get(self.own)?;
        Some(PartOf {
            run_id: run_id.to_string(),
            host: own.name(&self.members),
            boot_id: own.boot_id.clone(),
            process: std::process::id(),
            rank: Some(own.rank),
            size: u32::try_from(self.members.len()).ok(),
            start_at: None,
        })
    }

    /// Whether this is the only process.
    pub(crate) fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether this process does the once-per-folder work of the dataset.
    pub(crate) fn owns_folder(&self) -> bool {
        match (self.members.get(self.own), self.local_data) {
            (Some(own), true) => own.leads_host(&self.members),
            _ => self.own == 0,
        }
    }

    /// Checks that all processes have made the same plan, `prepared` in this one, before anything
    /// is executed.
    ///
    /// # Errors
    /// All processes fail alike if one cannot go on, or if two would do different things.
    pub(crate) fn agree<T>(
        &self,
        prepared: Result<T, Failure>,
        promises: impl FnOnce(&T) -> Vec<Promise>,
        session: &Session,
    ) -> Result<T, Failure> {
        if self.is_alone() {
            return prepared;
        }
        let own: Ready = match &prepared {
            Ok(prepared) => Ok(promises(prepared)),
            Err(failure) => Err(failure.note.clone()),
        };
        let all = hosts::exchange(&session.group, &own)?;
        if let Some(failure) = self.failed(&all) {
            return Err(failure);
        }
        match self.difference(&all) {
            Some(line) => Err(Failure::no_plan(anyhow::anyhow!("{line}"))
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
        let mut promises = pairs.filter_map(|(one, member)| Some((one.as_ref().ok()?, member)));
        let (first, one) = promises.next()?;
        promises.find_map(|(theirs, other)| {
            let pairs = first.iter().zip(theirs);
            let mut differing = pairs.filter(|(ours, theirs)| ours != theirs);
            let ((what, of_one), (_, of_other)) = differing.next()?;
            Some(differ(what, (one, of_one), (other, of_other), &self.members))
        })
    }

    /// Checks that all processes see a file that one of them writes to `folder`, unless each host
    /// is said to have its own. A read-only folder is not checked.
    ///
    /// # Errors
    /// All processes fail alike if one does not see it.
    pub(crate) fn check_shared(&self, folder: &Path, session: &Session) -> Result<(), Failure> {
        if self.is_alone() || self.local_data {
            return Ok(());
        }
        let found = shared::look(folder, &self.members, session)?;
        let SharedFolder::NotShared { path, blind } = found else {
            return Ok(());
        };
        let message = format!(
            "{} is not shared: {blind} does not see what {} wrote there",
            path.display(),
            self.members[0].name(&self.members)
        );
        Err(Failure::no_plan(anyhow::anyhow!("{message}"))
            .with_help(
                "use a folder on shared storage, or --local-data where every host has its own copy",
            )
            .of_all())
    }

    /// Warnings about these hosts for the report.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some((behind, ahead, apart)) = clocks_apart(&self.members) {
            warnings.push(Warning::new(
                WarningKind::Hosts,
                format!(
                    "the clock of {} is {apart:.1} s behind that of {}: durations are right, times \
                     in logs do not fit together",
                    behind.hostname, ahead.hostname
                ),
                "set the clocks by one time server",
            ));
        }
        warnings
    }

    /// The hosts as the run needs them, each with its part in a folder of `parts`; `None` for a
    /// single process.
    ///
    /// # Errors
    /// If the other processes cannot be reached.
    pub(crate) fn hosts(
        &self,
        parts: Option<&Path>,
        session: &Session,
    ) -> Result<Option<Hosts>, Failure> {
        if self.is_alone() {
            return Ok(None);
        }
        let facts = GroupFacts {
            machines: Machine::all_of(&self.members),
            ..hosts::facts(&session.group)?
        };
        let (group, members) = (session.group.clone(), self.members.clone());
        let hosts = Hosts::new(group, members, facts);
        Ok(Some(match parts {
            Some(folder) => hosts.with_roll_call(folder),
            None => hosts,
        }))
    }
}

/// Checks that all hosts agree on where their data is.
fn agree_on_local_data(own: bool, members: &[Member], session: &Session) -> Result<(), Failure> {
    let all = hosts::exchange(&session.group, &own)?;
    let given: Vec<&str> = all.iter().map(|local| if *local { "it" } else { "none" }).collect();
    let help = "give it to every host, or to none";
    same_option("--local-data", &given, members, help)
}

/// Checks that all `members` were given the same `option`; `has` holds their values, by rank.
///
/// # Errors
/// With exit code 3; all processes fail alike.
pub(crate) fn same_option<T: AsRef<str> + PartialEq>(
    option: &str,
    has: &[T],
    members: &[Member],
    help: &str,
) -> Result<(), Failure> {
    let Some(other) = has.iter().position(|one| *one != has[0]) else {
        return Ok(());
    };
    let line = differ(
        &format!("option {option}"),
        (&members[0], has[0].as_ref()),
        (&members[other], has[other].as_ref()),
        members,
    );
    Err(Failure::no_plan(anyhow::anyhow!("{line}")).with_help(help).of_all())
}

/// Reports a run on several `hosts` as failed if SIGTERM ended it for an unknown reason: the
/// launcher ended it, because it was interrupted (known if all hosts were present to the end) or
/// because another host failed.
pub(crate) fn blame_launcher(ending: &mut Ending, hosts: Option<&Hosts>) {
    let unsure = hosts.is_some_and(|hosts| !hosts.were_told_to_end() && !hosts.were_all_stopped());
    if unsure && *ending == Ending::Stopped && signals::was_terminated() {
        *ending = Ending::failed(
            Cause::Hosts,
            "the launcher ended this process: it was interrupted (Ctrl-C, a cancelled job), or \
             another host failed",
            "if it was not interrupted, look for the first error on the other hosts",
        );
    }
}

/// Marks a failure as common to all if the run completed on all `hosts`, or if all of them were
/// told to end.
pub(crate) fn shared_fate(failure: Failure, ending: &Ending, hosts: Option<&Hosts>) -> Failure {
    let alike = match ending {
        Ending::Complete | Ending::Stopped => hosts.is_some_and(|hosts| !hosts.are_apart()),
        Ending::Failed(_) | Ending::Unfinished => false,
    };
    if alike { failure.of_all() } else { failure }
}
