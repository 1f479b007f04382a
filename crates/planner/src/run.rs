//! Determines how many accelerators storage can feed by simulating runs: to find the largest
//! number, for its [`range`], and for tables.

mod range;
mod whole;

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::plan::assumptions;
use crate::plan::request::MAX_ACCELERATORS;
use crate::plan::storage::MAX_DEVICES;
use crate::plan::{
    AnswerRow, AtCount, Case, Extent, LimitedBy, Need, Prediction, RowKind, Sizing, SizingAnswer,
    StorageModel, StoragePart, search,
};
use stormlp_core::failure::Problems;
use stormlp_core::stop::StopToken;
use stormlp_training::plan::train_plan::TrainPlan;

use crate::simulate::SimulateError;
use crate::simulate::simulate;
use range::Alone;
use whole::Whole;

/// The part of a run simulated during a search.
const TRIAL: Extent = Extent::reads(500_000);
/// The part of a run simulated for results: all of a typical run.
const FULL: Extent = Extent::reads(2_000_000);
/// Numbers of devices in the table, as multiples of the given number.
const MULTIPLES: [u32; 4] = [1, 2, 4, 8];

/// The table ends at devices that feed about this many accelerators.
const MOST_IN_ROWS: u32 = 1000;

/// Maximum number of whole runs to confirm the number of devices found with parts of runs.
const MOST_CONFIRMATIONS: u32 = 6;

/// Why a request cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum SizingError {
    /// Workload and options do not result in a valid plan.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// A simulation ended early.
    #[error(transparent)]
    Simulation(#[from] SimulateError),
}

/// Callback with the number of completed simulations before each.
pub type SimulationCallback<'a> = &'a dyn Fn(u64);

/// Answers `sizing`, with tables over accelerators and drives if asked, and reports progress to
/// `look`. The same request gives exactly the same answer.
///
/// # Errors
/// If workload and options do not result in a valid plan, or `stop` was triggered.
pub fn answer(
    sizing: &Sizing,
    with_tables: bool,
    stop: &StopToken,
    look: SimulationCallback<'_>,
) -> Result<SizingAnswer, SizingError> {
    let mut study = Study {
        sizing,
        stop,
        look,
        trial: Extent::ROUGH,
        done: Cell::new(0),
        known: BTreeMap::new(),
    };
    let devices = sizing.storage.model.devices;
    let largest = study.largest_confirmed(devices)?;
    let accelerators = sizing.asked.accelerators.unwrap_or(largest.max(1));
    let whole = study.whole(accelerators, devices)?;
    let found = study.limit_above(largest, devices)?;
    let alone = study.alone(found.0)?;
    let search_limit = limit_beside(largest, found, alone.as_ref(), sizing);
    let range = study.range(largest, &whole, search_limit)?;
    let official = study.with_known_client(&whole)?;
    let au_percent = whole.prediction.au_percent;
    let warnings = sizing.client_warnings(&whole.case.whole, au_percent, official);
    let asked = sizing.asked.accelerators;
    let need = match asked.filter(|asked| with_tables || *asked > largest) {
        Some(asked) => study.needed(asked)?,
        None => Need::default(),
    };
    let limit = match asked {
        Some(_) => (whole.prediction.limited_by, whole.prediction.storage_part()),
        None => search_limit,
    };
    let rows = study.rows(&whole, limit, (largest, search_limit), &need)?;
    let (over_accelerators, over_devices) = match with_tables {
        true => (study.over_accelerators(largest, accelerators)?, study.over_devices(largest)?),
        false => (Vec::new(), Vec::new()),
    };
    Ok(SizingAnswer {
        largest_accelerators: largest,
        range,
        warnings,
        storage_alone_accelerators: alone.map_or(largest, |alone| alone.largest),
        hosts_are_full: sizing.asked.room().is_some_and(|room| largest >= room),
        // If memory is the limit, storage could not feed more either.
        is_lower_bound: !matches!(search_limit.0, LimitedBy::Storage | LimitedBy::Memory),
        limited_by: limit.0,
        storage_part: limit.1,
        model_error: assumptions::model_error(sizing, &whole.case.whole),
        not_validated: assumptions::not_validated(sizing, &whole.case.whole),
        search_limited_by: search_limit.0,
        search_storage_part: search_limit.1,
        need,
        rows,
        over_accelerators,
        over_devices,
        ..whole.into_answer(sizing)
    })
}

/// The limit of one accelerator more than `largest`. If a client is given, the number that storage
/// feeds `alone` tells it: waiting times do not, as both take a part of them.
fn limit_beside(largest: u32, found: Limit, alone: Option<&Alone>, sizing: &Sizing) -> Limit {
    match alone.filter(|_| sizing.client().is_some()) {
        Some(alone) if alone.largest > largest => (LimitedBy::Client, None),
        Some(alone) => alone.limit,
        None => found,
    }
}

/// Bytes per second that keep all accelerators always computing.
fn demand(plan: &TrainPlan) -> f64 {
    plan.demand_bytes_per_second() * plan.passes()
}

/// The limit, and its part of storage if it is storage.
type Limit = (LimitedBy, Option<StoragePart>);
/// Accelerators, hosts and devices.
type Numbers = (u32, u32, u32);

/// The state of the search.
struct Study<'a> {
    sizing: &'a Sizing,
    stop: &'a StopToken,
    look: SimulationCallback<'a>,
    /// The part of a run that is simulated.
    trial: Extent,
    /// Number of completed simulations.
    done: Cell<u64>,
    known: BTreeMap<Numbers, Known>,
}

/// The prediction for a number of accelerators.
struct Known {
    prediction: Prediction,
    /// Whether it is based on [`FULL`] rather than [`TRIAL`].
    is_full: bool,
}

impl Study<'_> {
    fn simulate(&self, case: &Case) -> Result<Prediction, SimulateError> {
        (self.look)(self.done.get());
        let prediction = simulate(&case.plan, &case.scenario, self.stop)?;
        self.done.set(self.done.get() + 1);
        Ok(case.of_all(prediction))
    }

    /// The prediction for these numbers, from a part of the run.
    fn at(&mut self, key: Numbers) -> Result<Prediction, SizingError> {
        if let Some(known) = self.known.get(&key) {
            return Ok(known.prediction.clone());
        }
        let case = self.case(key, self.trial)?;
        let prediction = self.simulate(&case)?;
        let known = Known { prediction: prediction.clone(), is_full: false };
        self.known.insert(key, known);
        Ok(prediction)
    }

    fn case(&self, numbers: Numbers, extent: Extent) -> Result<Case, Problems> {
        let (accelerators, hosts, devices) = numbers;
        let storage = StorageModel { devices, ..self.sizing.storage.model.clone() };
        self.sizing.case(accelerators, hosts, &storage, extent)
    }

    /// The run of this many accelerators, with the prediction for all of it.
    fn whole(&mut self, accelerators: u32, devices: u32) -> Result<Whole, SizingError> {
        let key = (accelerators, self.sizing.hosts_of(accelerators), devices);
        let case = self.case(key, FULL)?;
        let prediction = match self.known.get(&key) {
            Some(known) if known.is_full => known.prediction.clone(),
            _ => self.simulate(&case)?,
        };
        let known = Known { prediction: prediction.clone(), is_full: true };
        self.known.insert(key, known);
        Ok(Whole { case, prediction })
    }

    fn meets(&mut self, numbers: Numbers) -> Result<bool, SizingError> {
        let threshold = self.sizing.workload.metric.au * 100.0;
        Ok(!self.prefetch_bound(numbers)? && self.at(numbers)?.au_percent >= threshold)
    }

    fn prefetch_bound(&self, numbers: Numbers) -> Result<bool, SizingError> {
        Ok(self.case(numbers, TRIAL)?.prefetch_bound())
    }

    /// Largest number of accelerators that meets the threshold on `devices`, tried from `guess`; 0 if
    /// none does.
    fn largest(&mut self, guess: u32, devices: u32) -> Result<u32, SizingError> {
        let sizing = self.sizing;
        search::last(guess, sizing.most_accelerators(), |count| {
            self.meets((count, sizing.hosts_of(count), devices))
        })
    }

    /// As [`Self::largest`], confirmed with whole runs: part of a run may be on the other side of
    /// the threshold.
    fn largest_confirmed(&mut self, devices: u32) -> Result<u32, SizingError> {
        let judged = self.largest(self.guess(devices)?, devices)?;
        let most = self.sizing.most_accelerators();
        let mut meets = |count| {
            let hosts = self.sizing.hosts_of(count);
            Ok::<_, SizingError>(
                !self.prefetch_bound((count, hosts, devices))?
                    && self.whole(count, devices)?.meets(),
            )
        };
        if judged > 0 && !meets(judged)? {
            return match judged {
                1 => Ok(0),
                _ => search::last(judged - 1, judged - 1, meets),
            };
        }
        if judged < most && meets(judged + 1)? {
            search::last(judged + 1, most, meets)
        } else {
            Ok(judged)
        }
    }

    /// Number of accelerators that bandwidth alone would feed.
    fn guess(&self, devices: u32) -> Result<u32, SizingError> {
        let storage = self.sizing.storage.model.of_hosts(self.sizing.hosts().unwrap_or(1));
        let one = self.sizing.case(1, self.sizing.hosts_of(1), &storage, TRIAL)?.whole;
        let demand = one.demand_bytes_per_second() * one.metric.threshold_percent / 100.0;
        let of_one = storage.read_bytes_per_second() / f64::from(self.sizing.storage.model.devices);
        let rate = of_one * f64::from(devices);
        Ok((rate / demand).clamp(1.0, f64::from(MAX_ACCELERATORS)) as u32)
    }

    /// The limit of one accelerator more than `largest`.
    fn limit_above(&mut self, largest: u32, devices: u32) -> Result<Limit, SizingError> {
        if largest >= self.sizing.most_accelerators() {
            // The hosts are full, or the end of the search is reached.
            return Ok((LimitedBy::Client, None));
        }
        let numbers = (largest + 1, self.sizing.hosts_of(largest + 1), devices);
        if self.prefetch_bound(numbers)? {
            return Ok((LimitedBy::Storage, Some(StoragePart::Devices)));
        }
        let more = self.case(numbers, TRIAL)?.whole;
        if more.data.samples_per_file > 1 && u64::from(largest) == more.data.files {
            // Beyond that, every accelerator reads all files.
            return Ok((LimitedBy::Dataset, None));
        }
        let prediction = self.at(numbers)?;
        Ok((prediction.limited_by, prediction.storage_part()))
    }

    /// Minimum number of hosts and devices for this many accelerators: first the hosts, with ample
    /// devices, then the devices for these hosts.
    fn needed(&mut self, accelerators: u32) -> Result<Need, SizingError> {
        let sizing = self.sizing;
        if sizing.storage.model.surface.is_some() {
            // The measurement covers the whole storage; more of it cannot be predicted.
            return Ok(Need::default());
        }
        let (enough, fewest) = self.devices_of_bandwidth(accelerators)?;
        let is_limited = sizing.storage.model.link.is_some()
            || sizing.client().is_some()
            || sizing.host_rate().is_some();
        let mut misses =
            |hosts, devices| Ok::<_, SizingError>(!self.meets((accelerators, hosts, devices))?);
        let mut hosts = sizing.hosts_of(accelerators);
        let may_add = is_limited && sizing.asked.host_spec().accelerators.is_none();
        let most_hosts = if may_add { accelerators.max(hosts) } else { hosts };
        if misses(most_hosts, enough)? {
            let (tried_devices, tried_hosts) = (Some(enough), Some(most_hosts));
            return Ok(Need { tried_devices, tried_hosts, ..Need::default() });
        }
        if may_add && misses(hosts, enough)? {
            hosts = 1 + search::last(hosts, most_hosts, |hosts| misses(hosts, enough))?;
        }
        let misses = search::last(fewest, enough, |devices| misses(hosts, devices))?;
        self.confirmed_need((accelerators, hosts, misses + 1))
    }

    /// Confirms `devices` with whole runs, and adds devices if a part of a run was too optimistic.
    fn confirmed_need(&self, (accelerators, hosts, devices): Numbers) -> Result<Need, SizingError> {
        let one = self.sizing.storage.model.devices;
        let whole = self.case((accelerators, hosts, one), TRIAL)?.whole;
        let demand = demand(&whole) * whole.metric.threshold_percent;
        let of_one = 100.0 * self.of_one_number(hosts);
        // Without a page cache the bandwidth is needed, however far a part of a run reads ahead.
        let mut devices = match self.sizing.storage.model.cache_bytes {
            None => devices.max((demand / of_one).ceil() as u32),
            Some(_) => devices,
        };
        let mut tried = devices;
        for _ in 0..MOST_CONFIRMATIONS {
            let case = self.case((accelerators, hosts, devices), FULL)?;
            let prediction = self.simulate(&case)?;
            let (au, threshold) = (prediction.au_percent, case.whole.metric.threshold_percent);
            if au >= threshold {
                let at = AtCount::of((accelerators, hosts, devices), &prediction, threshold);
                let run = Some((case.size, case.run_seconds(&prediction)));
                return Ok(Need { at: Some(at), run, ..Need::default() });
            }
            tried = devices;
            let scaled = f64::from(devices) * threshold / au.max(1.0);
            devices = (scaled.ceil() as u32).clamp(devices + 1, MAX_DEVICES.max(devices + 1));
        }
        let (tried_devices, tried_hosts) = (Some(tried), Some(hosts));
        Ok(Need { tried_devices, tried_hosts, ..Need::default() })
    }

    /// A number of devices with certainly enough bandwidth, and a lower bound.
    fn devices_of_bandwidth(&self, accelerators: u32) -> Result<(u32, u32), SizingError> {
        let sizing = self.sizing;
        let hosts = sizing.hosts_of(accelerators);
        let plan = sizing.case(accelerators, hosts, &sizing.storage.model, TRIAL)?.whole;
        let of_one = self.of_one_number(hosts);
        let devices = (demand(&plan) / of_one).ceil();
        let most = |count: f64| count.clamp(1.0, f64::from(MAX_DEVICES)) as u32;
        let fewest = devices * plan.metric.threshold_percent / 100.0 - 1.0;
        Ok((most(devices * 4.0 + 4.0), most(fewest)))
    }

    /// Bandwidth that one more of the number of devices adds.
    fn of_one_number(&self, hosts: u32) -> f64 {
        let one = StorageModel { devices: 1, ..self.sizing.storage.model.clone() };
        one.of_hosts(hosts).read_bytes_per_second()
    }

    /// The rows of the answer: `whole`, limited by `limit`, the largest number with its limit, and
    /// `need`.
    fn rows(
        &mut self,
        whole: &Whole,
        limit: Limit,
        (largest, largest_limit): (u32, Limit),
        need: &Need,
    ) -> Result<Vec<AnswerRow>, SizingError> {
        let devices = self.sizing.storage.model.devices;
        let row = |kind, whole: &Whole, (limited_by, storage_part): Limit| {
            let plan = &whole.case.whole;
            let numbers = (plan.accelerators, whole.case.hosts, devices);
            let at = AtCount::of(numbers, &whole.prediction, plan.metric.threshold_percent);
            AnswerRow { kind, at: AtCount { limited_by, storage_part, ..at } }
        };
        let asked = self.sizing.asked.accelerators;
        let is_asked = asked.is_some() || largest == 0;
        let kind = if is_asked { RowKind::Asked } else { RowKind::Largest };
        let mut rows = vec![row(kind, whole, limit)];
        if largest > 0 && asked.is_some_and(|asked| asked != largest) {
            rows.push(row(RowKind::Largest, &self.whole(largest, devices)?, largest_limit));
        }
        rows.extend(need.at.map(|at| AnswerRow { kind: RowKind::Needed, at }));
        Ok(rows)
    }

    /// Rows for powers of two, for the largest and the requested number of accelerators.
    fn over_accelerators(&mut self, largest: u32, asked: u32) -> Result<Vec<AtCount>, SizingError> {
        let threshold_percent = self.sizing.workload.metric.au * 100.0;
        let most = self.sizing.most_accelerators();
        let end = largest.max(1).saturating_mul(2).min(most);
        // Rows of a screen; with fewer accelerators than these, little is limited.
        let powers =
            (0..32).map(|power| 1u32 << power).filter(|count| count.saturating_mul(16) >= end);
        let mut counts: Vec<u32> = powers.take_while(|count| *count <= end).collect();
        counts.extend([largest.max(1), (largest + 1).min(most), asked]);
        counts.sort_unstable();
        counts.dedup();
        let devices = self.sizing.storage.model.devices;
        let row = |count: u32| {
            let numbers = (count, self.sizing.hosts_of(count), devices);
            let prediction = self.at(numbers)?;
            Ok(AtCount {
                prefetch_bound: self.prefetch_bound(numbers)?,
                ..AtCount::of(numbers, &prediction, threshold_percent)
            })
        };
        counts.into_iter().map(row).collect()
    }

    /// Rows with the maximum number of accelerators for several numbers of devices; `largest` is the
    /// answer for the given one.
    fn over_devices(&mut self, largest: u32) -> Result<Vec<AtCount>, SizingError> {
        let storage = &self.sizing.storage.model;
        if storage.surface.is_some() {
            return Ok(Vec::new());
        }
        let multiples = MULTIPLES.map(|times| storage.devices.saturating_mul(times));
        let mut devices = multiples.to_vec();
        // The first row is known.
        while let [_, .., last] = devices[..]
            && (last > MAX_DEVICES || self.guess(last)? > MOST_IN_ROWS)
        {
            devices.pop();
        }
        devices.into_iter().map(|count| self.row_of_devices(count, largest)).collect()
    }

    fn row_of_devices(&mut self, devices: u32, largest: u32) -> Result<AtCount, SizingError> {
        let most = match devices == self.sizing.storage.model.devices {
            true => largest,
            false => self.largest(self.guess(devices)?, devices)?,
        };
        let shown = most.max(1);
        let numbers = (shown, self.sizing.hosts_of(shown), devices);
        let prediction = self.at(numbers)?;
        let (limited_by, storage_part) = self.limit_above(most, devices)?;
        let threshold_percent = self.sizing.workload.metric.au * 100.0;
        let row = AtCount::of((most, numbers.1, devices), &prediction, threshold_percent);
        Ok(AtCount { limited_by, storage_part, ..row })
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
#[allow(clippy::unwrap_used)]
mod tests;
