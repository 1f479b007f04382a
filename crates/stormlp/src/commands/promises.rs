//! What processes of one run have to do alike. It is taken from the whole of what each would do but for
//! what is named, so that no new option can be forgotten.

use serde::Serialize;
use serde_json::Value;
use stormlp_model::difference::{Promise, fields_but};

/// The fields of `value` [but those](fields_but) `apart`, under the `names` that users know.
pub(crate) fn of<T: Serialize>(value: &T, apart: &[&str], names: &[(&str, &str)]) -> Vec<Promise> {
    let named = |key: &str| {
        let known = names.iter().find(|(name, _)| *name == key);
        known.map_or_else(|| key.replace('_', " "), |(_, name)| name.to_string())
    };
    let fields = fields_but(value, apart).into_iter();
    fields
        .map(|(key, value)| (named(&key), in_words(value)))
        .collect()
}

fn in_words(value: Value) -> String {
    match value {
        // `none` is a value of some options.
        Value::Null => "nothing".to_string(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_what_is_named_is_a_promise() {
        let value = serde_json::json!({
            "batch_size": 7,
            "client": null,
            "memory_bytes": 5,
            "transport": {"pages": "huge", "threads": 4},
        });
        let apart = ["memory_bytes", "transport.threads"];
        let promises = of(&value, &apart, &[("client", "option --client")]);
        let promises: Vec<(&str, &str)> = promises.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            promises,
            [
                ("batch size", "7"),
                ("option --client", "nothing"),
                ("transport", r#"{"pages":"huge"}"#),
            ]
        );
    }
}
