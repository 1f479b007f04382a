//! The processes of a run, as they introduced themselves to each other.

use stormlp_core::difference;
use stormlp_core::group::Member;

/// Version of the protocol between processes. Processes with different versions cannot work
/// together.
pub(crate) const PROTOCOL: u32 = 2;

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
    fn memory_of_a_host_is_counted_once() {
        assert_eq!(memory_bytes(&two_hosts()), 128 << 30);
    }
}
