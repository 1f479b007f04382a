//! Where and when the costs of a client were measured, for runs that use them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::counted;
use crate::warning::{Warning, WarningKind};

/// From this load on, for each CPU, a host was busy when its calibration began.
const BUSY_SHARE: f64 = 0.25;

/// The origin of a calibration's costs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationOrigin {
    /// The file.
    pub file: String,
    /// The host.
    pub hostname: String,
    /// Its CPUs.
    pub cpus: u32,
    /// When it began.
    pub started_at: String,
    /// Load average over the minute before it began.
    pub load_before: f64,
}

impl CalibrationOrigin {
    /// Whether other programs had the host's CPUs when it began.
    pub fn was_busy(&self) -> bool {
        self.load_before > BUSY_SHARE * f64::from(self.cpus.max(1))
    }

    /// Warns of one that was made on a busy host.
    pub fn busy_warning(&self) -> Option<Warning> {
        self.was_busy().then(|| {
            Warning::new(
                WarningKind::OthersLoad,
                format!(
                    "the calibration {} began at a load of {:.2} on {}: DLIO's costs in it include \
                     waiting for CPUs",
                    self.file,
                    self.load_before,
                    counted(u64::from(self.cpus), "CPU")
                ),
                "calibrate again with `stormlp calibrate-dlio` on an idle host",
            )
        })
    }

    /// Warns of one that was made on a busy host, or on another host than `hostname`.
    pub fn warnings(&self, hostname: &str) -> Vec<Warning> {
        let is_other = self.hostname != hostname;
        let other = is_other.then(|| {
            Warning::new(
                WarningKind::Hosts,
                format!(
                    "the calibration {} is of {}, this host is {hostname}: DLIO's costs here may differ",
                    self.file, self.hostname
                ),
                "run `stormlp calibrate-dlio` on this host",
            )
        });
        other.into_iter().chain(self.busy_warning()).collect()
    }
}

impl fmt::Display for CalibrationOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "calibrated in {} (host {}, {}, {}, load {:.2})",
            self.file,
            self.hostname,
            counted(u64::from(self.cpus), "CPU"),
            self.started_at,
            self.load_before
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_of_a_busy_or_another_host_is_not_passed_over() {
        let origin = CalibrationOrigin {
            file: "dlio.json".to_string(),
            hostname: "node7".to_string(),
            cpus: 2,
            started_at: "2026-11-21T10:15:02Z".to_string(),
            load_before: 0.1,
        };
        assert_eq!(origin.warnings("node7"), []);
        assert_eq!(
            origin.to_string(),
            "calibrated in dlio.json (host node7, 2 CPUs, 2026-11-21T10:15:02Z, load 0.10)"
        );
        let other = origin.warnings("node8");
        assert!(other[0].fact.contains("is of node7, this host is node8"), "{other:?}");
        let busy = CalibrationOrigin { load_before: 1.4, ..origin };
        assert_eq!(busy.warnings("node7").len(), 1);
        assert!(busy.busy_warning().unwrap().fact.contains("load of 1.40 on 2 CPUs"));
    }
}
