//! What reports of all lanes show, in every output.

mod comparison;
mod documents;
mod pages;
mod schema;
mod version_1;
mod work;
