//! Work of a thread, whoever asks for it: users, a trace, or prompts.

use super::load::Request;
use super::prompts::Prompt;

/// The work of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Serves a request, with the decisions made when a thread starts it.
    Serve {
        /// The request.
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
        /// The name of the object.
        key: String,
        /// The tokens of an object that is written; `None` if it is read.
        write_tokens: Option<u32>,
    },
    /// Loads the prefix of a prompt.
    Load(Prompt),
}

/// The answer to a thread that asks for something to do.
#[derive(Debug)]
pub enum Next {
    /// This, and when it was due in nanoseconds since the start.
    Take(Work, u64),
    /// The next is due at this time, in nanoseconds since the start.
    At(u64),
    /// No work is left.
    Finished,
}
