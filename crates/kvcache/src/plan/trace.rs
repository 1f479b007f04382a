//! Recorded traces of requests, read line by line: events and their times. A line depends on those
//! before it by time, and by the sizes of a limited number of objects, so a trace of any length
//! needs little memory.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use stormlp_core::pattern::fnv1a;
use stormlp_core::units::counted;
use strum::{Display, IntoStaticStr};

use super::load::Request;
use super::model::Model;
use super::prompts::Prompt;
use super::users::Class;
use super::work::Work;

/// Maximum bytes of a line.
pub const MOST_LINE_BYTES: usize = 1 << 20;
/// Tokens of a block of Mooncake's traces.
pub const BLOCK_TOKENS: u32 = 512;
/// Maximum tokens of a request, and bytes of a name.
const MOST_TOKENS: u64 = 1 << 24;
const MOST_KEY_BYTES: usize = 200;
/// Maximum number of objects with known sizes at a time: about 20 MiB.
const MOST_KNOWN: usize = 1 << 20;
/// The latest time that is believed, in seconds since 1970: the year 2128. Nanoseconds of it fit 64 bits.
const MOST_SECONDS: f64 = 5e9;
/// Threads of MLPerf's client read the clock before they wait to write their line, so lines may be
/// this much out of order.
const OUT_OF_ORDER_NS: u64 = 1_000_000_000;
/// Users of the original's BurstGPT requests.
const TRACE_USERS: u64 = 1000;

/// The recorder of a trace, and so the format of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum TraceFormat {
    /// Reads and writes of objects, by `--io-trace-log` of MLPerf's client.
    MlperfIo,
    /// Requests with their tokens: BurstGPT.
    Burstgpt,
    /// Requests with the blocks of their prefixes: Mooncake.
    Mooncake,
    /// The same with times in seconds, blocks of 16 tokens and `chat_id`: Alibaba's Bailian.
    Bailian,
}

impl TraceFormat {
    /// Whether its lines are requests with blocks.
    pub fn has_blocks(self) -> bool {
        matches!(self, Self::Mooncake | Self::Bailian)
    }
}

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEntry {
    /// When it happened, in nanoseconds since the first.
    pub at_ns: u64,
    /// The work it asks for, that was not sent yet.
    pub what: Work,
}

/// The fault of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Its number, from 1.
    pub line: u64,
    /// The fault.
    pub what: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// The columns of time, tokens of the request and of the response in BurstGPT's CSV, and how many
/// columns there are.
type Columns = [usize; 4];

/// Reads the lines of a trace in their order.
#[derive(Debug)]
pub struct TraceReader {
    bytes_per_token: u64,
    block_tokens: u32,
    format: Option<(TraceFormat, Columns)>,
    line: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    requests: u64,
    /// The tokens of objects that were written, by the hash of their names.
    written: HashMap<u64, u32>,
}

/// A line of a Mooncake trace, as far as it is used.
#[derive(Deserialize)]
struct MooncakeLine {
    timestamp: f64,
    input_length: u64,
    hash_ids: Vec<serde_json::Value>,
}

/// The first line of a file that MLPerf's client writes.
const IO_HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";

impl TraceReader {
    /// A reader of a trace that is replayed with `model`; a block of a prefix has `block_tokens`.
    pub fn new(model: &Model, block_tokens: u32) -> Self {
        Self {
            bytes_per_token: model.bytes_per_token(),
            block_tokens,
            format: None,
            line: 0,
            first_ns: None,
            last_ns: 0,
            requests: 0,
            written: HashMap::new(),
        }
    }

    /// The format, once a line was read.
    pub fn format(&self) -> Option<TraceFormat> {
        Some(self.format?.0)
    }

    /// Reads the next line; `None` for a line without work: a header, a blank line, an object in
    /// memory, a request without tokens.
    ///
    /// # Errors
    /// The fault.
    pub fn line(&mut self, text: &str) -> Result<Option<TraceEntry>, TraceError> {
        self.line += 1;
        self.entry(text.trim_end_matches(['\n', '\r']))
            .map_err(|what| TraceError { line: self.line, what })
    }

    fn entry(&mut self, text: &str) -> Result<Option<TraceEntry>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let is_first = self.format.is_none();
        let (format, columns) = match self.format {
            Some(known) => known,
            None => *self.format.insert(format_of(text)?),
        };
        match format {
            TraceFormat::Mooncake => self.prompt(text, false).map(Some),
            TraceFormat::Bailian => self.prompt(text, true).map(Some),
            _ if is_first => Ok(None),
            TraceFormat::MlperfIo => self.operation(text),
            TraceFormat::Burstgpt => self.request(text, columns),
        }
    }

    /// A read or write of MLPerf's client.
    fn operation(&mut self, text: &str) -> Result<Option<TraceEntry>, String> {
        let [time, operation, bytes, tier, key, _] = fields(text, 6)?[..] else {
            return Err("it has not six fields".to_string());
        };
        let at_ns = self.time(seconds(time)?, OUT_OF_ORDER_NS)?;
        let bytes = whole(bytes, "Object_Size_Bytes", u64::MAX)?;
        match tier {
            "Tier-2" => {}
            "Tier-0" | "Tier-1" => return Ok(None),
            other => return Err(format!("`{other}` is not a tier: use Tier-0, Tier-1 or Tier-2")),
        }
        let key = checked(key)?;
        let tokens = self.tokens_of(bytes)?;
        let name = fnv1a(key.as_bytes());
        let known = self.written.get(&name).copied();
        let what = match operation {
            "Write" => {
                if known.is_some() || self.written.len() < MOST_KNOWN {
                    self.written.insert(name, tokens);
                }
                Work::Operate { key, write_tokens: Some(tokens) }
            }
            // Objects are read as a whole.
            "Read" if known.is_some_and(|known| known != tokens) => {
                return Err(format!(
                    "Object_Size_Bytes: {bytes} are read of `{}`, which was written with {}",
                    short(&key),
                    u64::from(known.unwrap_or(0)) * self.bytes_per_token
                ));
            }
            "Read" => Work::Operate { key, write_tokens: None },
            other => return Err(format!("`{other}` is not an operation: use Read or Write")),
        };
        Ok(Some(TraceEntry { at_ns, what }))
    }

    fn tokens_of(&self, bytes: u64) -> Result<u32, String> {
        let (of_token, most) = (self.bytes_per_token, MOST_TOKENS * self.bytes_per_token);
        match bytes {
            0 => Err("Object_Size_Bytes: 0 is not a whole number of tokens".to_string()),
            bytes if !bytes.is_multiple_of(of_token) => Err(format!(
                "Object_Size_Bytes: {bytes} is not a whole number of tokens of {of_token} bytes: use \
                 --model with the model that the trace was recorded with"
            )),
            bytes if bytes > most => Err(format!("Object_Size_Bytes: {bytes} is more than {most}")),
            bytes => Ok((bytes / of_token) as u32),
        }
    }

    /// A request of BurstGPT, with the name that MLPerf's client gives its object.
    fn request(
        &mut self,
        text: &str,
        [time, request, response, count]: Columns,
    ) -> Result<Option<TraceEntry>, String> {
        let fields = fields(text, count)?;
        let at_ns = self.time(seconds(fields[time])?, 0)?;
        let most = MOST_TOKENS;
        let context_tokens = whole(fields[request], "Request tokens", most)? as u32;
        let generate_tokens = whole(fields[response], "Response tokens", most)? as u32;
        let nth = self.requests;
        self.requests += 1;
        if context_tokens == 0 {
            return Ok(None);
        }
        let key = format!("trace_user_{}_req_{nth:04}", nth % TRACE_USERS);
        // The original draws a class; here the trace has the order.
        let class = Class::Batch;
        let request =
            Request { key, context_tokens, generate_tokens, class, sent_ns: 0, turn: None };
        let what = Work::Serve { request, context_tokens, has_prompt: false, others: Vec::new() };
        Ok(Some(TraceEntry { at_ns, what }))
    }

    /// A request of Mooncake. The rest after the last full block is not stored.
    fn prompt(&mut self, text: &str, is_bailian: bool) -> Result<TraceEntry, String> {
        let MooncakeLine { timestamp, input_length, hash_ids } = serde_json::from_str(text)
            .map_err(|error| {
                let why: String = error.to_string().chars().take(80).collect();
                let why = why.split(" at line").next().unwrap_or_default();
                format!("it is not a request (see column {}): {why}", error.column())
            })?;
        let at_ns = self.time(if is_bailian { timestamp } else { timestamp / 1e3 }, 0)?;
        if !(1..=MOST_TOKENS).contains(&input_length) {
            return Err(format!("input_length: {input_length} is not from 1 to {MOST_TOKENS}"));
        }
        let (tokens, size) = (input_length as u32, self.block_tokens);
        let (found, fills) = (hash_ids.len() as u64, u64::from(tokens.div_ceil(size)));
        if found != fills {
            return Err(format!(
                "{} for {}, which fill {} of {size}: use --chunk-tokens {}",
                counted(found, "hash_id"),
                counted(tokens.into(), "token"),
                counted(fills, "block"),
                if is_bailian { "16" } else { "with the tokens of a block" }
            ));
        }
        let number = |id: &serde_json::Value| {
            let named = || Some(fnv1a(id.as_str()?.as_bytes()));
            let wrong = || format!("hash_ids: {id} is neither a number from 0 nor a text");
            id.as_u64().or_else(named).ok_or_else(wrong)
        };
        let mut chunks = hash_ids.iter().map(number).collect::<Result<Vec<u64>, _>>()?;
        chunks.truncate((tokens / size) as usize);
        Ok(TraceEntry { at_ns, what: Work::Load(Prompt { chunks, tokens, sent_ns: None }) })
    }

    /// A time since the first, which may lie `slack_ns` before the last one.
    fn time(&mut self, seconds: f64, slack_ns: u64) -> Result<u64, String> {
        if !(0.0..=MOST_SECONDS).contains(&seconds) {
            return Err(format!("the time {seconds} s is not from 0 to {MOST_SECONDS} s"));
        }
        let whole = seconds.trunc();
        let ns = whole as u64 * 1_000_000_000 + ((seconds - whole) * 1e9).round() as u64;
        let first_ns = *self.first_ns.get_or_insert(ns);
        let since = ns.saturating_sub(first_ns);
        if ns.saturating_add(slack_ns) < first_ns + self.last_ns {
            let back = (first_ns + self.last_ns - ns) as f64 / 1e9;
            return Err(format!("the time goes back by {back:.3} s"));
        }
        self.last_ns = self.last_ns.max(since);
        Ok(self.last_ns)
    }
}

/// The format that the first line shows.
fn format_of(text: &str) -> Result<(TraceFormat, Columns), String> {
    let header = text.trim_start_matches('\u{feff}');
    let format = match text.trim_start().starts_with('{') {
        true if text.contains("\"chat_id\"") => Some(TraceFormat::Bailian),
        true => Some(TraceFormat::Mooncake),
        false => (header == IO_HEADER).then_some(TraceFormat::MlperfIo),
    };
    if let Some(format) = format {
        return Ok((format, Columns::default()));
    }
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|one| *one == name);
    match (place("Timestamp"), place("Request tokens"), place("Response tokens")) {
        (Some(time), Some(request), Some(response)) => {
            Ok((TraceFormat::Burstgpt, [time, request, response, names.len()]))
        }
        _ => Err(format!(
            "no known trace begins like this: use one of MLPerf's client (`{IO_HEADER}`), of \
             BurstGPT (CSV with Timestamp, Request tokens, Response tokens) or of Mooncake (lines \
             of JSON)"
        )),
    }
}

fn fields(text: &str, count: usize) -> Result<Vec<&str>, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    match fields.len() {
        found if found == count => Ok(fields),
        found => Err(format!("{} instead of {count}", counted(found as u64, "field"))),
    }
}

/// A number of seconds without a unit.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds: &f64| seconds.is_finite());
    number.ok_or_else(|| format!("`{}` is not a time in seconds", short(text)))
}

fn whole(text: &str, what: &str, most: u64) -> Result<u64, String> {
    if text.is_empty() {
        return Err(format!("{what} is missing"));
    }
    // Some releases print counts as 12.0.
    let digits = text.strip_suffix(".0").unwrap_or(text);
    match digits.parse() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(format!("{what}: `{}` is not a number from 0 to {most}", short(text))),
    }
}

/// A name that can be the name of a file.
fn checked(key: &str) -> Result<String, String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if key.is_empty()
        || key.starts_with('.')
        || key.len() > MOST_KEY_BYTES
        || !key.chars().all(is_safe)
    {
        return Err(format!(
            "the key `{}` cannot be the name of a file: letters, digits, _, - and ., at most \
             {MOST_KEY_BYTES}",
            short(key)
        ));
    }
    Ok(key.to_string())
}

/// The beginning of a file's contents, for messages.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader(model: &str) -> TraceReader {
        TraceReader::new(&Model::named(model).unwrap(), 512)
    }

    fn read(model: &str, text: &str) -> Result<Vec<TraceEntry>, TraceError> {
        let mut reader = reader(model);
        text.lines().filter_map(|line| reader.line(line).transpose()).collect()
    }

    fn wrong(text: &str) -> String {
        read("tiny-1b", text).unwrap_err().to_string()
    }

    #[test]
    fn operations_on_storage_are_read_and_those_in_memory_left_out() {
        let text = format!(
            "{IO_HEADER}\r\n1784555733.870000,Write,2457600,Tier-2,user_0000_req_000000,Prefill\r\n\
             1784555733.900000,Write,2457600,Tier-1,user_0001_req_000001,Prefill\r\n\
             1784555734.120000,Read,2457600,Tier-2,user_0000_req_000000,Decode\r\n"
        );
        let operation =
            |write_tokens| Work::Operate { key: "user_0000_req_000000".to_string(), write_tokens };
        let found = read("tiny-1b", &text).unwrap();
        assert_eq!(found[0].what, operation(Some(100)));
        assert_eq!(found[1].what, operation(None));
        assert_eq!((found.len(), found[0].at_ns), (2, 0));
        assert!(found[1].at_ns.abs_diff(250_000_000) < 1000, "{found:?}");
        let other = read("llama3.1-8b", &text).unwrap_err();
        assert_eq!(other.line, 2);
        assert!(other.what.contains("use --model"), "{other:?}");
    }

    #[test]
    fn requests_of_burstgpt_are_named_as_the_original_does() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                    5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,0,0,0,API log\n\
                    118,ChatGPT,1087,230.0,1317,Conversation log\n";
        let found = read("tiny-1b", text).unwrap();
        let requests = found.iter().map(|entry| match &entry.what {
            Work::Serve { request, context_tokens, has_prompt: false, .. } => {
                assert_eq!(*context_tokens, request.context_tokens);
                (&*request.key, *context_tokens, request.generate_tokens)
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(
            requests.collect::<Vec<_>>(),
            [("trace_user_0_req_0000", 472, 18), ("trace_user_2_req_0002", 1087, 230)]
        );
        assert_eq!(found[1].at_ns, 113_000_000_000);
    }

    #[test]
    fn prompts_of_mooncake_keep_their_full_blocks() {
        let text = r#"{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]}
                      {"timestamp": 27, "input_length": 1024, "output_length": 5, "hash_ids": [0, 3]}"#;
        let found = read("tiny-1b", text).unwrap();
        let prompt = |chunks, tokens| Work::Load(Prompt { chunks, tokens, sent_ns: None });
        assert_eq!(found[0].what, prompt(vec![0, 1], 1300));
        assert_eq!(found[1].what, prompt(vec![0, 3], 1024));
        assert_eq!(found[1].at_ns, 27_000_000);
    }

    #[test]
    fn a_trace_of_bailian_has_seconds_small_blocks_and_ids_that_may_be_texts() {
        let text = r#"{"chat_id": 1, "parent_chat_id": -1, "timestamp": 2.5, "turn": 1, "input_length": 32, "hash_ids": [7, 8]}
                      {"chat_id": 2, "parent_chat_id": 1, "timestamp": 4.0, "turn": 2, "input_length": 33, "hash_ids": [7, "0x8f", 9]}"#;
        let mut reader = TraceReader::new(&Model::named("tiny-1b").unwrap(), 16);
        let lines: Vec<_> = text.lines().map(|line| reader.line(line).unwrap().unwrap()).collect();
        assert_eq!((lines[0].at_ns, lines[1].at_ns), (0, 1_500_000_000));
        let Work::Load(Prompt { chunks, tokens: 33, .. }) = &lines[1].what else { panic!() };
        assert_eq!(chunks, &[7, fnv1a(b"0x8f")]);
        assert_eq!(reader.format(), Some(TraceFormat::Bailian));
        let mut reader = TraceReader::new(&Model::named("tiny-1b").unwrap(), BLOCK_TOKENS);
        let error = reader.line(text.lines().next().unwrap()).unwrap_err();
        assert!(error.what.ends_with("use --chunk-tokens 16"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_an_error_with_its_line() {
        let burst = |line: &str| {
            wrong(&format!("Timestamp,Request tokens,Response tokens\n10,5,5\n{line}\n"))
        };
        assert_eq!(burst("9,5,5"), "line 3: the time goes back by 1.000 s");
        assert_eq!(burst("11,,5"), "line 3: Request tokens is missing");
        assert!(burst("11,-4,5").contains("line 3: Request tokens: `-4` is not a number"));
        assert!(burst("11ms,4,5").contains("`11ms` is not a time in seconds"));
        assert!(burst("-1,4,5").contains("the time -1 s is not from 0 to 5000000000 s"));
        assert!(burst("nan,4,5").contains("line 3: `nan` is not a time in seconds"));
        // Its nanoseconds have no room.
        assert!(burst("51111111111,4,5").contains("is not from 0 to"));
        assert_eq!(burst("11,4"), "line 3: 2 fields instead of 3");
        assert_eq!(burst("11"), "line 3: 1 field instead of 3");
        let io = |line: &str| wrong(&format!("{IO_HEADER}\n{line}\n"));
        assert!(io("1,Write,24576,Tier-2,../up,Prefill").contains("cannot be the name of a file"));
        assert!(io("1,Write,24576,Tier-3,a,Prefill").contains("`Tier-3` is not a tier"));
        assert!(io("1,Append,24576,Tier-2,a,Prefill").contains("`Append` is not an operation"));
        let whole = io("1,Write,0,Tier-2,a,Prefill");
        assert!(whole.contains("Object_Size_Bytes: 0 is not a whole number of tokens"), "{whole}");
        let other = read("llama3.1-8b", &format!("{IO_HEADER}\n1,Write,24576,Tier-2,a,Prefill\n"));
        assert!(other.unwrap_err().what.contains("use --model"));
        let huge = io(&format!("1,Write,{},Tier-2,a,Prefill", 24576u64 << 40));
        assert!(huge.contains("Object_Size_Bytes: ") && huge.contains("is more than"), "{huge}");
        assert!(wrong("time,tokens\n").contains("line 1: no known trace begins like this"));
        let json = |line: &str| wrong(&format!("{line}\n"));
        let missing = json(r#"{"timestamp": 1}"#);
        assert!(missing.ends_with("missing field `input_length`"), "{missing}");
        let few = r#"{"timestamp": 1, "input_length": 900, "hash_ids": [1]}"#;
        assert!(json(few).contains("1 hash_id for 900 tokens, which fill 2 blocks of 512"));
        for (text, says) in [
            (
                r#"{"timestamp": -1e6, "input_length": 9, "hash_ids": [1]}"#,
                "the time -1000 s is not",
            ),
            (r#"{"timestamp": "1", "input_length": 9}"#, "(see column 17): invalid type: string"),
            (
                r#"{"timestamp": 1, "input_length": -3}"#,
                "(see column 35): invalid value: integer `-3`",
            ),
            (
                r#"{"timestamp": 1, "input_length": 0, "hash_ids": []}"#,
                "input_length: 0 is not from 1",
            ),
            (r#"{"timestamp": 1, "input_length": 9, "hash_ids": 1}"#, "expected a sequence"),
            (r#"{"timestamp": 1, "input_length": 9, "hash_ids": [-3]}"#, "hash_ids: -3"),
            (r#"{"timestamp": 1,,"#, "it is not a request (see column 17)"),
        ] {
            let found = json(text);
            assert!(found.starts_with("line 1: ") && found.contains(says), "{found}");
            assert!(!found.contains("at line"), "{found}");
        }
    }

    #[test]
    fn a_read_of_another_size_than_was_written_is_an_error() {
        let line = |what: &str, tokens: u64, key: &str| {
            format!("5,{what},{},Tier-2,{key},Decode\n", tokens * 24_576)
        };
        let of =
            |lines: &[String]| read("tiny-1b", &(IO_HEADER.to_string() + "\n" + &lines.concat()));
        // A key written before the trace began has no known size; a later write has another.
        let fine = [line("Read", 7, "b"), line("Write", 1, "a"), line("Read", 1, "a")];
        assert_eq!(of(&fine).unwrap().len(), 3);
        let again = [line("Write", 1, "a"), line("Write", 2, "a"), line("Read", 2, "a")];
        assert_eq!(of(&again).unwrap().len(), 3);
        let found = of(&[line("Write", 1, "a"), line("Read", 3, "a")]).unwrap_err().to_string();
        let says = "line 3: Object_Size_Bytes: 73728 are read of `a`, which was written with 24576";
        assert_eq!(found, says);
    }

    #[test]
    fn lines_of_several_threads_may_be_a_little_out_of_order() {
        let line = |time: &str| format!("{time},Write,24576,Tier-2,a,Prefill\n");
        let text = [IO_HEADER.to_string() + "\n", line("10.5"), line("10.2"), line("11")].concat();
        let at: Vec<u64> = read("tiny-1b", &text).unwrap().iter().map(|one| one.at_ns).collect();
        assert_eq!(at, [0, 0, 500_000_000]);
        let back = [IO_HEADER.to_string() + "\n", line("10.5"), line("9.2")].concat();
        assert!(wrong(&back).contains("line 3: the time goes back by 1.300 s"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}(\n\\PC{0,80}){0,3}") {
            let _ = read("tiny-1b", &text);
        }
    }
}
