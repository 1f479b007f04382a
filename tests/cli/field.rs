//! People's own files and set-ups: each is read as it is meant, or refused with the command to type.

use std::fs;
use std::path::Path;

use crate::stormlp;

/// A training workload, with more keys.
fn workload(more: &str) -> String {
    format!(
        "model:\n  name: unet3d\nworkflow:\n  train: True\n{more}\
         reader:\n  data_loader: pytorch\n  batch_size: 4\ntrain:\n  computation_time: 0.01\n"
    )
}

const DATASET: &str =
    "dataset:\n  format: npz\n  num_files_train: 8\n  record_length_bytes: 4096\n";

/// Runs `line` in `folder`: exit code, and what was said in one line.
fn run(folder: &Path, line: &str) -> (Option<i32>, String) {
    let mut command = stormlp();
    command.current_dir(folder).args(line.split(' ')).env("COLUMNS", "80");
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
    (output.status.code(), said)
}

/// Runs `line` next to a file `w.yaml`: it is refused with 3 and `answer`, and makes nothing.
fn refused(file: &str, line: &str, answer: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.yaml"), file).unwrap();
    let (code, said) = run(folder.path(), line);
    assert!(code == Some(3) && said.contains(answer), "{line}: {code:?} {said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{line} made something");
}

#[test]
fn a_workload_on_objects_is_not_read_from_a_local_disk() {
    let storage = "storage:\n  storage_type: s3\n  storage_root: bucket\n  \
                   s3_force_path_style: True\n  storage_options:\n    endpoint_url: http://h:9000\n";
    let file = workload(&format!("{storage}{DATASET}  data_folder: data/unet3d\n"));
    let answer = "--dir s3://bucket/data/unet3d with S3_ENDPOINT_URIS=http://h:9000";
    for line in ["train ./w.yaml", "train ./w.yaml --dry-run", "datagen ./w.yaml"] {
        refused(&file, line, answer);
    }
    let model = format!("{storage}{}", crate::checkpoint::TINY);
    refused(&model, "checkpoint ./w.yaml --ranks 8", "--dir s3://bucket/checkpoints with S3_");
    for kind in ["adls", "aistore", "daos"] {
        let file = workload(&format!("storage:\n  storage_type: {kind}\n{DATASET}"));
        refused(&file, "train ./w.yaml", &format!("storage of type {kind}"));
    }
    let pool = workload(&format!("{DATASET}  daos_pool: p\n"));
    refused(&pool, "train ./w.yaml", "storage of type daos");
}

#[test]
fn keys_of_dlio_are_never_unknown() {
    let folder = tempfile::tempdir().unwrap();
    for key in [
        "storage.s3_force_path_style=True",
        "storage.fsspec_plugin=x",
        "dataset.daos_pool=x",
        "checkpoint.pipeline_parallelism=2",
        "checkpoint.tensor_parallelism=2",
        "workflow.evaluate=False",
    ] {
        let line = format!("train unet3d --dry-run --dir d --params {key}");
        let (_, said) = run(folder.path(), &line);
        assert!(!said.contains("unknown key"), "{key}: {said}");
    }
}

#[test]
fn a_uri_is_the_path_that_it_means_or_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).display().to_string();
    let gds = "gds --path buffered --threads 1 --file-size 1M --duration 1x --dir";
    let (code, said) = run(folder.path(), &format!("{gds} file://{}", to("data")));
    assert!(code == Some(0) && folder.path().join("data").is_dir(), "{said}");
    let gdsio = format!("gdsio -D file://{} -w 1 -s 1M -i 1M -x 1 -I 1", to("of-gdsio"));
    let (code, said) = run(folder.path(), &gdsio);
    assert!(code == Some(0) && folder.path().join("of-gdsio").is_dir(), "{said}");
    assert!(!folder.path().join("file:").exists());
    let small = "train unet3d --generate --files 35 --steps 4 --params \
                 dataset.record_length_bytes=4096 --params dataset.record_length_bytes_stdev=0 \
                 --params workflow.checkpoint=True --params checkpoint.checkpoint_folder";
    let (code, said) = run(folder.path(), &format!("{small}=file://{} --dir d", to("ckpt")));
    assert!(matches!(code, Some(0 | 6)), "{said}");
    assert!(folder.path().join("ckpt").is_dir(), "{said}");

    let none = tempfile::tempdir().unwrap();
    for (line, code, answer) in [
        (format!("{gds} gs://b/x"), 2, "gs:// cannot be used here"),
        (format!("{gds} direct:///p"), 2, "write /p, and --path cpu for O_DIRECT"),
        ("gds --results-dir s3://b/x".to_string(), 2, "s3:// cannot be used here"),
        ("gdsio -D gs://b/x -w 1 -s 1M -i 1M -x 1 -I 1".to_string(), 2, "gs:// cannot be used"),
        ("gdsio -f direct:///p -w 1 -s 1M -i 1M -x 1 -I 1".to_string(), 2, "write /p, and"),
        (format!("{small}=s3://b/x --dir d"), 3, "checkpoint.checkpoint_folder is s3://b/x"),
        ("train unet3d --params dataset.data_folder=direct:///p".to_string(), 3, "write /p, and"),
    ] {
        let (found, said) = run(none.path(), &line);
        assert!(found == Some(code) && said.contains(answer), "{line}: {found:?} {said}");
        assert_eq!(fs::read_dir(none.path()).unwrap().count(), 0, "{line} made something");
    }
}

#[test]
fn a_size_that_is_no_whole_block_is_refused_before_it_is_written() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let line = "gds --dir d --path cpu --file-size 10000001 --duration 1x --threads 1";
    let (code, said) = run(folder.path(), line);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("a file size of 10000001 bytes is not a multiple of"), "{said}");
    assert!(!folder.path().join("d").exists());
}

#[test]
fn files_of_other_tools_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.fio"), "[global]\nrw=randread\n").unwrap();
    let job = "[global]\nxfer_type=1\nrw=seqread\nbs=1M\nsize=1M\n[job]\ndirectory=.\n";
    fs::write(folder.path().join("job.gdsio"), job).unwrap();
    for (name, text) in [
        ("ranks", "rank 0=h1 slot=0\n"),
        ("range", "node[001-003]\n"),
        ("ansible", "[storage:vars]\nuser=x\n"),
        ("kv.json", "{\"total_requests\": 5, \"elapsed_time\": 1.5}"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (place, text) in [
        ("dlio", "{\"num_accelerators\": 2, \"metric\": {\"train_au_mean_percentage\": 91.5}}"),
        ("kv", "{\"model\": \"m\", \"options\": {}}"),
    ] {
        let run = folder.path().join(place).join("run/20250101_101502");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("summary.json"), text).unwrap();
    }
    let read = "stormlp reads its own report.json, and `stormlp report show` also one summary.json";
    for (line, code, answer) in [
        ("launch ./range", 3, "line 1: `node[001-003]` is not a host"),
        ("launch ./ansible", 3, "line 1: `[storage:vars]` is not a host"),
        ("report dlio/run", 4, read),
        ("report show kv/run/20250101_101502", 3, read),
        ("report show kv.json", 3, "cannot be used"),
        ("compare dlio/run/20250101_101502 dlio/run/20250101_101502", 4, read),
        ("gds job.fio", 2, "job.fio is a job file of fio"),
        ("gdsio job.gdsio", 2, "gdsio has read (0), write (1), randread (2) and randwrite (3)"),
        ("launch ./ranks", 3, "line 1: `rank 0=h1 slot=0` is not a host"),
        ("launch /etc/passwd", 3, "is not a host"),
    ] {
        let (found, said) = run(folder.path(), line);
        assert!(found == Some(code) && said.contains(answer), "{line}: {found:?} {said}");
    }
}

#[test]
fn fields_that_an_official_summary_lacks_are_not_shown_as_zero() {
    let folder = tempfile::tempdir().unwrap();
    let summary = "{\"num_accelerators\": 2, \"metric\": {\"train_au_mean_percentage\": 91.5}}";
    fs::write(folder.path().join("summary.json"), summary).unwrap();
    let (code, said) = run(folder.path(), "report show .");
    assert!(code == Some(0) && said.contains("AU 91.50 % of 2 accelerators"), "{said}");
    for word in ["0 hosts", "-0.0", "0.0 GiB", "0 ranks", "0 files"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

#[test]
fn checkpoints_go_to_the_absolute_folder_that_a_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("nvme");
    let of_run = format!("checkpoint:\n  checkpoint_folder: {}\n", named.display());
    let file = format!("{}{of_run}", crate::checkpoint::TINY);
    fs::write(folder.path().join("w.yaml"), &file).unwrap();
    let line = "checkpoint ./w.yaml --ranks 8 --scale 1 --saves 1 --restores 0 --pause 0";
    let (code, said) = run(folder.path(), line);
    assert!(code == Some(0) && named.is_dir(), "{said}");
    assert!(!said.contains("checkpoint_folder (--dir does that)"), "{said}");
    assert!(!folder.path().join("stormlp-data").exists());
    let (code, said) = run(folder.path(), &format!("{line} --dir typed --dry-run"));
    assert!(code == Some(0) && said.contains("checkpoint_folder (--dir does that)"), "{said}");
    let relative = file.replace(&named.display().to_string(), "checkpoints/tiny");
    fs::write(folder.path().join("w.yaml"), relative).unwrap();
    let (code, said) = run(folder.path(), &format!("{line} --dry-run"));
    assert!(code == Some(0) && said.contains("checkpoint_folder (--dir does that)"), "{said}");
}

#[test]
fn a_file_from_another_system_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("\u{feff}{}", workload(DATASET)).replace('\n', "\r\n");
    fs::write(folder.path().join("w.yaml"), file).unwrap();
    let (code, said) = run(folder.path(), "train ./w.yaml --dry-run");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_root_of_storage_that_is_used_is_not_without_effect() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("mnt").display().to_string();
    let storage = format!("storage:\n  storage_type: local_fs\n  storage_root: {root}\n");
    let file = workload(&format!("{storage}{DATASET}  data_folder: data\n"));
    fs::write(folder.path().join("w.yaml"), file).unwrap();
    let (_, said) = run(folder.path(), "train ./w.yaml --dry-run");
    assert!(said.contains(&format!("{root}/data")) && !said.contains("storage_root ("), "{said}");
}

#[test]
fn what_is_loaded_into_the_process_stands_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = stormlp();
    command.current_dir(folder.path()).env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1");
    command.args("gds --path null --threads 1 --duration 1s --format json".split(' '));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"GLIBC_TUNABLES=glibc.malloc.arena_max=1\""), "{said}");
}
