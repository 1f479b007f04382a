//! The processes of a run on several hosts before its first byte: who takes part, whether all have
//! come to the same plan.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stormlp_core::difference::Promise;
use stormlp_core::group::{GroupFacts, Machine, Member, SharedFolder, clocks_apart, differ};
use stormlp_core::report::PartOf;
use stormlp_core::report::{Ending, FailureCause};
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::company::Hosts;
use stormlp_transfer::probe;

use super::shared;
use crate::exit::{Code, Failure, error_text};
use crate::session::Session;
use crate::{hosts, signals};

/// The processes of this run; one in the common case.
pub(crate) struct Party {
    members: Vec<Member>,
    own: usize,
    local_data: bool,
}

/// What a process has come to: what it would run, or why it cannot.
#[derive(Serialize, Deserialize)]
enum Ready {
    Yes(Vec<Promise>),
    No { code: u8, message: String, help: Option<String> },
}

impl Party {
    /// Meets the other processes; `local_data` says that every host has its data in a folder of its
    /// own.
    ///
    /// # Errors
    /// When they cannot work together.
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

    /// All of them, by rank; nobody where this process is the only one.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// What each is called, by rank.
    pub(crate) fn names(&self) -> Vec<String> {
        Member::names(&self.members)
    }

    /// Whether every host has its data in a folder of its own.
    pub(crate) fn has_local_data(&self) -> bool {
        self.local_data
    }

    /// Processes of this host, this one included.
    pub(crate) fn processes_here(&self) -> usize {
        let own = self.members.get(self.own);
        own.map_or(1, |own| {
            let here = self.members.iter().filter(|one| one.shares_host_with(own));
            here.count()
        })
    }

    /// Of which run the report of this process is a part; `None` where it is the only one.
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

    /// Whether this process is the only one.
    pub(crate) fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether this process does what is done once for the dataset's folder.
    pub(crate) fn owns_folder(&self) -> bool {
        match (self.members.get(self.own), self.local_data) {
            (Some(own), true) => own.leads_host(&self.members),
            _ => self.own == 0,
        }
    }

    /// Makes sure that all have come to the same plan, `prepared` on this process, before anything
    /// is done by it.
    ///
    /// # Errors
    /// All processes fail alike where one cannot go on, or where two would do different things.
    pub(crate) fn agree<T>(
        &self,
        prepared: Result<T, Failure>,
        promises: impl FnOnce(&T) -> Vec<Promise>,
        session: &Session,
    ) -> Result<T, Failure> {
        if self.is_alone() {
            return prepared;
        }
        let own = match &prepared {
            Ok(prepared) => Ready::Yes(promises(prepared)),
            Err(failure) => Ready::No {
                code: failure.code as u8,
                message: error_text(&failure.error),
                help: failure.help.clone(),
            },
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

    /// The failure of the first process that has one, with its host unless all say the same.
    fn failed(&self, all: &[Ready]) -> Option<Failure> {
        let failures = || {
            all.iter().zip(&self.members).filter_map(|(one, member)| match one {
                Ready::No { code, message, help } => Some((*code, message, help, member)),
                Ready::Yes(_) => None,
            })
        };
        // One that was error_text to end since another one failed is not the cause.
        let is_cause =
            |failure: &(u8, &String, &Option<String>, &Member)| failure.0 != Code::Stopped as u8;
        let cause = failures().find(is_cause).or_else(|| failures().next());
        let (code, message, help, member) = cause?;
        let alike = failures().filter(|(_, other, ..)| *other == message).count();
        let text = if alike == all.len() {
            message.clone()
        } else {
            format!("{}: {message}", member.name(&self.members))
        };
        let mut failure = Failure::new(Code::of(code), anyhow::anyhow!("{text}")).of_all();
        failure.help.clone_from(help);
        Some(failure)
    }

    /// The first thing in which two processes differ.
    fn difference(&self, all: &[Ready]) -> Option<String> {
        let mut promises = all.iter().zip(&self.members).filter_map(|(one, member)| match one {
            Ready::Yes(promises) => Some((promises, member)),
            Ready::No { .. } => None,
        });
        let (first, one) = promises.next()?;
        promises.find_map(|(theirs, other)| {
            let pairs = first.iter().zip(theirs);
            let mut differing = pairs.filter(|(ours, theirs)| ours != theirs);
            let ((what, of_one), (_, of_other)) = differing.next()?;
            Some(differ(what, (one, of_one), (other, of_other), &self.members))
        })
    }

    /// Makes sure that all see what one of them writes into `folder`, unless each host is said to
    /// have its own. A folder that may not be written to is not tried.
    ///
    /// # Errors
    /// All processes fail alike where one does not see it.
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

    /// What the reader should know of these hosts.
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

    /// The hosts as the run needs to know them, where each keeps its part in a folder of `parts`; `None`
    /// alone.
    ///
    /// # Errors
    /// When the others cannot be heard.
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

/// Makes sure that all hosts say the same of where their data is.
fn agree_on_local_data(own: bool, members: &[Member], session: &Session) -> Result<(), Failure> {
    let all = hosts::exchange(&session.group, &own)?;
    let given: Vec<&str> = all.iter().map(|local| if *local { "it" } else { "none" }).collect();
    let help = "give it to every host, or to none";
    same_option("--local-data", &given, members, help)
}

/// Makes sure that all `members` were given the same `option`: what each of them `has`, by rank.
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

/// A run on several `hosts` that SIGTERM ended, ended because its launcher did: since somebody error_text it
/// to, which is known where all hosts were there to the end, or since another host failed.
pub(crate) fn blame_launcher(ending: &mut Ending, hosts: Option<&Hosts>) {
    let unsure = hosts.is_some_and(|hosts| !hosts.were_told_to_end() && !hosts.were_all_stopped());
    if unsure && *ending == Ending::Stopped && signals::was_terminated() {
        *ending = Ending::Failed {
            cause: FailureCause::Hosts,
            message: "the launcher ended this process: it was interrupted (Ctrl-C, a cancelled \
                      job), or another host failed"
                .to_string(),
            remedy: "if it was not interrupted, look for the first error on the other \
                     hosts"
                .to_string(),
        };
    }
}

/// Says that all fail alike where the run came to its end on all `hosts`, or all of them heard that it
/// was to end.
pub(crate) fn shared_fate(failure: Failure, ending: &Ending, hosts: Option<&Hosts>) -> Failure {
    let alike = match ending {
        Ending::Complete | Ending::Stopped => hosts.is_some_and(|hosts| !hosts.are_apart()),
        Ending::Failed { .. } | Ending::Unfinished => false,
    };
    if alike { failure.of_all() } else { failure }
}
