//! Datasets generated, stopped, damaged, resumed, verified and overwritten, in a temporary folder.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use stormlp_core::event::Silent;
use stormlp_core::facts::FoundFile;
use stormlp_core::note::Cause;
use stormlp_core::path::EngineKind;
use stormlp_core::stop::StopToken;
use stormlp_dataset::content::Content;
use stormlp_dataset::dataset::{Dataset, Recipe};
use stormlp_dataset::format::{FileLayout, Spans};
use stormlp_dataset::generate;
use stormlp_dataset::generate::{Existing, GenerateError, GeneratePlan};
use stormlp_dataset::inventory;
use stormlp_dataset::manifest::{JOURNAL_NAME, MANIFEST_NAME, Manifest};
use stormlp_dataset::report::GenerateReport;
use stormlp_dataset::section::{DataFormat, ParquetSpec};
use stormlp_dataset::sizes::{SizeDraw, SizeRule};
use stormlp_transfer::storage::Disk;

fn recipe(format: DataFormat) -> Recipe {
    Recipe {
        format,
        parquet: ParquetSpec { row_group_size: 2, ..ParquetSpec::default() },
        prefix: "img".to_string(),
        train_files: 5,
        train_subfolders: 0,
        valid_files: 2,
        valid_subfolders: 0,
        samples_per_file: 1,
        size: SizeRule::Length { mean_bytes: 90_000.0, stdev_bytes: 30_000.0 },
        draw: SizeDraw::Shared,
        content: Content::Random,
        seed: 42,
    }
}

fn plan(folder: &Path, recipe: Recipe, existing: Existing) -> GeneratePlan {
    let dataset = Dataset::new(recipe).unwrap();
    GeneratePlan {
        existing,
        threads: 2,
        ..GeneratePlan::new(folder.to_path_buf(), "unet3d", "v2", dataset)
    }
}

fn run(plan: &GeneratePlan) -> Result<GenerateReport, GenerateError> {
    generate::run(plan, &Silent, &StopToken::new())
}

fn make(folder: &Path, recipe: Recipe, existing: Existing) -> GenerateReport {
    run(&plan(folder, recipe, existing)).unwrap()
}

fn faults(folder: &Path, recipe: Recipe) -> Vec<String> {
    let plan = plan(folder, recipe, Existing::Refuse);
    let found = generate::verify(&plan, &Silent, &StopToken::new()).unwrap();
    let missing = found.missing.into_iter().map(|name| format!("missing: {name}"));
    found.faults.into_iter().chain(missing).collect()
}

fn inspect(dataset: &Dataset, folder: &Path, index: u64) -> FileLayout {
    let name = dataset.path(index);
    let bytes = fs::metadata(folder.join(&name)).unwrap().len();
    inventory::inspect(&Disk, folder, dataset, &FoundFile { name, bytes }).unwrap()
}

fn flip_byte(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn every_format_is_made_with_the_sizes_it_predicted() {
    let parquet = DataFormat::Parquet;
    for (format, samples) in [
        (DataFormat::Npz, 3),
        (DataFormat::Npy, 3),
        (DataFormat::Tfrecord, 4),
        (DataFormat::Jpeg, 1),
        (DataFormat::Png, 1),
        (DataFormat::IndexedBinary, 3),
        (DataFormat::Hdf5, 3),
        (DataFormat::Csv, 3),
        (parquet, 5),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut recipe = recipe(format);
        recipe.samples_per_file = samples;
        let report = make(folder.path(), recipe.clone(), Existing::Refuse);
        assert_eq!((report.files, report.files_made, report.files_kept), (7, 7, 0));
        assert_eq!(report.bytes, report.bytes_written);
        let dataset = Dataset::new(recipe.clone()).unwrap();
        for index in 0..dataset.files() {
            let layout = inspect(&dataset, folder.path(), index);
            let bytes = fs::metadata(folder.path().join(dataset.path(index))).unwrap().len();
            if dataset.sizes_are_exact() {
                assert_eq!(bytes, dataset.expected_bytes(index));
            } else {
                assert!(bytes <= dataset.expected_bytes(index));
            }
            assert_eq!(layout.samples, samples, "{}", report.format);
        }
        assert_eq!(faults(folder.path(), recipe), Vec::<String>::new());
    }
}

#[test]
fn names_folders_and_index_files_are_dlios() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(DataFormat::Tfrecord);
    recipe.train_subfolders = 3;
    make(folder.path(), recipe, Existing::Refuse);
    for name in [
        "train/0/img_0_of_5.tfrecord",
        "train/1/img_4_of_5.tfrecord",
        "valid/img_1_of_2.tfrecord",
        "index/train/img_4_of_5.tfrecord.idx",
        "index/valid/img_1_of_2.tfrecord.idx",
    ] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
    let manifest = Manifest::parse(&text).unwrap();
    assert_eq!(manifest.files.len(), 7);
    assert_eq!(manifest.names().count(), 14);
    assert!(manifest.names().all(|name| folder.path().join(name).is_file()));
    assert!(!folder.path().join(JOURNAL_NAME).exists());
}

#[test]
fn files_larger_than_all_buffers_are_whole() {
    // 23 MiB: more than the 16 MiB that are in flight; the CRC in the first block is patched.
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(DataFormat::Npz);
    (recipe.train_files, recipe.valid_files) = (1, 0);
    recipe.size = SizeRule::Length { mean_bytes: 23.0 * 1_048_576.0, stdev_bytes: 0.0 };
    make(folder.path(), recipe.clone(), Existing::Refuse);
    assert_eq!(faults(folder.path(), recipe.clone()), Vec::<String>::new());
    let dataset = Dataset::new(recipe).unwrap();
    let Spans::Interleaved(array) = inspect(&dataset, folder.path(), 0).spans else {
        panic!("npz lies in one stretch");
    };
    assert_eq!(array.offset, 183);
    let bytes = fs::read(folder.path().join(dataset.path(0))).unwrap();
    let crc =
        crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &bytes[55..array.end() as usize]);
    assert_eq!(bytes[14..18], (crc as u32).to_le_bytes());
    let blocks: HashSet<&[u8]> = bytes.chunks_exact(4096).collect();
    assert_eq!(blocks.len(), bytes.len() / 4096, "no block is repeated");
}

#[test]
fn both_engines_write_the_same_bytes() {
    let checksums: Vec<Vec<String>> = [EngineKind::Psync, EngineKind::TokioUring]
        .into_iter()
        .filter_map(|engine| {
            let folder = tempfile::tempdir().unwrap();
            let mut plan = plan(folder.path(), recipe(DataFormat::Npz), Existing::Refuse);
            plan.engine = Some(engine);
            match run(&plan) {
                Ok(report) => assert_eq!(report.engine, engine),
                Err(error) => {
                    stormlp_fixtures::skipped(format!("{engine}: {error}"), "permit io_uring");
                    return None;
                }
            }
            let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
            let manifest = Manifest::parse(&text).unwrap();
            Some(manifest.files.into_iter().map(|file| file.crc64).collect())
        })
        .collect();
    assert!(checksums.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn small_files_go_through_the_page_cache_and_hold_the_same_bytes() {
    for format in [DataFormat::Npz, DataFormat::Tfrecord, DataFormat::Jpeg] {
        let small = Recipe {
            size: SizeRule::Length { mean_bytes: 1000.0, stdev_bytes: 300.0 },
            ..recipe(format)
        };
        let made = [None, Some(EngineKind::Psync)].map(|engine| {
            let folder = tempfile::tempdir().unwrap();
            let mut plan = plan(folder.path(), small.clone(), Existing::Refuse);
            plan.engine = engine;
            let report = run(&plan).unwrap();
            assert_eq!(report.engine, EngineKind::Psync, "{format:?}");
            assert!(engine.is_some() || !report.direct, "{format:?}");
            assert!(engine.is_some() || report.warnings.is_empty(), "{format:?}");
            assert_eq!(faults(folder.path(), small.clone()), Vec::<String>::new());
            let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
            let files = Manifest::parse(&text).unwrap().files;
            files.into_iter().map(|file| (file.bytes, file.crc64)).collect::<Vec<_>>()
        });
        assert_eq!(made[0], made[1], "{format:?}");
    }
}

#[test]
fn an_occupied_folder_is_refused_unless_overwrite_is_given() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), recipe(DataFormat::Npz), Existing::Refuse);
    let again = run(&plan(folder.path(), recipe(DataFormat::Npz), Existing::Refuse)).unwrap_err();
    assert!(again.to_string().ends_with("holds this dataset already"), "{again}");
    let mut other = recipe(DataFormat::Npz);
    other.train_files = 3;
    other.seed = 7;
    let error = run(&plan(folder.path(), other.clone(), Existing::Refuse)).unwrap_err();
    assert!(error.to_string().ends_with("holds another dataset, of workload unet3d"), "{error}");
    let error = run(&plan(folder.path(), other.clone(), Existing::Resume)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("made with 5 training files, seed 42"), "{text}");
    assert!(text.contains("requests 3 training files, seed 7"), "{text}");
    make(folder.path(), other.clone(), Existing::Overwrite);
    assert_eq!(fs::read_dir(folder.path().join("train")).unwrap().count(), 3);
    assert_eq!(faults(folder.path(), other), Vec::<String>::new());
}

#[test]
fn files_of_unknown_origin_are_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("train")).unwrap();
    fs::write(folder.path().join("train/holiday.jpg"), b"mine").unwrap();
    for existing in [Existing::Refuse, Existing::Resume] {
        let error = run(&plan(folder.path(), recipe(DataFormat::Npz), existing)).unwrap_err();
        assert!(error.to_string().contains("such as train/holiday.jpg"), "{error}");
    }
    make(folder.path(), recipe(DataFormat::Npz), Existing::Overwrite);
    assert_eq!(fs::read(folder.path().join("train/holiday.jpg")).unwrap(), b"mine");
}

#[test]
fn a_stopped_run_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let stop = StopToken::new();
    stop.stop();
    let first = plan(folder.path(), recipe(DataFormat::Npz), Existing::Refuse);
    let error = generate::run(&first, &Silent, &stop).unwrap_err();
    assert_eq!(error.to_string(), "stopped with 0 of 7 files made");
    let error = run(&first).unwrap_err();
    let GenerateError::Occupied { resumable, .. } = error else {
        panic!("an unfinished dataset occupies its folder: {error}");
    };
    assert!(resumable);
    let report = make(folder.path(), recipe(DataFormat::Npz), Existing::Resume);
    assert_eq!((report.files_made, report.files_kept), (7, 0));
}

#[test]
fn a_killed_run_is_resumed_and_damage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = || recipe(DataFormat::Npz);
    make(folder.path(), recipe(), Existing::Refuse);
    // As a killed run leaves it: a journal with its last line cut off, a file half written.
    let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
    let manifest = Manifest::parse(&text).unwrap();
    let mut journal = serde_json::to_string(&manifest.head).unwrap();
    for file in &manifest.files[..4] {
        journal.push('\n');
        journal.push_str(&serde_json::to_string(file).unwrap());
    }
    journal.push_str("\n{\"name\":\"train/img_4");
    fs::write(folder.path().join(JOURNAL_NAME), journal).unwrap();
    fs::remove_file(folder.path().join(MANIFEST_NAME)).unwrap();
    fs::write(folder.path().join("train/.img_4_of_5.npz.partial"), b"half").unwrap();
    // And as other programs leave it: one file cut off, one altered, one only touched.
    let file = |name: &str| folder.path().join(name);
    File::options().write(true).open(file("train/img_0_of_5.npz")).unwrap().set_len(1000).unwrap();
    flip_byte(&file("train/img_1_of_5.npz"), 5000);
    let touched = fs::read(file("train/img_2_of_5.npz")).unwrap();
    fs::write(file("train/img_2_of_5.npz"), touched).unwrap();

    let report = make(folder.path(), recipe(), Existing::Resume);
    assert_eq!(report.remade, ["train/img_0_of_5.npz", "train/img_1_of_5.npz"]);
    assert_eq!((report.files_made, report.files_kept), (5, 2));
    assert!(!file("train/.img_4_of_5.npz.partial").exists());
    assert_eq!(faults(folder.path(), recipe()), Vec::<String>::new());
    let text = fs::read_to_string(folder.path().join(MANIFEST_NAME)).unwrap();
    let again = Manifest::parse(&text).unwrap();
    let checksums = |manifest: &Manifest| -> Vec<String> {
        manifest.files.iter().map(|file| file.crc64.clone()).collect()
    };
    assert_eq!(checksums(&manifest), checksums(&again));
}

#[test]
fn verifying_names_each_bad_file_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(DataFormat::Tfrecord);
    recipe.samples_per_file = 3;
    make(folder.path(), recipe.clone(), Existing::Refuse);
    let file = |name: &str| folder.path().join(name);
    flip_byte(&file("train/img_1_of_5.tfrecord"), 70_000);
    fs::remove_file(file("valid/img_0_of_2.tfrecord")).unwrap();
    flip_byte(&file("index/train/img_3_of_5.tfrecord.idx"), 0);
    let before = fs::read_dir(folder.path()).unwrap().count();
    let found = faults(folder.path(), recipe.clone());
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("train/img_1_of_5.tfrecord: its content has changed: checksum"));
    assert!(found[1].starts_with("index/train/img_3_of_5.tfrecord.idx: its content has changed"));
    assert_eq!(found[2], "missing: valid/img_0_of_2.tfrecord");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);

    // Without a manifest, framing and sizes still show it.
    fs::remove_file(file(MANIFEST_NAME)).unwrap();
    File::options()
        .write(true)
        .open(file("train/img_0_of_5.tfrecord"))
        .unwrap()
        .set_len(100_000)
        .unwrap();
    let found = faults(folder.path(), recipe);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("found the end of the file at byte 100000"), "{}", found[0]);
}

#[test]
fn without_a_manifest_the_index_is_verified_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(DataFormat::IndexedBinary);
    recipe.samples_per_file = 3;
    make(folder.path(), recipe.clone(), Existing::Refuse);
    let file = |name: &str| folder.path().join(name);
    fs::remove_file(file(MANIFEST_NAME)).unwrap();
    assert_eq!(faults(folder.path(), recipe.clone()), Vec::<String>::new());
    fs::write(file("train/img_1_of_5.indexed_binary.off.idx"), [b'?'; 3 * 8]).unwrap();
    fs::remove_file(file("valid/img_0_of_2.indexed_binary.sz.idx")).unwrap();
    let found = faults(folder.path(), recipe);
    let [garbage, gone] = &found[..] else {
        panic!("two indices are bad: {found:?}");
    };
    assert!(
        garbage.starts_with("train/img_1_of_5.indexed_binary.off.idx: at byte 0: expected sample"),
        "{garbage}"
    );
    assert_eq!(gone, "missing: valid/img_0_of_2.indexed_binary.sz.idx");
}

#[test]
fn a_dataset_that_does_not_fit_is_refused_before_the_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(DataFormat::Npz);
    recipe.train_files = 1 << 20;
    recipe.size = SizeRule::Length { mean_bytes: 1e12, stdev_bytes: 0.0 };
    let error = run(&plan(folder.path(), recipe, Existing::Refuse)).unwrap_err();
    assert!(error.to_string().contains(" free, but the dataset needs about "), "{error}");
    let failure = error.failure("resume", "overwrite");
    assert_eq!(failure.cause(), Cause::Machine);
    assert_eq!(
        failure.note.remedy,
        "free some space, or choose another --dir; a run that is not CLOSED may use fewer --files"
    );
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == ".stormlp-lock"), "{names:?}");
}

#[test]
fn a_locked_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let _lock = stormlp_transfer::storage::FolderLock::take(folder.path()).unwrap();
    let error = run(&plan(folder.path(), recipe(DataFormat::Npz), Existing::Refuse)).unwrap_err();
    assert!(error.to_string().contains("is in use by another stormlp run"), "{error}");
    assert_eq!(error.failure("resume", "overwrite").cause(), Cause::Machine);
}
