//! Load of other programs while a cell was measured: its figures then do not show the storage
//! alone.

use crate::plan::{MatrixPlan, Measurement, Reach};
use stormlp_core::others::{self, REMEDY};
use stormlp_core::warning::{Warning, WarningKind};

/// One warning about the limits of the control group that were reached, else about all of others'
/// load; `None` if there is no sign of any.
pub(super) fn warning(
    plan: &MatrixPlan,
    reach: Option<Reach>,
    measured: &Measurement,
) -> Option<Warning> {
    let signs = [
        reach.and_then(|reach| of_devices(plan.request.read_percent.is_some(), reach, measured)),
        of_cpus(measured),
    ];
    let signs: Vec<String> = signs.into_iter().flatten().collect();
    let load = || Warning::new(WarningKind::OthersLoad, signs.join("; "), REMEDY);
    others::limit_warning([&measured.series]).or_else(|| (!signs.is_empty()).then(load))
}

/// Bytes that the devices moved beyond the cell's, in both directions. The page cache reads ahead
/// and writes later, so a cell through the page cache gives no evidence here.
fn of_devices(is_mixed: bool, reach: Reach, measured: &Measurement) -> Option<String> {
    if reach.through_cache || measured.filled_cache().is_some() {
        return None;
    }
    let along = reach.device_bytes?.saturating_sub(measured.bytes);
    let against = match (is_mixed, reach.is_write) {
        (true, _) => 0,
        (false, true) => measured.device_read_bytes.unwrap_or_default(),
        (false, false) => measured.device_written_bytes.unwrap_or_default(),
    };
    let devices = measured.device_names.join(", ");
    others::of_devices(&devices, along.saturating_add(against), measured.bytes, "this cell")
}

/// CPUs that other programs used.
fn of_cpus(measured: &Measurement) -> Option<String> {
    let own = (measured.cpu_user_seconds + measured.cpu_system_seconds)
        / measured.duration_seconds.max(1e-9);
    others::of_cpus(&measured.series, own)
}

#[cfg(test)]
mod tests {
    use stormlp_core::report::Series;
    use stormlp_core::telemetry::{Measure, Track};
    use stormlp_core::units::MIB;

    use super::*;

    /// Ten intervals of 100 ms with these bytes in MiB, in which the host used `cpus`.
    fn measured(mib: [u64; 10], cpus: f64) -> Measurement {
        let bytes: u64 = mib.iter().sum::<u64>() * MIB;
        Measurement {
            bytes,
            operations: bytes / 4096,
            duration_seconds: 1.0,
            cpu_user_seconds: 0.25,
            cpu_system_seconds: 0.25,
            fsync_seconds: None,
            series: Series {
                interval_seconds: 0.1,
                last_interval_seconds: Some(0.1),
                interval_bytes: mib.map(|mib| mib * MIB).to_vec(),
                tracks: vec![Track {
                    measure: Measure::HostCpuSeconds,
                    of: "host".to_string(),
                    values: vec![cpus / 10.0; 10],
                }],
                ..Series::default()
            },
            ..crate::show::fixtures::measurement()
        }
    }

    #[test]
    fn devices_tell_of_others_unless_the_page_cache_was_used() {
        let reach = |through_cache| Reach {
            of_memory: None,
            device_bytes: Some(1200 * MIB),
            device_share: Some(1.2),
            rounds: 1.0,
            through_cache,
            is_write: false,
            synced: false,
        };
        let mut cell = measured([100; 10], 0.5);
        cell.page_cache_share = Some(0.0);
        cell.page_cache_share_after = Some(0.0);
        let told = of_devices(false, reach(false), &cell).unwrap();
        assert!(told.ends_with("moved 200 MiB beyond the 1000 MiB of this cell"), "{told}");
        assert_eq!(of_devices(false, reach(true), &cell), None);
        cell.page_cache_share_after = Some(0.48);
        assert_eq!(of_devices(false, reach(false), &cell), None);
    }

    #[test]
    fn cpus_of_others_are_named() {
        assert_eq!(of_cpus(&measured([100; 10], 0.9)), None);
        let busy = measured([100; 10], 1.5);
        assert_eq!(of_cpus(&busy).unwrap(), "other programs used 1.0 CPUs");
    }
}
