//! The processes of a run: membership, a barrier and an all-gather for those of several hosts; and,
//! for one as for many, what a command needs around its run: the session and where reports are saved.
//!
//! Processes are started by the site's launcher (`mpirun`, `mpiexec`, `srun`) and find each other
//! through what it provides: an MPI library, PMIx, or the PMI-1 wire protocol. The libraries are
//! opened at run time, so that one executable also starts where none of them is installed. A
//! process without a launcher is [alone](Group::alone), which costs nothing.
//!
//! If N launched processes cannot find each other, they would make N independent runs, each
//! assuming that it has the storage to itself. Here that is an error, with a remedy.
//!
//! Also what every command that runs something has: its [session](session::Session), and the folders
//! in which its processes [save](saver::Saver) their reports.
//!
//! Besides `transfer` this is the only crate with `unsafe`: calls into foreign libraries in `mpi`
//! and `pmix`, and the first lines of `pmi1`.

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
