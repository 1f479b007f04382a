//! The context of every command besides its arguments.

pub(crate) use stormlp_hosts::session::Session;
