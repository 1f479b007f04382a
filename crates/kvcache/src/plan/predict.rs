//! What storage that is known by its figures would do for KV caches. Nothing runs: all follows from
//! bandwidth and latency.

use serde::Serialize;
use stormlp_core::failure::Problems;
use stormlp_core::numbers::whole;
use stormlp_core::units::MIB;

use super::checks::number_problems;
use super::model::Model;
use super::options::{OPTIONS, Offered};
use super::request::KvcacheRequest;
use super::serving::ServingPlan;
use super::serving_request::ServingRequest;
use super::size::READ_PER_WRITTEN;

/// Bytes of a transfer.
const PIECE_BYTES: u64 = MIB;

/// Options of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, clap::Args)]
pub struct PredictRequest {
    /// tiny-1b, mistral-7b, llama2-7b, llama3.1-8b, llama3.1-70b-instruct, deepseek-v3, qwen3-32b,
    /// gpt-oss-120b or gpt-oss-20b
    #[arg(value_name = "MODEL", default_value = "llama3.1-8b")]
    pub model: String,

    /// Tokens of a chunk
    #[arg(long, value_name = "N", default_value = "256",
        value_parser = whole::<u32>(..))]
    pub chunk_tokens: u32,

    /// Lengths of prefixes in tokens, all as frequent
    #[arg(long, value_name = "LIST", default_value = "2048,8192,32768",
        value_delimiter = ',', value_parser = whole::<u32>(..))]
    pub prefix_tokens: Vec<u32>,

    /// Prompts that read a prefix for each that brings a new one
    #[arg(long, value_name = "N", default_value_t = 9.0)]
    pub reads_per_prefix: f64,

    /// Tokens of a prompt after its prefix
    #[arg(long, value_name = "N", default_value = "512",
        value_parser = whole::<u32>(..))]
    pub new_tokens: u32,

    /// Tokens that the accelerators of a server compute in a second
    #[arg(long = "prefill-rate", value_name = "TOKENS")]
    pub prefill_tokens_per_second: Option<f64>,

    /// Prompts that load at a time
    #[arg(long, value_name = "N", default_value = "8",
        value_parser = whole::<u32>(..))]
    pub threads: u32,

    /// Transfers in flight for each prompt
    #[arg(long, value_name = "N", default_value = "4",
        value_parser = whole::<u32>(..))]
    pub depth: u32,
}

/// Storage as one host sees it.
pub struct Figures<'a> {
    /// Bytes per second that transfers of a size read with so many in flight.
    pub read_bytes_per_second: &'a dyn Fn(u64, u32) -> f64,
    /// Bytes per second that large transfers write, if known.
    pub write_bytes_per_second: Option<f64>,
    /// What the figures are, and where they are from.
    pub source: String,
}

/// Loads of prefixes of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PredictedLoad {
    /// The length.
    pub prefix_tokens: u32,
    /// Bytes of its chunks.
    pub bytes: u64,
    /// Time of one load if no other runs, in seconds.
    pub alone_seconds: f64,
    /// Time if all threads load, in seconds.
    pub together_seconds: f64,
    /// The share of storage in the time to the first token then, 0 to 1.
    pub storage_share: Option<f64>,
    /// How many times as long it takes to compute the prefix.
    pub saves_times: Option<f64>,
}

/// An option of MLPerf's benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedOption {
    /// What its users ask for.
    #[serde(flatten)]
    pub offered: Offered,
    /// The lowest and highest read rate in bytes per second, with the reads for each byte written
    /// that published runs had; `None` if the write rate is unknown.
    pub read_bytes_per_second: Option<[f64; 2]>,
}

/// What is predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// What was asked for.
    pub request: PredictRequest,
    /// The figures of storage.
    pub storage: String,
    /// Bytes per second read if all threads load.
    pub read_bytes_per_second: f64,
    /// Bytes per second written, if known.
    pub write_bytes_per_second: Option<f64>,
    /// Loads by length.
    pub loads: Vec<PredictedLoad>,
    /// The most prompts a second; an upper bound if writes are not known, which then cost nothing.
    pub prompts_per_second: f64,
    /// Servers that make so many prompts: each loads a prefix, beside all the threads, and computes the
    /// rest at the given rate.
    pub servers: Option<f64>,
    /// MLPerf's options.
    pub options: Vec<PredictedOption>,
}

/// Predicts.
///
/// # Errors
/// All that is wrong with the request.
pub fn predict(request: &PredictRequest, figures: &Figures<'_>) -> Result<Predicted, Problems> {
    let model = check(request)?;
    let chunk_bytes = ServingPlan::bytes_of_chunk(&model, request.chunk_tokens);
    let bytes_of = |tokens: u32| u64::from(tokens / request.chunk_tokens) * chunk_bytes;
    let rate = |threads: u32| {
        let depth = threads.saturating_mul(request.depth);
        (figures.read_bytes_per_second)(PIECE_BYTES.min(chunk_bytes), depth)
    };
    let (alone, together) = (rate(1), rate(request.threads));
    let load = |tokens: u32| {
        let bytes = bytes_of(tokens);
        let together_seconds = bytes as f64 * f64::from(request.threads) / together;
        let prefill = request.prefill_tokens_per_second;
        let computes = |tokens: u32| prefill.map(|rate| f64::from(tokens) / rate);
        PredictedLoad {
            prefix_tokens: tokens,
            bytes,
            alone_seconds: bytes as f64 / alone,
            together_seconds,
            storage_share: computes(request.new_tokens)
                .map(|seconds| together_seconds / (together_seconds + seconds)),
            saves_times: computes(tokens).map(|seconds| seconds / together_seconds),
        }
    };
    let loads: Vec<PredictedLoad> = request.prefix_tokens.iter().map(|one| load(*one)).collect();
    let count = loads.len() as f64;
    let mean_bytes = loads.iter().map(|load| load.bytes as f64).sum::<f64>() / count;
    let mean_tokens = loads.iter().map(|load| f64::from(load.prefix_tokens)).sum::<f64>() / count;
    let new_share = 1.0 / (1.0 + request.reads_per_prefix);
    // Reads and writes take turns.
    let writes = figures.write_bytes_per_second.map_or(0.0, |rate| new_share * mean_bytes / rate);
    let prompts_per_second = 1.0 / ((1.0 - new_share) * mean_bytes / together + writes);
    let computed = new_share * mean_tokens + f64::from(request.new_tokens);
    let loading = (1.0 - new_share) * mean_bytes * f64::from(request.threads) / together;
    let servers = |rate: f64| prompts_per_second * (loading + computed / rate);
    Ok(Predicted {
        storage: figures.source.clone(),
        read_bytes_per_second: together,
        write_bytes_per_second: figures.write_bytes_per_second,
        loads,
        prompts_per_second,
        servers: request.prefill_tokens_per_second.map(servers),
        options: options(&model, figures),
        request: request.clone(),
    })
}

/// The options of this model; all of them if it has none.
fn options(model: &Model, figures: &Figures<'_>) -> Vec<PredictedOption> {
    let own = OPTIONS.iter().filter(|option| option.model == model.name).collect::<Vec<_>>();
    let all = if own.is_empty() { OPTIONS.iter().collect() } else { own };
    let predicted = all.into_iter().filter_map(|option| {
        let offered = Offered::of(option).ok()?;
        let read = (figures.read_bytes_per_second)(PIECE_BYTES, option.users);
        let read_bytes_per_second = figures
            .write_bytes_per_second
            .map(|write| READ_PER_WRITTEN.map(|reads| 1.0 / (1.0 / read + 1.0 / (reads * write))));
        Some(PredictedOption { offered, read_bytes_per_second })
    });
    predicted.collect()
}

fn check(request: &PredictRequest) -> Result<Model, Problems> {
    let mut problems = Problems::default();
    let model = Model::named(&request.model).inspect_err(|what| {
        problems.plan(what.clone(), "`stormlp kvcache size` shows what each model takes");
    });
    // The limits of a run.
    let asked = KvcacheRequest {
        threads: Some(request.threads),
        serving: ServingRequest {
            chunk_tokens: Some(request.chunk_tokens),
            prefix_tokens: request.prefix_tokens.clone(),
            reads_per_prefix: Some(request.reads_per_prefix),
            new_tokens: Some(request.new_tokens),
            prefill_tokens_per_second: request.prefill_tokens_per_second,
            depth: Some(request.depth),
            ..ServingRequest::default()
        },
        ..KvcacheRequest::default()
    };
    number_problems(&asked, &mut problems);
    asked.serving.check(false, &mut problems);
    match model {
        Ok(model) if problems.is_empty() => Ok(model),
        _ => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> PredictRequest {
        PredictRequest {
            model: "llama3.1-8b".to_string(),
            chunk_tokens: 256,
            prefix_tokens: vec![8192],
            reads_per_prefix: 3.0,
            new_tokens: 1000,
            prefill_tokens_per_second: Some(10_000.0),
            threads: 8,
            depth: 4,
        }
    }

    fn figures(write: Option<f64>) -> Figures<'static> {
        // 1 GB/s for each transfer in flight, at most 10.
        Figures {
            read_bytes_per_second: &|_, depth| f64::from(depth.min(10)) * 1e9,
            write_bytes_per_second: write,
            source: String::new(),
        }
    }

    #[test]
    fn loads_share_what_storage_reads() {
        let found = predict(&request(), &figures(Some(2e9))).unwrap();
        let [load] = found.loads.as_slice() else { panic!("{found:?}") };
        let bytes = 32.0 * (f64::from(32 << 20) + 4096.0);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(load.bytes as f64, bytes));
        assert!(near(load.alone_seconds, bytes / 4e9), "{load:?}");
        assert!(near(load.together_seconds, 8.0 * bytes / 1e10), "{load:?}");
        let share = load.together_seconds / (load.together_seconds + 0.1);
        assert!(near(load.storage_share.unwrap(), share));
        assert!(near(load.saves_times.unwrap(), 0.8192 / load.together_seconds));
        // Three of four prompts load, one writes.
        let each = 0.75 * bytes / 1e10 + 0.25 * bytes / 2e9;
        assert!(near(found.prompts_per_second, 1.0 / each));
        // A server takes as long as loading and computing do.
        let of_server = 0.75 * load.together_seconds + (0.25 * 8192.0 + 1000.0) / 1e4;
        assert!(near(found.servers.unwrap(), of_server / each));
    }

    #[test]
    fn servers_that_only_load_are_the_threads() {
        let loads = PredictRequest { reads_per_prefix: 1e6, new_tokens: 1, ..request() };
        let servers = predict(&loads, &figures(Some(2e9))).unwrap().servers.unwrap();
        assert!((servers - 8.0).abs() < 0.01, "{servers}");
    }

    #[test]
    fn options_are_those_of_the_model_and_need_a_write_rate() {
        let found = predict(&request(), &figures(Some(2e9))).unwrap();
        let [first, second] = found.options.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.offered.option.number, second.offered.option.number), (1, 2));
        let [lowest, highest] = first.read_bytes_per_second.unwrap();
        assert!((lowest * (1e-10 + 1.0 / (4.1 * 2e9)) - 1.0).abs() < 1e-9 && highest > lowest);
        let unknown = predict(&request(), &figures(None)).unwrap();
        assert!(unknown.options.iter().all(|one| one.read_bytes_per_second.is_none()));
        assert!(unknown.prompts_per_second > found.prompts_per_second);
    }

    #[test]
    fn everything_wrong_is_found() {
        let bad = PredictRequest {
            model: "gpt-5".to_string(),
            prefix_tokens: vec![0, 300],
            threads: 0,
            new_tokens: 0,
            prefill_tokens_per_second: Some(f64::NAN),
            ..request()
        };
        assert_eq!(predict(&bad, &figures(None)).unwrap_err().len(), 6);
    }
}
