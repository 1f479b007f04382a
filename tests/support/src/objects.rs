//! An object store in memory for tests, which fails where a test wants it to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stormlp_core::verify::Verify;
use stormlp_transfer::object::{Client, Settings};
use stormlp_transfer::storage::StorageRouter;
use url::Url;

/// The bucket that exists.
const BUCKET: &str = "bucket";
/// The header of objects that stormlp put.
const MARK: &str = "x-amz-meta-stormlp";
/// The header of checksums.
const CHECKSUM: &str = "x-amz-checksum-crc64nvme";
/// Keys of a page of a list, as S3 has it.
const PAGE_KEYS: usize = 1000;

/// The fate of a request, instead of its reply.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An error document with this status and code.
    Refuse(u16, &'static str),
    /// The connection is closed without a reply.
    Hang,
    /// The right reply, of which so many bytes are missing at its end.
    Cut(usize),
    /// The right reply, with a wrong last byte.
    Corrupt,
    /// The right reply, so much later.
    Late(Duration),
    /// These bytes, and the end of the connection.
    Raw(Vec<u8>),
    /// The data is ignored, and the reply says that it was stored.
    Ignore,
    /// The object of this key is not deleted, and the reply says why.
    Keep(&'static str),
}

/// A fault for the next requests with a text in their first line.
struct Trap {
    wanted: String,
    fault: Fault,
    left: usize,
}

/// An upload that is neither completed nor aborted.
#[derive(Debug, Default)]
struct Pending {
    key: String,
    parts: BTreeMap<u16, Vec<u8>>,
    /// Whether its object is to have a checksum.
    checksummed: bool,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// The keys of objects, or of their uploads, that came with stormlp's mark.
    marked: BTreeSet<String>,
    /// The checksums of those that came with one.
    checksums: BTreeMap<String, String>,
    uploads: BTreeMap<String, Pending>,
    uploads_begun: u32,
    traps: Vec<Trap>,
    lines: Vec<String>,
    /// Requests for a range so far.
    ranges: usize,
    /// Requests that are being answered, and their maximum so far.
    at_once: (usize, usize),
}

/// The server; it serves until the process ends.
pub struct ObjectServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct Request {
    method: String,
    url: Url,
    range: Option<(usize, usize)>,
    /// Headers specific to S3, and the list of signed headers.
    amz: BTreeMap<String, String>,
    signed: Option<String>,
    body: Vec<u8>,
}

struct Reply {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
}

impl Default for ObjectServer {
    fn default() -> Self {
        Self::start(Arc::default(), None)
    }
}

impl ObjectServer {
    /// A server of these objects; one with a `target` redirects requests for objects there.
    fn start(state: Arc<Mutex<State>>, target: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&socket, &state, target));
            }
        });
        Self { address, state }
    }

    /// A gateway before this server: it lists its objects, and redirects requests for each to it.
    pub fn gateway(&self) -> Self {
        Self::start(Arc::clone(&self.state), Some(self.address))
    }

    /// Its address: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The variables with which a program finds it.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ACCESS_KEY_ID", "the-key".to_string()),
            ("AWS_SECRET_ACCESS_KEY", "the-secret".to_string()),
        ]
    }

    /// The variable of this name with which a program finds it.
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut variables = self.variables().into_iter();
        variables.find(|(variable, _)| *variable == name).map(|(_, value)| value)
    }

    /// Files, and the objects of this server.
    pub fn storage(&self) -> StorageRouter {
        let settings = Settings::of(&|name| self.variable(name)).unwrap();
        StorageRouter::with(Client::new(settings, Verify::default()).unwrap())
    }

    /// The fault for the next `times` requests with `wanted` in their first line.
    pub fn trap(&self, wanted: &str, times: usize, fault: Fault) {
        let trap = Trap { wanted: wanted.to_string(), fault, left: times };
        self.state.lock().unwrap().traps.push(trap);
    }

    /// Removes all traps.
    pub fn forgive(&self) {
        self.state.lock().unwrap().traps.clear();
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    /// The content of an object.
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.state.lock().unwrap().objects.get(key).cloned()
    }

    /// Puts an object there, as another program would.
    pub fn put(&self, key: &str, content: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.marked.remove(key);
        state.checksums.remove(key);
        state.objects.insert(key.to_string(), content.to_vec());
    }

    /// Removes an object.
    pub fn remove(&self, key: &str) {
        self.state.lock().unwrap().objects.remove(key);
    }

    /// Puts an object there that a killed run of stormlp's could have left.
    pub fn put_marked(&self, key: &str, content: &[u8]) {
        self.put(key, content);
        self.state.lock().unwrap().marked.insert(key.to_string());
    }

    /// Begins an upload and leaves it, as a killed run does.
    pub fn leave_upload(&self, key: &str) {
        begin(&mut self.state.lock().unwrap(), key);
    }

    /// The keys of the uploads that are neither completed nor aborted.
    pub fn pending(&self) -> Vec<String> {
        self.state.lock().unwrap().uploads.values().map(|one| one.key.clone()).collect()
    }

    /// How many requests so far asked for a range.
    pub fn ranges(&self) -> usize {
        self.state.lock().unwrap().ranges
    }

    /// The maximum number of requests answered at the same time.
    pub fn most_at_once(&self) -> usize {
        self.state.lock().unwrap().at_once.1
    }

    /// The first lines of the requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.state.lock().unwrap().lines.clone()
    }
}

fn serve(socket: &TcpStream, state: &Mutex<State>, target: Option<SocketAddr>) {
    let mut reader = BufReader::new(socket);
    while let Some(request) = receive(&mut reader) {
        let path = percent(request.url.path());
        let line = format!("{} {path}?{}", request.method, told_query(&request.url));
        let is_of_object = path[1..].split_once('/').is_some_and(|(_, key)| !key.is_empty());
        if let Some(target) = target.filter(|_| is_of_object) {
            let mut socket = socket;
            match socket.write_all(&redirect(target, &request)) {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let fault = {
            let mut state = state.lock().unwrap();
            state.lines.push(line.clone());
            state.ranges += usize::from(request.range.is_some());
            let (now, most) = state.at_once;
            state.at_once = (now + 1, most.max(now + 1));
            let trap = state.traps.iter_mut().find(|it| it.left > 0 && line.contains(&it.wanted));
            trap.map(|trap| {
                trap.left -= 1;
                trap.fault.clone()
            })
        };
        let mut bytes = match &fault {
            Some(Fault::Refuse(status, code)) => refuse(*status, code).bytes(&request.method),
            Some(Fault::Hang) => {
                state.lock().unwrap().at_once.0 -= 1;
                return;
            }
            Some(Fault::Raw(bytes)) => bytes.clone(),
            Some(Fault::Ignore) => ok("", Vec::new()).bytes(&request.method),
            Some(Fault::Keep(key)) => {
                let text = format!(
                    "<Error><Key>{key}</Key><Code>AccessDenied</Code>\
                     <Message>on purpose</Message></Error>"
                );
                document("DeleteResult", &text).bytes(&request.method)
            }
            None | Some(Fault::Cut(_) | Fault::Late(_) | Fault::Corrupt) => {
                answer(&mut state.lock().unwrap(), &request, &path).bytes(&request.method)
            }
        };
        if let Some(Fault::Late(pause)) = fault {
            thread::sleep(pause);
        }
        if let Some(Fault::Cut(missing)) = fault {
            bytes.truncate(bytes.len().saturating_sub(missing));
        }
        if let (Some(Fault::Corrupt), Some(last)) = (&fault, bytes.last_mut()) {
            *last ^= 1;
        }
        let mut socket = socket;
        state.lock().unwrap().at_once.0 -= 1;
        let ends = matches!(fault, Some(Fault::Cut(_) | Fault::Raw(_)));
        if socket.write_all(&bytes).is_err() || ends {
            return;
        }
    }
}

fn receive(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let (mut length, mut range, mut amz, mut signed) = (0, None, BTreeMap::new(), None);
    let mut asks = false;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "expect" => asks = true,
            "range" => {
                let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((first.parse().ok()?, last.parse().ok()?));
            }
            "authorization" => {
                let (_, names) = value.split_once("SignedHeaders=")?;
                signed = names.split(',').next().map(str::to_string);
            }
            name if name.starts_with("x-amz-") => {
                amz.insert(name.to_string(), value.to_string());
            }
            _ => {}
        }
    }
    // Only a gateway is asked, and it does not want the body.
    let mut body = vec![0; if asks { 0 } else { length }];
    reader.read_exact(&mut body).ok()?;
    let url = Url::parse(&format!("http://s3{target}")).ok()?;
    Some(Request { method, url, range, amz, signed, body })
}

/// The redirect of a request to the same object at `target`, with a query as gateways add it.
fn redirect(target: SocketAddr, request: &Request) -> Vec<u8> {
    let mut place = request.url.clone();
    place.query_pairs_mut().append_pair("pid", "gateway");
    let place = &place[url::Position::BeforePath..];
    let location = format!("Location: http://{target}{place}\r\n");
    let reply = Reply { status: "307 Temporary Redirect", headers: location, body: Vec::new() };
    reply.bytes(&request.method)
}

fn told_query(url: &Url) -> String {
    url.query_pairs().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn percent(text: &str) -> String {
    let query = format!("v={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(query.as_bytes()).map(|(_, value)| value.into_owned()).collect()
}

fn answer(state: &mut State, request: &Request, path: &str) -> Reply {
    let query: BTreeMap<String, String> = request.url.query_pairs().into_owned().collect();
    // As S3 has it, a header that is not signed is refused.
    let signs = |name: &str| {
        request.signed.as_ref().is_some_and(|names| names.split(';').any(|one| one == name))
    };
    if !signs("host") || !request.amz.keys().all(|name| signs(name)) {
        return refuse(403, "AccessDenied");
    }
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    if bucket != BUCKET {
        return refuse(404, "NoSuchBucket");
    }
    if request.amz.contains_key(MARK) {
        state.marked.insert(key.to_string());
    }
    let sent = request.amz.get(CHECKSUM).cloned();
    let is_part = request.method == "PUT";
    if is_part && sent.as_ref().is_some_and(|sent| *sent != checksum(&request.body)) {
        return refuse(400, "BadDigest");
    }
    let upload = query.get("uploadId");
    let asks = |name: &str| query.contains_key(name);
    match (request.method.as_str(), upload) {
        ("GET", _) if key.is_empty() && asks("uploads") => uploads(state, &query),
        ("GET", _) if key.is_empty() => list(state, &query),
        ("GET" | "HEAD", _) => {
            let asks = request.amz.contains_key("x-amz-checksum-mode") && request.range.is_none();
            let known = state.checksums.get(key).filter(|_| asks);
            with_checksum(get(state, key, request.range), known)
        }
        ("POST", None) if asks("delete") => delete(state, &request.body),
        ("POST", None) => {
            let id = begin(state, key);
            let checksummed = request.amz.contains_key("x-amz-checksum-algorithm");
            state.uploads.get_mut(&id).unwrap().checksummed = checksummed;
            document("InitiateMultipartUploadResult", &format!("<UploadId>{id}</UploadId>"))
        }
        ("PUT", Some(id)) => match state.uploads.get_mut(id) {
            None => refuse(404, "NoSuchUpload"),
            Some(pending) => {
                let number = query.get("partNumber").and_then(|text| text.parse().ok());
                pending.parts.insert(number.unwrap_or_default(), request.body.clone());
                put(&request.body, sent)
            }
        },
        ("POST", Some(id)) => complete(state, id, sent),
        ("DELETE", Some(id)) => match state.uploads.remove(id) {
            None => refuse(404, "NoSuchUpload"),
            Some(_) => Reply { status: "204 No Content", ..ok("", Vec::new()) },
        },
        ("PUT", None) => {
            state.objects.insert(key.to_string(), request.body.clone());
            state.checksums.remove(key);
            state.checksums.extend(sent.clone().map(|sent| (key.to_string(), sent)));
            put(&request.body, sent)
        }
        _ => refuse(405, "MethodNotAllowed"),
    }
}

/// Makes the object of an upload's parts, which is to have the checksum that was `sent`.
fn complete(state: &mut State, id: &str, sent: Option<String>) -> Reply {
    let Some(pending) = state.uploads.remove(id) else {
        return refuse(404, "NoSuchUpload");
    };
    let whole = pending.parts.into_values().collect::<Vec<_>>().concat();
    let known = checksum(&whole);
    if sent.is_some_and(|sent| sent != known) {
        return refuse(400, "BadDigest");
    }
    if pending.checksummed {
        state.checksums.insert(pending.key.clone(), known);
    }
    state.objects.insert(pending.key, whole);
    document(
        "CompleteMultipartUploadResult",
        "<Bucket>b</Bucket><Key>k</Key><ETag>e</ETag><Location>l</Location>",
    )
}

/// The reply to a body that came with a checksum, or without one.
fn put(body: &[u8], checksum: Option<String>) -> Reply {
    with_checksum(ok(&etag(body), Vec::new()), checksum.as_ref())
}

fn with_checksum(mut reply: Reply, known: Option<&String>) -> Reply {
    reply.headers.extend(known.map(|known| format!("{CHECKSUM}: {known}\r\n")));
    reply
}

/// The checksum of a body, as its header has it.
fn checksum(body: &[u8]) -> String {
    STANDARD.encode(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, body).to_be_bytes())
}

fn begin(state: &mut State, key: &str) -> String {
    state.uploads_begun += 1;
    let id = format!("u{}", state.uploads_begun);
    state.uploads.insert(id.clone(), Pending { key: key.to_string(), ..Pending::default() });
    id
}

fn get(state: &State, key: &str, range: Option<(usize, usize)>) -> Reply {
    let Some(content) = state.objects.get(key) else {
        return refuse(404, "NoSuchKey");
    };
    let tag = etag(content);
    let ok = |tag: &str, body: Vec<u8>| {
        let reply = ok(tag, body);
        let mark =
            if state.marked.contains(key) { format!("{MARK}: 1\r\n") } else { String::new() };
        Reply { headers: reply.headers + &mark, ..reply }
    };
    match range {
        None => ok(&tag, content.clone()),
        Some((first, _)) if first >= content.len() => refuse(416, "InvalidRange"),
        Some((first, last)) => {
            let last = last.min(content.len() - 1);
            let range = format!("Content-Range: bytes {first}-{last}/{}\r\n", content.len());
            let reply = ok(&tag, content[first..=last].to_vec());
            let headers = reply.headers.clone() + &range;
            Reply { status: "206 Partial Content", headers, ..reply }
        }
    }
}

fn list(state: &State, query: &BTreeMap<String, String>) -> Reply {
    let of = |name: &str| query.get(name).map_or("", String::as_str);
    let encoded = of("encoding-type") == "url";
    let url = |key: &str| if encoded { url(key) } else { key.replace('&', "&amp;") };
    let (prefix, delimiter, after) = (of("prefix"), of("delimiter"), of("continuation-token"));
    let most = of("max-keys").parse().unwrap_or(PAGE_KEYS).min(PAGE_KEYS);
    // The content of a page, by the name that the next page begins after.
    let mut entries: BTreeMap<String, String> = BTreeMap::new();
    for (key, content) in state.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        let folder = match delimiter {
            "" => None,
            _ => key[prefix.len()..].find(delimiter).map(|end| &key[..=prefix.len() + end]),
        };
        match folder {
            Some(folder) => {
                let text =
                    format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", url(folder));
                entries.insert(folder.to_string(), text);
            }
            None => {
                let text = format!(
                    "<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag>\
                     <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
                    url(key),
                    content.len(),
                    etag(content)
                );
                entries.insert(key.clone(), text);
            }
        }
    }
    let rest: Vec<_> = entries.into_iter().filter(|(name, _)| name.as_str() > after).collect();
    let mut text: String = rest.iter().take(most).map(|(_, text)| text.as_str()).collect();
    if encoded {
        text += "<EncodingType>url</EncodingType>";
    }
    if rest.len() > most {
        text += &format!("<NextContinuationToken>{}</NextContinuationToken>", rest[most - 1].0);
        text += "<IsTruncated>true</IsTruncated>";
    }
    document("ListBucketResult", &text)
}

fn uploads(state: &State, query: &BTreeMap<String, String>) -> Reply {
    let prefix = query.get("prefix").map_or("", String::as_str);
    let listed = state.uploads.iter().filter(|(_, one)| one.key.starts_with(prefix));
    let listed = listed.map(|(id, one)| {
        format!("<Upload><Key>{}</Key><UploadId>{id}</UploadId></Upload>", url(&one.key))
    });
    let listed = listed.collect::<String>() + "<EncodingType>url</EncodingType>";
    document("ListMultipartUploadsResult", &listed)
}

fn delete(state: &mut State, body: &[u8]) -> Reply {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut deleted = String::new();
    for rest in text.split("<Key>").skip(1) {
        let key = rest.split("</Key>").next().unwrap_or_default();
        deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
        state.objects.remove(&key.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"));
    }
    document("DeleteResult", &deleted)
}

fn url(key: &str) -> String {
    url::form_urlencoded::byte_serialize(key.as_bytes()).collect()
}

fn etag(content: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("\"{:016x}\"", content.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn document(name: &str, inner: &str) -> Reply {
    let text = format!(
        "<?xml version=\"1.0\"?><{name} xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</{name}>"
    );
    ok("", text.into_bytes())
}

fn ok(etag: &str, body: Vec<u8>) -> Reply {
    let headers = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
    Reply { status: "200 OK", headers, body }
}

fn refuse(status: u16, code: &str) -> Reply {
    let status = match status {
        400 => "400 Bad Request",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Method Not Allowed",
        416 => "416 Range Not Satisfiable",
        _ => "503 Slow Down",
    };
    let text = format!("<Error><Code>{code}</Code><Message>on purpose</Message></Error>");
    Reply { status, ..ok("", text.into_bytes()) }
}

impl Reply {
    fn bytes(&self, method: &str) -> Vec<u8> {
        let Self { status, headers, body } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: test\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        let body: &[u8] = if method == "HEAD" { &[] } else { body };
        [head.as_bytes(), body].concat()
    }
}
