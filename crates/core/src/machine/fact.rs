//! Facts that may be unavailable: kernel files vary with version and permissions.

use serde::{Deserialize, Serialize};

/// A value read from the machine, or why it could not be read.
///
/// In JSON it is `{"known": value}` or `{"unknown": "reason"}`, so that a missing number can never
/// be taken for a zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact<T> {
    /// It was read.
    Known(T),
    /// It could not be read: the attempt and its result.
    Unknown(String),
}

impl<T> Fact<T> {
    /// A fact that is unavailable because of `reason`.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown(reason.into())
    }

    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// The value, without the reason why it is unknown.
    pub fn ok(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Applies `convert` to a known value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(convert(value)),
            Self::Unknown(reason) => Fact::Unknown(reason),
        }
    }

    /// Applies a fallible conversion to a known value.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => convert(value),
            Self::Unknown(reason) => Fact::Unknown(reason),
        }
    }

    /// The value, or `default` if unknown.
    pub fn unwrap_or(self, default: T) -> T {
        match self {
            Self::Known(value) => value,
            Self::Unknown(_) => default,
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Fact<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}
