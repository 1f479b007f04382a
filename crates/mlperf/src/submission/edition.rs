//! The editions of MLPerf Storage whose rules are known here.

use serde::Serialize;
use stormlp_core::names::Named;
use stormlp_core::profile::Profile;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// An edition of the rules.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[strum(parse_err_ty = String, parse_err_fn = stormlp_core::names::unknown::<Self>)]
pub enum Edition {
    /// MLPerf Storage v2.0.
    #[serde(rename = "2.0")]
    #[strum(serialize = "2.0")]
    V2,
    /// MLPerf Storage v3.0.
    #[serde(rename = "3.0")]
    #[strum(serialize = "3.0")]
    V3,
}

impl Named for Edition {
    const WHAT: &'static str = "an edition of the rules";
}

impl Edition {
    /// The profile that reproduces it.
    pub fn profile(self) -> Profile {
        match self {
            Self::V2 => Profile::V2,
            Self::V3 => Profile::V3,
        }
    }

    /// The edition that a profile reproduces; `None` for a profile without rules here.
    pub fn of_profile(profile: Profile) -> Option<Self> {
        match profile {
            Profile::V2 => Some(Self::V2),
            Profile::V3 => Some(Self::V3),
            Profile::V1 | Profile::Native => None,
        }
    }
}
