//! What no run can have written into its report: somebody changed it, or it was damaged.
//!
//! The types say what a field is, not what it may hold. A rate of 1e308 would make every ratio with
//! it infinite, and whatever is compared with it wrong.

use serde_json::Value;

/// More than the largest whole number of 64 bits, which stands for "no limit" in places.
const MOST: f64 = 1e20;

/// The first field that holds what no run can have measured: where it stands, and what is wrong.
pub(super) fn absurdity(report: &Value) -> Option<String> {
    for key in ["started_at", "ended_at"] {
        let time = report.get(key).and_then(Value::as_str);
        if let Some(time) = time.filter(|time| !is_time(time)) {
            return Some(format!("`{key}` is `{time}`, which is no time"));
        }
    }
    in_value(report, "", false)
}

/// The same of a value at `place`; `measured` is whether it is part of a measured quantity.
fn in_value(value: &Value, place: &str, measured: bool) -> Option<String> {
    let inner = |key: &str| match place {
        "" => key.to_string(),
        place => format!("{place}.{key}"),
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .find_map(|(key, value)| in_value(value, &inner(key), measured || is_quantity(key))),
        Value::Array(values) => (values.iter().enumerate())
            .find_map(|(index, value)| in_value(value, &inner(&index.to_string()), measured)),
        Value::Number(number) => {
            let number = number.as_f64().filter(|_| measured)?;
            let fits = (0.0..=MOST).contains(&number);
            (!fits).then(|| format!("`{place}` is {number}, which nothing can have measured"))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Whether a field holds an amount with a unit, which is never below zero.
fn is_quantity(key: &str) -> bool {
    const ENDS: [&str; 6] = [
        "_seconds",
        "_bytes",
        "_per_second",
        "_us",
        "_share",
        "_per_gib",
    ];
    matches!(key, "bytes" | "iops" | "operations" | "latency_us")
        || ENDS.iter().any(|end| key.ends_with(end))
}

/// Whether a text is a moment as reports have it: `2026-11-21T07:25:00Z`, with parts of a second or
/// without.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) else {
        return false;
    };
    let numbers = |text: &str, mark: char, lengths: [usize; 3]| -> Option<[u32; 3]> {
        let parts: Vec<&str> = text.split(mark).collect();
        let fit =
            parts.len() == 3 && (parts.iter().zip(lengths)).all(|(part, len)| part.len() == len);
        let digits = parts
            .iter()
            .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let number = |index: usize| parts[index].parse().ok();
        (fit && digits).then_some(())?;
        Some([number(0)?, number(1)?, number(2)?])
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let date = numbers(date, '-', [4, 2, 2]);
    let time = numbers(time, ':', [2, 2, 2]);
    let in_year = |[_, month, day]: [u32; 3]| (1..=12).contains(&month) && (1..=31).contains(&day);
    // A leap second is one.
    let in_day = |[hour, minute, second]: [u32; 3]| hour < 24 && minute < 60 && second <= 60;
    digits && date.is_some_and(in_year) && time.is_some_and(in_day)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_that_nothing_measured_and_times_that_are_none_are_found_by_name() {
        let cells = |key: &str, number: f64| json!({ "cells": [{ key: number }] });
        for (report, told) in [
            (
                json!({"started_at": "yesterday"}),
                "`started_at` is `yesterday`",
            ),
            (json!({"ended_at": "2026-13-01T00:00:00Z"}), "`ended_at`"),
            (
                cells("throughput_bytes_per_second", 1e308),
                "`cells.0.throughput_bytes_per_second`",
            ),
            (
                cells("duration_seconds", -1.0),
                "`cells.0.duration_seconds` is -1",
            ),
            (
                json!({"cells": [{"latency_us": {"p50": -2}}]}),
                "`cells.0.latency_us.p50` is -2",
            ),
        ] {
            let found = absurdity(&report).unwrap_or_default();
            assert!(found.contains(told), "{found}");
        }
        for fine in [
            json!({"started_at": "2026-11-21T07:25:00Z", "ended_at": null}),
            json!({"started_at": "2026-11-21T07:25:00.25Z", "plan": {"seed": 18_446_744_073_709_551_615_u64}}),
            cells("duration_seconds", 0.5),
            cells("drift", -0.5),
        ] {
            assert_eq!(absurdity(&fine), None);
        }
    }
}
