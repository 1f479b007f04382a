//! The processes started together by a launcher, and how to start them.

use stormlp_core::group::{GroupView, Member, SharedFolder, clocks_apart};
use stormlp_core::units::ByteSize;

use crate::document::{Document, Table, number, word};

/// The processes, how they found each other, and the cost of a barrier.
pub fn section(group: &GroupView, document: &mut Document) {
    let columns = vec![
        number("rank", 0, |one: &&Member| one.rank),
        word("host", 0, |one: &&Member| one.hostname.clone()),
        number("CPUs", 1, |one: &&Member| one.cpus),
        number("memory", 1, |one: &&Member| ByteSize(one.memory_bytes).to_string()),
        word("boot", 2, |one: &&Member| one.boot_id.chars().take(8).collect::<String>()),
    ];
    let table = Table::of(&group.members, |one| one.rank.to_string(), columns);
    let title = format!("Group of {}", group.facts.size);
    let section = document.section(&title, Some(table));
    let facts = &group.facts;
    section.facts.add("found by", format!("{}, {}", facts.backend, facts.library));
    match facts.empty_barrier_us {
        Some(barrier) => section
            .facts
            .add("empty barrier", format!("p50 {:.1} µs, p99 {:.1} µs", barrier.p50, barrier.p99)),
        None => section.facts.add("empty barrier", "not measured"),
    }
    section.facts.add("folder", folder(&group.folder));
    let together = group.members.iter().filter(|member| {
        let mut others = group.members.iter();
        others.any(|other| other.rank != member.rank && other.shares_host_with(member))
    });
    if together.count() > 0 {
        let line = "Processes of one host and boot share its memory, page cache and devices.";
        section.lines.push(line.to_string());
    }
    if group.members.iter().any(|member| member.cpus == 1) {
        let line = "A process may run on 1 CPU only: mpirun binds processes unless given \
                    `--bind-to none`.";
        section.lines.push(line.to_string());
    }
    if let Some((behind, ahead, apart)) = clocks_apart(&group.members) {
        section.lines.push(format!(
            "The clock of {} is {apart:.1} s behind that of {}: times in logs do not match.",
            behind.hostname, ahead.hostname
        ));
    }
}

/// Whether the hosts share the folder.
fn folder(folder: &SharedFolder) -> String {
    match folder {
        SharedFolder::Shared { path } => format!("{} is shared by all", path.display()),
        SharedFolder::NotShared { path, blind } => format!(
            "{} is not shared: {blind} does not see what another host writes there",
            path.display()
        ),
        SharedFolder::NotTried { path } => {
            format!("{} is not writable, so whether it is shared is unknown", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use stormlp_core::group::{BarrierUs, GroupFacts};

    use super::*;
    use crate::text;

    #[test]
    fn the_table_has_every_rank_and_the_cost_of_a_barrier() {
        let view = GroupView {
            facts: GroupFacts {
                backend: "pmix".to_string(),
                library: "libpmix.so.2".to_string(),
                size: 2,
                empty_barrier_us: Some(BarrierUs { p50: 58.0, p99: 120.0 }),
                own_barrier_us: None,
                machines: Vec::new(),
                clocks: Vec::new(),
            },
            members: vec![stormlp_fixtures::member(0, "h1"), stormlp_fixtures::member(1, "h2")],
            folder: SharedFolder::NotShared { path: "/shared".into(), blind: "h2".to_string() },
        };
        let mut document = Document::new("doctor");
        section(&view, &mut document);
        let text = text::render(&document, None);
        for word in [
            "Group of 2",
            "h1",
            "h2",
            "pmix",
            "p50 58.0 µs, p99 120.0 µs",
            "/shared is not shared: h2 does not see",
        ] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
        assert!(!text.contains("share its memory"), "{text}");
    }
}
