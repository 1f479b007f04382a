//! Faults of a system description.

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

/// The number of problems.
pub fn count_of_faults(found: &[YamlFault]) -> String {
    let blank = found.iter().filter(|fault| fault.is_blank).count();
    let all = counted(found.len() as u64, "problem");
    format!("{all}, {blank} of them a field that is not filled in")
}
