//! The fields of a system description of v3.0.

/// Marks a field that a person has to fill in.
pub(super) const BLANK: &str = "FILL_IN";

/// A field of a section.
pub(super) struct SchemaField {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) kind: FieldKind,
}

/// The value of a field.
pub(super) enum FieldKind {
    /// A non-empty text.
    Text,
    Bool,
    /// A whole number.
    Count {
        least: i64,
    },
    /// A size in TiB, of 1 or more; fractions are allowed.
    Capacity,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A section of these fields alone.
    Section(&'static [SchemaField]),
    /// A section that may have other fields.
    Loose(&'static [SchemaField]),
    /// A list of at least so many entries.
    List {
        least: usize,
        of: &'static FieldKind,
    },
}

const fn must(name: &'static str, kind: FieldKind) -> SchemaField {
    SchemaField { name, required: true, kind }
}

const fn may(name: &'static str, kind: FieldKind) -> SchemaField {
    SchemaField { name, required: false, kind }
}

const COUNT: FieldKind = FieldKind::Count { least: 1 };
const AMOUNT: FieldKind = FieldKind::Count { least: 0 };

pub(super) const ROOT: &[SchemaField] = &[must("system_under_test", FieldKind::Section(SYSTEM))];

const SYSTEM: &[SchemaField] = &[
    must("solution", FieldKind::Section(SOLUTION)),
    must("deployment", FieldKind::Choice(&["onprem", "cloud"])),
    may("product_nodes", NODES),
    may("product_switches", FieldKind::List { least: 0, of: &FieldKind::Section(SWITCH) }),
    may("total_rack_units", AMOUNT),
    may("rack_power_supplies", FieldKind::List { least: 0, of: &FieldKind::Section(POWER) }),
    must("clients", NODES),
];

const NODES: FieldKind = FieldKind::List { least: 0, of: &FieldKind::Section(NODE) };

const SOLUTION: &[SchemaField] = &[
    must("submission_name", FieldKind::Text),
    must("friendly_description", FieldKind::Text),
    must("architecture", FieldKind::Section(ARCHITECTURE)),
    must("capabilities", FieldKind::Section(CAPABILITIES)),
    // Columns of the report.
    must("usable_capacity_tib", FieldKind::Capacity),
    may("int_client_store_tib", FieldKind::Capacity),
    must("availability", FieldKind::Choice(&["available", "preview", "RDI"])),
];

const ARCHITECTURE: &[SchemaField] = &[
    must("storage_location", FieldKind::Choice(&["remote", "local", "remote_and_local"])),
    must("benchmark_API", FieldKind::Choice(&["file", "object"])),
    must("product_API", FieldKind::Choice(&["file", "object", "block"])),
    must("client_footprint", FieldKind::Choice(&["open_source", "closed_source", "n/a"])),
    must("client_installation", FieldKind::Choice(&["in_box", "installable", "n/a"])),
];

const CAPABILITIES: &[SchemaField] = &[
    must("multi_host", FieldKind::Bool),
    must("simultaneous_write", FieldKind::Bool),
    must("simultaneous_read", FieldKind::Bool),
    must("remap_time_in_seconds", AMOUNT),
];

const NODE: &[SchemaField] = &[
    must("friendly_description", FieldKind::Text),
    must("quantity", COUNT),
    must("chassis", FieldKind::Section(CHASSIS)),
    may("networking", FieldKind::List { least: 0, of: &FieldKind::Section(PORT) }),
    may("drives", FieldKind::List { least: 0, of: &FieldKind::Loose(DRIVE) }),
    must(
        "operating_system",
        FieldKind::Section(&[must("name", FieldKind::Text), must("version", FieldKind::Text)]),
    ),
    may("environment", PAIRS),
    may("sysctl", PAIRS),
];

const PAIRS: FieldKind = FieldKind::List {
    least: 0,
    of: &FieldKind::Section(&[must("name", FieldKind::Text), must("value", FieldKind::Text)]),
};

const CHASSIS: &[SchemaField] = &[
    must("model_name", FieldKind::Text),
    may("rack_units", COUNT),
    must("cpu_model", FieldKind::Text),
    must("cpu_qty", COUNT),
    must("cpu_cores", COUNT),
    must("memory_capacity", COUNT),
    may("power", FieldKind::Section(POWER)),
];

const POWER: &[SchemaField] = &[
    must("min_psus_active", COUNT),
    must("psus_configured", FieldKind::List { least: 1, of: &FieldKind::Section(SUPPLY) }),
];

const SUPPLY: &[SchemaField] = &[
    must("unit_count", COUNT),
    must("inlet_voltage", COUNT),
    must("nameplate_power_watts", COUNT),
    must(
        "efficiency",
        FieldKind::Choice(&[
            "Standard", "Bronze", "Silver", "Gold", "Platinum", "Titanium", "Ruby", "Unrated",
        ]),
    ),
];

const PORT: &[SchemaField] = &[
    must("unit_count", COUNT),
    must("type", FieldKind::Choice(&["ethernet", "infiniband", "other"])),
    must("state", FieldKind::Choice(&["up", "down"])),
    may("speed", COUNT),
    may(
        "traffic",
        FieldKind::List {
            least: 0,
            of: &FieldKind::Choice(&["management", "data", "metadata", "backend"]),
        },
    ),
];

const DRIVE: &[SchemaField] = &[
    must("unit_count", COUNT),
    must("vendor_name", FieldKind::Text),
    must("model_name", FieldKind::Text),
    must("interface", FieldKind::Choice(&["nvme", "sas", "sata", "other"])),
    must("media_type", FieldKind::Choice(&["HDD", "TLC", "QLC", "other"])),
    must("capacity_in_GB", COUNT),
    may("performance", FieldKind::Loose(PERFORMANCE)),
];

const PERFORMANCE: &[SchemaField] = &[
    must("seq_read_MBps", COUNT),
    must("seq_write_MBps", COUNT),
    must("random_read_IOPS", COUNT),
    must("random_write_IOPS", COUNT),
    may(
        "form_factor",
        FieldKind::Choice(&[
            "U.2", "U.3", "M.2", "E1.S", "E1.L", "E3.S", "E3.L", "2.5in", "3.5in", "AIC", "other",
        ]),
    ),
    may("interface_speed", FieldKind::Text),
];

const SWITCH: &[SchemaField] = &[
    must("unit_count", COUNT),
    must("vendor_name", FieldKind::Text),
    must("model_name", FieldKind::Text),
    must("ports", FieldKind::List { least: 1, of: &FieldKind::Section(PORT) }),
    may("configuration", PAIRS),
    must("rack_units", COUNT),
    may("power", FieldKind::Section(POWER)),
];
