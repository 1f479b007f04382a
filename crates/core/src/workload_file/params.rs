//! `--params key=value`: keys of a workload set from the command line, in mlpstorage's syntax.
//!
//! A time may be given in parts, `train.computation_time.mean=0.1`. The parts are combined before
//! they are checked, so their order does not matter.

use std::collections::BTreeMap;

use serde_yaml::{Mapping, Value};

use super::fault::WorkloadError;
use super::read::MAX_FAULTS;
use super::table::{Contents, Key, Table};

/// Parts of values, by the key of the value.
type ValueParts<W> = BTreeMap<&'static str, (&'static Key<W>, Mapping)>;

/// Whether one of `params` sets the key `path`.
pub fn sets(params: &[String], path: &str) -> bool {
    let keys = params.iter().filter_map(|param| param.split_once('='));
    keys.map(|(key, _)| key.trim_start_matches('+'))
        .any(|key| key.strip_prefix("workload.").unwrap_or(key) == path)
}

impl<W: Default> Table<W> {
    /// Sets each `key=value` of `params`; later ones override earlier ones.
    ///
    /// # Errors
    /// All errors: a missing `=`, an unknown key, a value of the wrong type.
    pub(super) fn set_params(
        &self,
        contents: &mut Contents,
        params: &[String],
    ) -> Result<(), WorkloadError> {
        let mut parts = ValueParts::new();
        let mut messages = Vec::new();
        for param in params {
            messages.extend(self.set_param(contents, &mut parts, param).err());
            if messages.len() == MAX_FAULTS {
                messages.push("the other --params were not checked".to_string());
                break;
            }
        }
        for (key, part) in parts.into_values() {
            let there = contents.values.get(key.path());
            let whole = (key.place(&mut W::default()))
                .map(|place| place.with_parts(there, part))
                .unwrap_or_default();
            messages.extend(self.take(contents, key, &whole).err());
        }
        if messages.is_empty() {
            return Ok(());
        }
        Err(WorkloadError::new("--params", messages))
    }

    fn set_param(
        &self,
        contents: &mut Contents,
        parts: &mut ValueParts<W>,
        param: &str,
    ) -> Result<(), String> {
        let (path, text) =
            param.split_once('=').ok_or_else(|| format!("`{param}` is not key=value"))?;
        let path = path.trim();
        let value: Value =
            crate::yaml::read(text).map_err(|error| format!("`{param}`: {error}"))?;
        if let Some(key) = self.by_path(path) {
            parts.remove(key.path());
            return self.take(contents, key, &value);
        }
        let (key, part) = self.part(path).ok_or_else(|| self.unknown(path))?;
        let (_, found) = parts.entry(key.path()).or_insert_with(|| (key, Mapping::new()));
        found.insert(part.into(), value);
        Ok(())
    }

    /// The key and the part of its value named by a path such as `train.computation_time.mean`.
    fn part<'a>(&self, path: &'a str) -> Option<(&'static Key<W>, &'a str)> {
        let (whole, part) = path.rsplit_once('.')?;
        let key = self.by_path(whole)?;
        let mut workload = W::default();
        let parts = key.place(&mut workload)?.parts();
        parts.contains(&part).then_some((key, part))
    }
}
