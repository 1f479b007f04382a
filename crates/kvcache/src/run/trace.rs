//! A trace as a file: read once before the run to know what it asks, and again while it is replayed,
//! line by line.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Reader, Storage};

use super::error::KvcacheError;
use crate::plan::{
    MOST_LINE_BYTES, Model, Next, Speed, TraceEntry, TraceError, TraceFacts, TraceFormat,
    TraceReader, Work,
};

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
    fn next(&mut self) -> Result<Option<TraceEntry>, KvcacheError> {
        loop {
            self.line.clear();
            let most = MOST_LINE_BYTES as u64 + 1;
            let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line);
            if read.map_err(|error| TransferError::file("read", self.path, error))? == 0 {
                return Ok(None);
            }
            self.lines += 1;
            let wrong = |wrong| KvcacheError::Trace { path: self.path.to_path_buf(), wrong };
            if let Some(entry) = self.parse().map_err(wrong)? {
                return Ok(Some(entry));
            }
        }
    }

    fn parse(&mut self) -> Result<Option<TraceEntry>, TraceError> {
        let wrong = |what: String| TraceError { line: self.lines, what };
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
                    Work::Operate { write_tokens, .. } => write_tokens.unwrap_or(0),
                    Work::Serve { context_tokens, .. } => context_tokens,
                    Work::Load(prompt) => prompt.chunks.len() as u32 * block_tokens,
                });
            }
            Err(KvcacheError::Trace { wrong, .. }) => break Some(wrong),
            Err(error) => return Err(error),
        }
    };
    let format = lines.reader.format();
    let empty = || TraceError { line: lines.lines.max(1), what: "the trace is empty".to_string() };
    let wrong = wrong.or_else(|| format.is_none().then(empty));
    let format = format.unwrap_or(TraceFormat::MlperfIo);
    let headers = u64::from(!format.has_blocks());
    let skipped = lines.lines.saturating_sub(entries + headers);
    Ok(TraceFacts { format, entries, skipped, span_ns, most_tokens, wrong })
}

/// A trace that is replayed.
pub(super) struct Replay<'a> {
    lines: TraceLines<'a>,
    speed: Speed,
    /// Read, but not due yet.
    next: Option<TraceEntry>,
    pub(super) taken: u64,
    pub(super) is_over: bool,
}

impl<'a> Replay<'a> {
    pub(super) fn new(lines: TraceLines<'a>, speed: Speed) -> Self {
        Self { lines, speed, next: None, taken: 0, is_over: false }
    }

    /// The next entry, if it is due at `now_ns`.
    pub(super) fn next(&mut self, now_ns: u64) -> Result<Next, KvcacheError> {
        let entry = match self.next.take() {
            Some(entry) => Some(entry),
            None => self.lines.next()?,
        };
        let Some(entry) = entry else {
            self.is_over = true;
            return Ok(Next::Finished);
        };
        let due_ns = match self.speed {
            Speed::Times(times) => (entry.at_ns as f64 / times) as u64,
            Speed::Max => now_ns,
        };
        if due_ns > now_ns {
            self.next = Some(entry);
            return Ok(Next::At(due_ns));
        }
        self.taken += 1;
        let mut work = entry.what;
        match &mut work {
            Work::Serve { request, .. } => request.sent_ns = due_ns,
            Work::Load(prompt) => prompt.sent_ns = Some(due_ns),
            Work::Operate { .. } => {}
        }
        Ok(Next::Take(work, due_ns))
    }
}
