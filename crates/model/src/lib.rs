//! The nouns that travel.
