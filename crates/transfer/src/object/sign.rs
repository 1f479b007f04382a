//! Signature Version 4 in a header: in an address it would stay in the logs of endpoints and proxies.
//! And the credentials in what an endpoint says.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use rusty_s3::Credentials;
use sha2::{Digest as _, Sha256};
use stormlp_core::printable::hex;
use url::{Position, Url};

/// The header of a body's hash. Hashing bodies would cost as much as moving them: TLS and checksums
/// protect them.
const HASH: (&str, &str) = ("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
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

/// A text of the endpoint's without the words that may be the user's credentials: one of them, or in an
/// encoding, or so long that it is a key, a token or a signature in whatever form.
pub(super) fn conceal(credentials: &Credentials, longest: usize, text: &str) -> String {
    let secrets = [Some(credentials.key()), Some(credentials.secret()), credentials.token()];
    let secrets = secrets.into_iter().flatten().filter(|secret| !secret.is_empty());
    let encoded = [STANDARD_NO_PAD, URL_SAFE_NO_PAD];
    let forms = secrets.flat_map(|secret| {
        let plain = [secret.to_string(), hex(secret.as_bytes())];
        encoded.iter().map(move |base| base.encode(secret)).chain(plain)
    });
    let forms: Vec<String> = forms.collect();
    let is_one = |word: &str| {
        forms.iter().any(|form| word.contains(form) || word.to_ascii_lowercase().contains(form))
    };
    let hides =
        |word: &&str| word.len() > longest || word.contains(['%', '&', '\\']) || is_one(word);
    let words = text.split_whitespace().map(|word| if hides(&word) { "***" } else { word });
    words.collect::<Vec<_>>().join(" ")
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
            let numbers: String = value.bytes().map(|byte| format!("&#{byte};")).collect();
            for form in [
                value.to_string(),
                format!("key={value},"),
                url.replace('%', "%25"),
                url,
                numbers,
                value.replace('&', "&amp;").replace('/', "&#x2F;"),
                value.replace('"', "\\\"").replace('/', "\\/"),
            ] {
                let told = conceal(&credentials, usize::MAX, &format!("before {form} after"));
                assert_eq!(told, "before *** after", "{form}");
            }
        }
        let short = Credentials::new("minio", "ad>min?");
        for form in ["YWQ+bWluPw==", "YWQ-bWluPw", "61643e6d696e3f", "61643E6D696E3F"] {
            let told = conceal(&short, usize::MAX, &format!("a {form}: b"));
            assert_eq!(told, "a *** b", "{form}");
        }
        let told = |text: &str| conceal(&credentials, 18, text);
        let base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, secret);
        assert_eq!(told(&format!("with {base64}: no")), "with *** no");
        assert_eq!(told(&format!("with {}", hex(secret.as_bytes()))), "with ***");
        assert_eq!(
            told("The specified bucket does not exist."),
            "The specified bucket does not exist."
        );
    }
}
