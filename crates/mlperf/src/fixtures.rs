//! The sample reports of the lanes.

#[path = "../../checkpoint/tests/fixtures/mod.rs"]
pub mod checkpoint;
#[path = "../../kvcache/tests/fixtures/mod.rs"]
pub mod kvcache;
#[path = "../../training/tests/fixtures/mod.rs"]
pub mod training;
