//! `stormlp train` and the dataset it reads: the choice, samples, and starter sets.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::train::{SMALL, folder, report, train};
use crate::train_trouble::{check, dataset, files_of};
use crate::{stderr, stdout};

/// Leaves the dataset in `data` as a run does that is stopped before `missing`: a journal of the
/// files that are whole, no manifest.
fn unfinish(data: &Path, missing: &Path) {
    let manifest = data.join(".stormlp-manifest.json");
    let mut head: Value = serde_json::from_str(&fs::read_to_string(&manifest).unwrap()).unwrap();
    let files = head.as_object_mut().unwrap().remove("files").unwrap();
    let mut journal = format!("{head}\n");
    for file in files.as_array().unwrap() {
        if !missing.ends_with(file["name"].as_str().unwrap()) {
            journal.push_str(&format!("{file}\n"));
        }
    }
    fs::write(data.join(".stormlp-journal.jsonl"), journal).unwrap();
    fs::remove_file(missing).unwrap();
    fs::remove_file(manifest).unwrap();
}

/// Puts a pipe in the place of a file.
fn make_pipe_of(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_given_folder_is_never_replaced_by_a_starter_set() {
    let folder = folder();
    let words = format!("unet3d {SMALL} --params dataset.data_folder=nowhere");
    check(folder.path(), &words, 4, &["nowhere contains no npz files", "--generate"]);
    fs::write(folder.path().join("file"), "").unwrap();
    let words = "unet3d --dir file";
    check(folder.path(), words, 4, &["file is a file, not a dataset's folder"]);
    assert!(!folder.path().join("stormlp-data").exists());
}

#[test]
fn a_users_file_gets_no_extra_files_and_its_empty_folder_is_reported() {
    let folder = folder();
    let yaml = "
model: {name: mine}
dataset: {data_folder: /nowhere/at/all, format: npz, num_files_train: 24, num_files_eval: 4,
          record_length_bytes: 20000}
reader: {data_loader: pytorch, batch_size: 2}
train: {epochs: 1, computation_time: 0.001}
metric: {au: 0.001}
";
    fs::write(folder.path().join("my.yaml"), yaml).unwrap();
    let run = train(folder.path(), "my.yaml --edition 2.0").assert().success();
    let said = stderr(run);
    assert!(said.contains("data_folder of my.yaml is /nowhere/at/all"), "{said}");
    let data = folder.path().join("stormlp-data/mine");
    assert_eq!(files_of(&data).len(), 24);
    let valid = fs::read_dir(data.join("valid")).map_or(0, Iterator::count);
    assert_eq!(valid, 0, "files for evaluation are not read");
    train(folder.path(), "my.yaml --edition 2.0").assert().success();
}

#[test]
fn special_files_are_not_samples() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 21, "");
    let pipe = &files_of(&data)[3];
    make_pipe_of(pipe);
    let words = format!("unet3d --dir data --files 21 {SMALL}");
    let name = pipe.file_name().unwrap().to_str().unwrap();
    check(folder.path(), &words, 4, &["contains 20 files", name]);
}

#[test]
fn a_stopped_starter_set_is_continued() {
    let folder = folder();
    let words =
        format!("unet3d {SMALL} --params dataset.num_files_eval=40 --params train.epochs=1");
    let words =
        format!("{words} --params dataset.num_subfolders_train=2 --files 28 --compute-time 1ms");
    train(folder.path(), &words).assert().success();
    let data = folder.path().join("stormlp-data/unet3d");
    let gone = files_of(&data).pop().unwrap();
    unfinish(&data, &gone);
    let again = train(folder.path(), &words).assert().success();
    let said = stderr(again);
    assert!(said.contains("an unfinished dataset in"), "{said}");
    assert!(said.contains("(28 files)"), "{said}");
    assert_eq!(files_of(&data).len(), 28);
}

#[test]
fn a_pipe_is_not_accepted_as_an_index() {
    let folder = folder();
    let words = format!("{SMALL} --params dataset.format=indexed_binary");
    let make = format!("unet3d --dir data --generate --files 21 --epochs 1 {words}");
    train(folder.path(), &make).assert().success();
    make_pipe_of(&folder.path().join("data/train/img_05_of_21.indexed_binary.off.idx"));
    let again = format!("unet3d --dir data --files 21 --epochs 1 {words}");
    check(folder.path(), &again, 5, &["img_05_of_21.indexed_binary.off.idx", "not a regular file"]);
    let mut verify = crate::stormlp();
    verify.current_dir(folder.path()).arg("datagen");
    let options = format!("unet3d --dir data --files 21 --check {words}");
    let bad = verify.args(options.split_whitespace()).assert().code(5);
    let message = String::from_utf8(bad.get_output().stdout.clone()).unwrap();
    assert!(message.contains("bad: train/img_05_of_21.indexed_binary.off.idx"), "{message}");
}

#[test]
fn a_full_set_is_not_mistaken_for_a_starter_set() {
    let folder = folder();
    let words = format!("unet3d --epochs 1 --compute-time 1ms --files 21 {SMALL}");
    train(folder.path(), &words).assert().success();
    let words = format!("unet3d --epochs 1 --generate=full {SMALL}");
    check(
        folder.path(),
        &words,
        4,
        &["21 training files, --generate=full requires", "stormlp clean"],
    );
}

#[test]
fn a_starter_set_is_checked_by_the_names_it_has() {
    let folder = folder();
    let words = format!("unet3d --epochs 1 --compute-time 1ms --files 21 {SMALL}");
    let words = format!("{words} --params dataset.num_subfolders_train=3");
    train(folder.path(), &words).assert().success();
    let again = stdout(train(folder.path(), &words).assert().success());
    assert!(!again.contains("subfolders"), "{again}");
    let gone = "train/img_07_of_21.npz";
    fs::remove_file(folder.path().join("stormlp-data/unet3d").join(gone)).unwrap();
    check(folder.path(), &words, 4, &["contains 20 files", gone]);
}

#[test]
fn a_folder_whose_name_is_not_utf8_is_refused_before_anything_is_created() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = folder();
    let mut run = train(folder.path(), "unet3d --generate --files 21 --epochs 1 --dir");
    run.arg(std::ffi::OsStr::from_bytes(b"x\xff"));
    let said = stderr(run.args(SMALL.split_whitespace()).assert().code(3));
    assert!(said.contains("is not UTF-8"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_sparse_or_linked_dataset_is_reported() {
    let folder = folder();
    let data = dataset(folder.path(), "unet3d", 28, "");
    let words = format!("unet3d --dir data --epochs 1 --compute-time 1ms {SMALL}");
    let moved = folder.path().join("moved");
    fs::rename(data.join("train"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, data.join("train")).unwrap();
    let text = stdout(train(folder.path(), &format!("{words} --dry-run")).assert().success());
    assert!(text.contains("train is a link and is followed"), "{text}");
    assert!(!text.contains("is sparse"), "{text}");
    let file = &files_of(&data)[1];
    let bytes = fs::metadata(file).unwrap().len();
    let emptied = fs::File::create(file).unwrap();
    emptied.set_len(bytes).unwrap();
    let text = stdout(train(folder.path(), &format!("{words} --dry-run")).assert());
    assert!(text.contains("of the data in train/ is sparse"), "{text}");
}

/// Trains for an epoch of `format` in a folder of that name, which is made if it is not there.
fn words_of(format: &str, samples: u64) -> String {
    format!(
        "unet3d --edition 2.0 --dir {format} --generate --files 21 --epochs 1 \
         --compute-time 1ms --params dataset.record_length_bytes=100000 \
         --params dataset.record_length_bytes_stdev=0 --params metric.au=0.001 --params dataset.format={format} \
         --params dataset.num_samples_per_file={samples}"
    )
}

#[test]
fn hdf5_is_read_as_h5py_reads_it() {
    let folder = folder();
    let words = words_of("hdf5", 3);
    let made = report(folder.path(), &words);
    assert_eq!(made["plan"]["reads"]["kind"], "h5py");
    // 316 x 316 bytes, and the bytes that h5py reads before them.
    let bytes = 21 * 3 * (99_856 + 2512);
    assert_eq!(made["bytes_read"], bytes);
    // Files without a manifest are DLIO's.
    fs::remove_file(folder.path().join("hdf5/.stormlp-manifest.json")).unwrap();
    assert_eq!(report(folder.path(), &words)["bytes_read"], bytes);
    check(folder.path(), &words_of("hdf5", 4), 3, &["3 samples"]);
    let native = report(folder.path(), &words.replace("--edition 2.0", "--edition native"));
    assert_eq!(native["bytes_read"], 21 * 3 * 99_856);
    // One in chunks: the class of its layout is another.
    let file = &files_of(&folder.path().join("hdf5"))[0];
    let mut changed = fs::read(file).unwrap();
    changed[0x3a1] = 2;
    fs::write(file, changed).unwrap();
    let named = file.file_name().unwrap().to_str().unwrap();
    check(folder.path(), &words, 5, &[named, "dataset.enable_chunking"]);
}

#[test]
fn a_table_is_read_as_pandas_reads_it() {
    let folder = folder();
    let words = words_of("csv", 1);
    let report = report(folder.path(), &words);
    assert_eq!(report["plan"]["reads"]["kind"], "pandas_csv");
    let files = files_of(&folder.path().join("csv"));
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert_eq!(report["bytes_read"], bytes);
    let text = stdout(train(folder.path(), &format!("{words} --dry-run")).assert().success());
    assert!(text.contains("as pandas reads a table, up to 256 KiB a read"), "{text}");
}

#[test]
fn files_that_dlio_maps_and_does_not_read_are_refused() {
    let folder = folder();
    let words = "unet3d --params dataset.format=mmap_indexed_binary";
    check(folder.path(), words, 3, &["never touches the samples", "indexed_binary"]);
}
