//! Detects report values that no run can have written: edits or damage.
//!
//! The types define the fields, not their plausible values. A rate of 1e308 would make every ratio
//! with it infinite and every comparison with it wrong.

use std::collections::BTreeMap;

use serde_json::Value;

/// Limit on sums: what 64-bit integers hold with one bit to spare.
const MOST_IN_ALL: f64 = 9e18;
/// Limit on single values, above the largest 64-bit integer, which means "no limit" in places.
const MOST: f64 = 1e20;

/// The first field with an impossible value: its location and what is wrong.
pub(super) fn absurdity(report: &Value) -> Option<String> {
    for key in ["started_at", "ended_at"] {
        let time = report.get(key).and_then(Value::as_str);
        if let Some(time) = time.filter(|time| !is_time(time)) {
            return Some(format!("`{key}` is `{time}`, which is not a time"));
        }
    }
    in_value(report, "", false).or_else(|| overflow(report))
}

/// The first kind of amount whose values overflow when summed. Planned amounts and machine
/// properties are excluded, since they are never summed.
fn overflow(report: &Value) -> Option<String> {
    let mut sums = BTreeMap::new();
    let fields = report.as_object()?.iter();
    for (key, value) in fields.filter(|(key, _)| !["plan", "host"].contains(&key.as_str())) {
        add_up(value, key, &mut sums);
    }
    let (key, sum) = sums.iter().find(|(_, sum)| **sum > MOST_IN_ALL)?;
    Some(format!("all `{key}` together are {sum:e}, which is impossible"))
}

/// Adds every integer amount to the sum for its key.
fn add_up<'a>(value: &'a Value, key: &'a str, sums: &mut BTreeMap<&'a str, f64>) {
    match value {
        Value::Object(fields) => (fields.iter()).for_each(|(key, value)| add_up(value, key, sums)),
        Value::Array(values) => values.iter().for_each(|value| add_up(value, key, sums)),
        Value::Number(number) if number.is_u64() => {
            *sums.entry(key).or_default() += number.as_f64().unwrap_or_default();
        }
        _ => {}
    }
}

/// Impossible combinations of fields in one object.
fn in_object(fields: &serde_json::Map<String, Value>, place: &str) -> Option<String> {
    let is_nothing = |key: &str| fields.get(key).and_then(Value::as_f64) == Some(0.0);
    let intervals = fields.get("interval_bytes").and_then(Value::as_array);
    if is_nothing("interval_seconds") && intervals.is_some_and(|values| !values.is_empty()) {
        let place = inner(place, "interval_seconds");
        return Some(format!("`{place}` is 0, but there are intervals"));
    }
    // Depths and sizes that did not occur are omitted from reports.
    is_nothing("transfers").then(|| {
        let place = inner(place, "transfers");
        format!("`{place}` is 0, which is never recorded")
    })
}

fn inner(place: &str, key: &str) -> String {
    match place {
        "" => key.to_string(),
        place => format!("{place}.{key}"),
    }
}

/// Checks a value at `place`; `measured` is whether it is part of a measured quantity.
fn in_value(value: &Value, place: &str, measured: bool) -> Option<String> {
    match value {
        Value::Object(fields) => in_object(fields, place).or_else(|| {
            fields.iter().find_map(|(key, value)| {
                in_value(value, &inner(place, key), measured || is_quantity(key))
            })
        }),
        Value::Array(values) => (values.iter().enumerate()).find_map(|(index, value)| {
            in_value(value, &inner(place, &index.to_string()), measured)
        }),
        Value::Number(number) => {
            let number = number.as_f64().filter(|_| measured)?;
            let fits = (0.0..=MOST).contains(&number);
            (!fits).then(|| format!("`{place}` is {number}, which is impossible"))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Whether a field is an amount with a unit, which is never negative; a clock offset may be.
fn is_quantity(key: &str) -> bool {
    const ENDS: [&str; 6] = ["_seconds", "_bytes", "_per_second", "_us", "_share", "_per_gib"];
    if key == "offset_us" {
        return false;
    }
    matches!(key, "bytes" | "iops" | "operations" | "latency_us")
        || ENDS.iter().any(|end| key.ends_with(end))
}

/// Whether a text is a timestamp as written in reports: `2026-11-21T07:25:00Z`, with or without
/// fractional seconds.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) else {
        return false;
    };
    let numbers = |text: &str, mark: char, lengths: [usize; 3]| -> Option<[u32; 3]> {
        let parts: Vec<&str> = text.split(mark).collect();
        let fit =
            parts.len() == 3 && (parts.iter().zip(lengths)).all(|(part, len)| part.len() == len);
        let digits = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let number = |index: usize| parts[index].parse().ok();
        (fit && digits).then_some(())?;
        Some([number(0)?, number(1)?, number(2)?])
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let date = numbers(date, '-', [4, 2, 2]);
    let time = numbers(time, ':', [2, 2, 2]);
    let in_year = |[_, month, day]: [u32; 3]| (1..=12).contains(&month) && (1..=31).contains(&day);
    // Leap seconds are valid.
    let in_day = |[hour, minute, second]: [u32; 3]| hour < 24 && minute < 60 && second <= 60;
    digits && date.is_some_and(in_year) && time.is_some_and(in_day)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn impossible_amounts_and_invalid_times_are_found_by_name() {
        let cells = |key: &str, number: f64| json!({ "cells": [{ key: number }] });
        for (report, told) in [
            (json!({"started_at": "yesterday"}), "`started_at` is `yesterday`"),
            (json!({"ended_at": "2026-13-01T00:00:00Z"}), "`ended_at`"),
            (cells("throughput_bytes_per_second", 1e308), "`cells.0.throughput_bytes_per_second`"),
            (cells("duration_seconds", -1.0), "`cells.0.duration_seconds` is -1"),
            (json!({"cells": [{"latency_us": {"p50": -2}}]}), "`cells.0.latency_us.p50` is -2"),
            (
                json!({"series": [{"interval_seconds": 0, "interval_bytes": [1, 2]}]}),
                "`series.0.interval_seconds` is 0, but there are intervals",
            ),
            (
                json!({"series": [{"load": {"depths": [{"depth": 1, "transfers": 0}]}}]}),
                "`series.0.load.depths.0.transfers` is 0",
            ),
            (
                json!({"saves": [{"bytes": u64::MAX / 2}, {"bytes": u64::MAX / 2}]}),
                "all `bytes` together",
            ),
        ] {
            let found = absurdity(&report).unwrap_or_default();
            assert!(found.contains(told), "{told}: {found}");
        }
        for fine in [
            json!({"started_at": "2026-11-21T07:25:00Z", "ended_at": null}),
            json!({"started_at": "2026-11-21T07:25:00.25Z", "plan": {"seed": 18_446_744_073_709_551_615_u64}}),
            cells("duration_seconds", 0.5),
            cells("drift", -0.5),
            json!({"series": [{"interval_seconds": 0, "interval_bytes": []}]}),
            json!({"plan": {"a_bytes": u64::MAX, "b": [{"a_bytes": u64::MAX}]}}),
        ] {
            assert_eq!(absurdity(&fine), None);
        }
    }
}
