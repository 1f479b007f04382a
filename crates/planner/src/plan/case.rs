//! The runs that a prediction simulates: each a number of accelerators on hosts and storage.

use super::known::KnownStorage;
use super::part::{self, Extent, Part};
use super::prediction::Prediction;
use super::request::{MAX_ACCELERATORS, SizingRequest};
use super::scenario::Scenario;
use super::storage::StorageModel;
use stormlp_core::calibration::CalibrationOrigin;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::{Failure, Problems};
use stormlp_core::path::PathKind;
use stormlp_core::units::GIB;
use stormlp_core::workload_file::sets;
use stormlp_training::plan::datasize::{DataSize, SizeRequest, datasize};
use stormlp_training::plan::request::{RunLength, TrainRequest};
use stormlp_training::plan::resolve::imagined;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;

/// Bytes per second that a host reads through its page cache: the middle of published runs of hosts
/// with the official client and storage to spare (docs/validation.md).
pub const PUBLISHED_HOST_RATE: f64 = 20.0 * GIB as f64;

/// The input of a prediction: the request, with everything it names.
#[derive(Debug, Clone)]
pub struct Sizing {
    /// The options.
    pub asked: SizingRequest,
    /// The workload to simulate.
    pub workload: Workload,
    /// This machine, which a run's plan requires.
    pub host: HostFacts,
    /// The storage to simulate.
    pub storage: KnownStorage,
    /// Where the client's cost was measured, if a calibration is given.
    pub calibration: Option<CalibrationOrigin>,
    /// The requested checkpoint, if any: its model or description, and its size in bytes.
    pub checkpoint: Option<(String, u64)>,
}

/// A run of a number of accelerators, ready to be simulated.
#[derive(Debug, Clone)]
pub struct Case {
    /// The whole run.
    pub whole: TrainPlan,
    /// The part of it that is simulated.
    pub plan: TrainPlan,
    /// Hosts and storage of the simulated part.
    pub scenario: Scenario,
    /// Hosts of the whole run.
    pub hosts: u32,
    /// The dataset required by MLPerf's rules.
    pub size: DataSize,
}

impl Case {
    /// Scales the outcome of the simulated accelerators to all of them. A short part of a run uses
    /// up samples read before it: that counts only as far as storage could go on.
    pub fn of_all(&self, simulated: Prediction) -> Prediction {
        let times = f64::from(self.whole.accelerators) / f64::from(self.plan.accelerators);
        let is_part = times > 1.0 || self.plan.steps_per_epoch < self.whole.steps_per_epoch;
        let used = self.storage_share(simulated.samples_per_second * times).filter(|_| is_part);
        let pace = used.map_or(1.0, |share| share.max(1.0).recip());
        let rate = times * pace;
        Prediction {
            au_percent: simulated.au_percent * pace,
            samples_per_second: simulated.samples_per_second * rate,
            mib_per_second: simulated.mib_per_second * rate,
            read_mib_per_second: simulated.read_mib_per_second * rate,
            epoch_au_percent: simulated.epoch_au_percent.iter().map(|au| au * pace).collect(),
            ..simulated
        }
    }

    /// The share of the storage bandwidth that so many samples per second are; `None` if a page
    /// cache or a measurement supplies more than the figures of drives.
    pub fn storage_share(&self, samples_per_second: f64) -> Option<f64> {
        let (whole, storage) = (&self.whole, &self.scenario.storage);
        let bytes = samples_per_second * whole.data.read_sample_bytes * whole.passes();
        let is_all = storage.cache_bytes.is_none() && storage.surface.is_none();
        is_all.then(|| bytes / storage.read_bytes_per_second())
    }

    /// Duration of the whole run, at the pace of the simulated part.
    pub fn run_seconds(&self, of_all: &Prediction) -> f64 {
        let whole = &self.whole;
        let steps = whole.steps_per_epoch * u64::from(whole.epochs);
        if steps == self.plan.steps_per_epoch * u64::from(self.plan.epochs)
            || of_all.samples_per_second <= 0.0
        {
            return of_all.run_seconds;
        }
        steps as f64 * whole.global_batch() as f64 / of_all.samples_per_second
    }

    /// Assumptions made by simulating only a part.
    pub fn assumptions(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let (some, all) = (self.plan.accelerators, self.whole.accelerators);
        if some < all {
            notes.push(format!(
                "{some} accelerators on their share of storage and hosts represent all {all}, which \
                 behave alike"
            ));
        }
        if part::reads_far_ahead(&self.whole) {
            notes.push(format!(
                "loaders read up to {} batches ahead, and an epoch has {} steps: many of the samples that AU counts \
                 may be prefetched, so the largest number of accelerators is capped by bandwidth \
                 (longer epochs, --steps, give more accurate results)",
                part::filling(&self.whole),
                self.whole.steps_per_epoch
            ));
        }
        notes
    }

    /// Whether AU reaches the threshold only by prefetched samples: reaching it needs more
    /// bandwidth than storage has.
    pub fn prefetch_bound(&self) -> bool {
        let (whole, storage) = (&self.whole, &self.scenario.storage);
        let takes = whole.demand_bytes_per_second() * whole.passes();
        storage.cache_bytes.is_none()
            && part::reads_far_ahead(whole)
            && takes * whole.metric.threshold_percent / 100.0 > storage.read_bytes_per_second()
    }
}

impl Sizing {
    /// Checks the options against each other and against the things that they name.
    ///
    /// # Errors
    /// If an option is invalid or has no effect.
    pub fn check(&self) -> Result<(), Failure> {
        let (asked, path, storage) = (&self.asked, self.path(), &self.storage.model);
        let uses_cache = storage.cache_bytes.is_some() || storage.read_ahead_bytes.is_some();
        let room = asked.room().unwrap_or(u32::MAX);
        let wanted = asked.accelerators.unwrap_or(0);
        let is_uncached = self.is_uncached();
        let wrong = if path == PathKind::Null {
            "--path null does not read from storage: remove --path".to_string()
        } else if storage.has_objects() && path != PathKind::S3 {
            format!("--storage is an object store, and path {path} reads files: remove --path")
        } else if is_uncached && uses_cache {
            format!(
                "--storage: cache= and readahead= have no effect with path {path}, which bypasses \
                 the page cache: remove them, or use --path buffered"
            )
        } else if asked.host_spec().read_bytes_per_second.is_some() && is_uncached {
            format!(
                "--host read= has no effect with path {path}, which bypasses the page cache: remove \
                 it"
            )
        } else if wanted > room {
            format!(
                "--hosts and --host accelerators= have room for {room} accelerators, but -n is \
                 {wanted}: use more hosts"
            )
        } else if sets(&asked.params, "dataset.num_files_train") {
            "--params dataset.num_files_train has no effect: MLPerf's rules determine the dataset \
             size; remove it, and set --host memory= or --steps"
                .to_string()
        } else if asked.mtbf_seconds.is_some() && self.checkpoint().is_none() {
            "--mtbf has no effect: the workload does not write checkpoints; add one with \
             --checkpoint"
                .to_string()
        } else {
            return self.unknown_client().map_or(Ok(()), Err);
        };
        Err(Failure::usage(wrong))
    }

    /// The read path: as requested, otherwise an object store's, otherwise the workload's.
    pub fn path(&self) -> PathKind {
        let usual = match (self.storage.model.has_objects(), self.workload.reader.odirect) {
            (true, _) => PathKind::S3,
            (false, true) => PathKind::Cpu,
            (false, false) => PathKind::Buffered,
        };
        self.asked.path.unwrap_or(usual)
    }

    /// Whether reads bypass the page cache.
    pub fn is_uncached(&self) -> bool {
        !self.path().uses_page_cache()
    }

    /// Number of hosts, if given. Storage measured by several hosts feeds as many, unless other
    /// hosts are requested.
    pub fn hosts(&self) -> Option<u32> {
        let measured_by =
            self.storage.hosts.filter(|_| self.asked.host_spec().accelerators.is_none());
        self.asked.hosts.or(measured_by)
    }

    /// Memory per host in bytes, which determines the size of the dataset.
    pub fn host_memory_bytes(&self) -> u64 {
        self.asked.host_spec().memory_bytes.unwrap_or_else(|| self.host.usable_memory_bytes())
    }

    /// Maximum bytes per second that a host reads: as given, otherwise [`PUBLISHED_HOST_RATE`],
    /// unless the host is described otherwise.
    pub fn host_rate(&self) -> Option<f64> {
        let host = self.asked.host_spec();
        match host.read_bytes_per_second {
            Some(rate) => rate.is_finite().then_some(rate),
            None => {
                let storage = &self.storage.model;
                // Who states what a host carries has one in mind that does, with local drives.
                let carries = host.accelerators.is_some() && storage.link.is_none();
                // A measurement has the rates of its hosts, and publications the page cache's.
                let is_other = carries || storage.surface.is_some() || self.is_uncached();
                (!is_other && !self.knows_client()).then_some(PUBLISHED_HOST_RATE)
            }
        }
    }

    /// Description and size in bytes of the checkpoint: the requested one, or the workload's.
    pub fn checkpoint(&self) -> Option<(String, u64)> {
        let of_workload = || {
            // The size the file intends, if DLIO reads a different key than it sets.
            let spec = &self.workload.checkpoint;
            let bytes = spec.ignored_model_size_bytes.unwrap_or(spec.model_size_bytes);
            let saves = self.workload.workflow.checkpoint;
            saves.then(|| (format!("the model of {}", self.workload.name), bytes))
        };
        self.checkpoint.clone().or_else(of_workload)
    }

    /// Number of hosts for a number of accelerators.
    pub fn hosts_of(&self, accelerators: u32) -> u32 {
        match (self.hosts(), self.asked.host_spec().accelerators) {
            (Some(hosts), _) => hosts,
            (None, Some(of_one)) => accelerators.div_ceil(of_one.max(1)).max(1),
            (None, None) => 1,
        }
    }

    /// Largest number of accelerators that the hosts have room for.
    pub fn most_accelerators(&self) -> u32 {
        self.asked.room().unwrap_or(MAX_ACCELERATORS).min(MAX_ACCELERATORS)
    }

    /// A run of this many accelerators on `hosts` and `storage`.
    ///
    /// # Errors
    /// If workload and options do not result in a valid plan.
    pub fn case(
        &self,
        accelerators: u32,
        hosts: u32,
        storage: &StorageModel,
        extent: Extent,
    ) -> Result<Case, Problems> {
        let size = self.size(accelerators, hosts)?;
        let of_workload = self.workload.train.total_training_steps;
        // The dataset follows the rules: a limit beyond its end has no effect.
        let of_workload = of_workload.filter(|steps| *steps < size.steps_per_epoch);
        let steps = self.asked.length.steps.or(of_workload);
        let whole = self.plan(accelerators, hosts, size.files, steps)?;
        if whole.compute.mean_seconds() <= 0.0 {
            let mut problems = Problems::default();
            problems.plan("without compute time, AU is undefined", "set --compute-time above 0");
            return Err(problems);
        }
        let mut scenario = Scenario {
            hosts,
            host_bytes_per_second: self.host_rate(),
            barrier_seconds: self.asked.host_spec().barrier_seconds.unwrap_or(0.0),
            sample_stdev_bytes: self.workload.dataset.record_length_bytes_stdev,
            direct: self.is_uncached(),
            objects: self.path() == PathKind::S3,
            ..Scenario::of(storage.of_hosts(hosts))
        };
        scenario.events = scenario.events.min(extent.reads);
        if whole.reads_of_epoch() * f64::from(whole.epochs) <= extent.reads as f64 {
            return Ok(Case { plan: whole.clone(), whole, scenario, hosts, size });
        }
        self.part(whole, scenario, size, extent)
    }

    /// A part of the run. Prefetched samples matter little in a whole epoch, so AU excludes the steps
    /// they last for.
    fn part(
        &self,
        whole: TrainPlan,
        mut scenario: Scenario,
        size: DataSize,
        extent: Extent,
    ) -> Result<Case, Problems> {
        let part = Part::of(&whole, &scenario, size.files, extent);
        let made = |files| self.plan(part.accelerators, part.hosts, files, Some(part.steps));
        // If these files are too few for such an epoch, use all of them.
        let mut plan = made(part.files).or_else(|_| made(size.files))?;
        part.cut(&mut plan, &whole);
        let of_data = plan.data.files as f64 / size.files.max(1) as f64;
        let cache = scenario.storage.cache_bytes;
        scenario.storage.cache_bytes = cache.map(|bytes| (bytes as f64 * of_data).ceil() as u64);
        scenario.shares = part.shares(&whole, &scenario);
        scenario.more_like_last = whole.epochs - part.epochs;
        let hosts = std::mem::replace(&mut scenario.hosts, part.hosts);
        Ok(Case { whole, plan, scenario, hosts, size })
    }

    /// The dataset required by MLPerf's rules.
    fn size(&self, accelerators: u32, hosts: u32) -> Result<DataSize, Problems> {
        let profile = self.workload.profile(self.asked.profile);
        let usual = SizeRequest::of(&self.workload, profile, u64::from(accelerators));
        let request = SizeRequest {
            hosts: u64::from(hosts),
            host_memory_bytes: self.host_memory_bytes(),
            ..usual
        };
        datasize(&request).map_err(|error| {
            let mut problems = Problems::default();
            problems.plan(error.to_string(), "");
            problems
        })
    }

    fn plan(
        &self,
        accelerators: u32,
        hosts: u32,
        files: u64,
        steps: Option<u64>,
    ) -> Result<TrainPlan, Problems> {
        let asked = &self.asked;
        let request = TrainRequest {
            workload: asked.workload.clone().unwrap_or_default(),
            profile: asked.profile,
            accelerators: Some(accelerators),
            length: RunLength { steps, ..asked.length },
            compute: asked.compute,
            files: Some(files),
            ..TrainRequest::default()
        };
        let mut workload = self.workload.clone();
        workload.train.total_training_steps = None;
        let mut plan = imagined(&workload, &request, &self.host, self.path())?;
        let cpus = self.cpus(&plan, hosts);
        plan.client = self.client().map(|client| client.on(cpus));
        Ok(plan)
    }
}
