//! The XML of replies.

use std::borrow::Cow;

/// The namespace of S3's documents.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A document as `parse` reads it.
pub(super) fn parsed<T, E: std::fmt::Display>(
    body: &[u8],
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the reply is not UTF-8".to_string())?;
    let text = with_namespace(text);
    parse(&text).map_err(|error| format!("the reply cannot be read: {error}"))
}

/// Whether it is a document of an error, as S3 sends one after the status 200 if it fails late.
pub(super) fn is_error(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(256)]);
    let root = start.split_once("?>").map_or(&*start, |(_, root)| root).trim_start();
    ["<Error>", "<Error "].iter().any(|tag| root.starts_with(tag))
}

/// The text of the first element of this name: only flat documents are read so.
pub(super) fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once('<')?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(inner.to_string(), |text, (from, to)| text.replace(from, to)))
}

/// The document with S3's namespace, which some endpoints leave out.
fn with_namespace(text: &str) -> Cow<'_, str> {
    let root = text.find("?>").map_or(0, |end| end + 2);
    let end = text[root..].find('>').map(|end| root + end);
    match end.filter(|end| !text[root..*end].contains("xmlns") && !text[root..*end].ends_with('/'))
    {
        None => text.into(),
        Some(end) => format!("{} xmlns=\"{NAMESPACE}\"{}", &text[..end], &text[end..]).into(),
    }
}
