//! The client against a server that fails on purpose.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use stormlp_core::verify::Verify;

use super::settings::Sources;
use super::wire::{Connection, FIRST_ANSWER};
use super::{Client, Get, ObjectFacts, SessionPool, Settings, Upload};

/// Answers each request with the next of `replies`, and then closes. Requests arrive at the
/// receiver as they came.
pub(super) fn server(replies: Vec<Vec<u8>>) -> (Arc<Client>, Receiver<String>) {
    server_of(replies, Verify::default())
}

/// The same for a client that works as `verify` says.
fn server_of(replies: Vec<Vec<u8>>, verify: Verify) -> (Arc<Client>, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = channel();
    thread::spawn(move || {
        let mut replies = replies.into_iter().peekable();
        while replies.peek().is_some() {
            let (mut socket, _) = listener.accept().unwrap();
            while let Some(request) = receive(&mut socket) {
                let Some(reply) = replies.next() else { return };
                let _ = sender.send(request);
                if socket.write_all(&reply).is_err() || reply.is_empty() {
                    break;
                }
                if String::from_utf8_lossy(&reply).contains("Connection: close") {
                    break;
                }
            }
        }
    });
    (client_of(&format!("http://{address}"), verify), requests)
}

/// A request with its body; `None` at the end of the connection.
fn receive(socket: &mut std::net::TcpStream) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.contains("\r\nExpect: 100-continue\r\n") && text.ends_with("\r\n\r\n") {
            return Some(text);
        }
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        match socket.read(&mut piece).ok()? {
            0 => return None,
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

pub(super) fn client(endpoint: &str) -> Arc<Client> {
    client_of(endpoint, Verify::default())
}

fn client_of(endpoint: &str, verify: Verify) -> Arc<Client> {
    let settings = settings(&[
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "the-key"),
        ("AWS_SECRET_ACCESS_KEY", "the-secret"),
    ]);
    Client::new(settings, verify).unwrap()
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    try_settings(variables, "").unwrap()
}

fn try_settings(
    variables: &[(&str, &str)],
    file: &str,
) -> Result<Settings, crate::error::TransferError> {
    let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
    Settings::from(&Sources {
        variable: &|name| find(name).map(|(_, value)| (*value).to_string()),
        file: &|_| Some(file.to_string()),
    })
}

pub(super) fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nServer: t\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code><Message>so the-secret it is</Message></Error>");
    reply(status, "", body.as_bytes())
}

/// The error of a GET of bytes 4 to 7 that is answered so, and the retries before it.
pub(super) fn refused(replies: Vec<Vec<u8>>) -> (String, String, u64) {
    let (client, _requests) = server(replies);
    let mut session = client.session("bucket").unwrap();
    let error = session.get(from_four("a key", &one()), &mut [0; 4]).unwrap_err();
    (error.to_string(), error.remedy().to_string(), session.evidence().retries)
}

/// The object that GETs are for.
fn one() -> ObjectFacts {
    ObjectFacts { etag: Some("\"one\"".to_string()), ..ObjectFacts::of_size(8) }
}

/// A GET of it from byte 4.
fn from_four<'a>(key: &'a str, of: &'a ObjectFacts) -> Get<'a> {
    Get::of(key, 4, of)
}

const RANGE: &str = "Content-Range: bytes 4-7/8\r\nETag: \"one\"\r\n";

#[test]
fn a_busy_endpoint_is_asked_again_and_the_retries_count() {
    let busy = error("503 Slow Down", "SlowDown");
    let lost = Vec::new();
    let right = reply("206 Partial Content", RANGE, b"data");
    let (client, requests) = server(vec![busy, lost, right]);
    let mut session = client.session("bucket").unwrap();
    let mut target = [0; 4];
    session.get(from_four("a +%é", &one()), &mut target).unwrap();
    assert_eq!(&target, b"data");
    let seen = session.evidence();
    assert_eq!((seen.requests, seen.retries, seen.connections), (3, 2, 2));
    assert_eq!(seen.retries_after_loss, 1);
    assert_eq!((seen.server.as_deref(), seen.http.as_deref()), (Some("t"), Some("HTTP/1.1")));
    assert!(seen.received_bytes > 100 && seen.sent_bytes > 300);
    let request = requests.recv().unwrap();
    // The address grants no access.
    assert!(request.starts_with("GET /bucket/a%20%2B%25%C3%A9 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("Authorization: AWS4-HMAC-SHA256 Credential=the-key/"), "{request}");
    assert!(request.contains("Range: bytes=4-7\r\n") && !request.contains("the-secret"));
}

#[test]
fn a_storm_of_refusals_ends() {
    let storm = vec![error("503 Slow Down", "SlowDown"); 6];
    let (text, remedy, retries) = refused(storm);
    assert!(text.starts_with("GET s3://bucket/a key at byte 4: the endpoint answered 503"));
    assert!(text.contains("after 5 retries") && remedy.contains("--threads"), "{text}");
    assert_eq!(retries, 5);
}

#[test]
fn bodies_that_cannot_be_right_end_the_run_with_key_and_offset() {
    let cases: [(Vec<u8>, &str); 8] = [
        (reply("206 P", RANGE, b"da"), "the body has 2 bytes, not 4"),
        (reply("206 P", RANGE, b"data and more"), "the body has 13 bytes, not 4"),
        (reply("206 P", "Content-Range: bytes 0-3/8\r\n", b"data"), "bytes 0-3/8, not bytes 4-7"),
        (reply("200 OK", "", b"data"), "status 200 and no Content-Range"),
        (b"HTTP/1.1 206 P\r\nContent-Range: bytes 4-7/8\r\n\r\ndata".into(), "no Content-Length"),
        (
            reply("206 P", "Content-Range: bytes 4-7/8\r\nETag: \"two\"\r\n", b"data"),
            "another object",
        ),
        (reply("206 P", "Content-Range: bytes 4-7/9\r\n", b"data"), "it has 9 bytes, not 8"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), "not HTTP/1"),
    ];
    for (bytes, expected) in cases {
        let (text, remedy, retries) = refused(vec![bytes]);
        assert!(text.starts_with("GET s3://bucket/a key at byte 4: "), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!remedy.is_empty() && retries == 0);
    }
}

#[test]
fn a_body_that_breaks_off_is_asked_for_again_until_it_ends_the_run() {
    let head = "HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 4-7/8\r\nConnection: close\r\n";
    let (text, remedy, retries) = refused(vec![format!("{head}\r\nda").into_bytes(); 6]);
    assert!(text.starts_with("GET s3://bucket/a key at byte 4: "), "{text}");
    assert!(text.contains("ended after 2 of 4 bytes, after 5 retries"), "{text}");
    assert!(!remedy.is_empty() && retries == 5, "{retries}");
}

#[test]
fn refusals_are_told_apart_and_repeat_no_secret() {
    let elsewhere = reply("301 Moved", "Location: http://other/bucket?X-Amz-Signature=1\r\n", b"");
    let cases = [
        (error("403 Forbidden", "AccessDenied"), "403 AccessDenied", "permission"),
        (error("403 Forbidden", "RequestTimeTooSkewed"), "RequestTimeTooSkewed", "clock"),
        (error("400 Bad", "ExpiredToken"), "ExpiredToken", "AWS_SESSION_TOKEN"),
        (error("404 No", "NoSuchKey"), "404 NoSuchKey", "correct the name"),
        (error("404 No", "NoSuchBucket"), "404 NoSuchBucket", "create the bucket"),
        (elsewhere, "leads to http://other/bucket;", "AWS_REGION"),
    ];
    for (bytes, expected, advice) in cases {
        let (text, remedy, retries) = refused(vec![bytes]);
        assert!(text.contains(expected) && remedy.contains(advice), "{text}: {remedy}");
        assert!(!text.contains("the-secret") && !text.contains("Signature"), "{text}");
        assert_eq!(retries, 0);
    }
    let (client, _requests) =
        server(vec![reply("404 No", "", b""), reply("403 Forbidden", "", b"")]);
    let mut session = client.session("bucket").unwrap();
    assert_eq!(session.head("none").unwrap(), None);
    assert!(session.head("secret").unwrap_err().to_string().contains("403"));
}

#[test]
fn a_whole_object_is_asked_for_without_a_range() {
    let (client, requests) = server(vec![
        reply("200 OK", "ETag: \"one\"\r\n", b"contents"),
        reply("200 OK", "", b"longer one"),
    ]);
    let mut session = client.session("bucket").unwrap();
    let mut target = [0; 8];
    session.get(Get::of("k", 0, &one()), &mut target).unwrap();
    assert_eq!(&target, b"contents");
    assert!(!requests.recv().unwrap().contains("Range"));
    let first_byte = session.evidence().first_byte.unwrap();
    assert_eq!((first_byte.count, first_byte.unit.as_str()), (1, "ns"));
    let error = session.get(Get::of("k", 0, &one()), &mut target).unwrap_err();
    assert!(error.to_string().contains("10 bytes, not 8"), "{error}");
    session.measure_from(Instant::now() + Duration::from_secs(3600));
    assert_eq!(session.evidence().first_byte, None);
}

#[test]
fn checksums_are_compared_where_a_reply_has_one_of_the_whole() {
    let told = |headers: &str, body: &[u8]| {
        let (client, requests) = server_of(vec![reply("200 OK", headers, body)], Verify::Crc);
        let mut session = client.session("bucket").unwrap();
        let whole = ObjectFacts::of_size(9);
        let got = session.get(Get::of("k", 0, &whole), &mut [0; 9]);
        let request = requests.recv().unwrap();
        assert!(request.contains("x-amz-checksum-mode: ENABLED\r\n"), "{request}");
        assert!(request.contains("SignedHeaders=host;x-amz-checksum-mode;x-amz-"), "{request}");
        let found = session.evidence().checksums.unwrap();
        (got.map_err(|error| error.to_string()), found.checked_bytes, found.responses_unverified)
    };
    for right in
        ["x-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n", "x-amz-checksum-crc32c: 4waSgw==\r\n"]
    {
        assert_eq!(told(right, b"123456789"), (Ok(None), 9, 0));
        let (got, checked, without) = told(right, b"123456780");
        let error = got.unwrap_err();
        assert!(error.starts_with("GET s3://bucket/k at byte 0: its CRC"), "{error}");
        assert_eq!((checked, without), (0, 0));
    }
    for none in ["", "x-amz-checksum-crc32c: 4waSgw==-3\r\n"] {
        assert_eq!(told(none, b"123456789"), (Ok(None), 0, 1), "{none}");
    }
    // Whether a checksum covers the range is not known.
    let range = format!("{RANGE}x-amz-checksum-crc32c: AAAAAA==\r\n");
    let replies = vec![reply("206 P", &range, b"data")];
    let (client, _requests) = server_of(replies, Verify::Crc);
    let mut session = client.session("bucket").unwrap();
    session.get(from_four("k", &one()), &mut [0; 4]).unwrap();
    assert_eq!(session.evidence().checksums.unwrap().responses_unverified, 1);
}

#[test]
fn what_is_put_has_a_checksum_that_the_endpoint_may_repeat() {
    for (headers, expected) in [
        ("", Ok((0, 1))),
        ("x-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n", Ok((9, 0))),
        ("x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n", Err("not the same bytes")),
    ] {
        let replies = vec![reply("200 OK", headers, b"")];
        let (client, requests) = server_of(replies, Verify::Crc);
        let mut session = client.session("bucket").unwrap();
        let put = session.put("k", b"123456789");
        let request = requests.recv().unwrap();
        assert!(request.contains("x-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n"), "{request}");
        let found = session.evidence().checksums.unwrap();
        match expected {
            Ok(counts) => assert_eq!((found.checked_bytes, found.responses_unverified), counts),
            Err(what) => assert!(put.unwrap_err().to_string().contains(what)),
        }
    }
}

#[test]
fn with_verify_none_another_etag_is_let_pass() {
    let replies = vec![reply("206 P", "Content-Range: bytes 4-7/8\r\nETag: \"two\"\r\n", b"data")];
    let (client, _requests) = server_of(replies, Verify::None);
    let mut session = client.session("bucket").unwrap();
    session.get(from_four("k", &one()), &mut [0; 4]).unwrap();
    assert_eq!(session.evidence().checksums, None);
}

#[test]
fn sessions_go_to_the_endpoint_that_has_the_fewest() {
    let client = client("http://127.0.0.1:1, http://127.0.0.2:2");
    let at = |session: &super::Session| session.evidence().endpoint;
    let one = client.session("bucket").unwrap();
    let other = client.session("bucket").unwrap();
    assert_eq!([at(&one), at(&other)], ["http://127.0.0.1:1", "http://127.0.0.2:2"]);
    drop(other);
    assert_eq!(at(&client.session("bucket").unwrap()), "http://127.0.0.2:2");
    let both = one.evidence().plus(&client.session("bucket").unwrap().evidence());
    assert_eq!(both.endpoint, "http://127.0.0.1:1, http://127.0.0.2:2");
    assert_eq!(both.clone().plus(&one.evidence()).endpoint, both.endpoint);
    let wrong = try_settings(&[("S3_ENDPOINT_URIS", "http://a,ftp://b")], "").unwrap_err();
    assert!(wrong.to_string().contains("neither http"), "{wrong}");
}

#[test]
fn an_endpoint_that_is_down_is_reported_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Instant::now();
    let mut session = client(&format!("http://{closed}")).session("bucket").unwrap();
    let error = session.head("key").unwrap_err();
    assert!(error.to_string().contains(&format!("http://{closed}: Connection refused")), "{error}");
    assert!(error.remedy().contains("AWS_ENDPOINT_URL"));
    assert_eq!(session.evidence().retries, 0);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_endpoint_that_says_nothing_is_reported_soon() {
    // No program accepts, but the kernel does.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let begun = Instant::now();
    let mut session = client(&endpoint).session("bucket").unwrap();
    let error = session.head("key").unwrap_err();
    assert!(error.to_string().contains(&format!("{endpoint}: no answer within 5 s")), "{error}");
    assert!(error.is_failure() && error.remedy().contains("AWS_ENDPOINT_URL"));
    assert_eq!(session.evidence().retries, 0);
    assert!(begun.elapsed() < Duration::from_secs(40));
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_no_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            receive(&mut socket).unwrap();
            socket.write_all(&reply("200 OK", "", b"")).unwrap();
        }
    });
    let mut session = client(&endpoint).session("bucket").unwrap();
    session.head("key").unwrap();
    thread::sleep(Duration::from_millis(1200));
    session.head("key").unwrap();
    let seen = session.evidence();
    assert_eq!((seen.requests, seen.retries, seen.connections), (2, 0, 2));
}

/// A certificate of 127.0.0.1 that is self-signed, and its key; of this test alone.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/object/test_endpoint.pem");

#[test]
fn an_idle_connection_with_tls_is_open_until_the_endpoint_ends_it() {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [listener.local_addr().unwrap()];
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_file(CERTIFICATE).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let (end, ends) = channel();
    let (ended, is_ended) = channel();
    thread::spawn(move || {
        // The last is cut off without a word.
        for says_so in [true, false] {
            let (socket, _) = listener.accept().unwrap();
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, socket);
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(&reply("200 OK", "", b"")).unwrap();
            // TLS has something to say, which is not read before the next request.
            stream.conn.refresh_traffic_keys().unwrap();
            stream.flush().unwrap();
            ends.recv().unwrap();
            if says_so {
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
            drop(stream);
            ended.send(()).unwrap();
        }
    });
    let trusted = super::tls::config(Some(CERTIFICATE.as_ref())).unwrap();
    for _ in 0..2 {
        let tls = Some((&trusted, "127.0.0.1"));
        let mut open = Connection::open(&addresses, tls, FIRST_ANSWER).unwrap();
        open.exchange(b"HEAD / HTTP/1.1\r\n\r\n", b"", false).unwrap();
        thread::sleep(Duration::from_millis(1100));
        let open = open.still_open().expect("the endpoint has not closed");
        end.send(()).unwrap();
        is_ended.recv().unwrap();
        // Over the loopback the bytes have arrived.
        assert!(open.still_open().is_none());
    }
}

#[test]
fn an_error_that_comes_after_the_status_is_a_refusal() {
    let late = |code: &str| {
        let text = format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>");
        reply("200 OK", "", text.as_bytes())
    };
    let ask = |replies: Vec<Vec<u8>>| {
        let (client, _requests) = server(replies);
        let mut session = client.session("bucket").unwrap();
        let bucket = session.bucket.clone();
        let action = rusty_s3::actions::GetObject::new(&bucket, None, "k");
        let request = session.request(&action, "complete upload of", "k", None);
        let done = session.document(&request);
        let seen = session.evidence();
        let passing = (seen.retries, seen.retries_after_loss, seen.connections);
        (done.map(drop).map_err(|error| error.to_string()), passing)
    };
    let (done, passing) = ask(vec![late("InternalError"), reply("200 OK", "", b"<Done/>")]);
    assert_eq!((done, passing), (Ok(()), (1, 0, 1)));
    let (done, (retries, ..)) = ask(vec![late("SlowDown"); 6]);
    let error = done.unwrap_err();
    assert!(error.contains("answered 503 SlowDown, after 5 retries"), "{error}");
    assert_eq!(retries, 5);
    let (done, (retries, ..)) = ask(vec![late("InvalidPart")]);
    assert!(done.unwrap_err().contains("answered 400 InvalidPart"));
    assert_eq!(retries, 0);
}

#[test]
fn an_endpoint_that_finds_no_uploads_has_none() {
    let server = stormlp_test_support::ObjectServer::default();
    let mut session = client_of(&server.endpoint(), Verify::default()).session("bucket").unwrap();
    let refuse = |code| server.trap("uploads=", 1, stormlp_test_support::Fault::Refuse(404, code));
    refuse("NoSuchUpload");
    assert_eq!(session.uploads("p/").unwrap(), []);
    refuse("NoSuchBucket");
    assert!(session.uploads("p/").unwrap_err().to_string().contains("NoSuchBucket"));
}

/// A page of a list.
fn page(keys: &[String], next: Option<&str>) -> Vec<u8> {
    let contents: String = keys
        .iter()
        .map(|key| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>"))
        .collect();
    let next = match next {
        Some(token) => format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        ),
        None => "<IsTruncated>false</IsTruncated>".to_string(),
    };
    let body = format!(
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{contents}{next}\
         </ListBucketResult>"
    );
    reply("200 OK", "", body.as_bytes())
}

#[test]
fn lists_have_pages_and_hostile_ones_are_refused() {
    let keys: Vec<String> = (1000..2500).map(|n| format!("p/{n}")).collect();
    let (client, requests) =
        server(vec![page(&keys[..1000], Some("t")), page(&keys[1000..], None)]);
    let all = client.session("bucket").unwrap().list("p/").unwrap();
    assert!(all.iter().map(|one| &one.key).eq(&keys));
    assert!(requests.iter().take(2).last().unwrap().contains("continuation-token=t"));
    let bomb = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let bomb = reply("200 OK", "", bomb.as_bytes());
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n".to_vec();
    let other = page(&["elsewhere".to_string()], None);
    let circle = vec![page(&[], Some("t")); 1_001];
    let again = vec![page(&keys[..2], Some("t")), page(&keys[..2], Some("u"))];
    let cycle =
        vec![page(&keys[..2], Some("t")), page(&keys[2..3], Some("u")), page(&keys[..1], None)];
    let twice = vec![page(&[keys[0].clone(), keys[0].clone()], None)];
    let empty = (0..1_001).map(|number| page(&[], Some(&number.to_string()))).collect();
    for (replies, expected) in [
        (vec![bomb], ""),
        (vec![endless], ""),
        (vec![other], "other objects"),
        (circle, "the list has no end: 0 names, and 1001 pages without any"),
        (again, "the list is not in order: p/1000 after p/1001"),
        (cycle, "the list is not in order: p/1000 after p/1002"),
        (twice, "the list is not in order: p/1000 after p/1000"),
        (empty, "the list has no end: 0 names, and 1001 pages without any"),
    ] {
        let (client, _requests) = server(replies);
        let error = client.session("bucket").unwrap().list("p/").unwrap_err().to_string();
        assert!(error.starts_with("list s3://bucket/p/: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn an_upload_that_is_cut_off_is_aborted() {
    let begun = "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <UploadId>one</UploadId></InitiateMultipartUploadResult>";
    let replies = vec![
        reply("200 OK", "", begun.as_bytes()),
        reply("200 OK", "ETag: \"b\"\r\n", b""),
        reply("204 No Content", "", b""),
    ];
    // Each session has a separate connection.
    let replies = replies.into_iter().map(|reply| {
        let text = String::from_utf8(reply).unwrap();
        text.replacen("\r\n", "\r\nConnection: close\r\n", 1).into_bytes()
    });
    let (client, requests) = server(replies.collect());
    let upload = Upload::of(&SessionPool::of(Arc::clone(&client)), "bucket", "key");
    let mut session = client.session("bucket").unwrap();
    upload.part(&mut session, super::PART_BYTES, b"part 2").unwrap();
    let error = upload.complete().unwrap_err().to_string();
    assert!(error.contains("part 1 was not uploaded"), "{error}");
    drop(upload);
    let last = requests.iter().take(3).last().unwrap();
    assert!(last.starts_with("DELETE /bucket/key?") && last.contains("uploadId=one"), "{last}");
}

#[test]
fn documents_without_a_namespace_are_read_and_kept_objects_named() {
    let gone = reply("200 OK", "", b"<?xml version=\"1.0\"?><DeleteResult></DeleteResult>");
    let kept = "<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message>\
                </Error></DeleteResult>";
    let (client, requests) = server(vec![gone, reply("200 OK", "", kept.as_bytes())]);
    let mut session = client.session("bucket").unwrap();
    session.delete(&["a & b".to_string()]).unwrap();
    assert!(requests.recv().unwrap().contains("<Key>a &amp; b</Key>"));
    let error = session.delete(&["k".to_string()]).unwrap_err().to_string();
    assert!(error.contains("s3://bucket/k: it was kept: AccessDenied"), "{error}");
}

#[test]
fn settings_are_found_where_aws_tools_have_them() {
    let file = "[default]\nregion = eu-1\nendpoint_url = http://h:1\naws_access_key_id = k\n\
                aws_secret_access_key = s3cret\ns3 =\n  addressing_style = virtual\n";
    let found = try_settings(&[("HOME", "/home/u")], file).unwrap();
    assert_eq!(format!("{found:?}"), "http://h:1 (virtual addressing)");
    let variable = [("HOME", "/home/u"), ("AWS_ENDPOINT_URL", "https://[::1]")];
    let found = try_settings(&variable, file).unwrap();
    assert_eq!(super::settings::host(&found.endpoints[0]), "https://[::1]:443");
    let lacking = |variables: &[(&str, &str)]| try_settings(variables, "").unwrap_err().to_string();
    assert!(lacking(&[]).contains("no endpoint"));
    assert!(lacking(&[("AWS_ENDPOINT_URL", "http://h")]).contains("no credentials"));
    let password = lacking(&[("AWS_ENDPOINT_URL", "http://u:pw@h")]);
    assert!(password.contains("user name") && !password.contains("pw@"), "{password}");
}

#[test]
fn files_of_any_encoding_are_read_and_blanks_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    // With a byte order mark, and a comment in Latin-1.
    let text = b"\xef\xbb\xbf[default]\naws_access_key_id = k\n# Schl\xfcssel\n\
                 aws_secret_access_key = s3cret\n";
    std::fs::write(&file, text).unwrap();
    let with = |more: (&str, &str)| {
        let place = file.display().to_string();
        let own =
            [("AWS_ENDPOINT_URL", "http://h"), ("AWS_SHARED_CREDENTIALS_FILE", &*place), more];
        let find = |name: &str| own.iter().find(|(variable, _)| *variable == name);
        Settings::of(&|name| find(name).map(|(_, value)| (*value).to_string()))
    };
    let found = with(("AWS_REGION", "eu-1\n")).unwrap();
    assert_eq!((found.credentials.key(), &*found.region), ("k", "eu-1"));
    let refused = with(("AWS_REGION", "eu 1")).unwrap_err().to_string();
    assert!(refused.contains("region, access key or token has a blank"), "{refused}");
    let keys = [
        ("AWS_ENDPOINT_URL", "http://h"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_SESSION_TOKEN", "a\r\nx-amz-acl: public-read"),
    ];
    let refused = try_settings(&keys, "").unwrap_err().to_string();
    assert!(refused.contains("has a blank") && !refused.contains("acl"), "{refused}");
}

proptest::proptest! {
    #[test]
    fn whatever_an_endpoint_sends_is_read_or_refused(
        head in "HTTP/1.[01] [1-5][0-9]{2} [A-Za-z ]{0,4}\r\n(ETag: [ -~]{0,8}\r\n|Content-Range: bytes [0-9]-[0-9]/[0-9*]\r\n|Location: [ -~]{0,8}\r\n|x-amz-checksum-crc32c: [ -~]{0,12}\r\n){0,4}\r\n",
        body in "(<[/?]?[A-Za-z]{0,24}( xmlns)?>|[ -~é]{0,6}|&amp;|<Upload>|<Key>|</Key>|%[0-9a-f]{2}){0,24}",
    ) {
        super::read_reply(format!("{head}{body}").as_bytes());
    }
}
