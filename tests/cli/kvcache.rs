//! `stormlp kvcache size`.

use serde_json::Value;

use crate::{stderr, stdout, stormlp};

#[test]
fn the_size_of_a_models_caches_is_answered_last() {
    let ran = stormlp().args(["kvcache", "size", "llama3.1-70b-instruct"]).assert().success();
    let text = stdout(ran);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let answer =
        "320 KiB (327680 bytes) for each token; 1.72 GiB for the mean request of 5623 tokens";
    assert!(words.ends_with(answer), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn what_fits_is_computed() {
    let words = ["kvcache", "size", "--capacity", "1T", "--tokens", "256"];
    let json = stdout(stormlp().args(words).args(["--format", "json"]).assert().success());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["bytes_per_token"], 131_072);
    assert_eq!(json["fits"]["tokens"], 8_388_608);
    assert_eq!(json["objects"][4]["bytes"], 33_554_560);
}

#[test]
fn an_unknown_model_is_refused() {
    let text = stderr(stormlp().args(["kvcache", "size", "llama3-8b"]).assert().code(3));
    assert!(text.contains("llama3.1-8b"), "{text}");
    stormlp().args(["kvcache", "size", "--capacity", "0"]).assert().code(2);
}
