//! JSON by way of a [`Value`], so that the many types of reports are compiled for one serializer and
//! one deserializer. The text is the same.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

use crate::pattern::fnv1a;

/// A value in one line.
///
/// # Errors
/// If it is not plain data.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&serde_json::to_value(value)?)
}

/// A value with a line for each field.
///
/// # Errors
/// If it is not plain data.
pub fn indented<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string_pretty(&serde_json::to_value(value)?)
}

/// What [`compact`] or [`indented`] made.
///
/// # Errors
/// If it is not JSON, or not that of a `T`.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    serde_json::from_value(serde_json::from_slice::<Value>(json)?)
}

/// A value with a line for each field, the last of which shows whether the others are as saved.
///
/// # Errors
/// If it is not plain data.
pub fn sealed<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let mut value = serde_json::to_value(value)?;
    value["digest"] = digest(&value).into();
    serde_json::to_string_pretty(&value)
}

/// Removes what [`sealed`] added; whether the rest is as it was. Without a digest nothing is known.
pub fn unseal(value: &mut Value) -> bool {
    let found = value.as_object_mut().and_then(|fields| fields.remove("digest"));
    found.is_none_or(|found| found == digest(value))
}

fn digest(value: &Value) -> String {
    format!("{:016x}", fnv1a(value.to_string().as_bytes()))
}
