//! Writes a workload.

use serde_yaml::{Mapping, Value};

use super::table::Table;

impl<W: Clone> Table<W> {
    /// Path and value of every key set in `workload`, in the table's order.
    pub fn values(&self, workload: &W) -> Vec<(&'static str, Value)> {
        let mut workload = workload.clone();
        let values = self.keys.iter().map(|key| (key.path(), key.value(&mut workload)));
        values.filter(|(_, value)| !value.is_null()).collect()
    }
}

/// Nests `values` in the sections given by their paths.
pub fn sections(values: Vec<(&'static str, Value)>) -> Mapping {
    let mut file = Mapping::new();
    for (path, value) in values {
        let mut names = path.split('.');
        let last = names.next_back().unwrap_or(path);
        let section = names.fold(&mut file, |section, name| {
            let inner = section.entry(name.into()).or_insert_with(|| Mapping::new().into());
            // A table never writes a key and a section with the same name.
            inner.as_mapping_mut().expect("a section")
        });
        section.insert(last.into(), value);
    }
    file
}

/// A value in one line, as JSON, which is valid YAML.
pub fn line(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).expect("plain values are JSON"),
    }
}
