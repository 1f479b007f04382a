//! Reads a workload file according to the table of its keys.

use serde_yaml::{Mapping, Value};

use super::fault::{WorkloadError, WorkloadFault};
use super::field::{shown, text, wants};
use super::place::{TextPlace, find, of_error};
use super::table::{Contents, Key, KeyOrSection, Table};

/// Limit on reported errors: more are not worth reading, and each costs a search for similar keys
/// and for its place.
pub(super) const MAX_FAULTS: usize = 20;

impl<W: Default> Table<W> {
    /// Reads the file `source_name` with content `text`, and then each `key=value` of `params`,
    /// into `workload`, which holds the defaults for missing keys.
    ///
    /// # Errors
    /// Every unknown key and every invalid value, or the first YAML syntax error.
    pub fn read(
        &self,
        text: &str,
        source_name: &str,
        params: &[String],
        workload: &mut W,
    ) -> Result<Contents, WorkloadError> {
        // Editors of other systems mark UTF-8 so.
        let mut contents = self.read_file(text.trim_start_matches('\u{feff}'), source_name)?;
        self.set_params(&mut contents, params)?;
        let faults: Vec<String> = self
            .keys
            .iter()
            .filter_map(|key| {
                let set = key.set(workload, contents.values.get(key.path())?);
                set.err().map(|why| format!("`{}`{why}", key.path()))
            })
            .collect();
        if faults.is_empty() {
            return Ok(contents);
        }
        Err(WorkloadError::new(source_name, faults))
    }

    fn read_file(&self, text: &str, source_name: &str) -> Result<Contents, WorkloadError> {
        let error = |faults| WorkloadError { source_name: source_name.to_string(), faults };
        let file: Value = crate::yaml::read(text).map_err(|fault| error(vec![of_error(&fault)]))?;
        let mut walk =
            Walk { table: self, contents: Contents::default(), at: Vec::new(), faults: Vec::new() };
        walk.section("", &file);
        if walk.faults.is_empty() {
            return Ok(walk.contents);
        }
        let is_cut = walk.faults.len() == MAX_FAULTS;
        let fault = |(place, message)| WorkloadFault { place: find(text, &place), message };
        let mut faults: Vec<WorkloadFault> = walk.faults.into_iter().map(fault).collect();
        if let Some(last) = faults.last_mut().filter(|_| is_cut) {
            last.message.push_str(" (the rest of the file was not checked)");
        }
        Err(error(faults))
    }

    /// Sets `key` to `value` after checking that it can be set.
    pub(super) fn take(
        &self,
        contents: &mut Contents,
        key: &'static Key<W>,
        value: &Value,
    ) -> Result<(), String> {
        let target = self.target(key);
        let set = target.set(&mut W::default(), value);
        set.map_err(|why| format!("`{}`{why}", key.path()))?;
        if !value.is_null() || target.no_effect().is_some() {
            contents.values.insert(target.path(), value.clone());
        }
        Ok(())
    }
}

struct Walk<'a, W: 'static> {
    table: &'a Table<W>,
    contents: Contents,
    /// The entry indices that lead to the current position.
    at: Vec<usize>,
    faults: Vec<(TextPlace, String)>,
}

impl<W: Default> Walk<'_, W> {
    fn section(&mut self, path: &str, value: &Value) {
        match value {
            Value::Mapping(entries) => self.entries(path, entries),
            Value::Null => {}
            other if path.is_empty() => self.fault(
                false,
                format!(
                    "found {}: a workload file has sections (`model:`, `checkpoint:` …)",
                    shown(other)
                ),
            ),
            other => {
                let why = wants(other, "it is a section, write its keys below it");
                self.fault(false, format!("`{path}`{why}"));
            }
        }
    }

    fn entries(&mut self, section: &str, entries: &Mapping) {
        for (index, (name, value)) in entries.iter().enumerate() {
            if self.faults.len() >= MAX_FAULTS {
                return;
            }
            self.at.push(index);
            let name = text(name).unwrap_or_else(|| shown(name));
            match self.table.look_up(section, &name, value) {
                Some(KeyOrSection::Section(path)) => self.section(&path, value),
                Some(KeyOrSection::Leaf(key)) => self.leaf(key, value),
                None => {
                    let path = [section, &name].join(".");
                    let message = self.table.unknown(path.trim_start_matches('.'));
                    self.fault(true, message);
                }
            }
            self.at.pop();
        }
    }

    fn leaf(&mut self, key: &'static Key<W>, value: &Value) {
        match self.table.take(&mut self.contents, key, value) {
            Ok(()) => {
                self.contents.written.insert(key.path());
            }
            Err(message) => self.fault(false, message),
        }
    }

    fn fault(&mut self, at_key: bool, message: String) {
        let place = TextPlace { entries: self.at.clone(), at_key };
        self.faults.push((place, message));
    }
}
