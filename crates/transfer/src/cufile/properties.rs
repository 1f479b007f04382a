//! Properties that an open driver reports.

/// The driver's properties.
#[derive(Debug, Clone)]
pub struct Properties {
    /// The version of nvidia-fs; `None` when it is not loaded.
    pub(crate) kernel_driver_version: Option<(u32, u32)>,
    /// Kinds of storage with a direct route, as far as they have names.
    pub(super) direct_targets: Vec<&'static str>,
    /// Whether the library lists a kind of storage with a direct route.
    pub(crate) has_direct_targets: bool,
    /// Whether it lists one whose direct route need not be the kernel driver's: network file
    /// systems have separate routes, which that driver does not count.
    pub(crate) has_uncounted_targets: bool,
    pub(super) features: Vec<&'static str>,
    /// Whether its calls spin until completion.
    pub(super) polls: bool,
    pub(super) allows_fallback: bool,
    pub(super) max_direct_io_bytes: u64,
    /// Size of the buffer for transfers without a direct route.
    pub(crate) per_buffer_cache_bytes: u64,
    /// Maximum memory that can be registered; 0 if it is not reported.
    pub(super) max_registered_bytes: u64,
    /// The maximum number of entries in a batch.
    pub(crate) max_batch_entries: usize,
}

impl Properties {
    /// All properties as text, one each.
    pub fn describe(&self) -> Vec<String> {
        let list = |names: &[&str]| match names.len() {
            0 => "none".to_string(),
            _ => names.join(", "),
        };
        let kernel = self.kernel_driver_version.map_or_else(
            || "nvidia-fs not loaded".to_string(),
            |(major, minor)| format!("nvidia-fs {major}.{minor}"),
        );
        let words = [
            kernel,
            format!("direct targets: {}", list(&self.direct_targets)),
            format!("features: {}", list(&self.features)),
            format!("max_direct_io_size {} KiB", self.max_direct_io_bytes >> 10),
        ];
        words.into_iter().chain(self.polls.then(|| POLL_MODE.to_string())).collect()
    }
}

/// The property of a driver that spins until completion (`properties.use_poll_mode`).
pub const POLL_MODE: &str = "poll mode";
