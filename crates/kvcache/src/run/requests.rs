//! The requests that users have sent by now, and the next one to serve.

use std::sync::{Mutex, PoisonError};

use super::error::KvcacheError;
use super::tally::Tally;
use super::trace::Replay;
use crate::plan::{Class, Load, Next, Prompt, Prompts, Queue, Work};

/// Where work comes from.
pub(super) enum Source<'a> {
    Users(Requests),
    Trace(Box<Replay<'a>>),
    /// Prompts that are drawn, the next one if it is not due yet, and how many were sent.
    Drawn(&'a Mutex<Prompts>, Option<Prompt>, u64),
}

impl Source<'_> {
    /// What to do at `now_ns`.
    pub(super) fn next(&mut self, now_ns: u64) -> Result<Next, KvcacheError> {
        match self {
            Self::Users(requests) => Ok(requests.next(now_ns)),
            Self::Trace(replay) => replay.next(now_ns),
            Self::Drawn(prompts, next, sent) => {
                let draw = || prompts.lock().unwrap_or_else(PoisonError::into_inner).draw();
                let prompt = next.take().unwrap_or_else(draw);
                let sent_ns = prompt.sent_ns.unwrap_or(now_ns);
                if sent_ns > now_ns {
                    *next = Some(prompt);
                    return Ok(Next::At(sent_ns));
                }
                *sent += 1;
                Ok(Next::Take(Work::Load(prompt), sent_ns))
            }
        }
    }

    /// Enters requests sent `until_ns`, or replayed.
    pub(super) fn credit(self, tally: &mut Tally, until_ns: u64) {
        match self {
            Self::Users(mut requests) => {
                requests.advance(until_ns);
                for (class, sent) in Class::ALL.into_iter().zip(requests.sent) {
                    tally.classes.entry(class).or_default().begun = sent;
                }
                tally.requests.begun = requests.sent.iter().sum();
            }
            Self::Trace(replay) => {
                tally.requests.begun = replay.taken;
                tally.is_whole_trace = Some(replay.is_over);
            }
            Self::Drawn(_, _, sent) => tally.requests.begun = sent,
        }
    }
}

/// All users, and the requests that wait. Users send when asked: no thread has to wake up for each
/// request.
pub(super) struct Requests {
    load: Load,
    queue: Queue,
    /// Milliseconds since 1970 at the start, for the names of conversations.
    started_unix_ms: u64,
    /// Users send until then.
    end_ns: u64,
    /// Requests sent so far by each class, in the order of [`Class::ALL`].
    sent: [u64; Class::ALL.len()],
}

impl Requests {
    pub(super) fn new(load: Load, started_unix_ms: u64, end_ns: u64) -> Self {
        let sent = [0; Class::ALL.len()];
        Self { load, queue: Queue::default(), started_unix_ms, end_ns, sent }
    }

    /// Has users send the requests due by `now_ns`.
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
            let place = Class::ALL.iter().position(|one| *one == request.class);
            self.sent[place.unwrap_or(0)] += 1;
            self.queue.push(request);
        }
    }

    /// The most urgent request at `now_ns`.
    fn next(&mut self, now_ns: u64) -> Next {
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
}
