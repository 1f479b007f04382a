//! Panic messages.

use std::any::Any;

/// The message of a panic; std only promises a payload of any type.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
