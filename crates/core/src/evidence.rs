//! What ran, and how that is known: a path is never named without its evidence.

use serde::{Deserialize, Serialize};

use crate::path::{EngineKind, PathKind};
use crate::warning::{Warning, WarningKind};

/// What became of `O_DIRECT` on the files of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DirectIo {
    /// The path goes through the page cache by design, or touches no file.
    #[default]
    NotAsked,
    /// Every file was opened with `O_DIRECT` and `fcntl(F_GETFL)` shows it still set.
    Honoured,
    /// The file system refused it; the bytes went through the page cache.
    Refused,
}

/// How the I/O engine under a path was set up, as the kernel granted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EngineFacts {
    /// The engine that ran.
    pub engine: EngineKind,
    /// Flags of the ring, as the kernel names them; empty without a ring.
    pub ring_flags: Vec<String>,
    /// Whether the buffers were registered with the ring.
    pub registered_buffers: bool,
    /// Whether the files were registered with the ring.
    pub registered_files: bool,
    /// Why something above is less than what was asked for.
    pub fallbacks: Vec<String>,
}

/// What shows by which route cuFile's transfers went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteProof {
    /// cuFile's own counters of each route.
    Counters,
    /// The statistics of the nvidia-fs kernel driver, which counts for the whole host: as many
    /// transfers of as many bytes as were the run's own, or too few of them.
    NvidiaFs,
    /// Compatibility mode was forbidden, so a fallback would have been an error.
    CompatForbidden,
    /// This machine has no other route.
    Elimination,
    /// Nothing: the route is not proven, which says nothing against it.
    #[default]
    None,
}

/// When cuFile counted transfers by their routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Never: the library has no counters, or they were left off, or at a level without routes.
    #[default]
    Never,
    /// In transfers of the same kind before the measured part, in which it counts nothing.
    Beforehand,
    /// In the first transfers, which are part of what was measured.
    AtFirst,
    /// Through the measured part, as was asked for.
    Throughout,
}

/// What cuFile counted while a cell ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CuFileEvidence {
    /// Version of the library, `1.16`.
    pub library_version: String,
    /// Where the library was found.
    pub library_path: String,
    /// Transfers over PCI peer-to-peer DMA; `None` where the library does not count.
    pub p2p_operations: Option<u64>,
    /// Transfers through the nvidia-fs kernel driver; `None` where the library does not count.
    pub nvfs_operations: Option<u64>,
    /// Transfers through POSIX reads and writes, which is compatibility mode; `None` where the
    /// library does not count.
    pub posix_operations: Option<u64>,
    /// Operations that `/proc/driver/nvidia-fs/stats` counted meanwhile.
    pub nvfs_driver_operations: Option<u64>,
    /// When the library counted transfers by their routes.
    #[serde(default)]
    pub counted: Counted,
    /// What shows which route they took.
    #[serde(default)]
    pub proof: RouteProof,
    /// What would prove the route, where nothing did.
    #[serde(default)]
    pub to_prove: Option<String>,
    /// Whether compatibility mode was allowed.
    pub compat_mode_allowed: Option<bool>,
    /// Properties of the driver that bear on the path, in words.
    pub properties: Vec<String>,
}

/// What ran, with the facts that prove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The path the bytes really took; `None` when that could not be told.
    pub effective_path: Option<PathKind>,
    /// The route in one sentence, with what it rests on.
    pub summary: String,
    /// Whether `O_DIRECT` held.
    pub direct_io: DirectIo,
    /// The engine, for the paths the CPU drives.
    pub engine: Option<EngineFacts>,
    /// cuFile's own counters, for the paths it drives.
    pub cufile: Option<CuFileEvidence>,
}

impl Evidence {
    /// What is to be said when a path was `asked` for and is not known to have run: that another
    /// one did, or that its route is not proven, which is no fallback.
    pub fn of_another_path(&self, asked: PathKind) -> Option<Warning> {
        if self.effective_path == Some(asked) {
            return None;
        }
        let unproven = self
            .cufile
            .as_ref()
            .filter(|cufile| self.effective_path.is_none() && cufile.proof == RouteProof::None);
        Some(match unproven {
            Some(cufile) => Warning::new(
                WarningKind::PathNotProven,
                format!("{asked} was asked for: {}", self.summary),
                cufile.to_prove.clone().unwrap_or_default(),
            ),
            None => Warning::new(
                WarningKind::PathFellBack,
                format!("{asked} was asked for: {}", self.summary),
                "run `stormlp doctor`; use --require-gds to make this an error",
            ),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn evidence(effective_path: Option<PathKind>, proof: RouteProof) -> Evidence {
        Evidence {
            effective_path,
            summary: "so it went".to_string(),
            direct_io: DirectIo::Honoured,
            engine: None,
            cufile: Some(CuFileEvidence {
                proof,
                to_prove: Some("count".to_string()),
                ..CuFileEvidence::default()
            }),
        }
    }

    #[test]
    fn a_route_that_is_not_proven_is_no_fallback() {
        let kind = |effective, proof| {
            let warning = evidence(effective, proof).of_another_path(PathKind::Gds);
            warning.map(|warning| warning.kind)
        };
        assert_eq!(kind(Some(PathKind::Gds), RouteProof::Counters), None);
        let unproven = evidence(None, RouteProof::None).of_another_path(PathKind::Gds);
        assert_eq!(unproven.as_ref().unwrap().kind, WarningKind::PathNotProven);
        let unproven = unproven.unwrap();
        assert_eq!(unproven.advice, "count");
        // Perhaps no transfer went well: then it did not run.
        assert_eq!(unproven.fact, "gds was asked for: so it went");
        let fell_back = Some(WarningKind::PathFellBack);
        assert_eq!(kind(None, RouteProof::Counters), fell_back);
        let compat = Some(PathKind::GdsCompat);
        assert_eq!(kind(compat, RouteProof::Elimination), fell_back);
    }
}
