#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_transfer::object::read_reply;

// Replies of an endpoint: the head, and each document that may follow it.
fuzz_target!(|bytes: &[u8]| read_reply(bytes));
