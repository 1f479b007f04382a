//! What the processes of a run know of each other from how they introduced themselves, and from when
//! they passed barriers.

use stormlp_core::difference;
use stormlp_core::group::{ClockOffset, Member};

/// Version of the protocol between processes. Processes with different versions cannot work
/// together.
pub(crate) const PROTOCOL: u32 = 2;

/// A process's clock readings on arriving at a barrier and on leaving it, in microseconds since
/// 1970.
pub(crate) type AtBarrier = (i64, i64);

/// Clock offset of each process relative to the first, by rank, from the readings at the same
/// barriers. Nobody leaves a barrier before all have arrived, which bounds each offset from both
/// sides.
pub(crate) fn clock_offsets(readings: &[Vec<AtBarrier>]) -> Vec<ClockOffset> {
    let Some(first) = readings.first() else {
        return Vec::new();
    };
    let of = |other: &Vec<AtBarrier>| {
        let pairs = || first.iter().zip(other);
        let least = pairs().map(|((_, left), (came, _))| came - left).max()?;
        let most = pairs().map(|((came, _), (_, left))| left - came).min()?;
        Some(ClockOffset {
            offset_us: (least + most) as f64 / 2.0,
            error_us: (most - least) as f64 / 2.0,
        })
    };
    let mut offsets: Vec<ClockOffset> = readings.iter().filter_map(of).collect();
    if let Some(own) = offsets.first_mut() {
        // A clock has no offset from itself.
        (own.offset_us, own.error_us) = (0.0, 0.0);
    }
    offsets
}

/// A property of a process, in words.
type Property = fn(&Member) -> String;

/// Why the processes cannot work together, in one line that names two of them; `None` if they can.
pub(crate) fn disagreement(members: &[Member]) -> Option<String> {
    let first = members.first()?;
    let compare: [(&str, Property); 3] = [
        ("version of stormlp", |member| member.version.clone()),
        ("protocol", |member| member.protocol.to_string()),
        ("command", |member| member.command.clone()),
    ];
    members.iter().find_map(|other| {
        let (what, get) = compare.iter().find(|(_, get)| get(first) != get(other))?;
        Some(differ(what, (first, &get(first)), (other, &get(other)), members))
    })
}

/// Describes two hosts that differ, in one line.
pub(crate) fn differ(
    what: &str,
    (one, of_one): (&Member, &str),
    (other, of_other): (&Member, &str),
    all: &[Member],
) -> String {
    let (one, other) = (one.name(all), other.name(all));
    difference::to_text(what, (&one, of_one), (&other, of_other))
}

/// Total memory of all hosts, each counted once.
pub fn memory_bytes(members: &[Member]) -> u64 {
    let hosts = members.iter().filter(|member| member.leads_host(members));
    hosts.map(|member| member.memory_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_hosts() -> Vec<Member> {
        vec![
            stormlp_fixtures::member(0, "h1"),
            stormlp_fixtures::member(1, "h1"),
            stormlp_fixtures::member(2, "h2"),
        ]
    }

    #[test]
    fn a_difference_names_both_hosts() {
        let mut members = two_hosts();
        assert_eq!(disagreement(&members), None);
        members[2].version = "1.1".to_string();
        let told = disagreement(&members).unwrap();
        assert_eq!(
            told,
            "the hosts differ in the version of stormlp: h1 (rank 0) has 1.0, h2 has 1.1"
        );
        let mut members = two_hosts();
        members[1].command = "doctor".to_string();
        let told = disagreement(&members).unwrap();
        assert!(told.contains("differ in the command: h1 (rank 0) has gds"), "{told}");
    }

    #[test]
    fn a_clock_is_bounded_by_what_was_read_at_barriers() {
        // The second clock is 500 ahead; barriers take 10 to 30.
        let first = vec![(0, 30), (100, 110)];
        let second = vec![(500 + 20, 500 + 31), (500 + 90, 500 + 112)];
        let offsets = clock_offsets(&[first, second]);
        assert_eq!((offsets[0].offset_us, offsets[0].error_us), (0.0, 0.0));
        assert_eq!((offsets[1].offset_us, offsets[1].error_us), (501.0, 11.0));
        assert!(clock_offsets(&[]).is_empty());
    }

    #[test]
    fn memory_of_a_host_is_counted_once() {
        assert_eq!(memory_bytes(&two_hosts()), 128 << 30);
    }
}
