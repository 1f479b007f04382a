//! Runs the real executable under the launchers that this machine has: two processes, which stand
//! for two hosts. Missing launchers are reported as skipped.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

mod checkpoint;
mod datagen;
mod doctor;
mod examples;
mod gds;
mod kvcache;
mod launcher;
mod objects;
mod train;
