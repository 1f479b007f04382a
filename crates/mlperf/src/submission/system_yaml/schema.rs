//! The fields of a description of a system, edition v3.0.

/// A field of a section.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) kind: Kind,
}

/// What a field holds.
pub(super) enum Kind {
    /// A text that is not empty.
    Text,
    /// True or false.
    Bool,
    /// A whole number.
    Count {
        /// The least it may be.
        least: i64,
    },
    /// One of some words.
    Choice(&'static [&'static str]),
    /// A section without other fields.
    Section(&'static [Field]),
    /// A section that may have others.
    Loose(&'static [Field]),
    /// A list.
    List {
        /// How many entries it has at least.
        least: usize,
        /// What they are.
        of: &'static Kind,
    },
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field { name, required: true, kind }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, required: false, kind }
}

const COUNT: Kind = Kind::Count { least: 1 };
const AMOUNT: Kind = Kind::Count { least: 0 };

/// The whole file.
pub(super) const ROOT: &[Field] = &[must("system_under_test", Kind::Section(SYSTEM))];

const SYSTEM: &[Field] = &[
    must("solution", Kind::Section(SOLUTION)),
    must("deployment", Kind::Choice(&["onprem", "cloud"])),
    may("product_nodes", NODES),
    may("product_switches", Kind::List { least: 0, of: &Kind::Section(SWITCH) }),
    may("total_rack_units", AMOUNT),
    may("rack_power_supplies", Kind::List { least: 0, of: &Kind::Section(POWER) }),
    must("clients", NODES),
];

const NODES: Kind = Kind::List { least: 0, of: &Kind::Section(NODE) };

const SOLUTION: &[Field] = &[
    must("submission_name", Kind::Text),
    must("friendly_description", Kind::Text),
    must("architecture", Kind::Section(ARCHITECTURE)),
    must("capabilities", Kind::Section(CAPABILITIES)),
    // Columns of the report; later files have them, earlier ones do not.
    may("usable_capacity_tib", AMOUNT),
    may("availability", Kind::Text),
];

const ARCHITECTURE: &[Field] = &[
    must("storage_location", Kind::Choice(&["remote", "local", "remote_and_local"])),
    must("benchmark_API", Kind::Choice(&["file", "object"])),
    must("product_API", Kind::Choice(&["file", "object", "block"])),
    must("client_footprint", Kind::Choice(&["open_source", "closed_source", "n/a"])),
    must("client_installation", Kind::Choice(&["in_box", "installable", "n/a"])),
];

const CAPABILITIES: &[Field] = &[
    must("multi_host", Kind::Bool),
    must("simultaneous_write", Kind::Bool),
    must("simultaneous_read", Kind::Bool),
    must("remap_time_in_seconds", AMOUNT),
];

const NODE: &[Field] = &[
    must("friendly_description", Kind::Text),
    must("quantity", COUNT),
    must("chassis", Kind::Section(CHASSIS)),
    may("networking", Kind::List { least: 0, of: &Kind::Section(PORT) }),
    may("drives", Kind::List { least: 0, of: &Kind::Loose(DRIVE) }),
    must(
        "operating_system",
        Kind::Section(&[must("name", Kind::Text), must("version", Kind::Text)]),
    ),
    may("environment", PAIRS),
    may("sysctl", PAIRS),
];

const PAIRS: Kind = Kind::List {
    least: 0,
    of: &Kind::Section(&[must("name", Kind::Text), must("value", Kind::Text)]),
};

const CHASSIS: &[Field] = &[
    must("model_name", Kind::Text),
    may("rack_units", COUNT),
    must("cpu_model", Kind::Text),
    must("cpu_qty", COUNT),
    must("cpu_cores", COUNT),
    must("memory_capacity", COUNT),
    may("power", Kind::Section(POWER)),
];

const POWER: &[Field] = &[
    must("min_psus_active", COUNT),
    must("psus_configured", Kind::List { least: 1, of: &Kind::Section(SUPPLY) }),
];

const SUPPLY: &[Field] = &[
    must("unit_count", COUNT),
    must("inlet_voltage", COUNT),
    must("nameplate_power_watts", COUNT),
    must(
        "efficiency",
        Kind::Choice(&[
            "Standard", "Bronze", "Silver", "Gold", "Platinum", "Titanium", "Ruby", "Unrated",
        ]),
    ),
];

const PORT: &[Field] = &[
    must("unit_count", COUNT),
    must("type", Kind::Choice(&["ethernet", "infiniband", "other"])),
    must("state", Kind::Choice(&["up", "down"])),
    may("speed", COUNT),
    may(
        "traffic",
        Kind::List { least: 0, of: &Kind::Choice(&["management", "data", "metadata", "backend"]) },
    ),
];

const DRIVE: &[Field] = &[
    must("unit_count", COUNT),
    must("vendor_name", Kind::Text),
    must("model_name", Kind::Text),
    must("interface", Kind::Choice(&["nvme", "sas", "sata", "other"])),
    must("media_type", Kind::Choice(&["HDD", "TLC", "QLC", "other"])),
    must("capacity_in_GB", COUNT),
    may("performance", Kind::Loose(PERFORMANCE)),
];

const PERFORMANCE: &[Field] = &[
    must("seq_read_MBps", COUNT),
    must("seq_write_MBps", COUNT),
    must("random_read_IOPS", COUNT),
    must("random_write_IOPS", COUNT),
    may(
        "form_factor",
        Kind::Choice(&[
            "U.2", "U.3", "M.2", "E1.S", "E1.L", "E3.S", "E3.L", "2.5in", "3.5in", "AIC", "other",
        ]),
    ),
    may("interface_speed", Kind::Text),
];

const SWITCH: &[Field] = &[
    must("unit_count", COUNT),
    must("vendor_name", Kind::Text),
    must("model_name", Kind::Text),
    must("ports", Kind::List { least: 1, of: &Kind::Section(PORT) }),
    may("configuration", PAIRS),
    must("rack_units", COUNT),
    may("power", Kind::Section(POWER)),
];
