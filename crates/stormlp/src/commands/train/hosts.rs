//! A run on several hosts before its first byte: who takes part with how many accelerators, whether
//! all have the same plan and the same dataset, and whether its folder is shared.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stormlp_emulator::training::Hosts;
use stormlp_model::group::{Member, clocks_apart, differ, memory_bytes};
use stormlp_model::report::{Ending, FailureCause};
use stormlp_model::training::inventory::Inventory;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::training::report::TrainReport;
use stormlp_model::training::request::{RequestedHosts, TrainRequest};
use stormlp_model::units::{ByteSize, counted};
use stormlp_model::warning::{Warning, WarningKind};
use stormlp_transfer::probe;
use stormlp_transfer::storage::{Disk, Durability, Storage as _};

use super::finish;
use crate::commands::deliver::Delivery;
use crate::exit::{Code, Failure, told};
use crate::session::Session;
use crate::{hosts, signals};

/// How long a file of another host may take to be seen: attribute caches of NFS hold for seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// How the hosts of a run share its work and its data.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct HostsArgs {
    /// Accelerators of all hosts together, as many on each
    #[arg(long, value_name = "N", conflicts_with_all = ["accelerators", "find_max"], value_parser = clap::value_parser!(u32).range(1..))]
    accelerators_total: Option<u32>,

    /// Every host has the dataset in a folder of its own: nothing is said of shared storage then
    #[arg(long, conflicts_with = "find_max")]
    local_data: bool,
}

/// The processes of this run; one in the common case.
pub(super) struct Party {
    members: Vec<Member>,
    own: usize,
    local_data: bool,
}

/// What a process asks for.
#[derive(Serialize, Deserialize)]
struct Asks {
    accelerators: u32,
    drawn_seed: u64,
}

/// What a process has come to: what it would run, or why it cannot.
#[derive(Serialize, Deserialize)]
enum Ready {
    Yes(Vec<(String, String)>),
    No {
        code: u8,
        message: String,
        help: Option<String>,
    },
}

impl Party {
    /// Meets the other processes.
    ///
    /// # Errors
    /// When they cannot work together.
    pub(super) fn introduce(args: &HostsArgs, session: &Session) -> Result<Self, Failure> {
        let group = &*session.group;
        let members = match group.is_alone() {
            true => Vec::new(),
            false => hosts::introduce(group, &probe::host_facts())?,
        };
        if args.local_data && members.is_empty() {
            return Err(Failure::usage(
                "--local-data has no effect on one host: leave it out",
            ));
        }
        Ok(Self {
            members,
            own: group.rank() as usize,
            local_data: args.local_data,
        })
    }

    /// Puts into `request` what all ask for together.
    ///
    /// # Errors
    /// When the accelerators cannot be divided.
    pub(super) fn ask(
        &self,
        args: &HostsArgs,
        request: &mut TrainRequest,
        session: &Session,
    ) -> Result<(), Failure> {
        let group = &*session.group;
        if let Some(total) = args.accelerators_total {
            request.accelerators = Some(divided(total, group.size())?);
        }
        if self.is_alone() {
            return Ok(());
        }
        let asks = Asks {
            accelerators: request.accelerators.unwrap_or(1),
            drawn_seed: request.drawn_seed,
        };
        let asks = hosts::exchange(group, &asks)?;
        let accelerators: Vec<u32> = asks.iter().map(|one| one.accelerators).collect();
        request.drawn_seed = asks.first().map_or(0, |one| one.drawn_seed);
        request.accelerators = Some(accelerators.iter().sum());
        let all = &self.members;
        let hosts = all.iter().filter(|member| member.leads_host(all));
        request.hosts = Some(RequestedHosts {
            accelerators,
            rank: group.rank(),
            hosts: hosts.count() as u32,
            memory_bytes: memory_bytes(all),
        });
        Ok(())
    }

    /// Whether this process is the only one.
    pub(super) fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether this process does what is done once for the dataset's folder.
    pub(super) fn owns_folder(&self) -> bool {
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
    pub(super) fn agree<T>(
        &self,
        prepared: Result<T, Failure>,
        promises: impl FnOnce(&T) -> Vec<(String, String)>,
        session: &Session,
    ) -> Result<T, Failure> {
        if self.is_alone() {
            return prepared;
        }
        let own = match &prepared {
            Ok(prepared) => Ready::Yes(promises(prepared)),
            Err(failure) => Ready::No {
                code: failure.code as u8,
                message: told(&failure.error),
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
            all.iter()
                .zip(&self.members)
                .filter_map(|(one, member)| match one {
                    Ready::No {
                        code,
                        message,
                        help,
                    } => Some((*code, message, help, member)),
                    Ready::Yes(_) => None,
                })
        };
        let (code, message, help, member) = failures().next()?;
        let alike = failures()
            .filter(|(_, other, ..)| *other == message)
            .count();
        let text = match alike == all.len() {
            true => message.clone(),
            false => format!("{}: {message}", member.name(&self.members)),
        };
        let mut failure = Failure::new(Code::of(code), anyhow::anyhow!("{text}")).of_all();
        failure.help.clone_from(help);
        Some(failure)
    }

    /// The first thing in which two processes differ.
    fn difference(&self, all: &[Ready]) -> Option<String> {
        let mut promises = all
            .iter()
            .zip(&self.members)
            .filter_map(|(one, member)| match one {
                Ready::Yes(promises) => Some((promises, member)),
                Ready::No { .. } => None,
            });
        let (first, one) = promises.next()?;
        promises.find_map(|(theirs, other)| {
            let pairs = first.iter().zip(theirs);
            let mut differing = pairs.filter(|(ours, theirs)| ours != theirs);
            let ((what, of_one), (_, of_other)) = differing.next()?;
            Some(differ(
                what,
                (one, of_one),
                (other, of_other),
                &self.members,
            ))
        })
    }

    /// Finds out whether all see what one of them writes into `folder`, unless each host is said to
    /// have its own. A folder that may not be written to is not tried.
    ///
    /// # Errors
    /// All processes fail alike where one does not see it.
    pub(super) fn check_shared(&self, folder: &Path, session: &Session) -> Result<(), Failure> {
        if self.is_alone() || self.local_data {
            return Ok(());
        }
        let group = &*session.group;
        let name = format!(".stormlp-seen-by-all-{}", std::process::id());
        let written = group.leads() && {
            let path = folder.join(&name);
            Disk.write(&path, name.as_bytes(), Durability::Whole)
                .is_ok()
        };
        // Who writes says under which name; nobody else's counts.
        let told = hosts::exchange(group, &written.then_some(name))?;
        let Some(name) = told.into_iter().next().flatten() else {
            return Ok(());
        };
        let path = folder.join(&name);
        let begun = Instant::now();
        let seen = loop {
            if fs::read(&path).is_ok_and(|bytes| bytes == name.as_bytes()) {
                break true;
            }
            if begun.elapsed() > SEEN_WITHIN {
                break false;
            }
            thread::sleep(LOOK);
        };
        let seen = hosts::exchange(group, &seen)?;
        if group.leads() {
            let _ = fs::remove_file(&path);
        }
        let Some(blind) = seen.iter().position(|seen| !seen) else {
            return Ok(());
        };
        let name = |index: usize| self.members[index].name(&self.members);
        let message = format!(
            "{} is not shared: {} does not see what {} wrote there",
            folder.display(),
            name(blind),
            name(0)
        );
        Err(Failure::no_plan(anyhow::anyhow!("{message}"))
            .with_help(
                "use a folder on shared storage, or --local-data where every host has its own copy",
            )
            .of_all())
    }

    /// What the reader should know of these hosts.
    pub(super) fn warnings(&self, plan: &TrainPlan) -> Vec<Warning> {
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
        if plan.hosts.iter().any(|count| *count != plan.hosts[0]) {
            warnings.push(Warning::new(
                WarningKind::Hosts,
                "the hosts have different numbers of accelerators, which MLPerf's closed rules do \
                 not allow",
                "give every host the same --accelerators",
            ));
        }
        if self.local_data {
            warnings.push(Warning::new(
                WarningKind::Hosts,
                "every host read a dataset of its own (--local-data): nothing here is of shared \
                 storage",
                "",
            ));
        }
        warnings
    }

    /// The hosts as the run needs to know them; `None` alone.
    ///
    /// # Errors
    /// When the others cannot be heard.
    pub(super) fn hosts(&self, session: &Session) -> Result<Option<Hosts>, Failure> {
        if self.is_alone() {
            return Ok(None);
        }
        let names = self.members.iter().map(|member| member.name(&self.members));
        Ok(Some(Hosts {
            names: names.collect(),
            facts: hosts::facts(&session.group)?,
            group: session.group.clone(),
        }))
    }
}

/// What a run by `plan` over `inventory` does, as far as all have to do the same.
pub(super) fn promises(plan: &TrainPlan, inventory: &Inventory) -> Vec<(String, String)> {
    let mut hasher = DefaultHasher::new();
    for file in inventory.train.iter().chain(&inventory.valid) {
        (&file.name, file.bytes).hash(&mut hasher);
    }
    let data = &plan.data;
    let dataset = format!(
        "{} with {} ({:08x})",
        counted(data.files, "file"),
        ByteSize(data.bytes),
        hasher.finish() as u32
    );
    let shuffle = format!("{:?}", plan.shuffle);
    let cold = match plan.cold {
        true => "--cold",
        false => "no --cold",
    };
    let promises: [(&str, String); 14] = [
        ("workload", plan.workload.clone()),
        ("profile", plan.profile.to_string()),
        ("accelerator", plan.accelerator.clone()),
        ("batch size", plan.batch_size.to_string()),
        ("number of epochs", plan.epochs.to_string()),
        ("number of runs", plan.runs.to_string()),
        ("dataset", dataset),
        ("steps of an epoch", plan.steps_per_epoch.to_string()),
        ("compute time", plan.compute.to_string()),
        ("loader", format!("{:?}", plan.loader)),
        ("storage", format!("{:?}", plan.storage).to_lowercase()),
        ("path", plan.transport.path.to_string()),
        ("page cache", cold.to_string()),
        ("shuffle", shuffle),
    ];
    let named = promises.into_iter();
    named
        .map(|(what, value)| (what.to_string(), value))
        .collect()
}

/// How the run ended for a process that does not speak for all. What it knows is saved where the
/// others may have no time for it.
///
/// # Errors
/// As the run ended.
pub(super) fn ended_beside(
    report: &TrainReport,
    delivery: &Delivery,
    session: &Session,
) -> Result<(), Failure> {
    let saved = match report.ending == Ending::Complete {
        true => None,
        false => {
            let host = &report.head.host.hostname;
            let name = format!("{}-{host}-{}", report.plan.workload, session.group.rank());
            delivery.keep(&name, report, session).ok()
        }
    };
    let ended = finish::ended(report, saved.as_deref());
    ended.map_err(|failure| shared_fate(failure, report))
}

/// Says that all fail alike where the run came to its end on all hosts.
pub(super) fn shared_fate(failure: Failure, report: &TrainReport) -> Failure {
    match report.ending == Ending::Complete && !report.results.hosts.is_empty() {
        true => failure.of_all(),
        false => failure,
    }
}

/// A run that SIGTERM ended, ended because its launcher did, and that because another host failed or
/// somebody cancelled the job.
pub(super) fn blame_launcher(report: &mut TrainReport) {
    if report.ending == Ending::Stopped && signals::was_terminated() {
        report.ending = Ending::Failed {
            cause: FailureCause::Hosts,
            message: "the launcher ended this process: another host failed, or the job was \
                      cancelled"
                .to_string(),
            remedy: "look on the other hosts for the first error".to_string(),
        };
    }
}

/// The share of each of `processes`.
fn divided(total: u32, processes: u32) -> Result<u32, Failure> {
    match total.is_multiple_of(processes) {
        true => Ok(total / processes),
        false => Err(Failure::usage(format!(
            "--accelerators-total {total} cannot be divided by {processes} processes"
        ))
        .with_help("name a multiple, or how many each has with --accelerators")
        .of_all()),
    }
}
