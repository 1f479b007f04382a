//! cuFile across a run: keeping the driver open, and handling a path that fell back.

use std::sync::Arc;

use crate::cufile::{Driver, Settings, Statistics};
use crate::error::{LOST_GPU_HELP, TransferError};
use stormlp_core::evidence::{DirectIo, Evidence, RouteProof};
use stormlp_core::path::PathKind;
use stormlp_core::warning::Warning;

/// The remedy if `--require gds` was not met.
pub const REMEDY: &str =
    "run `stormlp doctor`; without --require gds the run uses cuFile's fallback";

/// Opens cuFile's driver for the whole run, if a path needs it: opening is slow, and closing it
/// between two parts of a run would charge the next one for it. Its fallback may be forbidden, and
/// statistics are collected at level `cufile_stats` if given. `None` if no path needs it, or if it
/// does not open, which the first transfer then reports.
///
/// # Errors
/// When it does not open and no other path is acceptable.
pub fn hold_cufile(
    needed: bool,
    require_gds: bool,
    cufile_stats: Option<u8>,
) -> Result<Option<Arc<Driver>>, TransferError> {
    let statistics = cufile_stats.map_or(Statistics::WhileAsked, Statistics::Throughout);
    let settings = Settings { forbid_fallback: require_gds, statistics };
    match needed.then(|| Driver::open(&settings)).transpose() {
        Err(error) if require_gds => Err(error.into()),
        opened => Ok(opened.ok().flatten()),
    }
}

/// The remedy for a transfer that failed because its GPU was lost, or because it had no direct route
/// and `--require gds` forbade the alternative.
pub fn remedy(require_gds: bool, error: &TransferError) -> Option<&'static str> {
    match error {
        lost if lost.is_lost_gpu() => Some(LOST_GPU_HELP),
        refused if require_gds && refused.has_no_direct_route() => Some(REMEDY),
        other => other.object_remedy(),
    }
}

/// The warning if the path that ran differs from the requested one or is unproven; a rejected
/// `O_DIRECT` is reported as such.
pub fn warning(asked: PathKind, evidence: &Evidence) -> Option<Warning> {
    match evidence.direct_io {
        DirectIo::Refused => None,
        DirectIo::Honoured | DirectIo::NotAsked => evidence.of_another_path(asked),
    }
}

/// The violation of `--require gds` by what ran, given the number of `transfers`: a run that was
/// stopped before the first has violated nothing. Nor has one whose route is unproven although
/// compatibility mode was forbidden, as with the unaligned ends of files: that yields a warning.
pub fn broken_demand(
    require_gds: bool,
    asked: PathKind,
    evidence: &Evidence,
    transfers: u64,
) -> Option<String> {
    let fell_back = evidence.effective_path != Some(asked) && transfers > 0;
    let unshown = (evidence.direct_storage.as_ref()).is_some_and(|storage| {
        storage.proof == RouteProof::None && storage.fallback_allowed == Some(false)
    });
    (require_gds && asked.needs_cufile() && fell_back && !unshown)
        .then(|| format!("{}, which --require gds forbids", evidence.summary))
}

#[cfg(test)]
mod tests {
    use stormlp_core::evidence::DirectStorage;
    use stormlp_core::warning::WarningKind;

    use super::*;

    fn evidence(effective_path: Option<PathKind>, direct_io: DirectIo) -> Evidence {
        Evidence {
            object_store: None,
            effective_path,
            summary: "cuFile's POSIX compatibility mode".to_string(),
            direct_io,
            engine: None,
            direct_storage: None,
        }
    }

    #[test]
    fn a_fallback_is_reported_and_fails_with_require_gds() {
        let fell = evidence(Some(PathKind::GdsCompat), DirectIo::Honoured);
        let told = warning(PathKind::Gds, &fell).map(|warning| warning.kind);
        assert_eq!(told, Some(WarningKind::PathFellBack));
        assert!(broken_demand(true, PathKind::Gds, &fell, 1).is_some());
        assert_eq!(broken_demand(true, PathKind::Gds, &fell, 0), None);
        assert_eq!(broken_demand(false, PathKind::Gds, &fell, 1), None);
        let direct = evidence(Some(PathKind::Gds), DirectIo::Honoured);
        assert_eq!(warning(PathKind::Gds, &direct), None);
        assert_eq!(broken_demand(true, PathKind::Gds, &direct, 1), None);
        // An unknown route does not meet the requirement.
        let unknown = evidence(None, DirectIo::Honoured);
        assert!(broken_demand(true, PathKind::Gds, &unknown, 1).is_some());
        // If a fallback was forbidden and no evidence shows one, that is a warning.
        let unshown = Evidence {
            object_store: None,
            direct_storage: Some(DirectStorage {
                fallback_allowed: Some(false),
                ..DirectStorage::default()
            }),
            ..unknown
        };
        assert_eq!(broken_demand(true, PathKind::Gds, &unshown, 1), None);
        let told = warning(PathKind::Gds, &unshown).map(|warning| warning.kind);
        assert_eq!(told, Some(WarningKind::PathNotProven));
    }

    #[test]
    fn a_refused_o_direct_has_a_warning_of_its_own() {
        let cached = evidence(Some(PathKind::Buffered), DirectIo::Refused);
        assert_eq!(warning(PathKind::Cpu, &cached), None);
    }
}
