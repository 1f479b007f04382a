//! Parsing and formatting of sizes and durations.
//!
//! `K M G T` and `KiB MiB GiB TiB` are powers of 1024, `kB MB GB TB` are powers of 1000, a bare
//! number is bytes. Durations accept `us ms s m h`; a bare number is seconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One KiB in bytes.
pub const KIB: u64 = 1 << 10;
/// One MiB in bytes.
pub const MIB: u64 = 1 << 20;
/// One GiB in bytes.
pub const GIB: u64 = 1 << 30;
/// Bytes over seconds in GiB/s; 0 for no time.
pub fn gib_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 / GIB as f64 / seconds } else { 0.0 }
}

/// One TiB in bytes.
pub const TIB: u64 = 1 << 40;

/// A size in bytes; parses and prints the units of the command line.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Why a size, a duration or a range could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text is not a size.
    #[error("`{0}` is not a size: write a number with K, M, G, T (1024) or kB, MB, GB, TB (1000)")]
    Size(String),
    /// The text is not a duration.
    #[error("`{0}` is not a duration: write a number with us, ms, s, m or h")]
    Duration(String),
    /// The value is out of range.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// The size is zero where there must be some.
    #[error("it must be 1 byte or more")]
    Zero,
}

impl ByteSize {
    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// Splits `text` into its number and its unit.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError::Size(text.to_string());
        let (number, unit) = split_number(text).ok_or_else(bad)?;
        let factor = match unit {
            "" | "B" | "b" => 1,
            "K" | "k" | "KiB" | "Ki" => KIB,
            "M" | "m" | "MiB" | "Mi" => MIB,
            "G" | "g" | "GiB" | "Gi" => GIB,
            "T" | "t" | "TiB" | "Ti" => TIB,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        let bytes = number * factor as f64;
        // 2^63 keeps every size usable as a file offset.
        if !bytes.is_finite() || bytes >= 9.2e18 {
            return Err(UnitError::TooLarge(text.to_string()));
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
            .into_iter()
            .find(|(factor, _)| self.0 >= *factor)
            .map_or((self.0 as f64, "B"), |(factor, unit)| (self.0 as f64 / factor as f64, unit));
        if value.fract() == 0.0 {
            f.pad(&format!("{value:.0} {unit}"))
        } else {
            f.pad(&format!("{value:.2} {unit}"))
        }
    }
}

/// A size in the notation of gdsio and scripts: `4K`, `1M`, `1536K`; always exact.
pub fn short_size(bytes: u64) -> String {
    [(GIB, "G"), (MIB, "M"), (KIB, "K")]
        .into_iter()
        .find(|(factor, _)| bytes >= *factor && bytes.is_multiple_of(*factor))
        .map_or_else(|| bytes.to_string(), |(factor, unit)| format!("{}{unit}", bytes / factor))
}

/// Reads a size in bytes.
///
/// # Errors
/// As [`ByteSize`].
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    text.parse().map(ByteSize::bytes)
}

/// Reads a size in bytes above zero.
///
/// # Errors
/// As [`parse_bytes`], and if the size is zero.
pub fn parse_some_bytes(text: &str) -> Result<u64, UnitError> {
    match parse_bytes(text)? {
        0 => Err(UnitError::Zero),
        bytes => Ok(bytes),
    }
}

/// Reads bytes per second above zero, with a unit, with or without `/s`: `14.5GB/s`.
///
/// # Errors
/// If there is no unit, or the text is not such a rate.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let plain = text.strip_suffix("/s").unwrap_or(text);
    if plain.ends_with(|c: char| c.is_ascii_digit()) && plain.parse() != Ok(0.0) {
        return Err(format!("missing unit: {plain}GB/s or {plain}MB/s"));
    }
    let is_bits = plain.ends_with('b') || plain.ends_with("bit");
    match parse_some_bytes(plain) {
        Ok(bytes) => Ok(bytes as f64),
        Err(UnitError::Zero) => Err("must be above 0".to_string()),
        Err(_) if is_bits => {
            Err("expected bytes, not bits: divide by 8, e.g. 14.5GB/s for 116Gb/s".to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a duration in seconds.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_seconds(text: &str) -> Result<f64, UnitError> {
    parse_duration(text).map(|duration| duration.as_secs_f64())
}

/// Reads a duration such as `5s`, `250ms`, `2m` or `1.5` (seconds).
///
/// # Errors
/// If the text is not a number with one of the units `us ms s m h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let bad = || UnitError::Duration(text.to_string());
    let (number, unit) = split_number(text).ok_or_else(bad)?;
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|_| UnitError::TooLarge(text.to_string()))
}

/// A duration in human-readable form: `350 ms`, `5 s`, `2 m 05 s`, `1 h 10 m`.
pub fn format_duration(seconds: f64) -> String {
    // An empty sum is -0.0.
    let seconds = seconds + 0.0;
    if seconds > 0.0 && seconds < 0.000_999_5 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 60.0 {
        format!("{seconds:.0} s")
    } else if seconds < 3600.0 {
        format!("{} m {:02} s", seconds as u64 / 60, seconds as u64 % 60)
    } else {
        format!("{} h {:02} m", seconds as u64 / 3600, seconds as u64 % 3600 / 60)
    }
}

/// A count with its noun, pluralised unless it is one: `1 file`, `12 files`.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(text: &str) -> u64 {
        text.parse::<ByteSize>().unwrap().0
    }

    #[test]
    fn binary_and_decimal_units_are_distinguished() {
        assert_eq!(size("1M"), 1_048_576);
        assert_eq!(size("1MiB"), 1_048_576);
        assert_eq!(size("1MB"), 1_000_000);
        assert_eq!(size("3.5g"), 3_758_096_384);
        assert_eq!(size("4096"), 4096);
        assert_eq!(size("4 KiB"), 4096);
    }

    #[test]
    fn nonsense_is_refused_with_the_text_it_got() {
        for bad in ["", "M", "-1M", "1X", "1e9", "1..2", "99999999999T", "NaN"] {
            let error = bad.parse::<ByteSize>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("5").unwrap(), Duration::from_secs(5));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_duration("1.5h").unwrap(), Duration::from_secs(5400));
        assert!(parse_duration("5 parsecs").is_err());
    }

    #[test]
    fn durations_of_zero_have_no_sign() {
        let nothing: [f64; 0] = [];
        assert_eq!(format_duration(nothing.iter().sum()), "0 ms");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,20}") {
            let _ = text.parse::<ByteSize>();
            let _ = parse_duration(&text);
        }

        #[test]
        fn short_sizes_read_back_exactly(bytes in 0u64..(1 << 52)) {
            prop_assert_eq!(size(&short_size(bytes)), bytes);
        }
    }
}
