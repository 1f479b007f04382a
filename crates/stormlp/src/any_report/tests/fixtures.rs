//! The sample reports of all lanes.

#[path = "../../../../checkpoint/tests/fixtures/mod.rs"]
pub(crate) mod checkpoint;
#[path = "../../../../kvcache/tests/fixtures/mod.rs"]
pub(crate) mod kvcache;
#[path = "../../../../matrix/tests/fixtures/mod.rs"]
pub(crate) mod matrix;
#[path = "../../../../training/tests/fixtures/mod.rs"]
pub(crate) mod training;
