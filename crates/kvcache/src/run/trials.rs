//! The main loop of a run: the trials of each pass, with pauses between them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::evidence::{Evidence, ObjectStore};
use stormlp_core::location::Location;
use stormlp_core::others;
use stormlp_core::report::{Ending, Head, NamedEvidence, NamedSeries};
use stormlp_core::stop::StopToken;
use stormlp_core::transport::DeviceId;
use stormlp_core::warning::{Warning, WarningKind};
use stormlp_hosts::fault::Fault;
use stormlp_hosts::multi_host::Hosts;
use stormlp_hosts::parts::evidence_of_all;
use stormlp_transfer::cufile::Driver as CuFile;
use stormlp_transfer::fallback::{self, hold_cufile};
use stormlp_transfer::run_context::{RunContext, now};
use stormlp_transfer::storage::{FolderLock, Storage};
use stormlp_transfer::telemetry::{BlockDevices, Instruments, peak_rss_bytes};
use stormlp_transfer::thread_group::{self, Start};

use super::chunk_files::ServingState;
use super::error::KvcacheError;
use super::folder;
use super::stage::Stage;
use super::tally::{Timings, TrialId};
use super::together::Together;
use crate::plan::{KvcachePlan, MOST_DROPPED_PERCENT, Marker, NOISE_ELEMENTS, Noise, ServingPlan};
use crate::report::{
    COLD_SHARE, DEVICE_SHARE, KvcacheReport, KvcacheResults, TrialResult, summarise,
    unwritten_percent,
};

/// Loads, or reads of a trace, that are a smaller share than this of the expected number are rare.
const RARE: f64 = 0.5;
/// Elements of the noise that a thread makes at a time.
const NOISE_PART: usize = 1 << 20;

/// How often a pause checks for a stop request.
const TICK: Duration = Duration::from_millis(50);

/// Runs the plan, on several `hosts` if there are any, each with a separate plan, and passes the
/// results so far to `on_unit` after each trial. All hosts begin each trial at the same moment, and
/// end with a report of all. Results from before a failure or a stop are in the report; its
/// `ending` says which it was.
///
/// # Errors
/// If the run cannot start: the folder is in use or holds other files, or there is no memory.
pub fn run(
    hosts: Option<&Hosts>,
    (head, plan): (Head, &KvcachePlan),
    surroundings: &RunContext<'_>,
    on_unit: &mut dyn FnMut(&KvcacheReport),
) -> Result<KvcacheReport, KvcacheError> {
    let folder = RunFolder::enter(plan, &**surroundings.storage)?;
    Ok(folder.carry_out(hosts, (head, plan), None, surroundings, on_unit))
}

/// The common parts of the runs on a folder: the folder itself, locked and marked; its monitor; and
/// the noise that all objects are pieces of.
pub(super) struct RunFolder {
    pub(super) folder: Location,
    pub(super) devices: BlockDevices,
    pub(super) instruments: Instruments,
    pub(super) noise: Noise,
    pub(super) started: Instant,
    _cufile: Option<Arc<CuFile>>,
    _lock: FolderLock,
}

impl RunFolder {
    /// Enters the folder of a plan, and makes the noise.
    ///
    /// # Errors
    /// If the folder is in use or holds other files, or only a path is acceptable that cannot run.
    pub(super) fn enter(plan: &KvcachePlan, storage: &dyn Storage) -> Result<Self, KvcacheError> {
        let folder = plan.request.own_folder();
        let marker = Marker::new(plan.models(), plan.seed, plan.trace.is_some());
        let lock = folder::enter(storage, folder.folder(), &marker)?;
        let needed = plan.transport.path.needs_cufile();
        let cufile = hold_cufile(needed, plan.request.requires_gds(), None)?;
        let gpus = plan.transport.accelerators().filter_map(DeviceId::gpu_index);
        let telemetry = plan.request.tune().telemetry;
        let started = Instant::now();
        let noise = make_noise(plan)?;
        Ok(Self {
            devices: storage.devices(&[folder.folder()]),
            instruments: Instruments::around([folder.folder()], gpus, telemetry),
            noise,
            started,
            folder,
            _cufile: cufile,
            _lock: lock,
        })
    }
}

/// All of the noise, made on every CPU.
fn make_noise(plan: &KvcachePlan) -> Result<Noise, KvcacheError> {
    let noise = Noise::new(plan.seed.into());
    let mut all = vec![[0; 2]; NOISE_ELEMENTS as usize];
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let parts = all.chunks_mut(NOISE_PART).zip((0..).step_by(NOISE_PART));
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (nth, part) in parts.enumerate() {
        shares[nth % threads].push(part);
    }
    let generate = |share: Vec<(&mut [_], _)>, _: &mut Start<'_>| {
        share.into_iter().for_each(|(part, place)| noise.generate(place, part));
    };
    thread_group::run("noise", shares, &StopToken::new(), generate, |_| ())?;
    Ok(noise.holding(all))
}

impl RunFolder {
    /// Runs the trials of a plan, with the `serving` state that several runs share, if they do.
    pub(super) fn carry_out(
        &self,
        hosts: Option<&Hosts>,
        (head, plan): (Head, &KvcachePlan),
        serving: Option<&ServingState<'_>>,
        surroundings: &RunContext<'_>,
        on_unit: &mut dyn FnMut(&KvcacheReport),
    ) -> KvcacheReport {
        let &RunContext { storage, observer, stop } = surroundings;
        let mut report = KvcacheReport::new(head, plan.clone(), KvcacheResults::default());
        report.warnings.clone_from(&plan.warnings);
        report.results.group = hosts.map(|hosts| hosts.facts.clone());
        report.warnings.extend(report.head.host.debug_build());
        let mut run = Run {
            stage: Stage {
                plan,
                folder: self.folder.folder(),
                storage: &**storage,
                observer,
                stop,
                devices: &self.devices,
                instruments: &self.instruments,
                noise: &self.noise,
                started: self.started,
                serving,
                hosts,
            },
            report,
            timings: plan.passes.iter().map(|_| Timings::default()).collect(),
            seen: Vec::new(),
            on_unit,
        };
        // All hosts meet at the end. On an error the run ends regardless of the other hosts.
        let ended = run.all().and_then(|()| run.edge());
        run.sum_up();
        let mut report = run.report;
        report.ending = match ended {
            Err(error) => failed(&error, plan),
            Ok(()) if Hosts::have_stopped(hosts, stop) => Ending::Stopped,
            Ok(()) => Ending::Complete,
        };
        report.warnings.extend(storage.warnings());
        for trial in &report.results.trials.clone() {
            warnings_of(trial, plan).into_iter().for_each(|warning| report.warn(warning));
        }
        let direct = plan.transport.path.wants_direct();
        let load = others::warning(&report.series, direct, hosts.map(|hosts| &hosts.facts));
        report.warnings.extend(load);
        report.head.ended_at = Some(now());
        report
    }
}

/// The ending of a run that could not go on.
fn failed(error: &KvcacheError, plan: &KvcachePlan) -> Ending {
    let fell_back = match error {
        // The missing part of the run was there before, which the error knows better.
        KvcacheError::Fault(Fault::Transfer(error)) if !error.is_not_found() => {
            fallback::remedy(plan.request.requires_gds(), error)
        }
        _ => None,
    };
    Ending::failed(error.cause(), error.to_string(), fell_back.unwrap_or(error.remedy()))
}

/// Warnings about the figures of a trial.
fn warnings_of(trial: &TrialResult, plan: &KvcachePlan) -> Vec<Warning> {
    let load = plan.serving.as_ref();
    let rare = load.and_then(|load| rare_loads(trial, load));
    let unwritten = load.and_then(|load| unwritten(trial, load));
    rare.into_iter()
        .chain(unwritten)
        .chain(dense(plan))
        .chain(absent_objects(trial, plan))
        .chain(from_memory(trial, plan))
        .collect()
}

/// A trace with more requests in a second than servers have, as if its times had another unit.
fn dense(plan: &KvcachePlan) -> Option<Warning> {
    let trace = plan.trace.as_ref().filter(|trace| trace.entries > 1000)?;
    let rate = trace.entries as f64 / trace.span_seconds.max(1e-9);
    let fact = format!("the trace has {rate:.0} entries per second");
    let remedy = "check the unit of its times; --speed 0.001 makes milliseconds of seconds";
    (rate > 10_000.0).then(|| Warning::new(WarningKind::KnownIssue, fact, remedy))
}

/// What to do if chunks are not written in time.
const SLOW_WRITES: &str =
    "writes fall behind: use a lower --concurrency or --request-rate, or --tune writers=N";

/// Prompts that load much less than the plan has it, with the remedy.
fn rare_loads(trial: &TrialResult, load: &ServingPlan) -> Option<Warning> {
    let prompts = trial.prompts.as_ref().filter(|prompts| prompts.tokens > 0)?;
    let expected = load.expected_share()?;
    // Prefixes that prompts bring need room, too: chunks deleted for them are not found again.
    let has_room = load.prefix_bytes() / load.chunk_bytes <= load.most_chunks
        && trial.evictions.deleted <= prompts.dropped;
    let remedy = match (has_room, prompts.dropped) {
        (false, _) => "use a larger --capacity, or fewer --prefixes",
        (true, 0) => "use a longer --duration",
        (true, _) => SLOW_WRITES,
    };
    (prompts.loaded_share() < RARE * expected).then(|| {
        let [loaded, expected] = [prompts.loaded_share(), expected].map(|share| share * 100.0);
        let fact =
            format!("only {loaded:.0} % of the tokens were loaded, {expected:.0} % expected");
        Warning::new(WarningKind::Dataset, fact, remedy)
    })
}

/// New chunks that were not written: later prompts do not find them. Where prompts wait for room,
/// chunks wait by design.
fn unwritten(trial: &TrialResult, load: &ServingPlan) -> Option<Warning> {
    let percent = unwritten_percent(trial, load);
    let prompts = trial.prompts.as_ref()?;
    (load.drops && percent > MOST_DROPPED_PERCENT).then(|| {
        let fact = format!(
            "{percent:.0} % of new chunks were not written: {} dropped, {} left waiting",
            prompts.dropped, prompts.waiting
        );
        Warning::new(WarningKind::Dataset, fact, SLOW_WRITES)
    })
}

/// Reads of a trace that found no object.
fn absent_objects(trial: &TrialResult, plan: &KvcachePlan) -> Option<Warning> {
    let found = &trial.lookups;
    let reads = found.own_hits + found.own_misses;
    let is_rare = (found.own_hits as f64) < RARE * reads as f64;
    (plan.trace.is_some() && is_rare).then(|| {
        let fact = format!("{} of {reads} reads found no object", found.own_misses);
        let remedy = match trial.evictions.deleted {
            0 => "use a trace that writes the objects it reads",
            _ => "objects were evicted: use a larger --capacity",
        };
        Warning::new(WarningKind::Dataset, fact, remedy)
    })
}

/// Reads and writes that memory did.
fn from_memory(trial: &TrialResult, plan: &KvcachePlan) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(sample) = trial.residency.filter(|sample| sample.after_drop > COLD_SHARE) {
        warnings.push(Warning::new(
            WarningKind::CacheState,
            format!(
                "{:.0} % of the sampled objects were still in the page cache after they were dropped",
                sample.after_drop * 100.0
            ),
            match plan.serving {
                Some(_) => "reads may come from memory: use --path cpu",
                None => {
                    "reads may come from memory: use a --dir on a file system that can drop its pages"
                }
            },
        ));
    }
    let known = plan.warnings.iter().any(|warning| warning.kind == WarningKind::CacheState);
    let Some(device) = trial.device.filter(|_| !known) else {
        return warnings;
    };
    for (verb, moved, of_device) in [
        ("read", trial.read.all_bytes(), device.read_bytes),
        // Chunks written in the background reach devices whenever the kernel likes.
        (
            "written",
            if plan.serving.is_some() { 0 } else { trial.written.all_bytes() },
            device.written_bytes,
        ),
    ] {
        let share = of_device as f64 / moved.max(1) as f64;
        if moved > 0 && share < DEVICE_SHARE {
            warnings.push(Warning::new(
                WarningKind::CacheState,
                format!("devices moved only {:.0} % of the bytes that were {verb}", share * 100.0),
                "the rest was in memory, or storage compresses: use a --dir on storage",
            ));
        }
    }
    warnings
}

/// A run in progress.
struct Run<'a> {
    stage: Stage<'a>,
    report: KvcacheReport,
    /// The times of all trials of each pass.
    timings: Vec<Timings>,
    /// The evidence of the path of each trial.
    seen: Vec<Evidence>,
    on_unit: &'a mut dyn FnMut(&KvcacheReport),
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), KvcacheError> {
        let plan = self.stage.plan;
        let count = plan.passes.len();
        for pass in 0..count {
            for trial in 1..=plan.trials {
                let is_first = (pass, trial) == (0, 1);
                // The rules fix a pause between options, not between trials.
                let pauses = if plan.request.is_closed() { trial == 1 } else { true };
                self.stage.works()?;
                if pauses && !is_first && !self.pause()? {
                    return Ok(());
                }
                let is_last = (pass + 1, trial) == (count, plan.trials);
                let id = TrialId { pass, trial, keeps: is_last && plan.request.run.no_cleanup };
                if self.trial(id)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether it was the last, since the run is to end.
    fn trial(&mut self, id: TrialId) -> Result<bool, KvcacheError> {
        self.stage.works()?;
        let outcome = self.stage.run(id)?;
        let Together { trial, is_stopped, failure } = self.stage.together(id, outcome)?;
        let name = format!("{} run {}", self.stage.plan.part_name(id.pass), id.trial);
        let Some((result, measured)) = trial else {
            let what = format!("left out, as not completed on every host: {name}");
            self.report.warn(Warning::new(WarningKind::Hosts, what, ""));
            return failure.map_or(Ok(is_stopped), Err);
        };
        let is_early = is_stopped || failure.is_some();
        if is_early && result.moved_nothing() {
            return failure.map_or(Ok(is_stopped), Err);
        }
        let timings = &measured.tally.timings;
        let objects = timings.objects();
        self.timings[id.pass].merge(timings);
        self.report.results.trials.push(result);
        self.report.series.push(NamedSeries { name, series: measured.watched.series });
        let fell_back = self.take_evidence(measured.evidence, objects);
        self.sum_up();
        (self.on_unit)(&self.report);
        failure.or(fell_back).map_or(Ok(is_stopped), Err)
    }

    /// Keeps the evidence of the path that ran in a trial of so many `objects`, and shows the
    /// evidence of all; the failure if it is another one than has to.
    fn take_evidence(&mut self, evidence: Option<Evidence>, objects: u64) -> Option<KvcacheError> {
        let plan = self.stage.plan;
        let (path, required) = (plan.transport.path, plan.request.requires_gds());
        let evidence = evidence?;
        let store = evidence.object_store.as_ref();
        let of_store = store.into_iter().flat_map(ObjectStore::warnings);
        for warning in fallback::warning(path, &evidence).into_iter().chain(of_store) {
            self.report.warn(warning);
        }
        let broken = fallback::broken_demand(required, path, &evidence, objects);
        self.seen.push(evidence);
        let named = evidence_of_all(path, self.seen.iter())
            .map(|evidence| NamedEvidence { name: "objects".to_string(), evidence });
        self.report.evidence = named.into_iter().collect();
        broken.map(|summary| Fault::FellBack { summary }.into())
    }

    /// Waits until all hosts have reached this point.
    fn edge(&self) -> Result<(), KvcacheError> {
        let edge = self.stage.hosts.map_or(Ok(false), Hosts::edge);
        edge.map(drop).map_err(KvcacheError::from)
    }

    /// Updates the sums over the trials so far.
    fn sum_up(&mut self) {
        let plan = self.stage.plan;
        let results = &mut self.report.results;
        results.passes = summarise(&results.trials, plan.passes.len());
        results.elapsed_seconds = self.stage.started.elapsed().as_secs_f64();
        results.peak_rss_bytes = peak_rss_bytes();
        let named = self.timings.iter().enumerate();
        self.report.histograms =
            named.flat_map(|(pass, timings)| timings.named(&plan.part_name(pass))).collect();
    }

    /// Waits before a trial; `false` if the run is to end, on which all hosts agree.
    fn pause(&self) -> Result<bool, KvcacheError> {
        let until = Instant::now() + Duration::from_secs_f64(self.stage.plan.pause_seconds);
        while !self.stage.stop.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(TICK));
        }
        match self.stage.hosts {
            Some(hosts) => Ok(!hosts.edge()?),
            None => Ok(!self.stage.stop.is_stopped()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::fixtures;

    #[test]
    fn chunks_that_are_not_written_are_warned_of_unless_prompts_wait_for_room() {
        let mut report = fixtures::serving();
        let mut load = report.plan.serving.take().unwrap();
        let trial = &mut report.results.trials[0];
        // 12 of 212.
        let warning = unwritten(trial, &load).expect("a warning");
        assert_eq!(warning.fact, "6 % of new chunks were not written: 12 dropped, 3 left waiting");
        trial.prompts.as_mut().unwrap().waiting = 30_401;
        assert!(unwritten(trial, &load).unwrap().fact.contains("99 %"));
        load.drops = false;
        assert_eq!(unwritten(trial, &load), None);
    }

    #[test]
    fn rare_loads_are_due_to_room_if_chunks_were_deleted_for_others() {
        let mut report = fixtures::serving();
        let load = report.plan.serving.take().unwrap();
        let trial = &mut report.results.trials[0];
        let remedy = |trial: &TrialResult| rare_loads(trial, &load).map(|warning| warning.remedy);
        assert_eq!(remedy(trial), None);
        let with = |trial: &mut TrialResult, dropped: u64, deleted: u64| {
            let prompts = trial.prompts.as_mut().unwrap();
            (prompts.loaded_tokens, prompts.dropped) = (prompts.tokens / 10, dropped);
            trial.evictions.deleted = deleted;
            remedy(trial).expect("a warning")
        };
        assert_eq!(with(trial, 0, 0), "use a longer --duration");
        assert!(with(trial, 12, 0).starts_with("writes fall behind"));
        assert!(with(trial, 0, 1371).starts_with("use a larger --capacity"));
        assert!(with(trial, 12, 1371).starts_with("use a larger --capacity"));
    }
}
