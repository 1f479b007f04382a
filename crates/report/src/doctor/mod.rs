//! The text of `stormlp doctor`: what this machine can do, path by path, and why not.
//!
//! Every line is a name and a value. A value that could not be had is `unknown`, with the reason
//! on the same line, so that nothing has to be guessed from what is missing.

mod gpu;
mod lines;
mod storage;

use stormlp_model::facts::Availability;
use stormlp_model::machine::{Fact, Machine};
use stormlp_model::path::PathKind;
use stormlp_model::units::ByteSize;

use self::lines::Lines;

/// Renders everything the doctor knows.
pub fn text(machine: &Machine) -> String {
    let mut lines = Lines::default();
    head(machine, &mut lines);
    paths(machine, &mut lines);
    gpu::section(machine, &mut lines);
    storage::section(machine, &mut lines);
    host(machine, &mut lines);
    io_uring(machine, &mut lines);
    warnings(machine, &mut lines);
    lines.finish()
}

fn head(machine: &Machine, lines: &mut Lines) {
    let host = &machine.host;
    let profile = if host.release_build {
        "release"
    } else {
        "debug"
    };
    let linking = if machine.build.statically_linked {
        "static: opens no libraries"
    } else {
        "opens GPU libraries at run time"
    };
    lines.plain(format!(
        "stormlp {} on {}, Linux {}",
        host.stormlp_version, host.hostname, host.kernel
    ));
    lines.plain(format!(
        "{profile} build for {}, {linking}",
        machine.build.target
    ));
}

fn paths(machine: &Machine, lines: &mut Lines) {
    lines.heading("Transfer paths");
    let supports = &machine.host.paths;
    for (i, support) in supports.iter().enumerate() {
        // Several paths fail for one reason; it is told once.
        let told = supports[..i].iter().find(|earlier| {
            !support.availability.is_available() && earlier.availability == support.availability
        });
        match told {
            Some(earlier) => lines.row(
                support.path.name(),
                format!("no: for the same reason as {}", earlier.path),
            ),
            None => lines.availability(support.path.name(), &support.availability),
        }
    }
    let standing_in = machine
        .host
        .paths
        .iter()
        .any(|s| s.path.has_bounce_buffer() && s.availability.is_available());
    if machine.host.accelerators.is_empty() && standing_in {
        lines
            .plain("  No GPU can be used: accelerator memory is emulated with host memory.".into());
        if machine.host.support(PathKind::Gds).is_available() {
            lines.plain(
                "  cuFile works on host memory here: give its paths `--memory host`.".into(),
            );
        }
    }
}

fn host(machine: &Machine, lines: &mut Lines) {
    let (host, memory) = (&machine.host, &machine.memory);
    lines.heading("Host");
    lines.row("CPU", &host.cpu_model);
    let quota = machine
        .processors
        .quota_cpus
        .map_or_else(String::new, |cpus| {
            format!(", control group allows {cpus:.1}")
        });
    lines.row(
        "CPUs",
        format!(
            "{} usable (online: {}){quota}",
            host.cpus,
            shown(&machine.processors.online)
        ),
    );
    match &machine.processors.numa_nodes {
        Fact::Known(nodes) => {
            for node in nodes {
                let memory = size(&node.memory_bytes);
                lines.row(
                    &format!("NUMA node {}", node.node),
                    format!("CPUs {}, {memory}", node.cpus),
                );
            }
        }
        Fact::Unknown(reason) => lines.row("NUMA nodes", format!("unknown: {reason}")),
    }
    let available = size(&memory.available_bytes);
    lines.row(
        "memory",
        format!("{}, {available} available", ByteSize(host.memory_bytes)),
    );
    lines.row(
        "control group limit",
        host.memory_limit_bytes
            .map_or_else(|| "none".to_string(), |bytes| ByteSize(bytes).to_string()),
    );
    lines.row(
        "transparent huge pages",
        shown(&memory.transparent_huge_pages),
    );
    lines.row(
        "reserved huge pages",
        format!(
            "{} of {} free, {} each",
            shown(&memory.huge_pages_free),
            shown(&memory.huge_pages_total),
            size(&memory.huge_page_bytes)
        ),
    );
    let locked = host.locked_memory_limit_bytes.map_or_else(
        || "unlimited".to_string(),
        |bytes| ByteSize(bytes).to_string(),
    );
    lines.row("locked memory limit", locked);
    lines.row("open files limit", host.open_files_limit.to_string());
}

fn io_uring(machine: &Machine, lines: &mut Lines) {
    lines.heading("io_uring");
    lines.availability("rings", &machine.host.io_uring);
    lines.row(
        "kernel.io_uring_disabled",
        shown(&machine.io_uring.disabled_setting),
    );
    // Without rings the flags would only repeat the reason.
    let rings = machine.host.io_uring.is_available();
    for flag in machine.io_uring.flags.iter().filter(|_| rings) {
        lines.availability(&flag.name, &flag.availability);
    }
}

fn warnings(machine: &Machine, lines: &mut Lines) {
    if machine.warnings.is_empty() {
        return;
    }
    lines.heading("Worth knowing");
    for warning in &machine.warnings {
        lines.paragraph(&warning.to_string());
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

/// A known truth as `yes` or `no`, or `unknown` with its reason.
fn yes_no(fact: &Fact<bool>) -> String {
    shown(&fact.clone().map(|yes| if yes { "yes" } else { "no" }))
}

/// `yes`, or `no` with the reason.
fn verdict(availability: &Availability) -> String {
    match availability {
        Availability::Available => "yes".to_string(),
        Availability::Unavailable { reason, .. } => format!("no: {reason}"),
    }
}

#[cfg(test)]
mod tests;
