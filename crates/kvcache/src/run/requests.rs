//! The requests that users have sent by now, and the next one to serve.

use super::error::KvcacheError;
use super::trace::{Replay, work_of};
use crate::plan::{Class, Load, Queue, Request};

/// What a thread does.
#[derive(Debug)]
pub(super) enum Work {
    /// Serves a request, with what is decided when a thread takes it.
    Serve {
        request: Request,
        /// Its context without the system prompt that it begins with, in tokens.
        context_tokens: u32,
        /// Whether it begins with a system prompt.
        has_prompt: bool,
        /// The objects of other turns.
        others: Vec<String>,
    },
    /// Reads or writes as a trace says.
    Operate {
        key: String,
        /// The tokens of an object that is written; `None` if it is read.
        write_tokens: Option<u32>,
    },
}

/// The answer to a thread that asks for something to do.
#[derive(Debug)]
pub(super) enum Next<T> {
    /// This, and when it was due in nanoseconds since the start.
    Take(T, u64),
    /// The next is due at this time, in nanoseconds since the start.
    At(u64),
    /// Nothing is left to do.
    Finished,
}

/// Where work comes from.
pub(super) enum Source<'a> {
    Users(Requests),
    Trace(Replay<'a>),
}

impl Source<'_> {
    /// What to do at `now_ns`.
    pub(super) fn next(&mut self, now_ns: u64) -> Result<Next<Work>, KvcacheError> {
        match self {
            Self::Users(requests) => Ok(requests.next(now_ns)),
            Self::Trace(replay) => replay.next(now_ns).map(work_of),
        }
    }
}

/// All users, and the requests that wait. Users send when somebody asks: nothing has to wake up for
/// each request.
pub(super) struct Requests {
    load: Load,
    queue: Queue,
    /// Milliseconds since 1970 at the start, for the names of conversations.
    started_unix_ms: u64,
    /// Users send until then.
    end_ns: u64,
    offered: [u64; Class::ALL.len()],
}

impl Requests {
    pub(super) fn new(load: Load, started_unix_ms: u64, end_ns: u64) -> Self {
        let offered = [0; Class::ALL.len()];
        Self { load, queue: Queue::default(), started_unix_ms, end_ns, offered }
    }

    /// Has users send what is due by `now_ns`.
    pub(super) fn advance(&mut self, now_ns: u64) {
        let until = now_ns.min(self.end_ns);
        loop {
            let due_ns = self.load.next_due_ns();
            if due_ns > until {
                return;
            }
            let Some(request) = self.load.send(self.started_unix_ms + due_ns / 1_000_000) else {
                return;
            };
            self.offered[place_of(request.class)] += 1;
            self.queue.push(request);
        }
    }

    /// The most urgent request at `now_ns`.
    fn next(&mut self, now_ns: u64) -> Next<Work> {
        self.advance(now_ns);
        let Some(request) = self.queue.pop() else {
            return Next::At(self.load.next_due_ns());
        };
        let prompt = self.load.prompt();
        let others = self.load.other_turns(&request);
        let context_tokens = request.context_tokens.saturating_sub(prompt.unwrap_or(0)).max(1);
        let sent_ns = request.sent_ns;
        let has_prompt = prompt.is_some();
        Next::Take(Work::Serve { context_tokens, has_prompt, others, request }, sent_ns)
    }

    /// Requests sent so far by each class, in the order of [`Class::ALL`].
    pub(super) fn offered(&self) -> [u64; Class::ALL.len()] {
        self.offered
    }
}

/// The place of a class in [`Class::ALL`].
pub(super) fn place_of(class: Class) -> usize {
    Class::ALL.iter().position(|one| *one == class).unwrap_or(0)
}
