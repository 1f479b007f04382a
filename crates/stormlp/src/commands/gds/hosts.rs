//! A matrix on several hosts before its first byte: each has files of its own, and all have the same
//! cells.

use stormlp_model::facts::HostFacts;
use stormlp_model::matrix::{MatrixPlan, MatrixRequest, Span, Target, resolve};
use stormlp_model::operation::Direction;
use stormlp_model::warning::{Warning, WarningKind};

use super::scan;
use crate::commands::party::Party;
use crate::exit::Failure;
use crate::session::Session;

/// Gives each process a folder of its own in the folders that were named, which all of them may see.
///
/// # Errors
/// When all of them would write to the same file.
pub(super) fn share(
    request: &mut MatrixRequest,
    party: &Party,
    session: &Session,
) -> Result<(), Failure> {
    if party.is_alone() || party.has_local_data() {
        return Ok(());
    }
    let writes = |op: &stormlp_model::operation::Operation| op.direction() == Direction::Write;
    let writes = request.ops.iter().any(writes) || request.read_percent.is_some();
    for job in &mut request.jobs {
        match &mut job.target {
            Target::Folder(folder) => folder.push(format!("rank-{}", session.group.rank())),
            Target::File(file) if writes => {
                return Err(Failure::usage(format!(
                    "all hosts would write over each other in {}",
                    file.display()
                ))
                .with_help(
                    "name a folder with --dir, or --local-data where the file or device of that \
                     name is another one on every host",
                ));
            }
            Target::File(_) => {}
        }
    }
    Ok(())
}

/// The plan of a request on this machine, which leaves the other hosts their share of the free space.
///
/// # Errors
/// With exit code 3 or 4 and everything that is wrong.
pub(super) fn plan(
    request: &MatrixRequest,
    facts: &HostFacts,
    party: &Party,
) -> Result<MatrixPlan, Failure> {
    let mut inventory = scan::inventory(request);
    if !party.has_local_data() {
        for folder in &mut inventory.folders {
            folder.free_bytes /= party.members().len().max(1) as u64;
        }
    }
    Ok(resolve(request, facts, &inventory)?)
}

/// What a run by `plan` does, as far as all have to do the same.
pub(super) fn promises(plan: &MatrixPlan) -> Vec<(String, String)> {
    let span = match plan.span {
        Span::Seconds(seconds) => format!("{seconds} s"),
        Span::Passes(passes) => format!("{passes} passes"),
    };
    let mut promises = vec![
        ("number of cells".to_string(), plan.cells.len().to_string()),
        ("duration of a cell".to_string(), span),
        ("warm-up".to_string(), format!("{} s", plan.warmup_seconds)),
        ("page cache".to_string(), plan.cache.name().to_string()),
    ];
    for (number, cell) in plan.cells.iter().enumerate() {
        let transport = &cell.transport;
        let can = match cell.availability.is_available() {
            true => "",
            false => ", which it cannot run",
        };
        let words = format!(
            "{} {} {}, {} threads, depth {}{can}",
            transport.path,
            cell.op.of_mix(plan.read_percent),
            cell.io_size,
            transport.threads,
            transport.queue_depth
        );
        promises.push((format!("cell {number}"), words));
    }
    promises
}

/// What the reader should know of these hosts.
pub(super) fn warnings(party: &Party) -> Vec<Warning> {
    let mut warnings = party.warnings();
    if party.has_local_data() {
        warnings.push(Warning::new(
            WarningKind::Hosts,
            "every host had files of its own (--local-data): nothing here is of shared storage",
            "",
        ));
    }
    warnings
}
