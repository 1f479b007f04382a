//! Training: the emulated accelerators, their loaders, and what keeps them waiting.

pub mod machine;
