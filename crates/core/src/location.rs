//! The location of data: folders and files, and the objects that `s3://bucket/key` names.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use derive_more::{AsRef, From};
use serde::{Deserialize, Serialize};

/// The location of data: a directory, written as its path. Plans and requests hold it instead of a
/// path, so that supporting another kind of storage needs only a new variant here.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
#[derive(From, AsRef)]
#[as_ref(Path)]
pub struct Location(PathBuf);

impl Location {
    /// The directory.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// A directory or a prefix of objects, as typed.
    ///
    /// # Errors
    /// When it names objects that cannot exist.
    pub fn anywhere(text: &str) -> Result<Self, String> {
        folder_or_prefix(text).map(Self)
    }

    /// Whether it is a prefix of objects.
    pub fn names_objects(&self) -> bool {
        names_object(&self.0)
    }

    /// The path of `name` in this location.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

/// How the names of objects begin.
pub const OBJECT_SCHEME: &str = "s3://";

/// An object, or all objects with a common prefix, named by a path: `s3://bucket/key`. Its name can
/// stand in place of any file's; storage tells them apart by the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectName<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The key, or the prefix of keys; empty for the whole bucket.
    pub key: &'a str,
}

impl<'a> ObjectName<'a> {
    /// Maximum bytes of a key.
    const KEY_BYTES: usize = 1024;

    /// The object that a path names.
    ///
    /// # Errors
    /// When the path names a file, or its bucket or key cannot exist.
    pub fn of(path: &'a Path) -> Result<Self, String> {
        let text = path.to_str().ok_or("the name is not valid UTF-8")?;
        let rest = text
            .strip_prefix(OBJECT_SCHEME)
            .ok_or_else(|| format!("`{text}` does not begin with {OBJECT_SCHEME}"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(fits) {
            return Err(format!(
                "`{bucket}` is not the name of a bucket, which has 3 to 63 letters, digits, dots \
                 and hyphens: s3://my-bucket/prefix"
            ));
        }
        let folds = |part: &str| matches!(part, "." | "..");
        if key.starts_with('/') || key.contains("//") || key.split('/').any(folds) {
            return Err(format!("key `{key}` has `.`, `..` or `//` in it, which URLs cannot keep"));
        }
        if key.len() > Self::KEY_BYTES {
            return Err(format!(
                "a key of {} bytes; the maximum is {}",
                key.len(),
                Self::KEY_BYTES
            ));
        }
        Ok(Self { bucket, key })
    }
}

/// Whether a path names an object instead of a file.
pub fn names_object(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(OBJECT_SCHEME.as_bytes())
}

/// A folder or a prefix of objects, as typed.
///
/// # Errors
/// When it names objects that cannot exist, or is a URI of another kind.
pub fn folder_or_prefix(text: &str) -> Result<PathBuf, String> {
    match names_object(Path::new(text)) {
        true => ObjectName::of(Path::new(text)).map(|_| text.into()),
        false => path_only(text),
    }
}

/// A path, as typed where objects cannot be used: `file:///p` is `/p`.
///
/// # Errors
/// For any other URI, which would otherwise become a folder of that name.
pub fn path_only(text: &str) -> Result<PathBuf, String> {
    match text.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => Ok(path.into()),
        Some(("direct", path)) => Err(format!("write {path}, and --path cpu for O_DIRECT")),
        Some((scheme, _)) if !scheme.contains('/') => {
            Err(format!("{scheme}:// cannot be used here; name a file or a mounted folder"))
        }
        _ => Ok(text.into()),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        path_only(text).map(Self)
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Location {
    fn from(folder: &T) -> Self {
        Self(folder.into())
    }
}

/// Parsed from the command line as a path.
impl clap::builder::ValueParserFactory for Location {
    type Parser = fn(&str) -> Result<Self, String>;

    fn value_parser() -> Self::Parser {
        |text| text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_bucket_and_key() {
        let of = |text: &'static str| ObjectName::of(Path::new(text));
        let named = |bucket, key| Ok(ObjectName { bucket, key });
        assert_eq!(of("s3://data/a b+c%d/é"), named("data", "a b+c%d/é"));
        assert_eq!(of("s3://data"), named("data", ""));
        assert!(names_object(Path::new("s3://data/x")) && !names_object(Path::new("s3:/data")));
        let wrong =
            ["/data", "s3://", "s3://d/x", "s3://da ta/x", "s3://data//x", "s3://data/../x"];
        for name in wrong {
            assert!(of(name).is_err(), "{name}");
        }
        assert!("s3://data/x".parse::<Location>().is_err());
    }

    #[test]
    fn a_uri_is_a_path_or_refused() {
        let path = |text: &str| Ok(PathBuf::from(text));
        for (typed, is) in [("file:///nvme/ckpt", "/nvme/ckpt"), ("a/b://c", "a/b://c")] {
            assert_eq!((path_only(typed), folder_or_prefix(typed)), (path(is), path(is)));
        }
        for scheme in ["gs", "az", "http", "direct", "file", "hdfs"] {
            let typed = format!("{scheme}://bucket/p");
            assert!(path_only(&typed).is_err() && folder_or_prefix(&typed).is_err(), "{typed}");
        }
        let told = path_only("direct:///p").unwrap_err();
        assert_eq!(told, "write /p, and --path cpu for O_DIRECT");
        assert!(path_only("s3://data/x").is_err() && folder_or_prefix("s3://data/x").is_ok());
    }

    #[test]
    fn a_location_is_saved_as_given() {
        let location: Location = "./data/unet3d".parse().unwrap();
        assert_eq!(location.to_string(), "./data/unet3d");
        let json = serde_json::to_string(&location).unwrap();
        assert_eq!(json, "\"./data/unet3d\"");
        assert_eq!(serde_json::from_str::<Location>(&json).unwrap(), location);
        assert_eq!(location.join("train"), Path::new("./data/unet3d/train"));
    }
}
