//! Limits set in cufile.json, for versions of the library that do not report them.

use std::fs;
use std::path::PathBuf;

use super::nvidia::{DEFAULT_SETTINGS, SETTINGS_VARIABLE};

/// The settings of this process, which are JSON with comments.
pub(super) struct Config(serde_json::Value);

impl Config {
    /// Reads the file that the library reads. An unreadable one sets nothing, as for the library; a
    /// malformed one keeps its driver from opening.
    pub(super) fn read() -> Self {
        let named = std::env::var_os(SETTINGS_VARIABLE).filter(|path| !path.is_empty());
        let path = named.map_or_else(|| PathBuf::from(DEFAULT_SETTINGS), PathBuf::from);
        Self::parse(&fs::read_to_string(path).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(json5::from_str(text).unwrap_or_default())
    }

    /// `key` of `section`: one number, or a list of them; empty if it is not set.
    pub(super) fn numbers(&self, section: &str, key: &str) -> Vec<u64> {
        match &self.0[section][key] {
            serde_json::Value::Array(list) => {
                list.iter().filter_map(serde_json::Value::as_u64).collect()
            }
            one => one.as_u64().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_between_comments() {
        let config = Config::parse(
            r#"{
                // "execution": { "max_io_queue_depth": 1 },
                "execution": { "max_io_queue_depth": 16, /* threads */ "max_io_threads": 4, },
                "properties": { "posix_pool_slab_count": [128, 32], "io_priority": "default" }
            }"#,
        );
        assert_eq!(config.numbers("execution", "max_io_queue_depth"), [16]);
        assert_eq!(config.numbers("properties", "posix_pool_slab_count"), [128, 32]);
        assert!(config.numbers("properties", "io_priority").is_empty());
        assert!(config.numbers("profile", "cufile_stats").is_empty());
    }

    #[test]
    fn what_is_no_json_sets_nothing() {
        for text in ["", "{", "[]", "7"] {
            assert!(Config::parse(text).numbers("execution", "max_io_queue_depth").is_empty());
        }
    }
}
