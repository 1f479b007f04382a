//! A queue of future events, ordered by time.
//!
//! Events usually arrive in time order: reads of one device, computations of equal length. These
//! need no sorting and are stored contiguously; only out-of-order events go to a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// Nanoseconds on the driver's clock.
pub type Nanos = u64;

/// Future events; events at the same time are returned in insertion order.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Events that arrived in order.
    row: VecDeque<Due<T>>,
    others: BinaryHeap<Reverse<Due<T>>>,
    /// Total number of events ever inserted.
    foreseen: u64,
}

#[derive(Debug)]
struct Due<T> {
    at: Nanos,
    serial: u64,
    what: T,
}

impl<T> Queue<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { row: VecDeque::with_capacity(capacity), others: BinaryHeap::new(), foreseen: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.row.len() + self.others.len()
    }

    pub(super) fn clear(&mut self) {
        self.row.clear();
        self.others.clear();
    }

    pub(super) fn push(&mut self, at: Nanos, what: T) {
        self.foreseen += 1;
        let due = Due { at, serial: self.foreseen, what };
        if self.row.back().is_none_or(|last| last.at <= at) {
            self.row.push_back(due);
        } else {
            self.others.push(Reverse(due));
        }
    }

    /// Time of the next event.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.next().map(|due| due.at)
    }

    /// Removes the next event, if it is due by `now`.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next()?.at > now {
            return None;
        }
        self.pop()
    }

    /// Removes the next event.
    pub(super) fn pop(&mut self) -> Option<(Nanos, T)> {
        let due = match (self.row.front(), self.others.peek()) {
            (Some(first), Some(Reverse(other))) if other < first => self.others.pop()?.0,
            (None, _) => self.others.pop()?.0,
            (Some(_), _) => self.row.pop_front()?,
        };
        Some((due.at, due.what))
    }

    fn next(&self) -> Option<&Due<T>> {
        match (self.row.front(), self.others.peek()) {
            (Some(first), Some(Reverse(other))) => Some(first.min(other)),
            (Some(first), None) => Some(first),
            (None, other) => other.map(|Reverse(other)| other),
        }
    }
}

impl<T> Due<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.at, self.serial)
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_come_by_time_and_then_as_foreseen(
            steps in prop::collection::vec((0u64..20, any::<bool>()), 0..200),
        ) {
            let mut queue = Queue::with_capacity(0);
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (number, (at, pops)) in steps.into_iter().enumerate() {
                if pops {
                    model.sort_unstable();
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    prop_assert_eq!(queue.next_at(), first.map(|(at, _)| at));
                    prop_assert_eq!(queue.pop(), first);
                } else {
                    queue.push(at, number);
                    model.push((at, number));
                }
                prop_assert_eq!(queue.len(), model.len());
            }
            model.sort_unstable();
            let (due, later): (Vec<_>, Vec<_>) = model.iter().partition(|(at, _)| *at <= 10);
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop_due(10)).collect();
            prop_assert_eq!(popped, due);
            prop_assert_eq!(queue.len(), later.len());
        }
    }
}
