//! A draft of a system description: the client's part from this machine, the rest blank.

use std::fmt::Write as _;

use stormlp_core::machine::{Drive, Link, SystemFacts};

use super::schema::BLANK;

/// The draft, line by line, each with its depth.
struct YamlLines(String);

impl YamlLines {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.0, "{:width$}{text}", "", width = depth * 2);
    }

    fn text(&mut self, depth: usize, key: &str, value: Option<&str>, note: &str) {
        let value = match value.map(str::trim).filter(|value| !value.is_empty()) {
            // JSON strings are YAML strings.
            Some(value) => serde_json::Value::from(value).to_string(),
            None => BLANK.to_string(),
        };
        self.pair(depth, key, &value, note);
    }

    fn count(&mut self, depth: usize, key: &str, value: Option<u64>, note: &str) {
        let value = value.map_or_else(|| BLANK.to_string(), |value| value.to_string());
        self.pair(depth, key, &value, note);
    }

    fn pair(&mut self, depth: usize, key: &str, value: &str, note: &str) {
        match note {
            "" => self.line(depth, &format!("{key}: {value}")),
            note => self.line(depth, &format!("{key}: {value}  # {note}")),
        }
    }
}

/// The draft, with comments at fields to fill in.
pub fn draft(facts: &SystemFacts, notice: &str) -> String {
    let mut lines = YamlLines(String::new());
    lines.line(0, "# A draft of a system description for MLPerf Storage v3.0, made by stormlp.");
    lines.line(0, &format!("# {notice}"));
    lines.line(
        0,
        &format!(
            "# {BLANK} marks what only you know. `stormlp submission system-yaml --check FILE` lists"
        ),
    );
    lines.line(0, "# what is still wrong, by field and line.");
    lines.line(0, "system_under_test:");
    solution(&mut lines);
    lines.pair(1, "deployment", BLANK, "onprem, cloud");
    lines.line(1, "# Storage nodes of the product; local storage belongs to the clients.");
    lines.line(1, "product_nodes: []");
    lines.pair(1, "total_rack_units", "0", "of product nodes and switches; leave out in a cloud");
    lines.line(1, "clients:");
    client(&mut lines, facts);
    lines.0
}

fn solution(lines: &mut YamlLines) {
    lines.line(1, "solution:");
    lines.pair(2, "submission_name", BLANK, "the name of the system's folder and files");
    lines.pair(2, "friendly_description", BLANK, "");
    lines.line(2, "architecture:");
    for (key, note) in [
        ("storage_location", "remote, local, remote_and_local"),
        ("benchmark_API", "file, object"),
        ("product_API", "file, object, block"),
        ("client_footprint", "open_source, closed_source, n/a"),
        ("client_installation", "in_box, installable, n/a (both n/a or neither)"),
    ] {
        lines.pair(3, key, BLANK, note);
    }
    lines.line(2, "capabilities:");
    for (key, note) in [
        ("multi_host", "true, false"),
        ("simultaneous_write", "true, false: by several hosts"),
        ("simultaneous_read", "true, false: by several hosts"),
        ("remap_time_in_seconds", "0 exactly where both are true"),
    ] {
        lines.pair(3, key, BLANK, note);
    }
}

fn client(lines: &mut YamlLines, facts: &SystemFacts) {
    lines.pair(2, "- friendly_description", BLANK, "");
    lines.pair(3, "quantity", "1", "this machine; the number of such clients");
    lines.line(3, "chassis:");
    lines.text(4, "model_name", facts.model.as_deref(), "");
    lines.pair(4, "rack_units", BLANK, "leave out in a cloud");
    lines.text(4, "cpu_model", facts.cpu_model.as_deref(), "");
    lines.count(4, "cpu_qty", facts.sockets.map(u64::from), "");
    lines.count(4, "cpu_cores", facts.cores.map(u64::from), "of all processors");
    lines.count(4, "memory_capacity", facts.memory_gib, "GiB");
    lines.line(4, "power:  # leave out in a cloud");
    lines.pair(5, "min_psus_active", BLANK, "");
    lines.line(5, "psus_configured:");
    lines.pair(6, "- unit_count", BLANK, "");
    lines.pair(7, "inlet_voltage", BLANK, "");
    lines.pair(7, "nameplate_power_watts", BLANK, "");
    lines.pair(
        7,
        "efficiency",
        BLANK,
        "Standard, Bronze, Silver, Gold, Platinum, Titanium, Ruby, Unrated",
    );
    networking(lines, &facts.links);
    drives(lines, &facts.drives);
    lines.line(3, "operating_system:");
    lines.text(4, "name", facts.os_name.as_deref(), "");
    lines.text(4, "version", facts.os_version.as_deref(), "");
    pairs(lines, "environment", &facts.environment);
    pairs(lines, "sysctl", &facts.sysctl);
}

fn networking(lines: &mut YamlLines, links: &[Link]) {
    if links.is_empty() {
        return;
    }
    lines.line(3, "networking:");
    for link in links {
        lines.pair(4, "- unit_count", &link.count.to_string(), "");
        lines.pair(5, "type", link.kind, "");
        lines.pair(5, "state", if link.is_up { "up" } else { "down" }, "");
        if link.is_up {
            lines.count(5, "speed", link.gbit_per_second.map(u64::from), "Gbit/s");
            lines.pair(5, "traffic", &format!("[{BLANK}]"), "management, data, metadata, backend");
        }
    }
}

fn drives(lines: &mut YamlLines, drives: &[Drive]) {
    if drives.is_empty() {
        return;
    }
    lines.line(3, "drives:");
    for drive in drives {
        lines.pair(4, "- unit_count", &drive.count.to_string(), "");
        lines.text(5, "vendor_name", drive.vendor.as_deref(), "");
        lines.text(5, "model_name", drive.model.as_deref(), "");
        lines.pair(5, "interface", drive.interface, "");
        // A virtual machine's drive may claim to be rotational.
        let turns = drive.rotational && drive.interface != "other";
        let media = if turns { "HDD" } else { BLANK };
        lines.pair(5, "media_type", media, "HDD, TLC, QLC, other");
        lines.count(5, "capacity_in_GB", Some(drive.capacity_gb.max(1)), "GB of 10^9 bytes");
    }
}

fn pairs(lines: &mut YamlLines, name: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    lines.line(3, &format!("{name}:"));
    for (key, value) in pairs {
        lines.text(4, "- name", Some(key), "");
        lines.text(5, "value", Some(value), "");
    }
}
