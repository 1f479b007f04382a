//! The settings that all processes of a run must share. It is derived from the complete
//! configuration of each, minus explicit exceptions, so that a new option cannot be forgotten.

use serde::Serialize;
use stormlp_core::difference::{ConsistencyField, fields_but, text};

/// The fields of `value` [except](fields_but) those in `apart`, under the `names` known to users.
pub fn of<T: Serialize>(
    value: &T,
    apart: &[&str],
    names: &[(&str, &str)],
) -> Vec<ConsistencyField> {
    fields(value, apart, names, |key| key.replace('_', " "))
}

/// The same for a request: a field is named after the option that sets it, unless `names` overrides
/// it.
pub fn asked<T: Serialize>(
    request: &T,
    apart: &[&str],
    names: &[(&str, &str)],
) -> Vec<ConsistencyField> {
    let option = |key: &str| format!("option --{}", key.replace('_', "-"));
    fields(request, apart, names, option)
}

fn fields<T: Serialize>(
    value: &T,
    apart: &[&str],
    names: &[(&str, &str)],
    usual_name: impl Fn(&str) -> String,
) -> Vec<ConsistencyField> {
    let named = |key: &str| {
        let known = names.iter().find(|(name, _)| *name == key);
        known.map_or_else(|| usual_name(key), |(_, name)| name.to_string())
    };
    let fields = fields_but(value, apart).into_iter();
    fields.map(|(key, value)| (named(&key), text(&value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_settings_not_excluded_are_compared() {
        let value = serde_json::json!({
            "batch_size": 7,
            "client": null,
            "memory_bytes": 5,
            "transport": {"pages": "huge", "threads": 4},
        });
        let apart = ["memory_bytes", "transport.threads"];
        let consistency_fields = of(&value, &apart, &[("client", "option --client")]);
        let consistency_fields: Vec<(&str, &str)> =
            consistency_fields.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            consistency_fields,
            [
                ("batch size", "7"),
                ("option --client", "nothing"),
                ("transport", r#"{"pages":"huge"}"#),
            ]
        );
    }

    #[test]
    fn a_request_is_named_as_its_option() {
        let request = serde_json::json!({"chunk_bytes": 1, "fsync": "none", "rank_shift": null});
        let asked = asked(&request, &[], &[("chunk_bytes", "option --chunk-size")]);
        let names: Vec<&str> = asked.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["option --chunk-size", "option --fsync", "option --rank-shift"]);
    }
}
