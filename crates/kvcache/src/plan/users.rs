//! The users of the original: drawn by Python's generator from the seed alone, before anything
//! runs, so that the users of a seed are fixed.

use serde::{Deserialize, Serialize};
use stormlp_core::mt19937::Mt19937;
use strum::{Display, IntoStaticStr};

/// How soon a request is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Class {
    /// Last.
    Batch,
    /// Before batch.
    Responsive,
    /// Before all other users.
    Interactive,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Responsive, Self::Batch];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The requests of a kind of user, as ranges.
struct Kind {
    context_tokens: [u32; 2],
    generation_tokens: [u32; 2],
    think_seconds: [f64; 2],
}

/// Chatbot, coding, document.
const KINDS: [Kind; 3] = [
    Kind { context_tokens: [512, 4096], generation_tokens: [50, 200], think_seconds: [0.1, 0.5] },
    Kind {
        context_tokens: [4096, 25_000],
        generation_tokens: [100, 500],
        think_seconds: [0.2, 1.0],
    },
    Kind {
        context_tokens: [4096, 16_384],
        generation_tokens: [200, 800],
        think_seconds: [0.3, 1.5],
    },
];
/// Below this draw a user is interactive.
const INTERACTIVE: f64 = 0.15;
/// Below this draw a user is at least responsive.
const RESPONSIVE: f64 = 0.5;

/// A user, who sends requests without waiting for answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct User {
    /// How soon its requests are served.
    pub class: Class,
    /// The longest context of a request in tokens.
    pub context_tokens: u32,
    /// The longest answer in tokens.
    pub generation_tokens: u32,
    /// Mean time between requests in seconds.
    pub think_seconds: f64,
}

impl User {
    /// Requests that it sends per second.
    pub fn requests_per_second(&self) -> f64 {
        1.0 / self.think_seconds
    }
}

/// A whole number between two, both included, as Python's `randint` draws it.
pub(super) fn whole_between(random: &mut Mt19937, [from, to]: [u32; 2]) -> u32 {
    from + random.next_below(to - from + 1)
}

/// A number between two, as Python's `uniform` draws it.
pub(super) fn between(random: &mut Mt19937, [from, to]: [f64; 2]) -> f64 {
    from + (to - from) * random.next_f64()
}

/// The first `count` users of a seed. The generator then goes on with their requests.
pub fn draw(random: &mut Mt19937, count: u32) -> Vec<User> {
    let mut user = || {
        let kind = &KINDS[random.next_below(KINDS.len() as u32) as usize];
        let class = match random.next_f64() {
            below if below < INTERACTIVE => Class::Interactive,
            below if below < RESPONSIVE => Class::Responsive,
            _ => Class::Batch,
        };
        User {
            class,
            context_tokens: whole_between(random, kind.context_tokens),
            generation_tokens: whole_between(random, kind.generation_tokens),
            think_seconds: between(random, kind.think_seconds),
        }
    };
    (0..count).map(|_| user()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_the_originals() {
        let users = draw(&mut Mt19937::of_python(42), 200);
        let user = |class, context_tokens, generation_tokens, think_seconds| User {
            class,
            context_tokens,
            generation_tokens,
            think_seconds,
        };
        let first = [
            user(Class::Interactive, 16_245, 481, 0.593_870_224_564_171_4),
            user(Class::Batch, 3283, 189, 0.134_775_533_051_766_48),
            user(Class::Interactive, 7166, 211, 0.386_128_714_712_591_7),
            user(Class::Interactive, 7353, 758, 0.803_423_785_153_990_5),
        ];
        assert_eq!(users[..4], first);
    }

    #[test]
    fn their_classes_are_those_of_published_ranks() {
        // Users, seed: interactive, responsive, batch, mean context.
        let published = [
            (200, 42, [25, 78, 97], 9330),
            (200, 43, [38, 72, 90], 8592),
            (100, 42, [14, 35, 51], 8383),
            (70, 43, [10, 28, 32], 8240),
        ];
        for (count, seed, classes, mean) in published {
            let users = draw(&mut Mt19937::of_python(seed), count);
            let of = |class| users.iter().filter(|user| user.class == class).count();
            assert_eq!(Class::ALL.map(of), classes, "{count} users, seed {seed}");
            let tokens: f64 = users.iter().map(|user| f64::from(user.context_tokens)).sum();
            assert_eq!((tokens / f64::from(count)).round() as u32, mean);
        }
    }
}
