//! The reports of all lanes, in every output format.

mod comparison;
mod documents;
mod pages;
mod schema;
mod work;
