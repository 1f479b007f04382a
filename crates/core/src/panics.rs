//! What a panic says of itself.

use std::any::Any;

/// The message of a panic; all that std promises is that it can be anything.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_string()
}
