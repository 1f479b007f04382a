//! The built-in workloads: MLPerf Storage's, by edition.

use super::workload::Workload;
use stormlp_core::names::nearest;
use stormlp_core::workload_file::WorkloadError;

/// A built-in workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltinWorkload {
    /// The model, `unet3d`.
    pub name: &'static str,
    /// The accelerator, `h100`.
    pub accelerator: &'static str,
    /// The workload file, as `stormlp workloads show` prints it.
    pub yaml: &'static str,
}

macro_rules! entry {
    ($name:literal, $accelerator:literal) => {
        BuiltinWorkload {
            name: $name,
            accelerator: $accelerator,
            yaml: include_str!(concat!(
                "../../../../configs/training/",
                $name,
                "_",
                $accelerator,
                ".yaml"
            )),
        }
    };
}

/// All built-in workloads: models in the order MLPerf introduced them, accelerators by age.
pub const CATALOG: &[BuiltinWorkload] = &[
    entry!("unet3d", "v100"),
    entry!("unet3d", "a100"),
    entry!("unet3d", "h100"),
    entry!("unet3d", "b200"),
    entry!("bert", "v100"),
    entry!("resnet50", "v100"),
    entry!("resnet50", "a100"),
    entry!("resnet50", "h100"),
    entry!("cosmoflow", "v100"),
    entry!("cosmoflow", "a100"),
    entry!("cosmoflow", "h100"),
    entry!("retinanet", "b200"),
    entry!("retinanet", "mi355"),
    entry!("flux", "b200"),
    entry!("flux", "mi355"),
    entry!("dlrm", "b200"),
    entry!("dlrm", "mi355"),
];

/// Accelerators to emulate when none is named, in order of preference.
const PREFERRED: [&str; 3] = ["h100", "b200", "v100"];

/// A built-in workload was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CatalogError(String);

impl BuiltinWorkload {
    /// `unet3d_h100`.
    pub fn full_name(&self) -> String {
        format!("{}_{}", self.name, self.accelerator)
    }

    /// The workload with `params` applied.
    ///
    /// # Errors
    /// When one of `params` is invalid; the built-in file itself is always valid.
    pub fn workload(&self, params: &[String]) -> Result<Workload, WorkloadError> {
        Workload::parse(self.yaml, &format!("{}.yaml", self.full_name()), params)
    }
}

/// Finds `unet3d`, `unet3d_h100` or `unet3d-h100`, for `accelerator` if given.
///
/// # Errors
/// Names the nearest model, or the available accelerators.
pub fn find(
    name: &str,
    accelerator: Option<&str>,
) -> Result<&'static BuiltinWorkload, CatalogError> {
    let typed = name;
    let name = name.to_ascii_lowercase().replace('-', "_");
    let wanted = accelerator.map(str::to_ascii_lowercase);
    let by_model: Vec<&BuiltinWorkload> =
        CATALOG.iter().filter(|entry| entry.name == name).collect();
    if by_model.is_empty() {
        let entry = CATALOG.iter().find(|entry| entry.full_name() == name);
        return match (entry, wanted) {
            (Some(entry), Some(other)) if other != entry.accelerator => {
                find(entry.name, Some(&other))
            }
            (Some(entry), _) => Ok(entry),
            (None, _) => Err(no_workload(typed)),
        };
    }
    let Some(wanted) = wanted else {
        let preferred = |wanted: &&str| by_model.iter().find(|entry| entry.accelerator == *wanted);
        return Ok(PREFERRED.iter().find_map(preferred).unwrap_or(&by_model[0]));
    };
    by_model.iter().find(|entry| entry.accelerator == wanted).copied().ok_or_else(|| {
        CatalogError(format!(
            "workload {name} has no accelerator `{wanted}`: it has {}; for another, set --compute-time",
            accelerators(&name).join(", ")
        ))
    })
}

fn no_workload(name: &str) -> CatalogError {
    let meant = nearest(name, CATALOG.iter().map(|entry| entry.name));
    let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    CatalogError(format!("unknown workload `{name}`{meant}"))
}

/// The accelerators for which model `name` is built in.
pub fn accelerators(name: &str) -> Vec<&'static str> {
    CATALOG.iter().filter(|entry| entry.name == name).map(|entry| entry.accelerator).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::profile::Profile;

    #[test]
    fn every_built_in_file_is_readable_and_identifies_itself() {
        for entry in CATALOG {
            let workload = entry.workload(&[]).unwrap();
            assert_eq!(workload.name, entry.name);
            assert_eq!(workload.accelerator, entry.accelerator);
            assert_eq!(Some(workload.edition), Profile::of_accelerator(entry.accelerator));
            assert!(workload.train.computation_time.mean_seconds() > 0.0);
            assert!(workload.workflow.train);
        }
    }

    #[test]
    fn demand_is_that_of_the_published_matrix() {
        // MB/s of one accelerator at an AU of 100 %: batch × record length / computation time.
        for (name, accelerator, mb_per_second) in [
            ("unet3d", "v100", 431.1),
            ("bert", "v100", 0.1),
            ("unet3d", "a100", 1613.5),
            ("unet3d", "h100", 3177.1),
            ("unet3d", "b200", 6334.6),
            ("resnet50", "a100", 105.4),
            ("resnet50", "h100", 204.8),
            ("cosmoflow", "a100", 513.3),
            ("cosmoflow", "h100", 808.1),
            ("retinanet", "b200", 163.0),
            ("retinanet", "mi355", 163.0),
            ("dlrm", "b200", 33248.6),
            ("dlrm", "mi355", 22165.7),
            ("flux", "b200", 77.0),
            ("flux", "mi355", 77.0),
        ] {
            let w = find(name, Some(accelerator)).unwrap().workload(&[]).unwrap();
            let demand = f64::from(w.reader.batch_size) * w.dataset.record_length_bytes
                / w.train.computation_time.mean_seconds()
                / 1e6;
            assert!((demand - mb_per_second).abs() < 0.051, "{name} {accelerator}: {demand}");
        }
    }

    #[test]
    fn names_are_found_with_and_without_their_accelerator() {
        assert_eq!(find("unet3d", None).unwrap().accelerator, "h100");
        assert_eq!(find("retinanet", None).unwrap().accelerator, "b200");
        assert_eq!(find("bert", None).unwrap().accelerator, "v100");
        assert_eq!(find("unet3d_a100", None).unwrap().accelerator, "a100");
        assert_eq!(find("unet3d_a100", Some("b200")).unwrap().accelerator, "b200");
        insta::assert_snapshot!(find("unet", None).unwrap_err(), @"unknown workload `unet`; did you mean `unet3d`?");
        insta::assert_snapshot!(find("gpt4", None).unwrap_err(), @"unknown workload `gpt4`");
        insta::assert_snapshot!(find("bert", Some("h100")).unwrap_err(), @"workload bert has no accelerator `h100`: it has v100; for another, set --compute-time");
    }

    #[test]
    fn dlrm_reads_160_of_761_bytes() {
        let dlrm = find("dlrm", None).unwrap().workload(&[]).unwrap();
        let columns = &dlrm.dataset.parquet.columns;
        let read: Vec<_> = columns.iter().filter(|column| column.read).collect();
        assert_eq!((columns.len(), read.len()), (200, 40));
        assert_eq!(columns.iter().map(|c| c.row_bytes()).sum::<u64>(), 761);
        assert_eq!(read.iter().map(|c| c.row_bytes()).sum::<u64>(), 160);
        let flux = find("flux", None).unwrap().workload(&[]).unwrap();
        let row: u64 = flux.dataset.parquet.columns.iter().map(|c| c.row_bytes()).sum();
        assert_eq!(row, 2_164_832);
    }
}
