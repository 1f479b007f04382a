//! What is wrong with a system description.

use crate::submission::system_yaml::YamlFault;
use stormlp_core::units::counted;

/// The problems of the description in `place`, one per line.
pub fn system_faults(found: &[YamlFault], place: &str) -> String {
    if found.is_empty() {
        return format!("{place}: no problems");
    }
    let lines = found.iter().map(|fault| {
        let line = fault.line.map_or(String::new(), |line| format!(":{line}"));
        let field = match fault.field.as_str() {
            "" => String::new(),
            field => format!("{field}: "),
        };
        format!("{place}{line}: {field}{}", fault.message)
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// The number of problems: `1 field is wrong, and 2 fields are not filled in`.
pub fn count_of_faults(found: &[YamlFault]) -> String {
    let blank = found.iter().filter(|fault| fault.is_blank).count() as u64;
    match (found.len() as u64 - blank, blank) {
        (wrong, 0) => format!("{} wrong", are(wrong)),
        (0, blank) => format!("{} not filled in", are(blank)),
        (wrong, blank) => format!("{} wrong, and {} not filled in", are(wrong), are(blank)),
    }
}

/// `1 field is`, `2 fields are`.
fn are(fields: u64) -> String {
    let verb = if fields == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(fields, "field"))
}
