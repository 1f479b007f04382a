//! What fields of a description ask of each other. The fields themselves are right by then.

use serde_yaml::Value;

use super::{Walk, whole};

/// Every rule over more than one field.
pub(super) fn rules(system: &Value, walk: &mut Walk<'_>) {
    architecture(system, walk);
    capabilities(system, walk);
    for (path, node) in nodes(system) {
        ports(&format!("{path}.networking"), &node["networking"], walk);
        power(&format!("{path}.chassis.power"), &node["chassis"]["power"], walk);
    }
    for (index, switch) in entries(&system["product_switches"]).enumerate() {
        let path = format!("product_switches[{index}]");
        ports(&format!("{path}.ports"), &switch["ports"], walk);
        power(&format!("{path}.power"), &switch["power"], walk);
    }
    for (index, supply) in entries(&system["rack_power_supplies"]).enumerate() {
        power(&format!("rack_power_supplies[{index}]"), supply, walk);
    }
    deployment(system, walk);
    rack_units(system, walk);
    networking(system, walk);
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_sequence().into_iter().flatten()
}

/// Product nodes and clients, with their paths.
fn nodes(system: &Value) -> Vec<(String, &Value)> {
    let of = |name: &'static str| {
        let nodes = entries(&system[name]).enumerate();
        nodes.map(move |(index, node)| (format!("{name}[{index}]"), node))
    };
    of("product_nodes").chain(of("clients")).collect()
}

impl Walk<'_> {
    /// A fault of a field below `system_under_test`, whose names lead to its line.
    fn say(&mut self, path: &str, message: impl Into<String>) {
        let mut here = &self.file["system_under_test"];
        let mut steps = vec![0];
        for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
            let step = match (here, part.strip_suffix(']')) {
                (Value::Sequence(_), Some(index)) => index.parse().ok(),
                (Value::Mapping(map), None) => {
                    map.keys().position(|key| key.as_str() == Some(part))
                }
                _ => None,
            };
            // A field that is missing is told at its section.
            let Some(step) = step else { break };
            steps.push(step);
            here = match here {
                Value::Mapping(map) => map.values().nth(step).unwrap_or(&Value::Null),
                list => &list[step],
            };
        }
        self.at = steps;
        self.fault(&format!("system_under_test.{path}"), true, message.into(), false);
        self.at.clear();
    }
}

fn architecture(system: &Value, walk: &mut Walk<'_>) {
    let architecture = &system["solution"]["architecture"];
    let none = |key: &str| architecture[key].as_str() == Some("n/a");
    if none("client_footprint") != none("client_installation") {
        let path = "solution.architecture.client_installation";
        walk.say(path, "client_footprint and client_installation are both n/a or neither");
    }
}

fn capabilities(system: &Value, walk: &mut Walk<'_>) {
    let all = &system["solution"]["capabilities"];
    let is = |key: &str| all[key].as_bool() == Some(true);
    let both = is("simultaneous_write") && is("simultaneous_read");
    let none = whole(&all["remap_time_in_seconds"]) == Some(0);
    let path = "solution.capabilities.remap_time_in_seconds";
    match (both, none) {
        (true, false) => walk.say(path, "it is 0 where reads and writes may be simultaneous"),
        (false, true) => {
            walk.say(path, "it is above 0 unless reads and writes may be simultaneous")
        }
        _ => {}
    }
}

fn ports(path: &str, ports: &Value, walk: &mut Walk<'_>) {
    for (index, port) in entries(ports).enumerate() {
        if port["state"].as_str() != Some("up") {
            continue;
        }
        let place = format!("{path}[{index}]");
        if port["speed"].is_null() {
            walk.say(&place, "speed is required where state is up");
        }
        if entries(&port["traffic"]).next().is_none() {
            walk.say(&place, "traffic has one entry or more where state is up");
        }
    }
}

fn power(path: &str, power: &Value, walk: &mut Walk<'_>) {
    let installed = entries(&power["psus_configured"])
        .filter_map(|supply| whole(&supply["unit_count"]))
        .fold(0i64, i64::saturating_add);
    if let Some(active) = whole(&power["min_psus_active"])
        && active > installed
    {
        let message = format!("{active} active of {installed} installed");
        walk.say(&format!("{path}.min_psus_active"), message);
    }
}

/// What a machine room has, and a cloud has not.
fn deployment(system: &Value, walk: &mut Walk<'_>) {
    let is_cloud = system["deployment"].as_str() == Some("cloud");
    for (path, node) in nodes(system) {
        for field in ["rack_units", "power"] {
            let place = format!("{path}.chassis.{field}");
            match (is_cloud, node["chassis"][field].is_null()) {
                (true, false) => walk.say(&place, "a cloud deployment has none"),
                (false, true) => walk.say(&place, "an onprem deployment names it"),
                _ => {}
            }
        }
    }
    if is_cloud {
        for field in ["product_switches", "rack_power_supplies"] {
            if entries(&system[field]).next().is_some() {
                walk.say(field, "a cloud deployment has none");
            }
        }
        return;
    }
    if system["total_rack_units"].is_null() {
        walk.say("total_rack_units", "an onprem deployment names it");
    }
    for (index, switch) in entries(&system["product_switches"]).enumerate() {
        if switch["power"].is_null() {
            let place = format!("product_switches[{index}].power");
            walk.say(&place, "an onprem deployment names it");
        }
    }
}

/// The sum over what is sold; clients are no part of it.
fn rack_units(system: &Value, walk: &mut Walk<'_>) {
    let Some(told) = whole(&system["total_rack_units"]) else {
        return;
    };
    let times = |units: &Value, count: &Value| {
        whole(units).unwrap_or(0).saturating_mul(whole(count).unwrap_or(0))
    };
    let nodes = entries(&system["product_nodes"])
        .map(|node| times(&node["chassis"]["rack_units"], &node["quantity"]));
    let switches = entries(&system["product_switches"])
        .map(|switch| times(&switch["rack_units"], &switch["unit_count"]));
    let sum = nodes.chain(switches).fold(0i64, i64::saturating_add);
    if sum != told {
        let message = format!("it is {told}; product nodes and switches come to {sum}");
        walk.say("total_rack_units", message);
    }
}

fn networking(system: &Value, walk: &mut Walk<'_>) {
    let location = system["solution"]["architecture"]["storage_location"].as_str();
    if location == Some("local") {
        if entries(&system["product_switches"]).next().is_some() {
            walk.say("product_switches", "local storage has none");
        }
        return;
    }
    for (path, node) in nodes(system) {
        if entries(&node["networking"]).next().is_none() {
            walk.say(
                &format!("{path}.networking"),
                "remote storage is reached by a network: name it",
            );
        }
    }
}
