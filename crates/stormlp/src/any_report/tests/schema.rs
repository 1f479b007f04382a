//! `docs/schema/results.schema.json` matches the types, and `docs/results.md` names every field.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::any_report::AnyReport;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");

fn schema() -> Value {
    schemars::schema_for!(AnyReport).to_value()
}

#[test]
fn the_schema_is_that_of_the_types() {
    let path = format!("{DOCS}/schema/results.schema.json");
    let text = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/schema/results.schema.json is not what the types say: \
         UPDATE_SCHEMA=1 cargo test --bin stormlp schema"
    );
}

/// Collects the names of all fields below `value`.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_object().filter(|_| key == "properties") {
                    Some(properties) => {
                        found.extend(properties.keys().cloned());
                        properties.values().for_each(|value| fields(value, found));
                    }
                    None => fields(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_described() {
    let page = fs::read_to_string(format!("{DOCS}/results.md")).unwrap();
    let mut found = BTreeSet::new();
    fields(&schema(), &mut found);
    assert!(found.len() > 200, "{}", found.len());
    let missing: Vec<_> =
        (found.iter()).filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/results.md does not name {missing:?}");
}
