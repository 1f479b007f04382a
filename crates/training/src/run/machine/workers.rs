//! PyTorch's loader: workers that each read whole batches, delivered strictly in order.
//!
//! At the start of an epoch, `workers × prefetch factor` batch tasks are dealt round-robin, task b
//! to worker b mod W; one new task is dealt whenever a batch is consumed. A worker reads the
//! samples of its batch sequentially. With row groups (parquet) a worker keeps a window of group
//! reads in flight and cuts its batches from the rows in order.

use std::collections::VecDeque;

use super::queue::Nanos;
use super::reads::{CompletedRead, Fetch, LaneRead, RowGroups, Share, Unit};

/// Configuration of the workers loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkersConfig {
    /// `read_threads`; 0 reads inline: a batch is read only when it is requested.
    pub read_threads: u32,
    /// Maximum outstanding batches.
    pub batches_outstanding: u32,
    /// Samples per batch.
    pub batch_size: u64,
    /// Whether workers outlive the epoch: they read dealt batches to the end and discard them,
    /// where others would drop reads not yet started.
    pub persistent: bool,
    /// Row groups that one worker keeps in flight; 1 otherwise.
    pub group_window: u32,
}

impl WorkersConfig {
    /// Number of workers; inline reading uses only the main thread.
    pub fn workers(&self) -> usize {
        self.read_threads.max(1) as usize
    }
}

/// One worker. There are tens of thousands of them; each occupies one CPU cache line while it
/// reads.
#[derive(Debug, Clone, Default)]
struct Worker {
    /// The current batch, if `busy`.
    batch: u64,
    /// When the latest completed part of it arrived.
    ready: Nanos,
    /// Samples of it that were started; the next field counts those that completed.
    started: u32,
    done: u32,
    /// Number of its first batches that belong to an earlier epoch: read, but discarded.
    stale: u32,
    busy: bool,
    reading: bool,
    /// The batches after the current one.
    next: VecDeque<u64>,
}

impl Worker {
    /// Assigns a batch.
    fn give(&mut self, batch: u64) {
        if self.busy { self.next.push_back(batch) } else { self.begin(batch) }
    }

    fn begin(&mut self, batch: u64) {
        (self.batch, self.busy) = (batch, true);
        (self.started, self.done, self.ready) = (0, 0, 0);
    }

    /// Finishes the current batch; returns its number and ready time, unless it is discarded.
    fn finish(&mut self) -> Option<(u64, Nanos)> {
        let made = (self.stale == 0).then_some((self.batch, self.ready));
        self.stale = self.stale.saturating_sub(1);
        self.busy = false;
        if let Some(batch) = self.next.pop_front() {
            self.begin(batch);
        }
        made
    }

    /// Drops all assigned batches.
    fn forget(&mut self) {
        self.next.clear();
        self.busy = false;
        self.stale = 0;
    }

    /// Marks all assigned batches as stale.
    fn outlive(&mut self) {
        self.stale = self.next.len() as u32 + u32::from(self.busy);
    }
}

#[derive(Debug, Clone, Default)]
struct Groups {
    rows: RowGroups,
    /// The next group to start.
    next: usize,
    /// Arrival times of started groups that are not used up, or [`UNDER_WAY`]; oldest first.
    window: VecDeque<Nanos>,
    /// Rows of the oldest group that are used up.
    used_rows: u64,
    /// Whole batches that this worker has yet to be dealt.
    batches_left: u64,
    /// Reads of an earlier epoch that are still in flight.
    orphans: usize,
}

/// Marks a group that has not arrived. A compact value, because hundreds of thousands of these
/// should fit in the CPU cache.
const UNDER_WAY: Nanos = Nanos::MAX;

/// See the [module's description](self).
#[derive(Debug, Clone)]
pub struct Workers {
    config: WorkersConfig,
    /// When the next batch to deliver became complete, if it is.
    first: Option<Nanos>,
    workers: Vec<Worker>,
    /// The row groups of each worker; empty in sample order.
    groups: Vec<Groups>,
    /// The worker that receives the next task.
    turn: usize,
    /// Tasks dealt so far in this epoch.
    dealt: u64,
    /// Total tasks in this epoch.
    total: u64,
    /// The next batch to deliver.
    deliver: u64,
    /// When each later batch became complete, if it is.
    complete: VecDeque<Option<Nanos>>,
}

impl Workers {
    /// A loader before its first epoch.
    pub fn new(config: WorkersConfig) -> Self {
        Self {
            config,
            first: None,
            workers: vec![Worker::default(); config.workers()],
            groups: Vec::new(),
            turn: 0,
            dealt: 0,
            total: 0,
            deliver: 0,
            complete: VecDeque::new(),
        }
    }

    /// See [`super::loader::Loader::begin`].
    pub fn begin(&mut self, share: &Share, out: &mut Vec<LaneRead>) {
        (self.turn, self.dealt, self.deliver) = (0, 0, 0);
        self.complete.clear();
        self.first = None;
        self.total = share.batches;
        if !share.groups.is_empty() {
            self.total = self.begin_groups(&share.groups);
        }
        if self.config.read_threads > 0 {
            for _ in 0..self.config.batches_outstanding {
                self.deal(out);
            }
        }
    }

    fn begin_groups(&mut self, shares: &[RowGroups]) -> u64 {
        self.groups.resize_with(self.workers.len(), Groups::default);
        let mut total = 0;
        for (lane, groups) in self.groups.iter_mut().enumerate() {
            let rows = shares.get(lane).cloned().unwrap_or_default();
            let batches_left = rows.total_rows() / self.config.batch_size;
            total += batches_left;
            *groups = Groups { rows, batches_left, orphans: groups.orphans, ..Groups::default() };
        }
        total
    }

    /// Deals the next task, if any, to the next worker that has batches left.
    fn deal(&mut self, out: &mut Vec<LaneRead>) {
        if self.dealt == self.total {
            return;
        }
        for _ in 0..self.workers.len() {
            let lane = self.turn;
            self.turn += 1;
            if self.turn == self.workers.len() {
                self.turn = 0;
            }
            if let Some(groups) = self.groups.get_mut(lane) {
                if groups.batches_left == 0 {
                    continue;
                }
                groups.batches_left -= 1;
            }
            self.workers[lane].give(self.dealt);
            if self.dealt > self.deliver {
                self.complete.push_back(None);
            }
            self.dealt += 1;
            self.advance(lane, out);
            return;
        }
    }

    /// Starts the reads that the worker may start, and finishes batches with complete samples.
    fn advance(&mut self, lane: usize, out: &mut Vec<LaneRead>) {
        if !self.groups.is_empty() {
            return self.advance_groups(lane, out);
        }
        let batch_size = self.config.batch_size;
        loop {
            let worker = &mut self.workers[lane];
            if worker.busy && u64::from(worker.done) == batch_size {
                let made = worker.finish();
                self.complete(made);
                continue;
            }
            if worker.busy && !worker.reading {
                worker.reading = true;
                let sample = worker.batch * batch_size + u64::from(worker.started);
                worker.started += 1;
                out.push(LaneRead { lane: lane as u64, unit: Unit::Sample(sample) });
            }
            return;
        }
    }

    /// Records a complete batch.
    fn complete(&mut self, made: Option<(u64, Nanos)>) {
        let Some((batch, ready)) = made else {
            return;
        };
        match (batch - self.deliver).checked_sub(1) {
            None => self.first = Some(ready),
            Some(behind) => self.complete[behind as usize] = Some(ready),
        }
    }

    fn advance_groups(&mut self, lane: usize, out: &mut Vec<LaneRead>) {
        let (batch_size, limit) = (self.config.batch_size, self.config.group_window.max(1));
        while self.workers[lane].busy
            && let Some(landed) = self.groups[lane].oldest()
        {
            let worker = &mut self.workers[lane];
            let lacking = batch_size - u64::from(worker.done);
            worker.done += self.groups[lane].take_rows(lacking) as u32;
            worker.ready = worker.ready.max(landed);
            if u64::from(worker.done) == batch_size {
                let made = worker.finish();
                self.complete(made);
            }
        }
        let groups = &mut self.groups[lane];
        // A worker's generator starts with its first task; from then on the window runs ahead of
        // it.
        let begun = groups.next > 0 || self.workers[lane].busy;
        while begun
            && groups.next < groups.rows.count()
            && groups.window.len() + groups.orphans < limit as usize
        {
            out.push(LaneRead {
                lane: lane as u64,
                unit: Unit::Group { worker: lane as u32, nth: groups.next as u64 },
            });
            groups.window.push_back(UNDER_WAY);
            groups.next += 1;
        }
    }

    /// See [`super::loader::Loader::landed`].
    pub fn landed(&mut self, read: LaneRead, came: CompletedRead, out: &mut Vec<LaneRead>) -> u64 {
        let CompletedRead { landed, fresh, at } = came;
        let lane = read.lane as usize;
        let samples = match (read.unit, self.groups.get_mut(lane)) {
            (Unit::Group { nth, .. }, Some(groups)) if fresh => groups.land(nth as usize, at),
            (Unit::Group { .. }, Some(groups)) => {
                groups.orphans = groups.orphans.saturating_sub(1);
                0
            }
            _ => {
                let worker = &mut self.workers[lane];
                let wanted = worker.busy && worker.stale == 0;
                worker.reading = false;
                // A read of an earlier epoch still counts if its task is kept.
                if worker.busy && (fresh || self.config.persistent) {
                    worker.done += landed.samples as u32;
                    worker.ready = at;
                }
                if fresh && wanted { landed.samples } else { 0 }
            }
        };
        self.advance(lane, out);
        samples
    }

    /// Rows of a worker's `nth` row group.
    pub fn rows_of(&self, worker: usize, nth: usize) -> u64 {
        let groups = self.groups.get(worker);
        groups.map_or(0, |groups| groups.rows.rows(nth))
    }

    /// Whether the next batch is ready.
    pub fn has_batch(&self) -> bool {
        self.first.is_some()
    }

    /// See [`super::loader::Loader::fetch`].
    pub fn fetch(&mut self, out: &mut Vec<LaneRead>) -> Fetch {
        if self.deliver == self.total {
            return Fetch::Exhausted;
        }
        if self.config.read_threads == 0 && self.dealt == self.deliver {
            self.deal(out);
        }
        let Some(ready) = self.first else {
            return Fetch::NotReady;
        };
        self.first = self.complete.pop_front().flatten();
        self.deliver += 1;
        if self.config.read_threads > 0 {
            self.deal(out);
        }
        Fetch::Taken { ready }
    }

    /// See [`super::loader::Loader::finishes_leftovers`].
    pub fn finishes_leftovers(&self) -> bool {
        self.config.persistent && self.groups.is_empty()
    }

    /// See [`super::loader::Loader::end`].
    pub fn end(&mut self) {
        // The iterable loader's generators end with their iterator.
        self.groups.iter_mut().for_each(Groups::end);
        let outlive = self.finishes_leftovers();
        for worker in &mut self.workers {
            if outlive { worker.outlive() } else { worker.forget() }
        }
        self.total = self.deliver;
    }
}

impl Groups {
    /// Records the arrival of group `nth` at `at`; returns its number of rows.
    fn land(&mut self, nth: usize, at: Nanos) -> u64 {
        let oldest = self.next - self.window.len();
        let place = nth.checked_sub(oldest);
        let Some(landed) = place.and_then(|place| self.window.get_mut(place)) else {
            return 0;
        };
        *landed = at;
        self.rows.rows(nth)
    }

    /// Arrival time of the oldest group, if it has arrived.
    fn oldest(&self) -> Option<Nanos> {
        let landed = self.window.front().copied();
        landed.filter(|landed| *landed != UNDER_WAY)
    }

    /// Uses up to `most` rows of the oldest group; returns how many it had.
    fn take_rows(&mut self, most: u64) -> u64 {
        let all = self.rows.rows(self.next - self.window.len());
        let rows = most.min(all - self.used_rows);
        self.used_rows += rows;
        if self.used_rows == all {
            self.window.pop_front();
            self.used_rows = 0;
        }
        rows
    }

    fn end(&mut self) {
        self.orphans += self.window.iter().filter(|landed| **landed == UNDER_WAY).count();
        self.window.clear();
        self.rows = RowGroups::default();
        (self.next, self.used_rows, self.batches_left) = (0, 0, 0);
    }
}
