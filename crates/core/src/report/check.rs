//! What no run can have written into its report: somebody changed it, or it was damaged.
//!
//! The types say what a field is, not what it may hold. A rate of 1e308 would make every ratio with
//! it infinite, and whatever is compared with it wrong.

use std::collections::BTreeMap;

use serde_json::Value;

/// More than sums of whole numbers in 64 bits hold with one bit to spare.
const MOST_IN_ALL: f64 = 9e18;
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
    in_value(report, "", false).or_else(|| overflow(report))
}

/// The first kind of amount of which all together are more than a sum of them can hold. What was
/// planned and what the machine has is added up by nobody.
fn overflow(report: &Value) -> Option<String> {
    let mut sums = BTreeMap::new();
    let fields = report.as_object()?.iter();
    for (key, value) in fields.filter(|(key, _)| !["plan", "host"].contains(&key.as_str())) {
        add_up(value, key, &mut sums);
    }
    let (key, sum) = sums.iter().find(|(_, sum)| **sum > MOST_IN_ALL)?;
    Some(format!("all `{key}` together are {sum:e}, which nothing can have measured"))
}

/// Adds every whole amount to the sum of its key.
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

/// What the fields of one object say that cannot be together.
fn in_object(fields: &serde_json::Map<String, Value>, place: &str) -> Option<String> {
    let is_nothing = |key: &str| fields.get(key).and_then(Value::as_f64) == Some(0.0);
    let intervals = fields.get("interval_bytes").and_then(Value::as_array);
    if is_nothing("interval_seconds") && intervals.is_some_and(|values| !values.is_empty()) {
        let place = inner(place, "interval_seconds");
        return Some(format!("`{place}` is 0, but there are intervals"));
    }
    // Depths and sizes that did not occur are left out.
    is_nothing("transfers").then(|| {
        let place = inner(place, "transfers");
        format!("`{place}` is 0, which nothing counts")
    })
}

/// The place of a field of what is at `place`.
fn inner(place: &str, key: &str) -> String {
    match place {
        "" => key.to_string(),
        place => format!("{place}.{key}"),
    }
}

/// The same of a value at `place`; `measured` is whether it is part of a measured quantity.
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
            (!fits).then(|| format!("`{place}` is {number}, which nothing can have measured"))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Whether a field holds an amount with a unit, which is never below zero; a clock may be behind.
fn is_quantity(key: &str) -> bool {
    const ENDS: [&str; 6] = ["_seconds", "_bytes", "_per_second", "_us", "_share", "_per_gib"];
    if key == "offset_us" {
        return false;
    }
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
