//! The processes started together by a launcher, and how to start them.

use core::net::Ipv6Addr;

use stormlp_core::distinct::distinct;
use stormlp_core::group::{GroupView, Member, SharedFolder, clocks_apart};
use stormlp_core::shell::shell_word;
use stormlp_core::units::{ByteSize, counted};

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
            "The clock of {} is {apart:.1} s behind the clock of {}: times in logs do not match.",
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

/// How each launcher starts one process of `command` per host. `hostfile` is the file that lists the
/// `hosts`, if a file does.
pub fn launch(hosts: &[String], hostfile: Option<&str>, command: &str) -> Document {
    let count = hosts.len();
    let list = hosts.join(",");
    let title = match count {
        1 => "One process on 1 host".to_string(),
        count => format!("One process on each of {}", counted(count as u64, "host")),
    };
    let mut document = Document::new(title);
    let facts = &mut document.brief;
    let hosts = match hostfile {
        Some(path) => format!("--hostfile {}", shell_word(path)),
        None => format!("--host {list}"),
    };
    facts.add(
        "Open MPI, PRRTE",
        format!("mpirun -n {count} --map-by ppr:1:node --bind-to none {hosts} {command}"),
    );
    // By a file, hydra would start two processes on a host that it lists twice.
    facts.add("MPICH, Intel MPI", format!("mpiexec -n {count} -ppn 1 -hosts {list} {command}"));
    // Slurm's file of nodes has neither comments nor slots.
    facts.add(
        "Slurm",
        format!("srun -N {count} --ntasks-per-node=1 -w {list} --mpi=pmix {command}"),
    );
    document
}

/// The names in a hostfile of Open MPI or MPICH, each once: one a line, before slots (`h1 slots=8`,
/// `h1:8`, `[fe80::1]:8`) and comments.
///
/// # Errors
/// Names the first line with something else: ranges, rank files, Ansible's sections, /etc/hosts.
pub fn hosts_of(hostfile: &str) -> Result<Vec<String>, String> {
    let mut hosts: Vec<String> = Vec::new();
    for (index, line) in hostfile.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let Some(word) = words.next() else { continue };
        let in_brackets = word.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (address, rest) = in_brackets.unwrap_or((word, ""));
        let (name, slots) = match address.parse::<Ipv6Addr>() {
            Ok(_) => (address, rest.trim_start_matches(':')),
            Err(_) => word.split_once(':').unwrap_or((word, "")),
        };
        let is_rank = name == "rank" && line.contains('=');
        let is_slots = slots.bytes().all(|b| b.is_ascii_digit()) && words.all(|w| w.contains('='));
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
        if is_rank || !is_slots || !is_name {
            return Err(format!("line {}: `{line}` is not a host", index + 1));
        }
        hosts.push(name.to_string());
    }
    Ok(distinct(hosts))
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

    #[test]
    fn every_launcher_is_given_the_hosts() {
        let hosts = ["h1", "h2"].map(str::to_string);
        let text = text::render(&launch(&hosts, None, "stormlp doctor"), None);
        for word in ["--host h1,h2 stormlp doctor\n", "-hosts h1,h2", "-w h1,h2", "ppr:1:node"] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
    }

    #[test]
    fn other_files_are_refused_by_line() {
        let hosts = hosts_of("[fe80::1]:8\nfe80::2\nh1:4").unwrap();
        assert_eq!(hosts, ["fe80::1", "fe80::2", "h1"]);
        let passwd = "root:x:0:0:root:/root:/bin/bash";
        for wrong in
            ["rank 0=h1 slot=0:0", "[storage]", "node[001-003]", "h1,h2", "::1 localhost", passwd]
        {
            let told = hosts_of(&format!("h0\n{wrong}")).unwrap_err();
            assert!(told.starts_with("line 2: `"), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_hostfile_is_named_to_the_launcher_that_reads_each_host_once() {
        let hosts = hosts_of("# rack 1\nh1 slots=8\n\n  h2:4  # spare\nh1 slots=8\n").unwrap();
        assert_eq!(hosts, ["h1", "h2"]);
        let text = text::render(&launch(&hosts, Some("my hosts"), "stormlp doctor"), None);
        for word in ["-n 2", "--hostfile 'my hosts'", "-hosts h1,h2", "-w h1,h2"] {
            assert!(text.contains(word), "{word}:\n{text}");
        }
    }
}
