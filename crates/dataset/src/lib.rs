//! Which bytes a sample is.
