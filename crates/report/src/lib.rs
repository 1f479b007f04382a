//! Says what happened.
