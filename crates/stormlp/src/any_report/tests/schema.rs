//! `docs/schema/results.schema.json` matches the types, and describes every field.

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

/// Counts the fields below `value`, and collects those without a description. A tag and a field
/// that is always null need no description, nor does the one field of a variant that has one.
fn fields(value: &Value, undescribed: &mut Vec<String>) -> usize {
    let mut count = 0;
    match value {
        Value::Object(object) => {
            let is_described = object.contains_key("description");
            for (key, value) in object {
                let Some(properties) = value.as_object().filter(|_| key == "properties") else {
                    count += fields(value, undescribed);
                    continue;
                };
                let of_variant = is_described && properties.len() == 1;
                for (name, field) in properties {
                    let is_fixed = field.get("const").is_some() || field["type"] == "null";
                    if field.get("description").is_none() && !is_fixed && !of_variant {
                        undescribed.push(name.clone());
                    }
                    count += 1 + fields(field, undescribed);
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                count += fields(value, undescribed);
            }
        }
        _ => {}
    }
    count
}

#[test]
fn every_field_is_described() {
    let mut undescribed = Vec::new();
    let count = fields(&schema(), &mut undescribed);
    assert!(count > 1000, "{count}");
    assert!(undescribed.is_empty(), "without a description: {undescribed:?}");
}
