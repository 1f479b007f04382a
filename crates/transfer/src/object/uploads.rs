//! Uploads that were begun and neither completed nor aborted: a killed run leaves them behind.

use std::time::Instant;

use rusty_s3::S3Action as _;
use rusty_s3::actions::{AbortMultipartUpload, ListObjectsV2};

use super::document::element;
use super::error::{ObjectError, ObjectFault};
use super::session::{STOPPED, Session};
use crate::signals::give_up;

/// Maximum number of pages of a list: ten million uploads.
const MOST_PAGES: usize = 10_000;

/// An unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The key that its object would have.
    pub key: String,
    /// Its number with the endpoint.
    pub id: String,
}

/// A page of a list of uploads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    uploads: Vec<Pending>,
    /// The key and the number after which the next page begins.
    next: Option<(String, String)>,
}

impl Session {
    /// The unfinished uploads with keys that begin with `prefix`; none with an endpoint that has no
    /// such list, or that finds none before the first, as rclone.
    ///
    /// # Errors
    /// When a request fails or a page cannot be right.
    pub fn uploads(&mut self, prefix: &str) -> Result<Vec<Pending>, ObjectError> {
        let bucket = self.bucket.clone();
        let mut all = Vec::new();
        let mut after: Option<(String, String)> = None;
        let began = Instant::now();
        for _ in 0..MOST_PAGES {
            // A list of uploads is asked for like one of objects, with another name in the query.
            let mut action = ListObjectsV2::new(&bucket, None);
            action.query_mut().remove("list-type");
            action.query_mut().insert("uploads", "");
            action.with_prefix(prefix);
            if let Some((key, id)) = &after {
                action.query_mut().insert("key-marker", key.as_str());
                action.query_mut().insert("upload-id-marker", id.as_str());
            }
            let request = self.request(&action, "list uploads to", prefix, None);
            let wrong = |what: &str| request.error(ObjectFault::Answer(what.to_string()));
            let body = match self.document(&request) {
                Err(error) if error.is_not_implemented() || error.is_gone() => return Ok(all),
                done => done?.1,
            };
            let text = std::str::from_utf8(&body).map_err(|_| wrong("the reply is not UTF-8"))?;
            let page = page(text).map_err(wrong)?;
            all.extend(page.uploads.into_iter().filter(|one| one.key.starts_with(prefix)));
            match page.next {
                None => return Ok(all),
                Some(_) if give_up(began) => return Err(wrong(STOPPED)),
                Some(next)
                    if after.as_ref().is_some_and(|last| next.0 < last.0 || next == *last) =>
                {
                    return Err(wrong("the list is not in order"));
                }
                next => after = next,
            }
        }
        Ok(all)
    }

    /// Aborts an upload; one that is gone by now is no error.
    ///
    /// # Errors
    /// When the request fails.
    pub fn abort(&mut self, key: &str, id: &str) -> Result<(), ObjectError> {
        let action = AbortMultipartUpload::new(&self.bucket, None, key, id);
        match self.document(&self.request(&action, "abort upload of", key, None)) {
            Err(error) if error.is_gone() => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Reads a page: flat elements, of which only those with plain text are looked at.
pub(super) fn page(text: &str) -> Result<Page, &'static str> {
    if !text.contains("<ListMultipartUploadsResult") {
        return Err("the reply is not a list of uploads");
    }
    let encoded = element(text, "EncodingType").as_deref() == Some("url");
    let name = |text: &str, of: &str| element(text, of).map(|text| decoded(text, encoded));
    let mut uploads = Vec::new();
    for one in text.split("<Upload>").skip(1) {
        let key = name(one, "Key").ok_or("an upload has no key")?;
        let id = element(one, "UploadId").ok_or("an upload has no number")?;
        uploads.push(Pending { key, id });
    }
    let next = || Some((name(text, "NextKeyMarker")?, element(text, "NextUploadIdMarker")?));
    let more = element(text, "IsTruncated").as_deref() == Some("true");
    Ok(Page { uploads, next: more.then(next).flatten() })
}

/// The number of an upload that began. The reply of some endpoints, as of rclone, has another root
/// than S3's.
pub(super) fn begun(text: &str) -> Result<String, &'static str> {
    let id = element(text, "UploadId").filter(|id| !id.is_empty());
    id.ok_or("the reply has no number of an upload")
}

/// A key as it is: endpoints that encode keys for URLs say so.
fn decoded(text: String, encoded: bool) -> String {
    if !encoded {
        return text;
    }
    let query = format!("={text}");
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.next().map_or(text, |(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_whatever_the_root() {
        for root in ["InitiateMultipartUploadResult", "InitiateMultipartUpload"] {
            let reply = format!("<{root} xmlns=\"ns\"><UploadId>a&amp;1</UploadId></{root}>");
            assert_eq!(begun(&reply), Ok("a&1".to_string()));
        }
        assert!(begun("<Error><Code>Busy</Code></Error>").is_err());
        assert!(begun("<X><UploadId></UploadId></X>").is_err());
    }

    #[test]
    fn a_page_is_read_with_keys_as_they_are() {
        let text = "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload>\
                    <Key>a+%2B%25%C3%A9</Key><UploadId>1</UploadId></Upload>\
                    <IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker>\
                    <NextUploadIdMarker>1</NextUploadIdMarker></ListMultipartUploadsResult>";
        let read = page(text).unwrap();
        assert_eq!(read.uploads, [Pending { key: "a +%é".to_string(), id: "1".to_string() }]);
        assert_eq!(read.next, Some(("a".to_string(), "1".to_string())));
        let plain = "<ListMultipartUploadsResult><Upload><Key>a&amp;+</Key><UploadId>1</UploadId>";
        assert_eq!(page(plain).unwrap().uploads[0].key, "a&+");
        assert!(page("<Error></Error>").is_err());
        assert!(page("<ListMultipartUploadsResult><Upload></Upload>").is_err());
    }
}
