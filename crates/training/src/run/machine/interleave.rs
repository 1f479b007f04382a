//! TensorFlow's loader over record files: `TFRecordDataset(num_parallel_reads = k)`, shuffle,
//! shard, batch, parallel map, repeat, prefetch.
//!
//! k files are open in a cycle and yield one record each in turn, and 2 k more wait behind the
//! cycle. Each of these 3 k files is read by one thread, which runs a few records ahead of its
//! turn. So up to 3 k reads are in flight, although DLIO's option says k. Records pass through the
//! shuffle buffer, which must be full before it yields one, into batches. The parallel map and the
//! prefetch determine how many batches are made ahead of the consumer. A late record delays all
//! that follow it.
//!
//! Parameters of the cycle: 2 records buffered and 1 in the thread's hand, 2 × k files ahead, as
//! `tf.data.TFRecordDataset` sets `buffer_output_elements` and `prefetch_input_elements` of the
//! interleave in TensorFlow's `experimental/parallel_interleave_dataset_op.cc`. A system-call trace
//! shows 12 files read at once for `num_parallel_reads=4`.

use std::collections::VecDeque;

use super::queue::Nanos;
use super::reads::{CompletedRead, Cursor, Fetch, LaneRead, Share, Unit};

/// Records that a file of the cycle keeps ready ahead of its turn.
const RECORDS_AHEAD: u64 = 3;
/// Files opened ahead of the cycle, as a multiple of its length.
const FILES_AHEAD_FACTOR: usize = 2;

/// Configuration of the interleave loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterleaveConfig {
    /// `read_threads`: files in the cycle; 0 counts as 1.
    pub read_threads: u32,
    /// Samples per batch.
    pub batch_size: u64,
    /// Records in the shuffle buffer; 0 or 1 if samples are not shuffled.
    pub shuffle_size: u64,
    /// Batches made ahead of the consumer: `prefetch_size` plus the parallel map's calls.
    pub batches_ahead: u64,
    /// Keep every n-th record: 1 if files are sharded, else the number of accelerators (when there
    /// are fewer files than accelerators).
    pub keep_every: u64,
    /// Whether the data restarts when it is exhausted (as in DLIO's training).
    pub repeat: bool,
}

/// A file being read record by record.
#[derive(Debug, Clone, Copy)]
struct RecordStream {
    lane: u64,
    file: u64,
    cursor: Cursor,
    buffered: u64,
    /// When the last buffered record arrived.
    landed: Nanos,
    reading: bool,
    ended: bool,
}

/// See the [module's description](self).
#[derive(Debug, Clone)]
pub struct Interleave {
    config: InterleaveConfig,
    files: u64,
    /// The next file to open in this pass.
    next_file: u64,
    next_lane: u64,
    cycle: Vec<Option<RecordStream>>,
    ahead: VecDeque<RecordStream>,
    turn: usize,
    /// Records taken in this pass, for `keep_every`.
    taken: u64,
    in_shuffle: u64,
    in_batch: u64,
    /// When the last taken record arrived.
    taken_at: Nanos,
    /// Ready times of the batches that have not been fetched.
    batches: VecDeque<Nanos>,
    /// Whether this pass made a batch; a pass without one ends a repeating loader.
    productive: bool,
    finished: bool,
}

impl Interleave {
    /// A loader before its first epoch.
    pub fn new(config: InterleaveConfig) -> Self {
        Self {
            config,
            files: 0,
            next_file: 0,
            next_lane: 0,
            cycle: vec![None; config.read_threads.max(1) as usize],
            ahead: VecDeque::new(),
            turn: 0,
            taken: 0,
            in_shuffle: 0,
            in_batch: 0,
            taken_at: 0,
            batches: VecDeque::new(),
            productive: false,
            finished: true,
        }
    }

    /// See [`super::loader::Loader::begin`].
    pub fn begin(&mut self, share: &Share, out: &mut Vec<LaneRead>) {
        self.files = share.files;
        self.batches.clear();
        self.finished = false;
        self.begin_pass();
        self.advance(out);
    }

    fn begin_pass(&mut self) {
        (self.next_file, self.turn, self.taken) = (0, 0, 0);
        (self.in_shuffle, self.in_batch) = (0, 0);
        self.productive = false;
        self.ahead.clear();
        for slot in 0..self.cycle.len() {
            self.cycle[slot] = self.open_next();
        }
    }

    fn open_next(&mut self) -> Option<RecordStream> {
        if self.next_file == self.files {
            return None;
        }
        let file = self.next_file;
        self.next_file += 1;
        self.next_lane += 1;
        Some(RecordStream {
            lane: self.next_lane,
            file,
            cursor: Cursor::default(),
            buffered: 0,
            landed: 0,
            reading: false,
            ended: false,
        })
    }

    /// Consumes all available records, then starts all permitted reads.
    fn advance(&mut self, out: &mut Vec<LaneRead>) {
        while !self.finished && (self.batches.len() as u64) < self.config.batches_ahead.max(1) {
            if !self.pull() {
                break;
            }
        }
        self.start_reads(out);
    }

    /// Advances by one record; `false` when the next one has not arrived.
    fn pull(&mut self) -> bool {
        let input_over = match self.next_record() {
            NextRead::Pending => return false,
            NextRead::Over => true,
            NextRead::Record => {
                let keep = self.config.keep_every.max(1);
                self.in_shuffle += 1;
                self.taken += 1;
                // Sharding follows the shuffle; which record is kept does not matter here.
                if self.in_shuffle < self.config.shuffle_size.max(1) {
                    return true;
                }
                self.in_shuffle -= 1;
                self.in_batch += u64::from(self.taken.is_multiple_of(keep));
                false
            }
        };
        if input_over {
            self.in_batch += self.in_shuffle / self.config.keep_every.max(1);
            self.in_shuffle = 0;
        }
        while self.in_batch >= self.config.batch_size {
            self.in_batch -= self.config.batch_size;
            self.batches.push_back(self.taken_at);
            self.productive = true;
        }
        if input_over {
            if self.config.repeat && self.productive {
                self.begin_pass();
            } else {
                self.finished = true;
            }
        }
        true
    }

    /// Consumes the next record in turn.
    fn next_record(&mut self) -> NextRead {
        for _ in 0..self.cycle.len() {
            match &mut self.cycle[self.turn] {
                Some(stream) if stream.buffered > 0 => {
                    stream.buffered -= 1;
                    self.taken_at = self.taken_at.max(stream.landed);
                    self.turn = (self.turn + 1) % self.cycle.len();
                    return NextRead::Record;
                }
                Some(stream) if !stream.ended => return NextRead::Pending,
                Some(_) => {
                    // The file is exhausted: its thread opens another, which waits behind the files
                    // opened ahead. The oldest of those replaces it in the cycle, with its turn in
                    // the next round.
                    let next = self.open_next();
                    self.ahead.extend(next);
                    self.cycle[self.turn] = self.ahead.pop_front();
                    if self.cycle[self.turn].is_some() {
                        self.turn = (self.turn + 1) % self.cycle.len();
                        return self.next_record();
                    }
                }
                None => {}
            }
            self.turn = (self.turn + 1) % self.cycle.len();
        }
        NextRead::Over
    }

    fn start_reads(&mut self, out: &mut Vec<LaneRead>) {
        if self.finished {
            return;
        }
        let length = self.cycle.len();
        while self.ahead.len() < length * FILES_AHEAD_FACTOR
            && let Some(stream) = self.open_next()
        {
            self.ahead.push_back(stream);
        }
        for at in 0..length {
            if let Some(stream) = &mut self.cycle[(self.turn + at) % length] {
                stream.start(out);
            }
        }
        for stream in &mut self.ahead {
            stream.start(out);
        }
    }

    /// See [`super::loader::Loader::landed`].
    pub fn landed(&mut self, lane: u64, came: CompletedRead, out: &mut Vec<LaneRead>) -> u64 {
        let CompletedRead { landed, fresh, at } = came;
        let in_cycle = self.cycle.iter_mut().flatten();
        // An unknown stream belongs to a discarded iterator.
        if let Some(stream) = in_cycle.chain(&mut self.ahead).find(|stream| stream.lane == lane) {
            stream.reading = false;
            stream.buffered += landed.samples;
            stream.landed = at;
            stream.cursor = landed.cursor;
            stream.ended = landed.ended;
        }
        self.advance(out);
        if fresh { landed.samples } else { 0 }
    }

    /// See [`super::loader::Loader::fetch`].
    pub fn fetch(&mut self, out: &mut Vec<LaneRead>) -> Fetch {
        let Some(ready) = self.batches.pop_front() else {
            return if self.finished { Fetch::Exhausted } else { Fetch::NotReady };
        };
        self.advance(out);
        Fetch::Taken { ready }
    }

    /// See [`super::loader::Loader::end`].
    pub fn end(&mut self) {
        self.finished = true;
        self.batches.clear();
        self.cycle.fill(None);
        self.ahead.clear();
    }
}

enum NextRead {
    Record,
    Pending,
    Over,
}

impl RecordStream {
    /// Starts the next read of this file, if it may run further ahead.
    fn start(&mut self, out: &mut Vec<LaneRead>) {
        if self.reading || self.ended || self.buffered >= RECORDS_AHEAD {
            return;
        }
        self.reading = true;
        out.push(LaneRead {
            lane: self.lane,
            unit: Unit::Records { file: self.file, from: self.cursor },
        });
    }
}
