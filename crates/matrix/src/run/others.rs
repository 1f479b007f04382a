//! What other programs did while a cell was measured: its figures are then not those of the storage
//! alone.

use crate::plan::{MatrixPlan, Measurement, Reach};
use stormlp_core::others::{self, REMEDY};
use stormlp_core::units::MIB;
use stormlp_core::warning::{Warning, WarningKind};

/// Ratio of the fastest to the slowest interval that a steady machine does not reach.
const SPREAD: f64 = 3.0;
/// Mean transfers in an interval from which its rate is more than chance.
const ENOUGH: f64 = 20.0;
/// Fewest whole intervals that are compared.
const FEWEST: usize = 5;

/// One warning that names all of others' load; `None` if there is no sign of any.
pub(super) fn warning(
    plan: &MatrixPlan,
    reach: Option<Reach>,
    measured: &Measurement,
) -> Option<Warning> {
    let signs = [
        reach.and_then(|reach| of_devices(plan.request.read_percent.is_some(), reach, measured)),
        of_cpus(measured),
        of_intervals(measured),
    ];
    let signs: Vec<String> = signs.into_iter().flatten().collect();
    (!signs.is_empty()).then(|| Warning::new(WarningKind::OthersLoad, signs.join("; "), REMEDY))
}

/// Bytes that the devices moved beyond those of the cell, in both directions. The page cache reads
/// ahead and writes later, so a cell whose bytes went through it tells nothing here.
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

/// Rates of the intervals that lie too far apart for a steady machine.
fn of_intervals(measured: &Measurement) -> Option<String> {
    let series = &measured.series;
    let moving = measured.duration_seconds - measured.fsync_seconds.unwrap_or(0.0);
    let whole = (moving / series.interval_seconds.max(1e-9)) as usize;
    // The first interval has the start in it, the last is partial.
    let intervals = series.interval_bytes.get(1..whole.min(series.interval_bytes.len()))?;
    if intervals.len() < FEWEST {
        return None;
    }
    let (least, most) = (*intervals.iter().min()?, *intervals.iter().max()?);
    let transfer = measured.bytes as f64 / measured.operations.max(1) as f64;
    let mean = intervals.iter().sum::<u64>() as f64 / intervals.len() as f64;
    (mean >= ENOUGH * transfer && most as f64 > SPREAD * least as f64).then(|| {
        let rate = |bytes: u64| bytes as f64 / MIB as f64 / series.interval_seconds;
        format!(
            "throughput went from {:.0} to {:.0} MiB/s between intervals of {:.0} ms",
            rate(least),
            rate(most),
            series.interval_seconds * 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use stormlp_core::report::Series;
    use stormlp_core::telemetry::{Measure, Track};

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
    fn cpus_of_others_and_uneven_intervals_are_named() {
        let quiet = measured([100; 10], 0.9);
        assert_eq!((of_cpus(&quiet), of_intervals(&quiet)), (None, None));
        let busy = measured([100; 10], 1.5);
        assert_eq!(of_cpus(&busy).unwrap(), "other programs used 1.0 CPUs");
        let uneven = measured([100, 100, 30, 100, 100, 100, 100, 100, 100, 100], 0.9);
        assert_eq!(
            of_intervals(&uneven).unwrap(),
            "throughput went from 300 to 1000 MiB/s between intervals of 100 ms"
        );
        // The start and the end are not part of the course.
        let edges = measured([1, 100, 100, 100, 100, 100, 100, 100, 100, 100], 0.9);
        assert_eq!(of_intervals(&edges), None);
    }
}
