//! Traces of requests that others recorded, read line by line: what happened when. A line depends on
//! those before it by time, and by the sizes of a limited number of objects, so a trace of any length
//! needs little memory.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stormlp_core::pattern::fnv1a;
use stormlp_core::units::counted;
use strum::{Display, IntoStaticStr};

use super::model::Model;

/// The most bytes of a line.
pub const MOST_LINE_BYTES: usize = 1 << 20;
/// Tokens of a block of Mooncake's traces.
pub const BLOCK_TOKENS: u32 = 512;
/// The most tokens of a request, and bytes of a name.
const MOST_TOKENS: u64 = 1 << 24;
const MOST_KEY_BYTES: usize = 200;
/// The most objects whose sizes are known at a time: about 20 MiB.
const MOST_KNOWN: usize = 1 << 20;
/// The latest time that is believed, in seconds since 1970: the year 2128. Nanoseconds of it fit 64 bits.
const MOST_SECONDS: f64 = 5e9;
/// Threads of MLPerf's client take the time before they wait to write their line, so lines may be
/// this much out of order.
const OUT_OF_ORDER_NS: u64 = 1_000_000_000;
/// Users of the original's BurstGPT requests.
const TRACE_USERS: u64 = 1000;

/// Who recorded a trace, and so what its lines are.
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
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traced {
    /// An object was written to storage.
    Write {
        /// Its name.
        key: String,
        /// Its tokens.
        tokens: u32,
    },
    /// An object was read from storage.
    Read {
        /// Its name.
        key: String,
    },
    /// A request was sent, that wrote its object and read it to generate tokens.
    Request {
        /// The name of its object.
        key: String,
        /// Tokens of its context.
        context_tokens: u32,
        /// Tokens to generate.
        generate_tokens: u32,
    },
    /// A request was sent whose prompt begins with these full blocks.
    Prompt {
        /// The blocks; each stands for all tokens up to its end.
        blocks: Vec<u64>,
        /// All tokens of the prompt.
        tokens: u32,
    },
}

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEntry {
    /// When it happened, in nanoseconds since the first.
    pub at_ns: u64,
    /// What happened.
    pub what: Traced,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub remedy: &'static str,
}

/// What is wrong with a line, and what mends it.
struct Wrong {
    what: String,
    remedy: &'static str,
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self { what, remedy: "mend the trace, or use another --trace" }
    }
}

impl TraceError {
    /// What is wrong with the line of this number, in the file itself.
    pub fn new(line: u64, what: impl Into<String>) -> Self {
        let Wrong { what, remedy } = Wrong::from(what.into());
        Self { line, what, remedy }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Where the columns of a CSV file are, and how many there are.
#[derive(Debug, Clone, Copy)]
enum Columns {
    /// Of the file that MLPerf's client writes.
    MlperfIo,
    /// Time, tokens of the request and of the response.
    Burstgpt { time: usize, request: usize, response: usize, count: usize },
    /// None: each line is a JSON object.
    Json,
}

/// Reads the lines of a trace in their order.
#[derive(Debug)]
pub struct TraceReader {
    bytes_per_token: u64,
    block_tokens: u32,
    columns: Option<Columns>,
    line: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    requests: u64,
    /// The tokens of objects that were written, by the hash of their names.
    written: HashMap<u64, u32>,
}

/// A line of a Mooncake trace, as far as it is used; what is missing is null.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct MooncakeLine {
    timestamp: Value,
    input_length: Value,
    hash_ids: Value,
}

/// The first line of a file that MLPerf's client writes.
const IO_HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";

impl TraceReader {
    /// A reader of a trace that is replayed with `model`; a block of a prefix has `block_tokens`.
    pub fn new(model: &Model, block_tokens: u32) -> Self {
        Self {
            bytes_per_token: model.bytes_per_token(),
            block_tokens: block_tokens.max(1),
            columns: None,
            line: 0,
            first_ns: None,
            last_ns: 0,
            requests: 0,
            written: HashMap::new(),
        }
    }

    /// Whose trace it is, once a line was read.
    pub fn format(&self) -> Option<TraceFormat> {
        self.columns.map(|columns| match columns {
            Columns::MlperfIo => TraceFormat::MlperfIo,
            Columns::Burstgpt { .. } => TraceFormat::Burstgpt,
            Columns::Json => TraceFormat::Mooncake,
        })
    }

    /// Reads the next line; `None` if nothing is to be done for it: a header, a blank line, an
    /// object in memory, a request without tokens.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn line(&mut self, text: &str) -> Result<Option<TraceEntry>, TraceError> {
        self.line += 1;
        self.entry(text.trim_end_matches(['\n', '\r']))
            .map_err(|Wrong { what, remedy }| TraceError { line: self.line, what, remedy })
    }

    /// Something wrong with the line that was read last.
    pub fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::new(self.line, what)
    }

    fn entry(&mut self, text: &str) -> Result<Option<TraceEntry>, Wrong> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        match self.columns {
            None => {
                let columns = columns_of(text)?;
                self.columns = Some(columns);
                if matches!(columns, Columns::Json) { Ok(self.prompt(text)?) } else { Ok(None) }
            }
            Some(Columns::MlperfIo) => self.operation(text),
            Some(Columns::Burstgpt { time, request, response, count }) => {
                Ok(self.request(text, [time, request, response], count)?)
            }
            Some(Columns::Json) => Ok(self.prompt(text)?),
        }
    }

    /// A read or write of MLPerf's client.
    fn operation(&mut self, text: &str) -> Result<Option<TraceEntry>, Wrong> {
        let [time, operation, bytes, tier, key, _] = fields(text, 6)?[..] else {
            return Err("it has not six fields".to_string().into());
        };
        let at_ns = self.time(seconds(time)?, OUT_OF_ORDER_NS)?;
        let bytes = whole(bytes, "Object_Size_Bytes", u64::MAX)?;
        match tier {
            "Tier-2" => {}
            "Tier-0" | "Tier-1" => return Ok(None),
            other => {
                return Err(format!("`{other}` is not a tier: use Tier-0, Tier-1 or Tier-2").into());
            }
        }
        let key = checked(key)?;
        let what = match operation {
            "Write" => {
                let tokens = self.tokens_of(bytes)?;
                self.remember(&key, tokens);
                Traced::Write { key, tokens }
            }
            "Read" => {
                self.check_read(&key, bytes)?;
                Traced::Read { key }
            }
            other => return Err(format!("`{other}` is not an operation: use Read or Write").into()),
        };
        Ok(Some(TraceEntry { at_ns, what }))
    }

    fn tokens_of(&self, bytes: u64) -> Result<u32, Wrong> {
        let of_token = self.bytes_per_token;
        let most = MOST_TOKENS * of_token;
        if bytes == 0 || !bytes.is_multiple_of(of_token) {
            return Err(Wrong {
                what: format!(
                    "Object_Size_Bytes: {bytes} is not a whole number of tokens of {of_token} bytes"
                ),
                remedy: "name the model that the trace was recorded with: stormlp kvcache MODEL \
                         --trace FILE",
            });
        }
        match bytes <= most {
            true => Ok((bytes / of_token) as u32),
            false => Err(format!("Object_Size_Bytes: {bytes} is more than {most}").into()),
        }
    }

    /// Remembers the size of an object, of so many as there is memory for.
    fn remember(&mut self, key: &str, tokens: u32) {
        let name = fnv1a(key.as_bytes());
        if self.written.len() < MOST_KNOWN || self.written.contains_key(&name) {
            self.written.insert(name, tokens);
        }
    }

    /// Objects are read as a whole, so one has to be read with the size that it was written with.
    fn check_read(&self, key: &str, bytes: u64) -> Result<(), Wrong> {
        let tokens = self.tokens_of(bytes)?;
        match self.written.get(&fnv1a(key.as_bytes())) {
            Some(written) if *written != tokens => Err(format!(
                "Object_Size_Bytes: {bytes} are read of `{}`, which was written with {}",
                short(key),
                u64::from(*written) * self.bytes_per_token
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// A request of BurstGPT, with the name that MLPerf's client gives its object.
    fn request(
        &mut self,
        text: &str,
        [time, request, response]: [usize; 3],
        count: usize,
    ) -> Result<Option<TraceEntry>, String> {
        let fields = fields(text, count)?;
        let at_ns = self.time(seconds(fields[time])?, 0)?;
        let most = MOST_TOKENS;
        let context = whole(fields[request], "Request tokens", most)? as u32;
        let generate_tokens = whole(fields[response], "Response tokens", most)? as u32;
        let nth = self.requests;
        self.requests += 1;
        if context == 0 {
            return Ok(None);
        }
        let key = format!("trace_user_{}_req_{nth:04}", nth % TRACE_USERS);
        let what = Traced::Request { key, context_tokens: context, generate_tokens };
        Ok(Some(TraceEntry { at_ns, what }))
    }

    /// A request of Mooncake. What is left after the last full block is not stored.
    fn prompt(&mut self, text: &str) -> Result<Option<TraceEntry>, String> {
        let line: MooncakeLine = serde_json::from_str(text)
            .map_err(|error| format!("it is not a JSON object (see column {})", error.column()))?;
        let ms = known(&line.timestamp, "timestamp", "a time in ms", Value::as_f64)?;
        let at_ns = self.time(ms / 1e3, 0)?;
        let is_count = format!("a number of tokens from 1 to {MOST_TOKENS}");
        let count = known(&line.input_length, "input_length", &is_count, Value::as_u64)?;
        let tokens = tokens(count, "input_length")?;
        let ids = known(&line.hash_ids, "hash_ids", "a list", Value::as_array)?;
        let is_id = "a whole number from 0 to 2^64 - 1";
        let id = |id: &Value| known(id, "an entry of hash_ids", is_id, Value::as_u64);
        let mut blocks: Vec<u64> = ids.iter().map(id).collect::<Result<_, _>>()?;
        let (found, size) = (blocks.len() as u64, self.block_tokens);
        let fills = u64::from(tokens.div_ceil(size));
        if found != fills {
            return Err(format!(
                "{} for {}, which fill {} of {size}: use --chunk-tokens with the tokens of a block",
                counted(found, "hash_id"),
                counted(tokens.into(), "token"),
                counted(fills, "block")
            ));
        }
        blocks.truncate((tokens / size) as usize);
        Ok(Some(TraceEntry { at_ns, what: Traced::Prompt { blocks, tokens } }))
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

/// What the first line says of the others.
fn columns_of(text: &str) -> Result<Columns, String> {
    if text.trim_start().starts_with('{') {
        return Ok(Columns::Json);
    }
    let header = text.trim_start_matches('\u{feff}');
    if header == IO_HEADER {
        return Ok(Columns::MlperfIo);
    }
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|one| *one == name);
    match (place("Timestamp"), place("Request tokens"), place("Response tokens")) {
        (Some(time), Some(request), Some(response)) => {
            Ok(Columns::Burstgpt { time, request, response, count: names.len() })
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

/// A value of a JSON object, as what it has to be.
fn known<'a, T>(
    value: &'a Value,
    name: &str,
    kind: &str,
    of: impl Fn(&'a Value) -> Option<T>,
) -> Result<T, String> {
    of(value).ok_or_else(|| match value {
        Value::Null => format!("{name} is missing"),
        other => format!("{name}: `{}` is not {kind}", short(&other.to_string())),
    })
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

fn tokens(count: u64, what: &str) -> Result<u32, String> {
    match u32::try_from(count) {
        Ok(tokens) if (1..=MOST_TOKENS).contains(&count) => Ok(tokens),
        _ => Err(format!("{what}: {count} is not a number of tokens from 1 to {MOST_TOKENS}")),
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

/// The beginning of what a file contains, for messages.
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
        let key = "user_0000_req_000000".to_string();
        let found = read("tiny-1b", &text).unwrap();
        assert_eq!(found[0].what, Traced::Write { key: key.clone(), tokens: 100 });
        assert_eq!(found[1].what, Traced::Read { key });
        assert_eq!((found.len(), found[0].at_ns), (2, 0));
        assert!(found[1].at_ns.abs_diff(250_000_000) < 1000, "{found:?}");
        let other = read("llama3.1-8b", &text).unwrap_err();
        assert_eq!(other.line, 2);
        assert!(other.remedy.contains("name the model"), "{other:?}");
    }

    #[test]
    fn requests_of_burstgpt_are_named_as_the_original_does() {
        let text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                    5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,0,0,0,API log\n\
                    118,ChatGPT,1087,230.0,1317,Conversation log\n";
        let found = read("tiny-1b", text).unwrap();
        let request = |key: &str, context_tokens, generate_tokens| Traced::Request {
            key: key.to_string(),
            context_tokens,
            generate_tokens,
        };
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].what, request("trace_user_0_req_0000", 472, 18));
        assert_eq!(found[1].what, request("trace_user_2_req_0002", 1087, 230));
        assert_eq!(found[1].at_ns, 113_000_000_000);
    }

    #[test]
    fn prompts_of_mooncake_keep_their_full_blocks() {
        let text = r#"{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]}
                      {"timestamp": 27, "input_length": 1024, "output_length": 5, "hash_ids": [0, 3]}"#;
        let found = read("tiny-1b", text).unwrap();
        assert_eq!(found[0].what, Traced::Prompt { blocks: vec![0, 1], tokens: 1300 });
        assert_eq!(found[1].what, Traced::Prompt { blocks: vec![0, 3], tokens: 1024 });
        assert_eq!(found[1].at_ns, 27_000_000);
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
        assert!(other.unwrap_err().remedy.contains("stormlp kvcache MODEL"));
        let huge = io(&format!("1,Write,{},Tier-2,a,Prefill", 24576u64 << 40));
        assert!(huge.contains("Object_Size_Bytes: ") && huge.contains("is more than"), "{huge}");
        assert!(wrong("time,tokens\n").contains("line 1: no known trace begins like this"));
        let json = |line: &str| wrong(&format!("{line}\n"));
        assert_eq!(json(r#"{"timestamp": 1}"#), "line 1: input_length is missing");
        let few = r#"{"timestamp": 1, "input_length": 900, "hash_ids": [1]}"#;
        assert!(json(few).contains("1 hash_id for 900 tokens, which fill 2 blocks of 512"));
        for (text, says) in [
            (
                r#"{"timestamp": -1e6, "input_length": 9, "hash_ids": [1]}"#,
                "the time -1000 s is not",
            ),
            (r#"{"timestamp": "1", "input_length": 9}"#, "timestamp: `\"1\"` is not a time in ms"),
            (r#"{"timestamp": 1, "input_length": -3}"#, "input_length: `-3` is not a number of"),
            (
                r#"{"timestamp": 1, "input_length": 9, "hash_ids": 1}"#,
                "hash_ids: `1` is not a list",
            ),
            (
                r#"{"timestamp": 1, "input_length": 9, "hash_ids": [-3]}"#,
                "an entry of hash_ids: `-3` is not a whole number",
            ),
            (r#"{"timestamp": 1,,"#, "it is not a JSON object (see column 17)"),
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
        // What was written before the trace began has no known size; a later write has another.
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
