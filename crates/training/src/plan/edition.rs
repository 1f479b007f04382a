//! Determines the edition of a workload file.
//!
//! stormlp's files name it. MLPerf's and DLIO's do not, but the accelerator and the keys identify
//! it: up to v1.0 `model` was a plain name and the sizes were `record_length`, and only v3.0's DLIO
//! has parquet and object storage libraries.

use std::collections::BTreeSet;

use stormlp_core::profile::Profile;
use stormlp_dataset::section::DataFormat;

/// Keys that exist only in v3.0's DLIO.
const ONLY_V3: [&str; 10] = [
    "dataset.skip_listing",
    "dataset.listing_validation_interval",
    "dataset.data_gen_method",
    "reader.write_threads",
    "reader.storage_library",
    "storage.storage_library",
    "storage.endpoint_uris",
    "storage.load_balance_strategy",
    "storage.use_mpi_endpoint_distribution",
    "storage.post_generation_settle_seconds",
];

/// Names of the size keys up to v1.0.
const OLD_SIZES: [&str; 3] =
    ["dataset.record_length", "dataset.record_length_stdev", "dataset.record_length_resize"];

/// The edition of a file with the keys `written` (`model` for a model given as a plain name),
/// `accelerator`, and files of `format`; `None` if none of them tells.
pub(super) fn of_file(
    accelerator: &str,
    written: &BTreeSet<&str>,
    format: DataFormat,
) -> Option<Profile> {
    let has_any = |keys: &[&str]| keys.iter().any(|key| written.contains(key));
    if has_any(&ONLY_V3) || format == DataFormat::Parquet {
        return Some(Profile::V3);
    }
    let of_accelerator = Profile::of_accelerator(accelerator);
    // v3.0's drafts still use `record_length` in places, but have a section for the model.
    let is_old = written.contains("model") || has_any(&OLD_SIZES) && !has_any(&["model.name"]);
    match of_accelerator {
        Some(Profile::V3) => Some(Profile::V3),
        _ if is_old => Some(Profile::V1),
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_accelerators_tell_the_edition() {
        let edition = |accelerator, keys: &[&'static str]| {
            of_file(accelerator, &keys.iter().copied().collect(), DataFormat::Npz)
        };
        let old = ["model", "dataset.record_length"];
        let new = ["model.name", "dataset.record_length_bytes"];
        // v1.0 also had A100 and H100.
        assert_eq!(edition("h100", &old), Some(Profile::V1));
        assert_eq!(edition("custom", &old), Some(Profile::V1));
        assert_eq!(edition("h100", &new), Some(Profile::V2));
        assert_eq!(edition("v100", &new), Some(Profile::V1));
        assert_eq!(edition("custom", &new), None);
        // A draft of v3.0's flux: parquet under the old name of the size key.
        let flux = BTreeSet::from(["model.name", "dataset.record_length"]);
        let of_flux = of_file("custom", &flux, DataFormat::Parquet);
        assert_eq!(of_flux, Some(Profile::V3));
        assert_eq!(edition("b200", &["model.name", "dataset.record_length"]), Some(Profile::V3));
        let library = ["model", "dataset.record_length", "reader.storage_library"];
        assert_eq!(edition("custom", &library), Some(Profile::V3));
    }
}
