//! Figures of storage as they are typed.

/// A number in the largest unit that needs at most three decimals.
fn typed(value: u64, units: &[(u64, &str)], last: &str) -> String {
    let unit = units
        .iter()
        .find(|(factor, _)| value >= *factor && value.is_multiple_of((*factor / 1000).max(1)));
    match unit {
        Some((factor, unit)) => {
            let thousandths = value / (*factor / 1000).max(1);
            let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{value}{last}"),
    }
}

pub(super) fn typed_rate(bytes: f64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "kB/s")];
    typed(bytes as u64, &UNITS, "B/s")
}

pub(super) fn typed_count(count: f64) -> String {
    typed(count as u64, &[(1_000_000, "M"), (1_000, "K")], "")
}

/// A time, unless it is none.
pub(super) fn typed_time(seconds: f64) -> Option<String> {
    match (seconds * 1e9).round() as u64 {
        _ if seconds <= 0.0 => None,
        short if short < 1000 => Some(format!("0.{short:03}us")),
        time => Some(typed(time, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")], "")),
    }
}
