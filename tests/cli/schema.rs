//! Real reports of all commands against `docs/schema/results.schema.json`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{checkpoint, gds, stdout, train};

/// The parts of `value` that deviate from `schema`: the part of JSON Schema that ours uses.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        check(root, target.expect("a definition"), value, at)?;
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let tried = choices.iter().map(|one| check(root, one, value, at));
            let wrong: Result<Vec<String>, ()> = tried.map(|one| one.err().ok_or(())).collect();
            if let Ok(wrong) = wrong {
                return Err(format!("{at} is none of: {}", wrong.join("; ")));
            }
        }
    }
    for all in schema["allOf"].as_array().into_iter().flatten() {
        check(root, all, value, at)?;
    }
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        return Err(format!("{at} is {value}, not {only}"));
    }
    if let Some(names) = schema["enum"].as_array().filter(|all| !all.contains(value)) {
        return Err(format!("{at} is {value}, not one of {names:?}"));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = |name: &Value| name == kind || (name == "number" && kind == "integer");
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    if !types.is_empty() && !types.iter().any(fits) {
        return Err(format!("{at} is {kind}, not {types:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if value.is_object() && value.get(name).is_none() {
            return Err(format!("{at} has no {name}"));
        }
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            check(root, schema, value, &format!("{at}.{name}"))?;
        }
    }
    if schema["items"].is_object() {
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            check(root, &schema["items"], value, &format!("{at}[{index}]"))?;
        }
    }
    Ok(())
}

fn valid(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/results.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut report: Value = serde_json::from_str(text).unwrap();
    check(&schema, &schema, &report, "report").unwrap();
    // Each of them came to its end, and says when.
    assert!(report["ended_at"].as_str() >= report["started_at"].as_str());
    report["started_at"] = 17.into();
    check(&schema, &schema, &report, "report").unwrap_err();
}

#[test]
fn reports_of_all_commands_match_the_schema() {
    let folder = gds::folder();
    let words = "--path cpu,gds,null --format json --file-size 1M --duration 50ms --threads 1";
    let output = gds::gds(folder.path(), words).assert().code(4);
    valid(&String::from_utf8_lossy(&output.get_output().stdout));

    let words =
        format!("unet3d --files 28 --epochs 2 --compute-time 2ms --format json {}", train::SMALL);
    valid(&stdout(train::train(folder.path(), &words).assert().success()));

    let folder = checkpoint::folder();
    let arguments = ["--saves", "1", "--restores", "1", "--format", "json"];
    let mut checkpoint = checkpoint::tiny(folder.path(), &arguments);
    valid(&stdout(checkpoint.assert().success()));
}
