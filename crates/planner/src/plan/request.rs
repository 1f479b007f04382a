//! What is asked of a plan: a workload, storage, hosts, and how many accelerators.

use super::part::{self, Part};
use super::prediction::Prediction;
use super::scenario::Scenario;
use super::storage::StorageModel;
use stormlp_core::facts::HostFacts;
use stormlp_core::path::PathKind;
use stormlp_core::problem::Problems;
use stormlp_training::plan::client::ClientCost;
use stormlp_training::plan::datasize::{DataSize, SizeRequest, datasize};
use stormlp_training::plan::request::TrainRequest;
use stormlp_training::plan::resolve::imagined;
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::workload::Workload;

/// More accelerators than this are not searched for.
pub const MAX_ACCELERATORS: u32 = 100_000;

/// What is asked.
#[derive(Debug, Clone)]
pub struct SizingRequest {
    /// The workload.
    pub workload: Workload,
    /// What changes it: batch, epochs, steps, profile. Accelerators and dataset are decided here.
    pub train: TrainRequest,
    /// This machine, as far as a plan of a run needs one.
    pub host: HostFacts,
    /// Accelerators that are asked about; `None` where only the most of them are wanted.
    pub accelerators: Option<u32>,
    /// Hosts, where they were given.
    pub hosts: Option<u32>,
    /// Accelerators that a host has room for, where that was given.
    pub accelerators_per_host: Option<u32>,
    /// Memory of one host in bytes, which the rules for datasets go by.
    pub host_memory_bytes: u64,
    /// CPUs of one host, which share the client's work.
    pub host_cpus: u32,
    /// What the client costs, where it costs anything.
    pub client: Option<ClientCost>,
    /// What the barrier of each step takes.
    pub barrier_seconds: f64,
    /// The path that reads take.
    pub path: PathKind,
    /// What they are read from.
    pub storage: StorageModel,
    /// Where its figures are from, in words.
    pub storage_source: String,
    /// A checkpoint: what it is of, and its bytes.
    pub checkpoint: Option<(String, u64)>,
    /// Seconds between failures of the whole job, on average.
    pub mtbf_seconds: Option<f64>,
}

/// A run of so many accelerators, before it is simulated.
#[derive(Debug, Clone)]
pub struct Case {
    /// The run.
    pub whole: TrainPlan,
    /// What is simulated of it.
    pub plan: TrainPlan,
    /// What that is run on.
    pub scenario: Scenario,
    /// Hosts of the run.
    pub hosts: u32,
    /// The dataset that the rules ask for.
    pub size: DataSize,
}

impl Case {
    /// What all accelerators come to by what those that are simulated do.
    pub fn of_all(&self, simulated: Prediction) -> Prediction {
        let times = f64::from(self.whole.accelerators) / f64::from(self.plan.accelerators);
        Prediction {
            samples_per_second: simulated.samples_per_second * times,
            mib_per_second: simulated.mib_per_second * times,
            read_mib_per_second: simulated.read_mib_per_second * times,
            ..simulated
        }
    }

    /// How long the run takes: of a part, as long as all of its steps at the pace of that.
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

    /// In words, what of it stands for all.
    pub fn assumptions(&self) -> Vec<String> {
        let mut told = Vec::new();
        let (some, all) = (self.plan.accelerators, self.whole.accelerators);
        if some < all {
            told.push(format!(
                "{some} accelerators on their share of storage and hosts stand for all {all}: they do \
                 all the same"
            ));
        }
        if part::reads_far_ahead(&self.whole) {
            told.push(format!(
                "loaders read up to {} batches ahead, and an epoch has {} steps: much of what AU counts may \
                 have been read before its first step, so the most accelerators are held to the bandwidth \
                 (a longer epoch, --steps, tells more)",
                part::filling(&self.whole),
                self.whole.steps_per_epoch
            ));
        }
        told
    }

    /// Whether the threshold takes more bytes per second than storage has: AU reaches it only while
    /// accelerators live on what was read before the first step.
    pub fn rests_on_read_ahead(&self) -> bool {
        let (whole, storage) = (&self.whole, &self.scenario.storage);
        let takes = whole.demand_bytes_per_second() * whole.passes();
        storage.cache_bytes.is_none()
            && part::reads_far_ahead(whole)
            && takes * whole.metric.threshold_percent / 100.0 > storage.read_bytes_per_second()
    }
}

/// The part of a run that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// About so many reads of all accelerators together.
    Reads(u64),
    /// All of it.
    Whole,
}

impl SizingRequest {
    /// Hosts that so many accelerators are on.
    pub fn hosts_of(&self, accelerators: u32) -> u32 {
        match (self.hosts, self.accelerators_per_host) {
            (Some(hosts), _) => hosts,
            (None, Some(of_one)) => accelerators.div_ceil(of_one.max(1)).max(1),
            (None, None) => 1,
        }
    }

    /// Accelerators that the hosts have room for, at most.
    pub fn most_accelerators(&self) -> u32 {
        let room = self
            .hosts
            .zip(self.accelerators_per_host)
            .map(|(hosts, of_one)| hosts.saturating_mul(of_one));
        room.unwrap_or(MAX_ACCELERATORS).min(MAX_ACCELERATORS)
    }

    /// A run of so many accelerators on `hosts` and `storage`.
    ///
    /// # Errors
    /// When workload and options make no plan.
    pub fn case(
        &self,
        accelerators: u32,
        hosts: u32,
        storage: &StorageModel,
        extent: Extent,
    ) -> Result<Case, Problems> {
        let size = self.size(accelerators, hosts)?;
        let of_workload = self.workload.train.total_training_steps;
        // The dataset is the one of the rules: a limit beyond it is none.
        let of_workload = of_workload.filter(|steps| *steps < size.steps_per_epoch);
        let steps = self.train.steps.or(of_workload);
        let whole = self.plan(accelerators, hosts, size.files, steps)?;
        if whole.compute.mean_seconds() <= 0.0 {
            let mut problems = Problems::default();
            problems.plan(
                "no compute is emulated, so there is nothing to hold AU against",
                "give --compute-time above 0",
            );
            return Err(problems);
        }
        let mut scenario = Scenario {
            hosts,
            barrier_seconds: self.barrier_seconds,
            sample_stdev_bytes: self.workload.dataset.record_length_bytes_stdev,
            direct: self.path.wants_direct(),
            ..Scenario::of(storage.clone())
        };
        if let Extent::Reads(room) = extent {
            scenario.events = scenario.events.min(room);
        }
        let in_all = whole.reads_of_epoch() * f64::from(whole.epochs);
        match extent {
            Extent::Reads(room) if (room as f64) < in_all => {
                self.part(whole, scenario, size, room as f64)
            }
            Extent::Reads(_) | Extent::Whole => {
                Ok(Case { plan: whole.clone(), whole, scenario, hosts, size })
            }
        }
    }

    /// A part of the run. What loaders read before the first step counts for little in a whole
    /// epoch, so AU leaves out the steps that it lasts for.
    fn part(
        &self,
        whole: TrainPlan,
        mut scenario: Scenario,
        size: DataSize,
        room: f64,
    ) -> Result<Case, Problems> {
        let part = Part::of(&whole, &scenario, size.files, room);
        let made = |files| self.plan(part.accelerators, part.hosts, files, Some(part.steps));
        // Where so few files make no such epoch, all of them do.
        let mut plan = made(part.files).or_else(|_| made(size.files))?;
        part.cut(&mut plan, &whole);
        let of_data = plan.data.files as f64 / size.files.max(1) as f64;
        let cache = scenario.storage.cache_bytes;
        scenario.storage.cache_bytes = cache.map(|bytes| (bytes as f64 * of_data).ceil() as u64);
        scenario.shares = part.shares(&whole, &scenario);
        let hosts = std::mem::replace(&mut scenario.hosts, part.hosts);
        Ok(Case { whole, plan, scenario, hosts, size })
    }

    /// The dataset that the rules ask for.
    fn size(&self, accelerators: u32, hosts: u32) -> Result<DataSize, Problems> {
        let profile = self.train.profile.unwrap_or(self.workload.edition);
        let usual = SizeRequest::of(&self.workload, profile, u64::from(accelerators));
        let batch_size = self.train.batch_size.map_or(usual.batch_size, u64::from);
        let request = SizeRequest {
            hosts: u64::from(hosts),
            host_memory_bytes: self.host_memory_bytes,
            batch_size,
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
        let request = TrainRequest {
            accelerators: Some(accelerators),
            files: Some(files),
            steps,
            ..self.train.clone()
        };
        let mut workload = self.workload.clone();
        workload.train.total_training_steps = None;
        let mut plan = imagined(&workload, &request, &self.host, self.path)?;
        let cpus = self.host_cpus.saturating_mul(hosts);
        plan.client = self.client.map(|client| client.on(cpus));
        Ok(plan)
    }
}
