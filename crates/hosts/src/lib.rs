//! The processes of a run: membership, a barrier and an all-gather across hosts; and, for one
//! process as for many, the context of a command's run: the session and the place of its reports.
//!
//! Processes are started by the site's launcher (`mpirun`, `mpiexec`, `srun`) and find each other
//! through an MPI library, PMIx, or the PMI-1 wire protocol. The libraries are opened at run time,
//! so that one executable also starts where none of them is installed. A process without a launcher
//! is [alone](Group::alone), which costs nothing.
//!
//! If N launched processes cannot find each other, they would make N independent runs, each
//! assuming that it has the storage to itself. Here that is an error, with a remedy.
//!
//! Also the parts that every running command shares: its [session](session::Session), and the
//! folders in which its processes [save](saver::Saver) their reports.
//!
//! This is the only crate with `unsafe` apart from `transfer`: calls into foreign libraries in
//! `mpi` and `pmix`, and the first lines of `pmi1`.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod choice;
pub mod consistency_fields;
mod engine;
mod environment;
mod error;
pub mod fate;
pub mod fault;
mod group;
pub mod journal;
pub mod largest;
pub mod members;
mod mpi;
pub mod multi_host;
pub mod parts;
pub mod peers;
pub mod pmi1;
mod pmix;
mod rounds;
pub mod saver;
pub mod session;

pub use choice::{Choice, give_up, join};
pub use engine::Timeouts;
pub use environment::{Environment, Launch};
pub use error::GroupError;
pub use group::Group;
pub use rounds::Next;
