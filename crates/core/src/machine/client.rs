//! The machine as a client, for system descriptions.

/// The properties of a machine as a client; unknown ones are left blank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemFacts {
    /// The manufacturer's model name.
    pub model: Option<String>,
    /// Processor name.
    pub cpu_model: Option<String>,
    /// Number of processors.
    pub sockets: Option<u32>,
    /// Number of cores of all processors.
    pub cores: Option<u32>,
    /// Memory in GiB.
    pub memory_gib: Option<u64>,
    /// Name of the operating system: `Ubuntu`.
    pub os_name: Option<String>,
    /// Version of the operating system.
    pub os_version: Option<String>,
    /// Network links.
    pub links: Vec<Link>,
    /// Drives.
    pub drives: Vec<Drive>,
    /// Kernel settings that affect storage, with their values.
    pub sysctl: Vec<(String, String)>,
    /// Environment variables that affect storage.
    pub environment: Vec<(String, String)>,
}

/// Network links of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `ethernet`, `infiniband` or `other`.
    pub kind: &'static str,
    /// Whether it is up.
    pub is_up: bool,
    /// Speed in Gbit/s, if the kernel reports it.
    pub gbit_per_second: Option<u32>,
    /// Number of such links.
    pub count: u32,
}

/// Drives of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Manufacturer.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// `nvme`, `sas`, `sata` or `other`.
    pub interface: &'static str,
    /// Whether it is a spinning disk.
    pub rotational: bool,
    /// Capacity in decimal GB, as manufacturers count.
    pub capacity_gb: u64,
    /// Number of such drives.
    pub count: u32,
}
