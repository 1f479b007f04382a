//! The processes of one run on several hosts: who they are, a barrier and an all-gather.
//!
//! Processes are started by the launcher that the site has (`mpirun`, `mpiexec`, `srun`), and find
//! each other by what that launcher brings along: an MPI library, PMIx, or the wire protocol PMI-1.
//! The libraries are opened at run time, so that one executable starts where none of them is. A
//! process that nobody launched is [alone](Group::alone), which costs nothing.
//!
//! N processes that a launcher started and that cannot find each other would make N runs, each of
//! which believed to have the storage to itself. That is an error here, with its remedy.
//!
//! Besides `transfer` this is the only crate with `unsafe`: calls into libraries of others, in
//! `mpi`, `pmix` and the first lines of `pmi1`.

mod choice;
pub mod company;
mod engine;
mod environment;
mod error;
mod group;
mod mpi;
pub mod parts;
mod pmi1;
mod pmix;
pub mod promises;
mod rounds;

pub use choice::{Choice, give_up, join};
pub use engine::Patience;
pub use environment::{Environment, Launch};
pub use error::GroupError;
pub use group::Group;
pub use rounds::{AroundBarrier, Moment, Next};
