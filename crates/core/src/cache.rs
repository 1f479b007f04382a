//! The page cache before data is read back: the option `--cache` of the lanes that repeat a benchmark.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::names::{Named, unknown};

/// The state of the page cache before files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum CacheChoice {
    /// The files are dropped from it, which is checked: reads come from storage.
    #[default]
    Cold,
    /// The files stay: reads may come from memory.
    AsIs,
}

impl Named for CacheChoice {
    const WHAT: &'static str = "a state of the page cache";
}
