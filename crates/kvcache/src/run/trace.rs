//! A trace as a file: read once before the run to know what it asks, and again while it is replayed,
//! line by line.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Reader, Storage};

use super::error::KvcacheError;
use super::requests::{Next, Operation, Work};
use crate::plan::{
    Class, MOST_LINE_BYTES, Model, Request, Speed, TraceEntry, TraceError, TraceFacts, TraceFormat,
    TraceReader, Traced,
};
use crate::report::ReplayedTrace;

/// How files begin that zstd and gzip compressed.
const COMPRESSED: [(&[u8], &str); 2] = [(b"\x28\xb5\x2f\xfd", "zstd -d"), (b"\x1f\x8b", "gunzip")];

/// The lines of a trace.
pub(super) struct TraceLines<'a> {
    path: &'a Path,
    input: BufReader<Reader<'a>>,
    reader: TraceReader,
    line: Vec<u8>,
    /// Lines read, and those that ask for something.
    lines: u64,
}

/// Why a line is not there.
enum Fault {
    File(TransferError),
    Line(TraceError),
}

impl<'a> TraceLines<'a> {
    pub(super) fn open(
        storage: &'a dyn Storage,
        path: &'a Path,
        reader: TraceReader,
    ) -> Result<Self, TransferError> {
        let input = BufReader::with_capacity(1 << 18, Reader::open(storage, path)?);
        Ok(Self { path, input, reader, line: Vec::new(), lines: 0 })
    }

    /// The next entry; `None` at the end.
    fn next(&mut self) -> Result<Option<TraceEntry>, Fault> {
        loop {
            self.line.clear();
            let most = MOST_LINE_BYTES as u64 + 1;
            let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line);
            let failed = |error: io::Error| TransferError::file("read", self.path, error);
            if read.map_err(|error| Fault::File(failed(error)))? == 0 {
                return Ok(None);
            }
            self.lines += 1;
            if let Some(entry) = self.parse().map_err(Fault::Line)? {
                return Ok(Some(entry));
            }
        }
    }

    fn parse(&mut self) -> Result<Option<TraceEntry>, TraceError> {
        let wrong = |what: String| TraceError::new(self.lines, what);
        for (beginning, command) in COMPRESSED {
            if self.lines == 1 && self.line.starts_with(beginning) {
                return Err(wrong(format!("the file is compressed: unpack it first ({command})")));
            }
        }
        if self.line.len() > MOST_LINE_BYTES {
            return Err(wrong(format!("it is longer than {MOST_LINE_BYTES} bytes")));
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| wrong("it is not text".into()))?;
        self.reader.line(text)
    }
}

/// Reads a whole trace, to know what it asks for.
///
/// # Errors
/// If the file cannot be read. A line that is wrong is in the result.
pub fn scan_trace(
    storage: &dyn Storage,
    path: &Path,
    model: &Model,
    block_tokens: u32,
) -> Result<TraceFacts, KvcacheError> {
    let reader = TraceReader::new(model, block_tokens);
    let mut lines = TraceLines::open(storage, path, reader)?;
    let (mut entries, mut span_ns, mut most_tokens) = (0, 0, 0);
    let wrong = loop {
        match lines.next() {
            Ok(None) => break None,
            Ok(Some(entry)) => {
                entries += 1;
                span_ns = entry.at_ns;
                most_tokens = most_tokens.max(match entry.what {
                    Traced::Write { tokens, .. } => tokens,
                    Traced::Read { .. } => 0,
                    Traced::Request { context_tokens, .. } => context_tokens,
                    Traced::Prompt { blocks, .. } => blocks.len() as u32 * block_tokens,
                });
            }
            Err(Fault::Line(wrong)) => break Some(wrong),
            Err(Fault::File(error)) => return Err(error.into()),
        }
    };
    let format = lines.reader.format();
    let empty = || TraceError::new(lines.lines.max(1), "the trace is empty");
    let wrong = wrong.or_else(|| format.is_none().then(empty));
    let format = format.unwrap_or(TraceFormat::MlperfIo);
    let headers = u64::from(format != TraceFormat::Mooncake);
    let skipped = lines.lines.saturating_sub(entries + headers);
    Ok(TraceFacts { format, entries, skipped, span_ns, most_tokens, wrong })
}

/// The answer to a thread that asks for an entry.
pub(super) enum NextEntry {
    /// What happened, and when it is due.
    Due(Traced, u64),
    /// The next is due then.
    At(u64),
    /// There are no more.
    End,
}

/// A trace that is replayed.
pub(super) struct Replay<'a> {
    lines: TraceLines<'a>,
    speed: Speed,
    /// Read, but not due yet.
    next: Option<TraceEntry>,
    taken: u64,
    is_over: bool,
}

impl<'a> Replay<'a> {
    pub(super) fn new(lines: TraceLines<'a>, speed: Speed) -> Self {
        Self { lines, speed, next: None, taken: 0, is_over: false }
    }

    /// What a thread does for the next entry, if it is due at `now_ns`.
    pub(super) fn next(&mut self, now_ns: u64) -> Result<Next, KvcacheError> {
        Ok(match self.next_entry(now_ns)? {
            NextEntry::Due(what, due_ns) => work_of(what, due_ns),
            NextEntry::At(due_ns) => Next::At(due_ns),
            NextEntry::End => Next::Finished,
        })
    }

    /// The next entry, if it is due at `now_ns`.
    pub(super) fn next_entry(&mut self, now_ns: u64) -> Result<NextEntry, KvcacheError> {
        let entry = match self.next.take() {
            Some(entry) => Some(entry),
            None => self.lines.next().map_err(|fault| self.lines.failed(fault))?,
        };
        let Some(entry) = entry else {
            self.is_over = true;
            return Ok(NextEntry::End);
        };
        let due_ns = match self.speed {
            Speed::Times(times) => (entry.at_ns as f64 / times) as u64,
            Speed::Max => now_ns,
        };
        if due_ns > now_ns {
            self.next = Some(entry);
            return Ok(NextEntry::At(due_ns));
        }
        self.taken += 1;
        Ok(NextEntry::Due(entry.what, due_ns))
    }

    /// What was replayed, of which so much is done.
    pub(super) fn counted(&self, done: ReplayedTrace) -> ReplayedTrace {
        ReplayedTrace { begun: self.taken, is_whole: self.is_over, ..done }
    }
}

impl TraceLines<'_> {
    fn failed(&self, fault: Fault) -> KvcacheError {
        match fault {
            Fault::File(error) => error.into(),
            Fault::Line(wrong) => KvcacheError::Trace { path: self.path.to_path_buf(), wrong },
        }
    }
}

/// What a thread does for an entry.
fn work_of(what: Traced, sent_ns: u64) -> Next {
    match what {
        Traced::Write { key, tokens } => {
            Next::Operate(Operation { key, write_tokens: Some(tokens), sent_ns })
        }
        Traced::Read { key } => Next::Operate(Operation { key, write_tokens: None, sent_ns }),
        Traced::Request { key, context_tokens, generate_tokens } => {
            // The original draws a class; here the trace has the order.
            let class = Class::Batch;
            let request =
                Request { key, context_tokens, generate_tokens, class, sent_ns, turn: None };
            Next::Serve(Work { request, context_tokens, has_prompt: false, others: Vec::new() })
        }
        // Prompts have an engine of their own, and the format of a trace does not change.
        Traced::Prompt { .. } => Next::Finished,
    }
}
