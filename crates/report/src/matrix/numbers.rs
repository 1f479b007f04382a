//! Numbers as people read them: few digits, thousands apart, the unit in the column's head.

use stormlp_model::units::{ByteSize, GIB};

/// Bytes per second as GiB/s.
pub(super) fn gib_per_second(bytes_per_second: f64) -> String {
    let value = bytes_per_second / GIB as f64;
    if value >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// A whole number with commas between its thousands.
pub(super) fn thousands(value: u64) -> String {
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

/// A value with as many decimals as it deserves.
pub(super) fn short(value: f64) -> String {
    if value >= 1000.0 {
        thousands(value.round() as u64)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 1.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 {
        "< 1 %".to_string()
    } else {
        format!("{percent:.0} %")
    }
}

/// Bytes in KiB, as gdsio prints sizes: whole where they are.
pub(super) fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) {
        (bytes / 1024).to_string()
    } else {
        (bytes as f64 / 1024.0).to_string()
    }
}

/// A size in binary units.
pub(super) fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}
