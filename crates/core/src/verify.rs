//! How transfers of objects are checked: the option `--checksum`.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::names::{Named, unknown};

/// How transfers of objects are checked. Lengths always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Verify {
    /// Objects: neither that all ranges are of one object, nor that one has its size once it is
    /// uploaded.
    None,
    /// Objects: sizes and ETags.
    #[default]
    Size,
    /// Objects: their checksums too. Each is sent with its checksum, and compared with the
    /// endpoint's when all of it is read.
    Crc,
}

impl Named for Verify {
    const WHAT: &'static str = "a way to verify";
}

impl Verify {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Parses the value of `--checksum`.
    ///
    /// # Errors
    /// If it is not the name of one.
    pub fn of_objects(text: &str) -> Result<Self, String> {
        match text {
            "content" => Err(
                "use none, size or crc; --verify compares every byte, as does `datagen --check`"
                    .into(),
            ),
            text => text.parse(),
        }
    }

    /// Whether it can be asked of objects alone.
    pub fn is_for_objects(self) -> bool {
        matches!(self, Self::None | Self::Crc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_reads_back() {
        for verify in <Verify as VariantArray>::VARIANTS {
            assert_eq!(verify.name().parse(), Ok(*verify));
            let saved = serde_json::to_string(verify).unwrap();
            assert_eq!(serde_json::from_str::<Verify>(&saved).unwrap(), *verify);
        }
        assert!("md5".parse::<Verify>().unwrap_err().contains("crc"));
    }
}
