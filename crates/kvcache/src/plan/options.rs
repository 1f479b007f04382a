//! The three options of a closed MLPerf Storage v3.0 run.

/// The seed of the first client.
pub const SEED: u32 = 42;
/// Duration of a trial in seconds.
pub const SECONDS: f64 = 300.0;
/// Trials of each option, and seconds between options.
pub(super) const TRIALS: u32 = 3;
pub(super) const PAUSE_SECONDS: f64 = 90.0;
/// Requests are served by one thread for each user, but at most so many.
pub const MOST_WORKERS: u32 = 500;
/// The longest trial in seconds: a week.
pub(super) const MOST_SECONDS: f64 = 604_800.0;
/// Bytes of a call: a piece that stays in a core's cache while it is made and copied.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;

/// An option: the work of a client in each of its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlperfOption {
    /// Its number.
    pub number: u32,
    /// The model.
    pub model: &'static str,
    /// Users of each client.
    pub users: u32,
    /// Memory of the host that holds objects before storage does, in bytes.
    pub cpu_bytes: u64,
    /// Objects that are written at a time.
    pub concurrent_writes: u32,
}

/// The options, as fixed by section 6.3 of the rules of v3.0.
pub const OPTIONS: [MlperfOption; 3] = [
    MlperfOption {
        number: 1,
        model: "llama3.1-8b",
        users: 200,
        cpu_bytes: 0,
        concurrent_writes: 16,
    },
    MlperfOption {
        number: 2,
        model: "llama3.1-8b",
        users: 100,
        cpu_bytes: 4 << 30,
        concurrent_writes: 16,
    },
    MlperfOption {
        number: 3,
        model: "llama3.1-70b-instruct",
        users: 70,
        cpu_bytes: 0,
        concurrent_writes: 4,
    },
];
