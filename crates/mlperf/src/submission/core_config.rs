//! `core-config-v1`: the hash of what a run executed, without what a site may choose. Runs with the
//! same hash are the same benchmark.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sha256;

/// The hash of a run that keeps no key of its family.
pub(super) const UNKNOWN: &str = "unknown";

/// A family of benchmarks: the parameters that are kept (`model.*` stands for all below), and those of
/// them that are not.
struct Family {
    name: &'static str,
    keep: &'static [&'static str],
    drop: &'static [&'static str],
}

const FAMILIES: [Family; 4] = [
    Family {
        name: "training",
        keep: &[
            "framework",
            "metric.au",
            "model.*",
            "workflow.*",
            "dataset.format",
            "dataset.num_samples_per_file",
            "dataset.record_length_bytes",
            "dataset.record_length_bytes_stdev",
            "dataset.record_length_bytes_resize",
            // The names of v1.0.
            "dataset.record_length",
            "dataset.record_length_stdev",
            "dataset.record_length_resize",
            "reader.data_loader",
            "reader.batch_size",
            "reader.file_shuffle",
            "reader.sample_shuffle",
            "reader.shuffle_size",
            "train.epochs",
            "train.computation_time",
            "train.computation_time_stdev",
            "train.total_training_steps",
            "checkpoint.*",
        ],
        drop: &["checkpoint.checkpoint_folder"],
    },
    Family {
        name: "checkpointing",
        keep: &["framework", "model.*", "workflow.*", "checkpoint.*"],
        drop: &[
            "checkpoint.checkpoint_folder",
            "checkpoint.num_checkpoints_write",
            "checkpoint.num_checkpoints_read",
        ],
    },
    Family {
        name: "kv_cache",
        keep: &["options.*", "sequence.seed", "sequence.config", "features.*"],
        drop: &[],
    },
    Family {
        name: "vector_database",
        keep: &[
            "database.database",
            "index.index_type",
            "dataset.num_vectors",
            "dataset.dimension",
            "benchmark.recall_k",
            "benchmark.search_limit",
        ],
        drop: &[],
    },
];

/// The hash of a run of `family` with these parameters, 16 hexadecimal digits.
pub(super) fn hash(family: &str, parameters: &Value) -> String {
    let Some(family) = FAMILIES.iter().find(|known| known.name == family) else {
        return UNKNOWN.to_string();
    };
    let mut kept: BTreeMap<String, Value> = BTreeMap::new();
    flatten(parameters, "", &mut |key, value| {
        if family.keeps(key) {
            kept.insert(key.to_string(), canonical(value));
        }
    });
    if kept.is_empty() {
        return UNKNOWN.to_string();
    }
    let entries = kept.iter();
    let entries = entries
        .map(|(key, value)| format!("{}:{}", as_python(&key.as_str().into()), as_python(value)));
    let text = format!("{{{}}}", entries.collect::<Vec<String>>().join(","));
    sha256::hex(text.as_bytes()).chars().take(16).collect()
}

impl Family {
    fn keeps(&self, key: &str) -> bool {
        let is_kept = self.keep.iter().any(|kept| match kept.strip_suffix('*') {
            Some(above) => key.starts_with(above),
            None => key == *kept,
        });
        is_kept && !self.drop.contains(&key)
    }
}

/// Calls `each` with every value that is not a section, and its dotted key.
fn flatten(value: &Value, above: &str, each: &mut dyn FnMut(&str, &Value)) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Object(_) => flatten(value, &key, each),
            value => each(&key, value),
        }
    }
}

/// A value in one spelling: texts become what they say, whole floating-point numbers integers.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(canonical).collect(),
        Value::String(text) => {
            let text = text.trim();
            match text.to_ascii_lowercase().as_str() {
                "true" => true.into(),
                "false" => false.into(),
                _ => match (text.parse::<i64>(), text.parse::<f64>()) {
                    (Ok(whole), _) => whole.into(),
                    (_, Ok(number)) if number.is_finite() => canonical(&number.into()),
                    _ => text.into(),
                },
            }
        }
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e18 => {
                (float as i64).into()
            }
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

/// JSON without spaces as Python writes it: ASCII alone, and its text of numbers.
fn as_python(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            format!("[{}]", list.iter().map(as_python).collect::<Vec<String>>().join(","))
        }
        Value::Number(number) => match number.as_f64() {
            // Python has a sign and two digits in exponents.
            Some(float) if number.is_f64() && float.abs() < 1e-4 => {
                let text = format!("{float:e}");
                let (digits, exponent) = text.split_once("e-").unwrap_or((&text, "0"));
                format!("{digits}e-{exponent:0>2}")
            }
            _ => number.to_string(),
        },
        Value::String(_) => {
            let text = value.to_string();
            let escaped = text.chars().map(|c| {
                let mut units = [0; 2];
                if c.is_ascii() {
                    return c.to_string();
                }
                c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            });
            escaped.collect()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Parameters of unet3d on b200 as v3.0's tool notes them, with those of the site.
    fn unet3d(checkpoint: &Value) -> Value {
        json!({
            "model": {"name": "unet3d", "type": "cnn", "model_size": 499_153_191},
            "framework": "pytorch",
            "workflow": {"generate_data": false, "train": true, "checkpoint": checkpoint},
            "dataset": {"data_folder": "/a", "format": "npz", "num_files_train": "14000",
                "num_samples_per_file": 1, "record_length_bytes": 146_600_628,
                "record_length_bytes_stdev": 68_341_808.0,
                "record_length_bytes_resize": "2097152"},
            "reader": {"data_loader": " pytorch ", "batch_size": 7, "read_threads": "4",
                "file_shuffle": "seed", "sample_shuffle": "seed", "odirect": "True"},
            "train": {"epochs": 5, "computation_time": 0.162},
            "checkpoint": {"checkpoint_folder": "x", "checkpoint_after_epoch": 5,
                "epochs_between_checkpoints": 2},
            "metric": {"au": 0.9},
        })
    }

    #[test]
    fn hashes_are_those_of_the_declared_classes() {
        assert_eq!(hash("training", &unet3d(&json!(false))), "0d3ad0dec188becd");
        assert_eq!(hash("training", &unet3d(&json!("True"))), "f636f5a57473fca2");
        let llama = json!({
            "model": {"name": "llama_8b", "type": "transformer", "num_layers": 32,
                "model_datatype": "fp16", "optimizer_datatype": "fp32",
                "parallelism": {"pipeline": 1, "tensor": 1, "zero_stage": 3},
                "transformer": {"vocab_size": 128_256, "hidden_size": 4096,
                    "ffn_hidden_size": 14_336, "num_attention_heads": 32, "num_kv_heads": 8}},
            "framework": "pytorch",
            "workflow": {"generate_data": false, "train": false, "checkpoint": true},
            "checkpoint": {"checkpoint_folder": "/b", "time_between_checkpoints": 5,
                "num_checkpoints_write": 10, "num_checkpoints_read": 0, "fsync": true},
        });
        assert_eq!(hash("checkpointing", &llama), "68df04b7240e3fb0");
        let option = |model: &str, users: u32, cpu: u32, allocations: u32| {
            json!({"model": model, "num_users": users, "duration": 300, "gpu_mem_gb": 0,
                "cpu_mem_gb": cpu, "max_concurrent_allocs": allocations,
                "generation_mode": "none"})
        };
        let cache = json!({
            "options": {"1": option("llama3.1-8b", 200, 0, 16), "2": option("llama3.1-8b", 100, 4, 16),
                "3": option("llama3.1-70b-instruct", 70, 0, 4)},
            "sequence": {"seed": 42, "trials": 3, "config": "default"}, "features": {},
        });
        assert_eq!(hash("kv_cache", &cache), "04b508c33b9e34c8");
        let vectors = json!({"database": {"database": "milvus"}, "index": {"index_type": "DISKANN"},
            "dataset": {"num_vectors": 1_000_000, "dimension": 1536},
            "benchmark": {"recall_k": 10, "search_limit": 10}});
        assert_eq!(hash("vector_database", &vectors), "ca2c35c3ac5e1435");
        assert_eq!(hash("training", &json!({"storage": {"storage_type": "s3"}})), UNKNOWN);
        assert_eq!(hash("other", &vectors), UNKNOWN);
    }

    #[test]
    fn values_have_one_spelling() {
        let list = json!([" 5 ", "5.0", 5.0, "0.5", "FALSE", "é", 0.000_01]);
        let text = as_python(&canonical(&list));
        assert_eq!(text, "[5,5,5,0.5,false,\"\\u00e9\",1e-05]");
    }
}
