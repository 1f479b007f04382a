//! The findings of a scan, and its verdict on folders that do not match the workload.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use stormlp_core::event::Silent;
use stormlp_core::note::{Cause, Note};
use stormlp_core::stop::StopToken;
use stormlp_dataset::content::Content;
use stormlp_dataset::dataset::{Dataset, Recipe};
use stormlp_dataset::generate::{self, GeneratePlan};
use stormlp_dataset::inventory::{Finding, check, scan};
use stormlp_dataset::manifest::{JOURNAL_NAME, MANIFEST_NAME};
use stormlp_dataset::section::{DataFormat, ParquetSpec};
use stormlp_dataset::sizes::{SizeDraw, SizeRule};
use stormlp_transfer::storage::{Disk, Storage as _};

fn recipe(format: DataFormat) -> Recipe {
    Recipe {
        format,
        parquet: ParquetSpec { row_group_size: 2, ..ParquetSpec::default() },
        prefix: "img".to_string(),
        train_files: 4,
        train_subfolders: 0,
        valid_files: 1,
        valid_subfolders: 0,
        samples_per_file: 2,
        size: SizeRule::Length { mean_bytes: 10_000.0, stdev_bytes: 0.0 },
        draw: SizeDraw::Shared,
        content: Content::Random,
        seed: 42,
    }
}

fn make(folder: &Path, recipe: Recipe) {
    let dataset = Dataset::new(recipe).unwrap();
    let plan = GeneratePlan::new(folder.to_path_buf(), "unet3d", "v2", dataset);
    generate::run(&plan, &Silent, &StopToken::new()).unwrap();
}

fn findings(folder: &Path, recipe: Recipe) -> Vec<Finding> {
    let dataset = Dataset::new(recipe).unwrap();
    check(
        &Disk,
        &scan(&Disk, folder, dataset.recipe().format.name()).unwrap(),
        &dataset,
        "stormlp datagen unet3d",
    )
}

/// The one finding there is; its kind is the cause of a refusal.
fn finding(folder: &Path, recipe: Recipe) -> Note<Option<Cause>> {
    let mut all = findings(folder, recipe);
    assert_eq!(all.len(), 1, "{all:?}");
    match all.remove(0) {
        Ok(warning) => Note::new(None, warning.fact, warning.remedy),
        Err(note) => Note::new(Some(note.kind), note.fact, note.remedy),
    }
}

#[test]
fn a_dataset_is_good_with_and_without_its_manifest() {
    for format in [
        DataFormat::Npz,
        DataFormat::Npy,
        DataFormat::Tfrecord,
        DataFormat::IndexedBinary,
        DataFormat::Hdf5,
        DataFormat::Csv,
        DataFormat::Parquet,
    ] {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path(), recipe(format));
        assert_eq!(findings(folder.path(), recipe(format)), []);
        fs::remove_file(folder.path().join(MANIFEST_NAME)).unwrap();
        assert_eq!(findings(folder.path(), recipe(format)), []);
    }
}

#[test]
fn checking_cold_files_leaves_them_cold() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    make(folder.path(), recipe(DataFormat::Npz));
    let train = folder.path().join("train");
    let entries = Disk.list(&train).unwrap();
    let files: Vec<_> = entries.iter().map(|e| train.join(&e.name)).collect();
    let cached = || -> u64 {
        let of = |path: &std::path::PathBuf| Disk.residency(path).unwrap().unwrap().cached_bytes;
        files.iter().map(of).sum()
    };
    for path in &files {
        Disk.drop_cached(path).unwrap();
    }
    if cached() > 0 {
        stormlp_fixtures::skipped(
            "files stay in the page cache",
            "put the temporary folder on a disk",
        );
        return;
    }
    assert_eq!(findings(folder.path(), recipe(DataFormat::Npz)), []);
    assert_eq!(cached(), 0);
}

#[test]
fn too_few_too_many_and_foreign_files() {
    let folder = tempfile::tempdir().unwrap();
    let empty = finding(folder.path(), recipe(DataFormat::Npz));
    assert_eq!(empty.kind, Some(Cause::Machine));
    make(folder.path(), recipe(DataFormat::Npz));
    let mut fewer = recipe(DataFormat::Npz);
    fewer.train_files = 3;
    let extra = finding(folder.path(), fewer);
    assert_eq!(extra.kind, None);
    assert_eq!(extra.remedy, "the first 3 are used; use all with --files=4");
    fs::write(folder.path().join("train/readme.md"), b"x").unwrap();
    assert_eq!(findings(folder.path(), recipe(DataFormat::Npz)), []);
    fs::remove_file(folder.path().join("train/readme.md")).unwrap();
    fs::remove_file(folder.path().join("train/img_2_of_4.npz")).unwrap();
    let missing = finding(folder.path(), recipe(DataFormat::Npz));
    assert_eq!(missing.kind, Some(Cause::Machine));
    assert_eq!(
        missing.fact,
        "train/ contains 3 files, but the workload has 4: missing train/img_2_of_4.npz"
    );
}

#[test]
fn only_a_few_of_many_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), recipe(DataFormat::Npz));
    fs::remove_file(folder.path().join(MANIFEST_NAME)).unwrap();
    let mut most = recipe(DataFormat::Npz);
    most.train_files = 20_000_000;
    let started = std::time::Instant::now();
    let missing = finding(folder.path(), most);
    assert_eq!(
        missing.fact,
        "train/ contains 4 files, but the workload has 20000000: missing \
         train/img_00000000_of_20000000.npz, train/img_00000001_of_20000000.npz, \
         train/img_00000002_of_20000000.npz and 19999993 more"
    );
    // Generating all the names would need many times as long, and gigabytes.
    assert!(started.elapsed().as_secs() < 3, "{:?}", started.elapsed());
}

#[test]
fn a_dataset_for_evaluation_alone_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut evaluated = recipe(DataFormat::Npz);
    evaluated.train_files = 0;
    make(folder.path(), evaluated.clone());
    assert_eq!(findings(folder.path(), evaluated), []);
}

#[test]
fn other_counts_and_sizes_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), recipe(DataFormat::Tfrecord));
    let mut other = recipe(DataFormat::Tfrecord);
    other.samples_per_file = 1;
    let samples = finding(folder.path(), other);
    assert_eq!(samples.kind, Some(Cause::Plan));
    assert_eq!(samples.remedy, "run with --params dataset.num_samples_per_file=2");
    let mut larger = recipe(DataFormat::Tfrecord);
    larger.size = SizeRule::Length { mean_bytes: 15_000.0, stdev_bytes: 0.0 };
    let size = finding(folder.path(), larger);
    assert_eq!(size.kind, None);
    assert!(size.fact.contains("the workload's have 15000 (-33 %)"), "{}", size.fact);
}

#[test]
fn damaged_and_unfinished_datasets_are_fatal() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), recipe(DataFormat::Npz));
    let first = folder.path().join("train/img_0_of_4.npz");
    let file = File::options().write(true).open(&first).unwrap();
    file.write_all_at(b"zip?", 0).unwrap();
    let corrupt = finding(folder.path(), recipe(DataFormat::Npz));
    assert_eq!(corrupt.kind, Some(Cause::Storage));
    assert_eq!(
        corrupt.fact,
        "train/img_0_of_4.npz: at byte 0: expected a zip member (50 4b 03 04), found 7a 69 70 3f"
    );
    file.set_len(77).unwrap();
    let short = finding(folder.path(), recipe(DataFormat::Npz));
    assert_eq!(short.kind, Some(Cause::Storage));
    assert_eq!(short.fact, "train/img_0_of_4.npz has 77 bytes, but was made with 20506");
    let manifest = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
    let mut head: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    head.as_object_mut().unwrap().remove("files");
    fs::write(folder.path().join(JOURNAL_NAME), format!("{head}\n")).unwrap();
    let unfinished = findings(folder.path(), recipe(DataFormat::Npz));
    let unfinished = unfinished[0].clone().unwrap_err();
    assert_eq!(unfinished.kind, Cause::Machine);
    assert_eq!(unfinished.fact, "the dataset is unfinished: 0 of 5 files were made");
}
