//! The three options of a closed MLPerf Storage v3.0 run, and what their users ask of storage.

use serde::Serialize;
use stormlp_core::mt19937::Mt19937;

use super::model::Model;
use super::users::{User, draw};

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
/// Tokens in memory for each worker of the original, by its own estimate.
const TOKENS_OF_WORKER: u64 = 2 * 8000;
/// Memory that the original takes besides, in bytes: 2.5 GiB.
const BESIDE_WORKERS: u64 = 5 << 29;

/// An option: what a client does in each of its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MlperfOption {
    /// Its number.
    pub number: u32,
    /// Its name in the rules.
    pub name: &'static str,
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
        name: "Max Storage Stress",
        model: "llama3.1-8b",
        users: 200,
        cpu_bytes: 0,
        concurrent_writes: 16,
    },
    MlperfOption {
        number: 2,
        name: "Storage Throughput",
        model: "llama3.1-8b",
        users: 100,
        cpu_bytes: 4 << 30,
        concurrent_writes: 16,
    },
    MlperfOption {
        number: 3,
        name: "Large Model (70B)",
        model: "llama3.1-70b-instruct",
        users: 70,
        cpu_bytes: 0,
        concurrent_writes: 4,
    },
];

/// What the users of the first client ask for, whether or not storage keeps up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Offered {
    /// The option.
    #[serde(flatten)]
    pub option: MlperfOption,
    /// Requests sent per second.
    pub requests_per_second: f64,
    /// Bytes per second that these would write.
    pub written_bytes_per_second: f64,
    /// Bytes per second that these would read of their own objects; those of other turns come on
    /// top.
    pub read_bytes_per_second: f64,
    /// Memory of the original client by its own estimate, in bytes.
    pub original_memory_bytes: u64,
}

impl Offered {
    /// What the users of `option` ask for.
    ///
    /// # Errors
    /// If its model is not known.
    pub fn of(option: &MlperfOption) -> Result<Self, String> {
        let per_token = Model::named(option.model)?.bytes_per_token();
        let users = draw(&mut Mt19937::of_python(SEED), option.users);
        let (mut written, mut read) = (0.0, 0.0);
        for user in &users {
            let (of_write, of_reads) = user.tokens_of_request();
            written += user.requests_per_second() * of_write;
            read += user.requests_per_second() * of_reads;
        }
        let workers = u64::from(option.users.min(MOST_WORKERS));
        Ok(Self {
            option: *option,
            requests_per_second: users.iter().map(User::requests_per_second).sum(),
            written_bytes_per_second: written * per_token as f64,
            read_bytes_per_second: read * per_token as f64,
            original_memory_bytes: workers * TOKENS_OF_WORKER * per_token + BESIDE_WORKERS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_send_what_the_original_does() {
        let offered = OPTIONS.map(|option| Offered::of(&option).unwrap());
        let rates = offered.clone().map(|one| one.requests_per_second.round() as u32);
        assert_eq!(rates, [483, 242, 175]);
        // Computed with the original's own users.
        let gib = |bytes: f64| (bytes / f64::from(1 << 30)).round() as u32;
        let bytes = offered
            .clone()
            .map(|one| (gib(one.written_bytes_per_second), gib(one.read_bytes_per_second)));
        assert_eq!(bytes, [(265, 1119), (125, 593), (215, 1047)]);
        let memory = offered.map(|one| one.original_memory_bytes >> 30);
        assert_eq!(memory, [393, 197, 344]);
    }

    #[test]
    fn what_is_offered_is_what_the_requests_add_up_to() {
        use super::super::load::{Load, OmittedParts};
        let offered = Offered::of(&OPTIONS[0]).unwrap();
        let per_token = Model::named(OPTIONS[0].model).unwrap().bytes_per_token() as f64;
        let mut random = Mt19937::of_python(SEED);
        let users = draw(&mut random, OPTIONS[0].users);
        let mut load =
            Load::new(users, random, OmittedParts { conversations: true, prompts: true });
        let (mut written, mut read) = (0.0, 0.0);
        let seconds = 1000.0;
        while (load.next_due_ns() as f64) < seconds * 1e9 {
            let request = load.send(0).unwrap();
            let bytes = f64::from(request.context_tokens) * per_token;
            written += bytes;
            if request.decodes() {
                read += bytes * f64::from(1 + request.further_reads());
            }
        }
        let near = |drawn: f64, computed: f64| (drawn / seconds / computed - 1.0).abs() < 0.01;
        assert!(near(written, offered.written_bytes_per_second), "{written} {offered:?}");
        assert!(near(read, offered.read_bytes_per_second), "{read} {offered:?}");
    }
}
