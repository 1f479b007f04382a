//! cuFile over a whole run: held once, and what becomes of a run whose path fell back.

use std::sync::Arc;

use crate::TransferError;
use crate::cufile::{Driver, Settings, Statistics};
use stormlp_core::evidence::{DirectIo, Evidence, RouteProof};
use stormlp_core::path::PathKind;
use stormlp_core::warning::Warning;

/// What to do where `--require-gds` was not met.
pub const REMEDY: &str =
    "run `stormlp doctor`; without --require-gds the run takes what cuFile falls back to";

/// Opens cuFile's driver for all that a run does: opening takes long, and closing it between two
/// parts of a run would have the next one pay for it. `None` where no path needs it, or where it
/// does not open, which the first transfer then tells.
///
/// # Errors
/// When it does not open although nothing else will do.
pub fn hold_cufile(
    needed: bool,
    settings: &Settings,
) -> Result<Option<Arc<Driver>>, TransferError> {
    if !needed {
        return Ok(None);
    }
    match Driver::open(settings) {
        Ok(driver) => Ok(Some(driver)),
        Err(error) if settings.allow_compat_mode == Some(false) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// How the driver is to be opened: its compatibility mode is forbidden where a fallback is an error,
/// and it counts at the level `cufile_stats`, where one was asked for.
pub fn settings(require_gds: bool, cufile_stats: Option<u8>) -> Settings {
    Settings {
        allow_compat_mode: require_gds.then_some(false),
        statistics: cufile_stats.map_or(Statistics::WhileAsked, Statistics::Throughout),
    }
}

/// What to do about a transfer that failed since it had no direct route and `--require-gds` forbade
/// the other.
pub fn remedy(require_gds: bool, error: &TransferError) -> Option<&'static str> {
    (require_gds && error.has_no_direct_route()).then_some(REMEDY)
}

/// What is to be said where another path ran than the one that was asked for, or none that is
/// proven; a refused `O_DIRECT` is told as such.
pub fn warning(asked: PathKind, evidence: &Evidence) -> Option<Warning> {
    match evidence.direct_io {
        DirectIo::Refused => None,
        DirectIo::Honoured | DirectIo::NotAsked => evidence.of_another_path(asked),
    }
}

/// What `--require-gds` has against what ran, with so many `transfers`: a run that was stopped before
/// the first has broken nothing. Nor has one whose route nothing shows although compatibility mode
/// was forbidden, as with the unaligned ends of files: it is warned of.
pub fn broken_demand(
    require_gds: bool,
    asked: PathKind,
    evidence: &Evidence,
    transfers: u64,
) -> Option<String> {
    let fell_back = evidence.effective_path != Some(asked) && transfers > 0;
    let unshown = (evidence.cufile.as_ref()).is_some_and(|cufile| {
        cufile.proof == RouteProof::None && cufile.compat_mode_allowed == Some(false)
    });
    (require_gds && asked.needs_cufile() && fell_back && !unshown)
        .then(|| format!("{}, which --require-gds forbids", evidence.summary))
}

#[cfg(test)]
mod tests {
    use stormlp_core::evidence::CuFileEvidence;
    use stormlp_core::warning::WarningKind;

    use super::*;

    fn evidence(effective_path: Option<PathKind>, direct_io: DirectIo) -> Evidence {
        Evidence {
            effective_path,
            summary: "cuFile's POSIX compatibility mode".to_string(),
            direct_io,
            engine: None,
            cufile: None,
        }
    }

    #[test]
    fn a_fallback_is_told_and_forbidden_where_direct_transfers_were_demanded() {
        let fell = evidence(Some(PathKind::GdsCompat), DirectIo::Honoured);
        let told = warning(PathKind::Gds, &fell).map(|warning| warning.kind);
        assert_eq!(told, Some(WarningKind::PathFellBack));
        assert!(broken_demand(true, PathKind::Gds, &fell, 1).is_some());
        assert_eq!(broken_demand(true, PathKind::Gds, &fell, 0), None);
        assert_eq!(broken_demand(false, PathKind::Gds, &fell, 1), None);
        let direct = evidence(Some(PathKind::Gds), DirectIo::Honoured);
        assert_eq!(warning(PathKind::Gds, &direct), None);
        assert_eq!(broken_demand(true, PathKind::Gds, &direct, 1), None);
        // A route that could not be told is not the one that was demanded.
        let unknown = evidence(None, DirectIo::Honoured);
        assert!(broken_demand(true, PathKind::Gds, &unknown, 1).is_some());
        // Where a fallback was forbidden and nothing shows one, that is a warning.
        let unshown = Evidence {
            cufile: Some(CuFileEvidence {
                compat_mode_allowed: Some(false),
                ..CuFileEvidence::default()
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
