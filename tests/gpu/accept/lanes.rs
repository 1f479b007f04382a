//! Training, checkpoints and prefixes of KV caches over every path to the GPU: the bytes are the
//! host's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::report::Report;
use crate::route::{Claim, Tally};
use crate::scene::Scene;

/// Small samples, and a threshold that any machine reaches.
const SMALL: &str = "--compute-time 1ms --epochs 1 --generate --params train.seed=7 --params metric.au=0.001 \
    --params dataset.record_length_bytes=150000 --params dataset.record_length_bytes_stdev=0";

pub(crate) fn all(scene: &Scene, report: &mut Report) {
    for (workload, amount, more) in [
        ("unet3d", Amount::AsByHost, "--files 28"),
        (
            "resnet50",
            Amount::AllData,
            "--files 4 --params dataset.num_samples_per_file=200 --params reader.batch_size=100",
        ),
    ] {
        training(scene, report, workload, amount, more);
    }
    checkpoints(scene, report);
    prefixes(scene, report);
}

/// The bytes that a path to the GPU must have read.
#[derive(Clone, Copy)]
enum Amount {
    /// As many bytes as the corresponding path into host memory.
    AsByHost,
    /// All bytes of the dataset or more: of files of records the loader reads ahead, and how far it
    /// has come when an epoch ends depends on the machine's load.
    AllData,
}

impl Amount {
    /// Whether a run read it, where the one into host memory read `host` bytes.
    fn is_read(self, run: &Value, host: Option<u64>) -> bool {
        let (read, host) = (read_bytes(run).unwrap_or(0), host.unwrap_or(0));
        let data = run["plan"]["data"]["bytes"].as_u64();
        match self {
            Self::AsByHost => read > 0 && read == host,
            Self::AllData => data.is_some_and(|data| data > 0 && read >= data && host >= data),
        }
    }
}

/// Every path to the GPU of training, with the path into host memory that reads the same bytes.
const PATHS: [(&str, &str); 6] = [
    ("page-cache", "buffered"),
    ("gds", "cpu"),
    ("gds-async", "cpu"),
    ("gds-batch", "cpu"),
    ("cpu-gpu", "cpu"),
    ("cpu-async-gpu", "cpu"),
];

fn training(scene: &Scene, report: &mut Report, workload: &str, amount: Amount, more: &str) {
    let folder = scene.folder(workload);
    let train = |path: &str| {
        let data = folder.display();
        scene.report_of(&format!("train {workload} --dir {data} --path {path} {more} {SMALL}"))
    };
    let mut by_host = BTreeMap::new();
    // Through the page cache headers are read again, as numpy does; with O_DIRECT they are not.
    for (path, of_host) in PATHS {
        let what = format!("{workload} by {path}");
        let host =
            by_host.entry(of_host).or_insert_with(|| train(of_host).map(|run| read_bytes(&run)));
        let host = match host {
            Ok(bytes) => *bytes,
            Err(why) => return report.fail(&format!("{workload} by {of_host}"), why),
        };
        let proof = scene.direct().option_of(path);
        let verdict = train(&format!("{path} --device cuda:0 {proof}")).and_then(|run| {
            let bytes = read_bytes(&run);
            if amount.is_read(&run, host) {
                Ok((bytes, routes(scene, path, &run)?))
            } else {
                Err(format!("{bytes:?} bytes, and {host:?} by {of_host}"))
            }
        });
        match verdict {
            Ok((bytes, tally)) => {
                let [bytes, host] = [bytes, host].map(|bytes| bytes.unwrap_or(0));
                let words = format!("{bytes} bytes, {host} by {of_host}, ");
                report.routes(&what, &tally, &words);
            }
            Err(why) => report.fail(&what, why),
        }
    }
}

/// The routes that a run's evidence shows, which must be its path's.
fn routes(scene: &Scene, path: &str, run: &Value) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for evidence in run["evidence"].as_array().into_iter().flatten() {
        let claim = Claim { asked: path, evidence, transfers: None };
        tally.add(claim.judge(scene.direct().expected_in_part())?);
    }
    if tally == Tally::default() { Err("there is no evidence".to_string()) } else { Ok(tally) }
}

/// Bytes that training read in all epochs.
fn read_bytes(run: &Value) -> Option<u64> {
    let epochs = run["epochs"].as_array()?;
    epochs.iter().map(|epoch| epoch["bytes_read"].as_u64()).sum()
}

/// A model of 60 MB on 8 ranks.
const TINY: &str = "\
model:
  name: tiny
  type: transformer
  num_layers: 4
  parallelism: {tensor: 2, pipeline: 2, zero_stage: 1}
  transformer:
    vocab_size: 1000
    hidden_size: 256
    ffn_hidden_size: 1024
    num_attention_heads: 8
    num_kv_heads: 4
";

fn checkpoints(scene: &Scene, report: &mut Report) {
    let model = scene.folder("model").join("tiny.yaml");
    if let Err(error) = fs::write(&model, TINY) {
        return report.fail("the model's file", error.to_string());
    }
    let model = model.display().to_string();
    let save = |name: &str, path: &str| {
        let folder = scene.folder(name);
        let words = format!(
            "checkpoint {model} --ranks 8 --scale 1 --pause 0 --saves 1 --restores 1 --verify --tune seed=7 \
             --io-size 1M --dir {} {path}",
            folder.display()
        );
        let run = scene.report_of(&words)?;
        Ok::<_, String>((run, content(&folder)))
    };
    let host = match save("by-host", "--path buffered") {
        Ok((_, files)) => files,
        Err(why) => return report.fail("checkpoint from host memory", why),
    };
    for (path, _) in PATHS.into_iter().filter(|(path, _)| *path != "cpu-async-gpu") {
        let what = format!("checkpoint by {path}");
        let proof = scene.direct().option_of(path);
        let verdict =
            save(&format!("by-{path}"), &format!("--path {path} --device cuda:0 {proof}"));
        let verdict = verdict.and_then(|(run, files)| {
            let verified = run["verified_bytes"].as_u64().unwrap_or(0);
            match verified {
                0 => Err("no bytes were verified".to_string()),
                _ if files.len() != host.len() => {
                    Err(format!("{} files, and {} from the host", files.len(), host.len()))
                }
                _ if files != host => Err("the files differ from those of the host".to_string()),
                _ => Ok((verified, routes(scene, path, &run)?)),
            }
        });
        match verdict {
            Ok((verified, tally)) => {
                let words = format!("{verified} bytes verified, files as from the host, ");
                report.routes(&what, &tally, &words);
            }
            Err(why) => report.fail(&what, why),
        }
    }
    restored_elsewhere(scene, report, &model);
}

/// Checkpoints of the host, read into the GPU with each byte checked.
fn restored_elsewhere(scene: &Scene, report: &mut Report, model: &str) {
    let folder = scene.folder("by-host");
    let words = format!(
        "checkpoint {model} --ranks 8 --scale 1 --pause 0 --saves 0 --restores 1 --verify --dir {} \
         --path gds --device cuda:0 {}",
        folder.display(),
        scene.direct().option_of("gds")
    );
    let what = "the host's checkpoint restored by gds";
    let verdict = scene.report_of(&words).and_then(|run| match run["verified_bytes"].as_u64() {
        Some(bytes) if bytes > 0 => Ok((bytes, routes(scene, "gds", &run)?)),
        other => Err(format!("{other:?} bytes verified")),
    });
    match verdict {
        Ok((bytes, tally)) => report.routes(what, &tally, &format!("{bytes} bytes verified, ")),
        Err(why) => report.fail(what, why),
    }
}

/// Chunks of prefixes, written from the GPU and read into it with each byte checked.
fn prefixes(scene: &Scene, report: &mut Report) {
    for (path, _) in PATHS.into_iter().filter(|(path, _)| *path != "cpu-async-gpu") {
        let what = format!("prefixes of KV caches by {path}");
        let proof = scene.direct().option_of(path);
        let folder = scene.folder(&format!("kv-{path}"));
        let words = format!(
            "kvcache serving tiny-1b --verify --duration 2s --chunk-tokens 64 --prefixes 6 \
             --prefix-tokens 128,256 --concurrency 2 --tune writers=1 --io-size 1M --dir {} --path {path} \
             --device cuda:0 {proof}",
            folder.display()
        );
        let verdict = scene.report_of(&words).and_then(|run| {
            let trial = &run["trials"][0];
            let read = ["bytes", "late_bytes"].map(|key| trial["read"][key].as_u64().unwrap_or(0));
            match read.iter().sum::<u64>() {
                0 => Err("no prefix was loaded".to_string()),
                bytes => Ok((bytes, routes(scene, path, &run)?)),
            }
        });
        match verdict {
            Ok((bytes, tally)) => {
                report.routes(&what, &tally, &format!("{bytes} bytes verified, "))
            }
            Err(why) => report.fail(&what, why),
        }
    }
}

/// The content of all files of ranks below a folder, by name.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => left.push(path),
                Some(extension) if extension == "pt" => {
                    let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    files.insert(name, fs::read(&path).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    files
}
