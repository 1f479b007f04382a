//! Signature Version 4 in a header: in an address it would stay in the logs of endpoints and proxies.
//! And the credentials in what an endpoint says.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chrono::{DateTime, Utc};
use rusty_s3::Credentials;
use sha2::{Digest as _, Sha256};
use url::{Position, Url};

/// The header of a body's hash. Hashing bodies would cost as much as moving them: TLS and checksums
/// protect them.
const HASH: (&str, &str) = ("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
/// Bytes of a text of the endpoint in which credentials are looked for: only the first of them are told.
const LOOKED_AT: usize = 16 << 10;
/// Encodings within encodings that are looked into.
const LAYERS: usize = 4;
/// Digits of a signature.
const SIGNATURE_DIGITS: usize = 64;

/// The header lines that sign a request sent `now` with these `lines`, of which those of S3 count.
pub(super) fn signed(
    (method, url, lines): (&str, &Url, &str),
    (credentials, region): (&Credentials, &str),
    now: DateTime<Utc>,
) -> String {
    let stamp = now.format("%Y%m%dT%H%M%SZ").to_string();
    let day = &stamp[..8];
    let mut own = format!("{}: {}\r\nx-amz-date: {stamp}\r\n", HASH.0, HASH.1);
    if let Some(token) = credentials.token() {
        let _ = write!(own, "x-amz-security-token: {token}\r\n");
    }
    let headers = lines.lines().chain(own.lines()).filter_map(|line| line.split_once(": "));
    let mut headers: BTreeMap<_, _> =
        headers.filter(|(name, _)| name.starts_with("x-amz-")).collect();
    headers.insert("host", &url[Position::BeforeHost..Position::AfterPort]);
    let names = headers.keys().copied().collect::<Vec<_>>().join(";");
    let mut query: Vec<&str> = url.query().into_iter().flat_map(|all| all.split('&')).collect();
    query.sort_unstable();
    let mut text = format!("{method}\n{}\n{}\n", url.path(), query.join("&"));
    for (name, value) in &headers {
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{names}\n{}", HASH.1);
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(&Sha256::digest(text)));
    let secret = format!("AWS4{}", credentials.secret()).into_bytes();
    let key = scope.split('/').fold(secret, |key, part| hmac(&key, part).to_vec());
    format!(
        "{own}Authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, \
         Signature={}\r\n",
        credentials.key(),
        hex(&hmac(&key, &text))
    )
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let mut block = [0; 64];
    match key.len() {
        0..=64 => block[..key.len()].copy_from_slice(key),
        _ => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text);
    let outer = Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c));
    outer.chain_update(inner.finalize()).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A text of the endpoint's without signatures and the user's credentials, however it encodes them.
pub(super) fn conceal(credentials: &Credentials, text: &str) -> String {
    let secrets = [Some(credentials.key()), Some(credentials.secret()), credentials.token()];
    let mut text: String = text.chars().take(LOOKED_AT).collect();
    for _ in 0..LAYERS {
        for secret in secrets.into_iter().flatten().filter(|secret| !secret.is_empty()) {
            let (digits, base64) = (hex(secret.as_bytes()), STANDARD_NO_PAD.encode(secret));
            for form in [secret, &base64, &digits, &digits.to_uppercase()] {
                text = text.replace(form, "***");
            }
        }
        text = decoded(&text);
    }
    let runs = text.split(|c: char| !c.is_ascii_hexdigit()).map(str::to_string);
    let signatures: Vec<String> = runs.filter(|run| run.len() == SIGNATURE_DIGITS).collect();
    signatures.iter().fold(text, |text, signature| text.replace(signature, "***"))
}

/// A text without the escapes of URLs, XML and JSON.
fn decoded(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let (found, length) = escape(rest).unwrap_or((first, first.len_utf8()));
        plain.push(found);
        rest = &rest[length..];
    }
    plain
}

/// The character of the escape that a text begins with, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let number = |digits: &str, radix| char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    if let Some(rest) = text.strip_prefix('%') {
        return Some((number(rest.get(..2)?, 16).filter(char::is_ascii)?, 3));
    }
    if let Some(rest) = text.strip_prefix('\\') {
        return match rest.strip_prefix('u') {
            Some(rest) => Some((number(rest.get(..4)?, 16)?, 6)),
            None => rest.chars().next().filter(|next| "/\"\\".contains(*next)).map(|next| (next, 2)),
        };
    }
    let end = text.strip_prefix('&')?.bytes().take(10).position(|byte| byte == b';')?;
    let found = match &text[1..=end] {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        entity => match entity.strip_prefix("#x").or(entity.strip_prefix("#X")) {
            Some(digits) => number(digits, 16)?,
            None => number(entity.strip_prefix('#')?, 10)?,
        },
    };
    Some((found, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone as _;

    /// The key and the day of the examples in S3's documentation.
    fn example() -> (Credentials, DateTime<Utc>) {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let day = Utc.with_ymd_and_hms(2013, 5, 24, 0, 0, 0).unwrap();
        (Credentials::new("AKIAIOSFODNN7EXAMPLE", secret), day)
    }

    #[test]
    fn keyed_hashes_are_those_of_rfc_4231() {
        let told = |key: &[u8], text: &str| hex(&hmac(key, text));
        assert!(told(b"Jefe", "what do ya want for nothing?").starts_with("5bdcc146bf60754e6a04"));
        let long = "Test Using Larger Than Block-Size Key - Hash Key First";
        assert!(told(&[0xaa; 131], long).starts_with("60e431591ee0b67f0d8a26aacbf5b77f"));
    }

    #[test]
    fn a_request_is_signed_with_the_headers_of_s3() {
        let (credentials, now) = example();
        let url: Url = "https://examplebucket.s3.amazonaws.com/test.txt?b=2&a=1".parse().unwrap();
        let lines = "Range: bytes=0-9\r\nx-amz-meta-stormlp: 1\r\n";
        let text = signed(("GET", &url, lines), (&credentials, "us-east-1"), now);
        let names = "host;x-amz-content-sha256;x-amz-date;x-amz-meta-stormlp";
        let begins = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20130524T000000Z\r\n\
                      Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/\
                      us-east-1/s3/aws4_request, SignedHeaders=";
        let signature = "619bf0b254c8dac53eec1461d1be9a6a77cbba70039112b01335c5ea8290beb3";
        assert_eq!(text, format!("{begins}{names}, Signature={signature}\r\n"));
        assert!(!text.contains("wJalr"), "{text}");
        // The other order of the query is the same request; another header is another.
        let same: Url = "https://examplebucket.s3.amazonaws.com/test.txt?a=1&b=2".parse().unwrap();
        let again = signed(("GET", &same, lines), (&credentials, "us-east-1"), now);
        assert_eq!(text, again);
        let other = lines.replace(": 1", ": 2");
        assert_ne!(text, signed(("GET", &url, &other), (&credentials, "us-east-1"), now));
        let with_token = Credentials::new_with_token("k", "s", "a-token");
        let text = signed(("GET", &url, lines), (&with_token, "us-east-1"), now);
        assert!(text.contains("x-amz-security-token: a-token\r\n"), "{text}");
        assert!(text.contains("x-amz-meta-stormlp;x-amz-security-token, Signature="), "{text}");
    }

    #[test]
    fn no_encoding_of_a_credential_is_repeated() {
        let secret = "wJ/alr+UtnFEMI&=";
        let credentials = Credentials::new_with_token("AKIA/KEY", secret, "to\"ken/==");
        for value in ["AKIA/KEY", secret, "to\"ken/=="] {
            let url: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
            let xml = value.replace('&', "&amp;").replace('"', "&quot;");
            let numbers: String = value.bytes().map(|byte| format!("&#{byte};")).collect();
            let hex_numbers: String = value.bytes().map(|byte| format!("&#x{byte:x};")).collect();
            let json = value.replace('"', "\\\"").replace('/', "\\/").replace('&', "\\u0026");
            for form in [
                value.to_string(),
                url.clone(),
                url.replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
                url.replace('%', "%25"),
                xml.replace('/', "&#x2F;"),
                xml.replace('&', "&amp;"),
                numbers,
                hex_numbers,
                json,
                STANDARD_NO_PAD.encode(value),
                hex(value.as_bytes()),
                hex(value.as_bytes()).to_uppercase(),
            ] {
                let told = conceal(&credentials, &format!("before {form} after"));
                assert_eq!(told.replace("***==", "***"), "before *** after", "{form}");
            }
        }
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        let told = conceal(&credentials, &format!("Signature={signature}, ETag abcdef"));
        assert_eq!(told, "Signature=***, ETag abcdef");
        assert_eq!(conceal(&credentials, "100 % of a&b; is \\n \u{e9}"), "100 % of a&b; is \\n \u{e9}");
    }
}
