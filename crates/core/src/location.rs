//! The location of data.

use std::convert::Infallible;
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

    /// The path of `name` in this location.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl FromStr for Location {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Location {
    fn from(folder: &T) -> Self {
        Self(folder.into())
    }
}

/// Parsed from the command line as a path.
#[cfg(feature = "cli")]
impl clap::builder::ValueParserFactory for Location {
    type Parser =
        clap::builder::MapValueParser<clap::builder::PathBufValueParser, fn(PathBuf) -> Self>;

    fn value_parser() -> Self::Parser {
        use clap::builder::TypedValueParser as _;
        clap::builder::PathBufValueParser::new().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
