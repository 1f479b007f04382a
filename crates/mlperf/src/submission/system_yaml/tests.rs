//! The schema, with each field and rule broken once.

use stormlp_core::machine::{Drive, Link, SystemFacts};

use super::*;

/// A valid description.
pub(crate) const VALID: &str = "\
system_under_test:
  solution:
    submission_name: fast
    friendly_description: a box
    architecture:
      storage_location: remote
      benchmark_API: file
      product_API: file
      client_footprint: open_source
      client_installation: in_box
    capabilities:
      multi_host: true
      simultaneous_write: true
      simultaneous_read: true
      remap_time_in_seconds: 0
    usable_capacity_tib: 55.9
    availability: available
  deployment: onprem
  product_nodes:
  - friendly_description: node
    quantity: 2
    chassis:
      model_name: m
      rack_units: 2
      cpu_model: c
      cpu_qty: 2
      cpu_cores: 64
      memory_capacity: 512
      power:
        min_psus_active: 1
        psus_configured:
        - unit_count: 2
          inlet_voltage: 230
          nameplate_power_watts: 1200
          efficiency: Titanium
    networking:
    - unit_count: 2
      type: ethernet
      state: up
      speed: 100
      traffic: [data]
    drives:
    - unit_count: 8
      vendor_name: v
      model_name: d
      interface: nvme
      media_type: TLC
      capacity_in_GB: 7680
      remark: free words
      performance:
        seq_read_MBps: 7000
        seq_write_MBps: 6000
        random_read_IOPS: 1000000
        random_write_IOPS: 300000
        form_factor: U.2
    operating_system:
      name: Linux
      version: '6'
  product_switches:
  - unit_count: 1
    vendor_name: v
    model_name: s
    ports:
    - unit_count: 32
      type: ethernet
      state: down
    rack_units: 1
    power:
      min_psus_active: 1
      psus_configured:
      - unit_count: 2
        inlet_voltage: 230
        nameplate_power_watts: 600
        efficiency: Gold
  total_rack_units: 5
  clients:
  - friendly_description: client
    quantity: 1
    chassis:
      model_name: m
      rack_units: 1
      cpu_model: c
      cpu_qty: 1
      cpu_cores: 32
      memory_capacity: 256
      power:
        min_psus_active: 1
        psus_configured:
        - unit_count: 1
          inlet_voltage: 230
          nameplate_power_watts: 800
          efficiency: Platinum
    networking:
    - unit_count: 1
      type: infiniband
      state: up
      speed: 400
      traffic: [data, metadata]
    operating_system:
      name: Linux
      version: '6'
    sysctl:
    - name: vm.dirty_ratio
      value: '20'
";

#[test]
fn a_valid_description_has_no_faults() {
    assert_eq!(faults(VALID), []);
}

/// A text, its replacement, the field at fault, and the line.
const BROKEN: &[(&str, &str, &str, usize)] = &[
    ("submission_name: fast", "submission_name: ''", "solution.submission_name", 3),
    ("submission_name: fast", "submission_name: 5", "solution.submission_name", 3),
    ("friendly_description: a box", "friendly: a box", "solution.friendly", 4),
    ("location: remote", "location: near", "solution.architecture.storage_location", 6),
    ("benchmark_API: file", "benchmark_API: block", "solution.architecture.benchmark_API", 7),
    ("product_API: file", "product_API: tape", "solution.architecture.product_API", 8),
    ("footprint: open_source", "footprint: free", "solution.architecture.client_footprint", 9),
    ("footprint: open_source", "footprint: n/a", "solution.architecture.client_installation", 10),
    ("installation: in_box", "installation: none", "solution.architecture.client_installation", 10),
    ("multi_host: true", "multi_host: maybe", "solution.capabilities.multi_host", 12),
    (
        "simultaneous_write: true",
        "simultaneous_write: false",
        "solution.capabilities.remap_time_in_seconds",
        15,
    ),
    (
        "remap_time_in_seconds: 0",
        "remap_time_in_seconds: 3",
        "solution.capabilities.remap_time_in_seconds",
        15,
    ),
    (
        "remap_time_in_seconds: 0",
        "remap_time_in_seconds: -1",
        "solution.capabilities.remap_time_in_seconds",
        15,
    ),
    ("usable_capacity_tib: 55.9", "usable_capacity_tib: 0", "solution.usable_capacity_tib", 16),
    ("usable_capacity_tib: 55.9", "usable_capacity_tib: 0.4", "solution.usable_capacity_tib", 16),
    ("usable_capacity_tib: 55.9", "usable_capacity_tib: big", "solution.usable_capacity_tib", 16),
    ("    usable_capacity_tib: 55.9\n", "", "solution.usable_capacity_tib", 2),
    ("    availability: available\n", "", "solution.availability", 2),
    ("availability: available", "availability: soon", "solution.availability", 17),
    (
        "availability: available",
        "int_client_store_tib: 0\n    availability: RDI",
        "solution.int_client_store_tib",
        17,
    ),
    ("deployment: onprem", "deployment: moon", "deployment", 18),
    ("deployment: onprem", "deployment: cloud", "product_nodes[0].chassis.rack_units", 24),
    ("quantity: 2", "quantity: 0", "product_nodes[0].quantity", 21),
    ("quantity: 2", "quantity: 3", "total_rack_units", 75),
    ("cpu_qty: 2", "cpu_qty: two", "product_nodes[0].chassis.cpu_qty", 26),
    ("cpu_cores: 64", "cpu_cores: 6.5", "product_nodes[0].chassis.cpu_cores", 27),
    ("memory_capacity: 512", "memory_capacity: 0", "product_nodes[0].chassis.memory_capacity", 28),
    (
        "min_psus_active: 1\n        psus_configured:\n        - unit_count: 2",
        "min_psus_active: 3\n        psus_configured:\n        - unit_count: 2",
        "product_nodes[0].chassis.power.min_psus_active",
        30,
    ),
    (
        "inlet_voltage: 230",
        "inlet_voltage: high",
        "product_nodes[0].chassis.power.psus_configured[0].inlet_voltage",
        33,
    ),
    (
        "nameplate_power_watts: 1200",
        "nameplate_power_watts: 0",
        "product_nodes[0].chassis.power.psus_configured[0].nameplate_power_watts",
        34,
    ),
    (
        "efficiency: Titanium",
        "efficiency: Tin",
        "product_nodes[0].chassis.power.psus_configured[0].efficiency",
        35,
    ),
    (
        "type: ethernet\n      state: up",
        "type: token\n      state: up",
        "product_nodes[0].networking[0].type",
        38,
    ),
    ("speed: 100", "#", "product_nodes[0].networking[0]", 37),
    ("traffic: [data]", "traffic: []", "product_nodes[0].networking[0]", 37),
    ("traffic: [data]", "traffic: [gossip]", "product_nodes[0].networking[0].traffic[0]", 41),
    ("interface: nvme", "interface: ide", "product_nodes[0].drives[0].interface", 46),
    ("media_type: TLC", "media_type: SLC", "product_nodes[0].drives[0].media_type", 47),
    ("capacity_in_GB: 7680", "#", "product_nodes[0].drives[0].capacity_in_GB", 43),
    ("seq_read_MBps: 7000", "#", "product_nodes[0].drives[0].performance.seq_read_MBps", 50),
    (
        "form_factor: U.2",
        "form_factor: U.9",
        "product_nodes[0].drives[0].performance.form_factor",
        55,
    ),
    (
        "version: '6'\n  product_switches",
        "#\n  product_switches",
        "product_nodes[0].operating_system.version",
        56,
    ),
    ("storage_location: remote", "storage_location: local", "product_switches", 59),
    ("    rack_units: 1\n    power", "    #\n    power", "product_switches[0].rack_units", 60),
    ("total_rack_units: 5", "#", "total_rack_units", 1),
    ("- name: vm.dirty_ratio", "- name: ''", "clients[0].sysctl[0].name", 103),
    ("  clients:", "  others:", "others", 76),
];

#[test]
fn every_broken_rule_is_reported_with_field_and_line() {
    for (right, wrong, field, line) in BROKEN.iter().copied() {
        let text = VALID.replacen(right, wrong, 1);
        assert_ne!(text, VALID, "{right}");
        let found = faults(&text);
        let field = format!("system_under_test.{field}");
        let mut of_field = found.iter().filter(|fault| fault.field == field);
        let first = of_field.next();
        assert!(first.is_some(), "{wrong}: {field}: {found:?}");
        assert_eq!(first.and_then(|fault| fault.line), Some(line), "{wrong}: {first:?}");
    }
}

#[test]
fn values_are_taken_as_the_official_tool_takes_them() {
    for yes in ["yes", "on", "1", "\"true\"", "True", "Y"] {
        let text = VALID.replace("multi_host: true", &format!("multi_host: {yes}"));
        assert_eq!(faults(&text), [], "{yes}");
        // Rules about several fields treat them as the same.
        let text = VALID.replace("simultaneous_write: true", &format!("simultaneous_write: {yes}"));
        assert_eq!(faults(&text), [], "{yes}");
    }
    for count in ["\"2\"", "' 2 '", "2.0"] {
        let text = VALID.replace("quantity: 2", &format!("quantity: {count}"));
        assert_eq!(faults(&text), [], "{count}");
    }
    let text = VALID.replace("usable_capacity_tib: 55.9", "usable_capacity_tib: \"55.9\"");
    assert_eq!(faults(&text), []);
    for wrong in ["multi_host: 2", "multi_host: sometimes", "multi_host: \"\""] {
        assert_eq!(faults(&VALID.replace("multi_host: true", wrong)).len(), 1, "{wrong}");
    }
}

#[test]
fn rules_of_a_section_are_reported_beside_faults_of_others() {
    let text = VALID.replace("remap_time_in_seconds: 0", "remap_time_in_seconds: 60");
    let text = text.replace("speed: 100", "#").replace("cpu_cores: 64", "cpu_cores: 6.5");
    let found: Vec<String> = faults(&text).into_iter().map(|fault| fault.field).collect();
    for field in [
        "product_nodes[0].chassis.cpu_cores",
        "product_nodes[0].networking[0]",
        "solution.capabilities.remap_time_in_seconds",
    ] {
        assert!(found.contains(&format!("system_under_test.{field}")), "{field}: {found:?}");
    }
    // In a section with a fault they wait for it.
    let text = text.replace("multi_host: true", "multi_host: maybe");
    let found: Vec<String> = faults(&text).into_iter().map(|fault| fault.field).collect();
    assert!(!found.iter().any(|field| field.contains("remap_time")), "{found:?}");
}

#[test]
fn capacities_may_be_fractions_and_remote_storage_is_listed() {
    let more = "int_client_store_tib: 3.5\n    availability: preview";
    assert_eq!(faults(&VALID.replace("availability: available", more)), []);
    let (start, end) = (VALID.find("  product_nodes:").unwrap(), VALID.find("  clients:").unwrap());
    let without = format!("{}  total_rack_units: 0\n{}", &VALID[..start], &VALID[end..]);
    let found = faults(&without);
    assert_eq!(found[0].field, "system_under_test.product_nodes", "{found:?}");
    assert_eq!(faults(&without.replace("location: remote", "location: local")), []);
}

#[test]
fn other_files_are_reported_without_a_panic() {
    for text in [
        "",
        "[]",
        "5",
        "system_under_test: 5",
        "a: {b: [",
        "? [a, b]\n: c\n",
        "system_under_test: {clients: {}}",
    ] {
        assert!(!faults(text).is_empty(), "{text}");
    }
    let large = faults("quantity: 99999999999999999999999")[0].to_string();
    assert!(large.contains("out of range"), "{large}");
}

#[test]
fn a_draft_has_only_blanks_to_fill_in() {
    let facts = SystemFacts {
        model: Some("box: \"9\"".to_string()),
        cpu_model: Some("cpu".to_string()),
        sockets: Some(2),
        cores: Some(64),
        memory_gib: Some(512),
        os_name: Some("Linux".to_string()),
        os_version: None,
        links: vec![
            Link { kind: "ethernet", is_up: true, gbit_per_second: None, count: 2 },
            Link { kind: "infiniband", is_up: false, gbit_per_second: None, count: 1 },
        ],
        drives: vec![Drive {
            vendor: None,
            model: Some("d".to_string()),
            interface: "nvme",
            rotational: false,
            capacity_gb: 7680,
            count: 4,
        }],
        sysctl: vec![("vm.dirty_ratio".to_string(), "20".to_string())],
        environment: vec![],
    };
    let text = draft(&facts, "No result.");
    let found = faults(&text);
    assert!(found.iter().all(|fault| fault.is_blank && fault.line.is_some()), "{found:?}");
    let fields: Vec<&str> = found.iter().map(|fault| fault.field.as_str()).collect();
    assert!(fields.contains(&"system_under_test.clients[0].operating_system.version"));
    let is_known = |field: &&str| {
        let field = field.strip_prefix("system_under_test.clients[0].").unwrap_or("");
        field == "chassis.model_name" || field.starts_with("sysctl")
    };
    assert!(!fields.iter().any(is_known), "{fields:?}");
    // Every field of the schema is there, if only to be left out.
    let value: Value = serde_yaml::from_str(&text).unwrap();
    let system = &value["system_under_test"];
    assert!(system["solution"]["int_client_store_tib"].is_string());
    assert!(system["product_nodes"][0]["drives"][0]["performance"]["form_factor"].is_string());
    assert!(system["product_switches"][0]["ports"][0]["traffic"].is_sequence());
    assert!(system["rack_power_supplies"][0]["psus_configured"][0]["efficiency"].is_string());
    assert_eq!(system["clients"][0]["environment"], Value::Sequence(vec![]));
    insta::assert_snapshot!(text);
}
