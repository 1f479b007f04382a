//! One connection: requests out, heads and bodies in, every byte counted.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, StreamOwned};

use super::error::ObjectFault;
use super::reply::Head;
use crate::signals::give_up;

/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum silence of an endpoint that has not answered yet: a wrong address that accepts
/// connections is reported soon.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// How long a connection may stand still.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which a request that asks sends its body unasked: not all endpoints answer.
const ASKED: Duration = Duration::from_secs(1);
/// A request may take so long, and the time of its bytes at the least rate.
const SLOWEST: Duration = Duration::from_secs(300);
const LEAST_BYTES_PER_SECOND: u64 = 64 << 10;
/// The kind of errors that another attempt would not help.
const FUTILE: io::ErrorKind = io::ErrorKind::InvalidData;
/// How often a wait looks whether it is over.
const TICK: Duration = Duration::from_millis(250);
/// A connection that was idle for longer may have been closed by the endpoint.
const IDLE: Duration = Duration::from_secs(1);
/// Received at once before the length of a body is known; heads are far smaller.
const HEAD_BYTES: usize = 16 << 10;
/// Maximum number of lines after a chunked body.
const MOST_TRAILERS: usize = 64;

/// The progress of a request, or of a handshake.
struct Pace {
    began: Instant,
    /// When a byte last passed.
    last: Instant,
    bytes: u64,
    /// How long no byte may pass.
    silence: Duration,
}

impl Pace {
    fn of(silence: Duration) -> Self {
        let now = Instant::now();
        Self { began: now, last: now, bytes: 0, silence }
    }

    /// Counts bytes that passed, or none in a [`TICK`].
    fn passed(&mut self, bytes: usize) -> io::Result<()> {
        let now = Instant::now();
        self.bytes += bytes as u64;
        self.last = if bytes > 0 { now } else { self.last };
        // A first answer is small.
        let slowest = if self.silence == FIRST_ANSWER { FIRST_ANSWER } else { SLOWEST };
        let due = slowest + Duration::from_secs(self.bytes / LEAST_BYTES_PER_SECOND);
        let (kind, text) = if give_up(self.began) {
            (FUTILE, "stopped before the endpoint had answered".to_string())
        } else if bytes == 0 && now - self.last >= self.silence {
            let what = if self.silence == STALL_TIMEOUT { "no data came" } else { "no answer" };
            (io::ErrorKind::TimedOut, format!("{what} within {} s", self.silence.as_secs()))
        } else if now - self.began >= due {
            (FUTILE, format!("only {} bytes passed within {} s", self.bytes, due.as_secs()))
        } else {
            return Ok(());
        };
        Err(io::Error::new(kind, text))
    }
}

/// A socket that counts, and whose calls wait as long as they may.
struct Counted {
    socket: TcpStream,
    sent: u64,
    received: u64,
    pace: Pace,
}

impl Counted {
    #[inline]
    fn waiting(
        &mut self,
        mut call: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match call(&mut self.socket) {
                Err(error) if stalls(&error) => self.pace.passed(0)?,
                Ok(passed) => {
                    // Its end is an answer, too.
                    self.pace.passed(passed.max(1))?;
                    return Ok(passed);
                }
                failed => return failed,
            }
        }
    }
}

impl Read for Counted {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.waiting(|socket| socket.read(buffer))?;
        self.received += read as u64;
        Ok(read)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.waiting(|socket| socket.write(bytes))?;
        self.sent += written as u64;
        Ok(written)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let written = self.waiting(|socket| socket.write_vectored(parts))?;
        self.sent += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Maximum bytes that one call receives. A call holds the socket, and data that arrives meanwhile
/// waits and is not acknowledged: over the loopback a body of 16 MiB came 1.4 times as fast as with
/// calls of any length.
const RECEIVE_BYTES: usize = 64 << 10;

enum Stream {
    Plain(Counted),
    Tls(Box<StreamOwned<ClientConnection, Counted>>),
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(counted) => counted.read(target),
            Self::Tls(tls) => tls.read(target),
        }
    }
}

/// Why a reply could not be received.
#[derive(Debug)]
pub(super) enum WireError {
    /// The connection broke or stood still: the same request may succeed on another.
    Lost(io::Error),
    /// TLS was not agreed on.
    Tls(String),
    /// The received data cannot be right.
    Wrong(String),
}

impl WireError {
    /// The fault of a request to `endpoint`, after so many retries.
    pub(super) fn fault(self, endpoint: String, retries: u32) -> ObjectFault {
        match self {
            Self::Lost(source) => ObjectFault::Connection { endpoint, source, retries },
            Self::Tls(reason) => ObjectFault::Tls { endpoint, reason },
            Self::Wrong(what) => ObjectFault::Answer(what),
        }
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => Self::Tls(tls.to_string()),
            None if error.kind() == FUTILE => Self::Wrong(error.to_string()),
            None => Self::Lost(error),
        }
    }
}

/// A connection that is kept for the next request.
pub(super) struct Connection {
    stream: Stream,
    /// When the last reply began.
    used: Instant,
    /// Received and not yet used: `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Counts at the last call of [`Self::passed`].
    told: (u64, u64),
}

impl Connection {
    /// Connects to the first of `addresses` that accepts.
    pub(super) fn open(
        addresses: &[SocketAddr],
        tls: Option<(&Arc<ClientConfig>, &str)>,
        timeout: Duration,
    ) -> Result<Self, WireError> {
        let share = timeout / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        let each = CONNECT_TIMEOUT.min(share);
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(address, each) {
                Ok(socket) => return Self::over(socket, tls, timeout),
                Err(error) => failed = error,
            }
        }
        Err(WireError::Lost(failed))
    }

    fn over(
        socket: TcpStream,
        tls: Option<(&Arc<ClientConfig>, &str)>,
        timeout: Duration,
    ) -> Result<Self, WireError> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        let mut counted = Counted { socket, sent: 0, received: 0, pace: Pace::of(timeout) };
        let stream = match tls {
            None => Stream::Plain(counted),
            Some((config, host)) => {
                let wrong = |error: &dyn std::fmt::Display| WireError::Tls(error.to_string());
                let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
                let name = ServerName::try_from(host).map_err(|e| wrong(&e))?;
                let mut session =
                    ClientConnection::new(Arc::clone(config), name).map_err(|e| wrong(&e))?;
                // Agreed on now, so that a certificate is not mistaken for a broken request.
                while session.is_handshaking() {
                    session.complete_io(&mut counted)?;
                }
                Stream::Tls(Box::new(StreamOwned::new(session, counted)))
            }
        };
        let buffer = vec![0; HEAD_BYTES].into_boxed_slice();
        let used = Instant::now();
        Ok(Self { stream, used, buffer, start: 0, end: 0, told: (0, 0) })
    }

    fn counted(&mut self) -> &mut Counted {
        match &mut self.stream {
            Stream::Plain(counted) => counted,
            Stream::Tls(tls) => &mut tls.sock,
        }
    }

    /// Itself if it can be used for another request: an endpoint may close one that is idle for long.
    pub(super) fn still_open(mut self) -> Option<Self> {
        if self.used.elapsed() < IDLE {
            return Some(self);
        }
        // There is no request, so only messages of TLS itself are read: tickets for later sessions,
        // or that the endpoint has closed.
        self.counted().pace = Pace::of(Duration::ZERO);
        self.counted().socket.set_nonblocking(true).ok()?;
        let found = self.stream.read(&mut [0]);
        self.counted().socket.set_nonblocking(false).ok()?;
        self.counted().pace.silence = STALL_TIMEOUT;
        found.is_err_and(|error| stalls(&error)).then_some(self)
    }

    /// The version of TLS, if the connection uses it.
    pub(super) fn tls(&self) -> Option<&'static str> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => Some(match tls.conn.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
                _ => "TLS",
            }),
        }
    }

    /// Bytes sent and received since the last call.
    pub(super) fn passed(&mut self) -> (u64, u64) {
        let counted = self.counted();
        let now = (counted.sent, counted.received);
        let since = (now.0 - self.told.0, now.1 - self.told.1);
        self.told = now;
        since
    }

    /// Sends a request and receives the head of its reply. One that `asks` sends its body after an
    /// interim reply.
    pub(super) fn exchange(
        &mut self,
        head: &[u8],
        body: &[u8],
        asks: bool,
    ) -> Result<Head, WireError> {
        if self.start < self.end {
            return Err(WireError::Wrong(
                "the reply before this one went on after its end".to_string(),
            ));
        }
        (self.start, self.end) = (0, 0);
        let silence = self.counted().pace.silence;
        // Sending may be slow.
        let silence = match body {
            [] => silence,
            _ if asks => ASKED,
            _ => STALL_TIMEOUT,
        };
        self.counted().pace = Pace::of(silence);
        let (now, later) = if asks { (&[][..], body) } else { (body, &[][..]) };
        match self.send(head, now) {
            Ok(()) => self.head(later),
            // An endpoint that refuses early closes before it has taken the whole body, and its
            // answer says more than the broken pipe.
            Err(broken) => self.head(&[]).map_err(|_| WireError::from(broken)),
        }
    }

    fn send(&mut self, mut head: &[u8], mut body: &[u8]) -> io::Result<()> {
        let stream: &mut dyn Write = match &mut self.stream {
            Stream::Plain(counted) => counted,
            Stream::Tls(tls) => &mut **tls,
        };
        while !head.is_empty() {
            // The head travels with the first bytes of the body.
            let parts = [io::IoSlice::new(head), io::IoSlice::new(body)];
            let written = match stream.write_vectored(&parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let of_head = written.min(head.len());
            head = &head[of_head..];
            body = &body[written - of_head..];
        }
        stream.write_all(body)?;
        stream.flush()
    }

    /// Receives a head; an interim reply announces it and wants the `body`.
    fn head(&mut self, mut body: &[u8]) -> Result<Head, WireError> {
        loop {
            match Head::parse(&self.buffer[self.start..self.end]).map_err(WireError::Wrong)? {
                Some((head, used)) if head.status < 200 => {
                    self.start += used;
                    self.counted().pace = Pace::of(STALL_TIMEOUT);
                    self.send(&[], std::mem::take(&mut body))?;
                }
                Some((mut head, used)) => {
                    self.start += used;
                    // The endpoint may go on to wait for a body that was not sent.
                    head.closes |= !body.is_empty();
                    self.used = Instant::now();
                    // The first answer came.
                    self.counted().pace = Pace::of(STALL_TIMEOUT);
                    return Ok(head);
                }
                None if self.end == self.buffer.len() => {
                    return Err(WireError::Wrong(format!(
                        "the head of the reply is longer than {HEAD_BYTES} bytes"
                    )));
                }
                None => {
                    let end = self.end;
                    let read = match receive(&mut self.stream, &mut self.buffer[end..]) {
                        Err(WireError::Lost(error)) if !body.is_empty() && stalls(&error) => {
                            self.counted().pace = Pace::of(STALL_TIMEOUT);
                            self.send(&[], std::mem::take(&mut body))?;
                            continue;
                        }
                        read => read?,
                    };
                    if read == 0 {
                        let ended = "the connection was closed before a reply";
                        return Err(WireError::Lost(io::Error::new(
                            io::ErrorKind::UnexpectedEof,
                            ended,
                        )));
                    }
                    self.end += read;
                }
            }
        }
    }

    /// Receives into `target`: as much as there is, 0 at the end of the connection.
    #[inline]
    fn receive(&mut self, target: &mut [u8]) -> Result<usize, WireError> {
        let waiting = self.end - self.start;
        if waiting == 0 {
            return receive(&mut self.stream, target);
        }
        let taken = waiting.min(target.len());
        target[..taken].copy_from_slice(&self.buffer[self.start..self.start + taken]);
        self.start += taken;
        Ok(taken)
    }

    /// Receives a body of exactly `target`'s length, straight into it.
    pub(super) fn fill(&mut self, target: &mut [u8]) -> Result<(), WireError> {
        let (mut filled, wanted) = (0, target.len());
        while filled < wanted {
            match self.receive(&mut target[filled..]) {
                Ok(0) => return Err(broken_off(filled, wanted, None)),
                Ok(received) => filled += received,
                Err(WireError::Lost(error)) => {
                    return Err(broken_off(filled, wanted, Some(&error)));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Receives the body that follows `head`, of at most `most` bytes.
    pub(super) fn body(&mut self, head: &Head, most: usize) -> Result<Vec<u8>, WireError> {
        let too_long = || WireError::Wrong(format!("the body is longer than {most} bytes"));
        if head.chunked {
            return self.chunks(most);
        }
        let length = match head.length {
            Some(length) => usize::try_from(length).map_err(|_| too_long())?,
            // It ends with the connection.
            None if head.closes => most + 1,
            None => 0,
        };
        if length > most && head.length.is_some() {
            return Err(too_long());
        }
        let mut body = Vec::new();
        let mut piece = [0; 8 << 10];
        while body.len() < length {
            let wanted = piece.len().min(length - body.len());
            match self.receive(&mut piece[..wanted])? {
                0 if head.length.is_none() => break,
                0 => return Err(broken_off(body.len(), length, None)),
                received => body.extend_from_slice(&piece[..received]),
            }
        }
        if body.len() > most { Err(too_long()) } else { Ok(body) }
    }

    /// A body in chunks, each after a line with its length.
    fn chunks(&mut self, most: usize) -> Result<Vec<u8>, WireError> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(digits, 16)
                .map_err(|_| WireError::Wrong("the body is not in valid chunks".to_string()))?;
            if length == 0 {
                // Trailers end with an empty line.
                for _ in 0..MOST_TRAILERS {
                    if self.line()?.is_empty() {
                        return Ok(body);
                    }
                }
                return Err(WireError::Wrong("the body has too many trailers".to_string()));
            }
            if length > most - body.len() {
                return Err(WireError::Wrong(format!("the body is longer than {most} bytes")));
            }
            let start = body.len();
            body.resize(start + length, 0);
            self.fill(&mut body[start..])?;
            if !self.line()?.is_empty() {
                return Err(WireError::Wrong("the body is not in valid chunks".to_string()));
            }
        }
    }

    /// A line of a chunked body, without its end.
    fn line(&mut self) -> Result<String, WireError> {
        const MOST: usize = 1024;
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() < MOST {
            if self.receive(&mut byte)? == 0 {
                let ended = "the body ended in the midst of its chunks";
                return Err(WireError::Lost(io::Error::new(io::ErrorKind::UnexpectedEof, ended)));
            }
            match byte[0] {
                b'\n' => return Ok(String::from_utf8_lossy(&line).trim_end().to_string()),
                other => line.push(other),
            }
        }
        Err(WireError::Wrong("the body is not in valid chunks".to_string()))
    }
}

/// Receives once, into memory of any size.
#[inline]
fn receive(stream: &mut Stream, target: &mut [u8]) -> Result<usize, WireError> {
    let at_once = target.len().min(RECEIVE_BYTES);
    loop {
        match stream.read(&mut target[..at_once]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Ok(other?),
        }
    }
}

/// The loss of a connection in the midst of a body. How it ended makes no difference: an endpoint
/// that is stopped ends some connections in order and resets others.
fn broken_off(filled: usize, wanted: usize, error: Option<&io::Error>) -> WireError {
    let kind = error.map_or(io::ErrorKind::UnexpectedEof, io::Error::kind);
    let why = error.map_or_else(String::new, |error| format!(": {error}"));
    let text = format!("the body ended after {filled} of {wanted} bytes{why}");
    WireError::Lost(io::Error::new(kind, text))
}

/// Whether a call ended because no data came in time.
fn stalls(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_a_second_does_not_keep_a_request_alive() {
        for (silence, allowed) in [(FIRST_ANSWER, FIRST_ANSWER), (STALL_TIMEOUT, SLOWEST)] {
            let mut pace = Pace::of(silence);
            // Of a machine that was started just now.
            let Some(began) = pace.began.checked_sub(allowed) else { return };
            pace.passed(1).unwrap();
            pace.began = began;
            let error = pace.passed(1).unwrap_err().to_string();
            assert_eq!(error, format!("only 2 bytes passed within {} s", allowed.as_secs()));
            // At the least rate it goes on.
            assert!(silence == FIRST_ANSWER || pace.passed(1 << 20).is_ok());
        }
    }
}
