//! How bytes get from storage to an accelerator and back.
pub mod probe;
