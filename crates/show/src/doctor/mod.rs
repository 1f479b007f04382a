//! Output of `stormlp doctor`: which paths this machine can run, and why not.
//!
//! Every line is a name and a value. An unavailable value is `unknown` with the reason on the same
//! line, so that you need not guess.

mod gpu;
mod group;
mod storage;

use stormlp_core::facts::Availability;
use stormlp_core::machine::{Fact, Machine};
use stormlp_core::path::PathKind;
use stormlp_core::units::ByteSize;

use crate::document::{Document, Facts, Section};

pub use group::{hosts_of, launch, section as group};

/// The complete output of the doctor.
pub fn document(machine: &Machine) -> Document {
    let host = &machine.host;
    let mut document = Document::new(answer(machine));
    let version = format!("{} on {}, Linux {}", host.stormlp_version, host.hostname, host.kernel);
    document.brief.add("stormlp", version);
    let profile = if host.release_build { "release" } else { "debug" };
    let linking = if machine.build.statically_linked {
        "static: opens no libraries"
    } else {
        "opens GPU libraries at run time"
    };
    let target = &machine.build.target;
    document.facts.add("build", format!("{profile}, for {target}, {linking}"));
    paths(machine, document.section("Transfer paths", None));
    gpu::section(machine, &mut document);
    storage::section(machine, &mut document);
    self::host(machine, &mut document.details("Host", None).facts);
    io_uring(machine, &mut document.details("io_uring", None).facts);
    document.warn(&machine.warnings);
    document
}

/// The possible measurements here, the paths for them, and the paths that cannot run.
fn answer(machine: &Machine) -> String {
    let of_kind = |available: bool| {
        let paths = machine.host.paths.iter().filter(|one| one.path != PathKind::Null);
        let paths = paths.filter(|one| one.availability.is_available() == available);
        paths.map(|one| one.path.name()).collect::<Vec<_>>()
    };
    let emulated = if stands_in(machine) { " (accelerator memory emulated)" } else { "" };
    let can = format!("can be measured here: {}{emulated}", of_kind(true).join(", "));
    match of_kind(false).as_slice() {
        [] => can,
        [one] => format!("{can}; not {one}"),
        [one, more @ ..] => format!("{can}; not {one} and {} more", more.len()),
    }
}

/// Whether host memory stands in for accelerators' memory.
fn stands_in(machine: &Machine) -> bool {
    let mut paths = machine.host.paths.iter();
    machine.host.accelerators.is_empty()
        && paths.any(|one| one.path.has_bounce_buffer() && one.availability.is_available())
}

fn paths(machine: &Machine, section: &mut Section) {
    let supports = &machine.host.paths;
    let mut told: Vec<&Availability> = Vec::new();
    for support in supports {
        let name = support.path.name();
        if support.availability.is_available() {
            section.facts.add(name, "yes");
            continue;
        }
        if told.contains(&&support.availability) {
            continue;
        }
        // A reason shared by several paths is shown once.
        told.push(&support.availability);
        availability(name, &support.availability, &mut section.facts);
        let alike = supports.iter().filter(|other| other.availability == support.availability);
        let others: Vec<&str> = alike.map(|other| other.path.name()).skip(1).collect();
        if !others.is_empty() {
            section.facts.add("", format!("also {}", others.join(", ")));
        }
    }
    if stands_in(machine) {
        let emulated = "No GPU can be used: accelerator memory is emulated with host memory.";
        section.lines.push(emulated.to_string());
        if machine.host.support(PathKind::Gds).is_available() {
            let cufile = "cuFile works on host memory here: give its paths `--buffer-memory host`.";
            section.lines.push(cufile.to_string());
        }
    }
}

/// A name with its availability and the remedy.
fn availability(name: &str, availability: &Availability, facts: &mut Facts) {
    match availability {
        Availability::Available => facts.add(name, "yes"),
        Availability::Unavailable { fact, remedy } => {
            facts.add(name, format!("no: {fact}"));
            if !remedy.is_empty() {
                facts.add("", format!("help: {remedy}"));
            }
        }
    }
}

fn host(machine: &Machine, facts: &mut Facts) {
    let (host, memory) = (&machine.host, &machine.memory);
    facts.add("CPU", &host.cpu_model);
    facts.add(
        "CPUs",
        format!("{} usable (online: {})", host.cpus, shown(&machine.processors.online)),
    );
    if !host.group_limits.is_empty() {
        facts.add("control group", format!("at most {}", host.group_limits.join("; ")));
    }
    match &machine.processors.numa_nodes {
        Fact::Known(nodes) => {
            for node in nodes {
                let memory = size(&node.memory_bytes);
                facts.add(
                    format!("NUMA node {}", node.node),
                    format!("CPUs {}, {memory}", node.cpus),
                );
            }
        }
        Fact::Unknown(reason) => facts.add("NUMA nodes", format!("unknown: {reason}")),
    }
    let available = size(&memory.available_bytes);
    facts.add("memory", format!("{}, {available} available", ByteSize(host.memory_bytes)));
    facts.add(
        "memory limit",
        host.memory_limit_bytes
            .map_or_else(|| "none".to_string(), |bytes| ByteSize(bytes).to_string()),
    );
    facts.add("transparent huge pages", shown(&memory.transparent_huge_pages));
    facts.add(
        "reserved huge pages",
        format!(
            "{} of {} free, {} each",
            shown(&memory.huge_pages_free),
            shown(&memory.huge_pages_total),
            size(&memory.huge_page_bytes)
        ),
    );
    let locked = host
        .locked_memory_limit_bytes
        .map_or_else(|| "unlimited".to_string(), |bytes| ByteSize(bytes).to_string());
    facts.add("locked memory limit", locked);
    facts.add("open files limit", host.open_files_limit.to_string());
}

fn io_uring(machine: &Machine, facts: &mut Facts) {
    availability("rings", &machine.host.io_uring, facts);
    if !machine.host.tokio_uring.is_available() {
        availability("tokio-uring", &machine.host.tokio_uring, facts);
    }
}

/// A known value, or `unknown` with its reason.
fn shown<T: std::fmt::Display>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Known(value) => value.to_string(),
        Fact::Unknown(reason) => format!("unknown ({reason})"),
    }
}

/// A known size in binary units, or `unknown` with its reason.
fn size(fact: &Fact<u64>) -> String {
    shown(&fact.clone().map(ByteSize))
}

/// A known boolean as `yes` or `no`, or `unknown` with its reason.
fn yes_no(fact: &Fact<bool>) -> String {
    shown(&fact.clone().map(|yes| if yes { "yes" } else { "no" }))
}

#[cfg(test)]
pub(crate) mod tests;
