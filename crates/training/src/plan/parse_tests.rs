//! Workload files as found in practice, and common mistakes in them.

use proptest::prelude::*;

use super::*;
use crate::plan::distribution::Distribution;
use crate::plan::workload::DEFAULT_MODEL_BYTES;

const OLD: &str = "
workload:
  model: unet3d
  framework: pytorch
  workflow: {generate_data: False, train: True, checkpoint: True}
  dataset:
    data_folder: data/unet3d/
    format: npz
    num_files_train: 168
    num_samples_per_file: 1
    record_length: 146600628
    record_length_stdev: 68341808
  data_reader:
    data_loader: pytorch
    batch_size: 4
    read_threads: 4
    file_shuffle: seed
  train:
    epochs: 5
    computation_time: 1.3604
    computation_time_stdev: 0.1
  checkpoint:
    checkpoint_after_epoch: 5
    model_size: 499153191
hydra:
  run: {dir: /tmp}
";

fn parse(text: &str) -> Result<Workload, WorkloadError> {
    Workload::parse(text, "my.yaml", &[])
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn a_file_with_very_many_faults_is_read_up_to_some_of_them() {
    let text: String = (0..200_000).map(|n| format!("unknown_key_{n}: 1\n")).collect();
    let error = parse(&text).unwrap_err();
    assert_eq!(error.faults.len(), 20);
    let last = &error.faults[19].message;
    assert!(last.ends_with("(the rest of the file was not checked)"), "{last}");
}

#[test]
fn files_of_the_first_editions_are_read() {
    let workload = Workload::parse(OLD, "configs/unet3d_v100.yaml", &[]).unwrap();
    assert_eq!(workload.name, "unet3d");
    assert_eq!(workload.accelerator, "v100");
    assert_eq!(workload.edition, Profile::V1);
    assert_eq!(workload.dataset.record_length_bytes, 146_600_628.0);
    assert_eq!(workload.reader.batch_size, 4);
    let normal = Distribution::Normal { mean: 1.3604, stdev: 0.1 };
    assert_eq!(workload.train.computation_time, normal);
    assert_eq!(workload.checkpoint.ignored_model_size_bytes, Some(499_153_191));
    assert_eq!(workload.checkpoint.model_size_bytes, DEFAULT_MODEL_BYTES);
    let keys: Vec<_> = workload.without_effect.iter().map(|note| note.key.as_str()).collect();
    assert_eq!(keys, ["framework", "workflow.generate_data", "hydra"]);
}

#[test]
fn an_empty_file_has_dlios_defaults() {
    let workload = parse("").unwrap();
    assert_eq!((workload.name.as_str(), workload.accelerator.as_str()), ("my", "custom"));
    assert_eq!(workload.edition, Profile::Native);
    assert_eq!(workload.dataset.record_length_bytes, 65_536.0);
    assert_eq!(workload.train.seed, 123);
    assert_eq!(workload.metric.au, 0.9);
}

#[test]
fn every_fault_is_reported_with_its_place_and_the_nearest_key() {
    let text = "reader:\n  batchsize: 7\n  read_threads: many\ndataset:\n  format: npz\n  \
                colour: red\ntrain:\n  epochs: -3\n";
    insta::assert_snapshot!(error(text), @r"
    my.yaml:2:3: unknown key `reader.batchsize`; did you mean `reader.batch_size`?
    my.yaml:3:17: `reader.read_threads` is `many`: write a whole number from 0
    my.yaml:6:3: unknown key `dataset.colour`, and no known key is similar
    my.yaml:8:11: `train.epochs` is `-3`: it must be 1 to 1000000
    ");
}

#[test]
fn yaml_that_is_none_has_a_place_too() {
    insta::assert_snapshot!(error("reader:\n  batch_size: [1, 2\ntrain:\n"), @"my.yaml:3:6: did not find expected ',' or ']', while parsing a flow sequence at line 2 column 15");
    insta::assert_snapshot!(error("- a\n- b\n"), @"my.yaml:1:1: found a list: a workload file has sections (`model:`, `checkpoint:` …)");
    insta::assert_snapshot!(error("reader: 7\n"), @"my.yaml:1:9: `reader` is `7`: it is a section, write its keys below it");
    insta::assert_snapshot!(error("train:\n  epochs: 1\n  epochs: 2\n"), @r#"my.yaml:2:3: train: duplicate entry with key "epochs""#);
}

#[test]
fn what_cannot_be_emulated_is_refused() {
    insta::assert_snapshot!(error("dataset: {format: zarr}"), @"my.yaml:1:19: `dataset.format`: `zarr` is not a format that stormlp reads: use npz, npy, tfrecord, jpeg, png, indexed_binary, hdf5, csv or parquet");
    insta::assert_snapshot!(error("dataset: {format: mmap_indexed_binary}"), @"my.yaml:1:19: `dataset.format`: `mmap_indexed_binary` is not emulated: DLIO maps these files and never touches the samples; use indexed_binary, which reads them");
    insta::assert_snapshot!(error("reader: {data_loader: synthetic}"), @"my.yaml:1:23: `reader.data_loader` is `synthetic`, which does not read: leave it out and run with --path null");
    insta::assert_snapshot!(error("reader: {read_type: in_memory}"), @"my.yaml:1:21: `reader.read_type` is `in_memory`: samples are always read on demand; leave it out");
}

#[test]
fn distributions_are_dlios() {
    let time = |text: &str| {
        parse(&format!("train:\n  computation_time: {text}\n")).map(|w| w.train.computation_time)
    };
    assert_eq!(time("0.5").unwrap(), Distribution::constant(0.5));
    assert_eq!(time("{type: gamma, shape: 2, scale: 0.1}").unwrap().mean_seconds(), 0.2);
    assert_eq!(
        time("{mean: 0.3, stdev: 0.01}").unwrap(),
        Distribution::Normal { mean: 0.3, stdev: 0.01 }
    );
    insta::assert_snapshot!(time("{type: uniform, min: 2, max: 1}").unwrap_err(), @"my.yaml:2:21: `train.computation_time`: min 2 is above max 1");
    insta::assert_snapshot!(time("{type: cauchy}").unwrap_err(), @"my.yaml:2:21: `train.computation_time`: cauchy: unknown variant `cauchy`, expected one of `constant`, `normal`, `uniform`, `gamma`, `exponential`, `poisson`");
    insta::assert_snapshot!(time("-1").unwrap_err(), @"my.yaml:2:21: `train.computation_time`: value is -1, it must be 0 or more");
}

#[test]
fn parameters_win_over_the_file() {
    let params = [
        "dataset.num_files_train=28000".to_string(),
        "++workload.reader.read_threads=16".to_string(),
        "data_reader.prefetch_size=4".to_string(),
    ];
    let workload = Workload::parse(OLD, "my.yaml", &params).unwrap();
    assert_eq!(workload.dataset.num_files_train, 28_000);
    assert_eq!(workload.reader.read_threads, 16);
    assert_eq!(workload.reader.prefetch_size, 4);
    let bad = ["reader.batch_siz=7".to_string(), "train.epochs".to_string()];
    let error = Workload::parse(OLD, "my.yaml", &bad).unwrap_err().to_string();
    insta::assert_snapshot!(error, @r"
    --params: unknown key `reader.batch_siz`; did you mean `reader.batch_size`?
    --params: `train.epochs` is not key=value
    ");
}

#[test]
fn times_may_be_set_by_their_parts() {
    let time = |file: &str, params: &[&str]| {
        let params: Vec<String> =
            params.iter().map(|part| format!("train.computation_time{part}")).collect();
        let text = format!("train:\n  computation_time: {file}\n");
        Workload::parse(&text, "my.yaml", &params).map(|w| w.train.computation_time)
    };
    let normal = |mean, stdev| Distribution::Normal { mean, stdev };
    assert_eq!(time("0.3", &[".mean=0.1"]).unwrap(), Distribution::constant(0.1));
    assert_eq!(time("0.3", &[".stdev=0.02"]).unwrap(), normal(0.3, 0.02));
    assert_eq!(time("0.3", &[".stdev=0.02", ".mean=0.1"]).unwrap(), normal(0.1, 0.02));
    let drawn = "{type: normal, mean: 0.3, stdev: 0.02}";
    assert_eq!(time(drawn, &[".mean=0.1"]).unwrap(), normal(0.1, 0.02));
    // Parameters of another distribution replace the whole value, in any order.
    assert_eq!(
        time(drawn, &[".min=0.1", ".max=2", ".type=uniform"]).unwrap(),
        Distribution::Uniform { min: 0.1, max: 2.0 }
    );
    assert_eq!(time(drawn, &[".mean=0.1", "=0.7"]).unwrap(), Distribution::constant(0.7));
    insta::assert_snapshot!(time("0.3", &[".type=uniform", ".max=2"]).unwrap_err(), @"--params: `train.computation_time`: uniform: missing field `min`");
    insta::assert_snapshot!(time("0.3", &[".mean=-1"]).unwrap_err(), @"--params: `train.computation_time`: value is -1, it must be 0 or more");
    insta::assert_snapshot!(time("0.3", &[".median=1"]).unwrap_err(), @"--params: unknown key `train.computation_time.median`, and no known key is similar");
}

#[test]
fn numbers_beyond_reason_are_refused() {
    insta::assert_snapshot!(error("reader: {read_threads: 1000000000, prefetch_size: 70000}\ntrain: {epochs: 2000000}"), @r"
    my.yaml:1:24: `reader.read_threads` is `1000000000`: it must be 0 to 1024
    my.yaml:1:51: `reader.prefetch_size` is `70000`: it must be 0 to 65536
    my.yaml:2:17: `train.epochs` is `2000000`: it must be 1 to 1000000
    ");
    insta::assert_snapshot!(error("train: {computation_time: 1e30}"), @"my.yaml:1:27: `train.computation_time`: value is 1000000000000000000000000000000, it may be 86400 at most (a day, in seconds)");
}

#[test]
fn invalid_yaml_is_the_only_fault_reported() {
    insta::assert_snapshot!(error("colour: red\nreader:\n  batch_size: 7\n epochs: 3\n"), @"my.yaml:4:2: did not find expected key, while parsing a block mapping");
}

#[test]
fn columns_are_read_unless_excluded() {
    let text = "dataset:\n  format: parquet\n  parquet:\n    columns:\n      \
                - {name: a, dtype: float32, read: False}\n      - {name: b, dtype: int8, size: 4}\n";
    let columns = parse(text).unwrap().dataset.parquet.columns;
    assert_eq!(
        columns.iter().map(|c| (c.row_bytes(), c.read)).collect::<Vec<_>>(),
        [(4, false), (4, true)]
    );
}

#[test]
fn names_that_would_lead_out_of_a_folder_are_refused() {
    for name in ["org/unet", "..", "../../x", "''", "\"a\\nb\""] {
        let said = error(&format!("model:\n  name: {name}\n"));
        assert!(said.contains("without `/`"), "{name}: {said}");
    }
    assert_eq!(parse("model:\n  name: unet3d.v2\n").unwrap().name, "unet3d.v2");
}

#[test]
fn a_sample_of_parquet_is_a_row_of_its_columns() {
    let text = "
dataset:
  format: parquet
  record_length_bytes: 1
  parquet:
    columns:
      - {name: a, dtype: float32, size: 25}
      - {name: b, dtype: int8, read: False}
";
    assert_eq!(parse(text).unwrap().dataset.record_length_bytes, 101.0);
}

proptest! {
    #[test]
    fn reading_never_panics(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn reading_things_that_look_like_workloads_never_panics(
        lines in prop::collection::vec(
            ("(reader|train|dataset|model|metric|x)", "(batch_size|epochs|format|computation_time|parquet|y)",
             "(7|-1|npz|\\[1\\]|\\{a: 1\\}|1e400|.nan|~|\\*a|!t 3)"), 0..8)
    ) {
        let text: String = lines.iter().map(|(s, k, v)| format!("{s}:\n  {k}: {v}\n")).collect();
        let _ = parse(&text);
        let params: Vec<String> = lines.iter().map(|(s, k, v)| format!("{s}.{k}={v}")).collect();
        let _ = Workload::parse("", "w.yaml", &params);
    }
}
