//! Human-readable numbers: few digits, thousands separators, the unit in the column header.

/// A whole number with thousands separators.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A value with about three significant digits.
pub fn short(value: f64) -> String {
    with_decimals_of(value, value)
}

/// `value` with the decimals of `other`: a deviation next to its mean.
pub(crate) fn with_decimals_of(value: f64, other: f64) -> String {
    match other.abs() {
        large if large >= 1000.0 && value >= 0.0 => thousands(value.round() as u64),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 || small == 0.0 => format!("{value:.2}"),
        tiny if tiny >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { "< 1 %".to_string() } else { format!("{percent:.0} %") }
}
