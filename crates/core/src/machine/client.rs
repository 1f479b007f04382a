//! What the machine is as a client, for descriptions of systems.

/// What a machine says of itself as a client; what it does not say is left blank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SystemFacts {
    /// Its maker's name of the model.
    pub model: Option<String>,
    /// Name of the processor.
    pub cpu_model: Option<String>,
    /// Processors.
    pub sockets: Option<u32>,
    /// Cores of all of them.
    pub cores: Option<u32>,
    /// Memory in GiB.
    pub memory_gib: Option<u64>,
    /// Name of the system: `Ubuntu`.
    pub os_name: Option<String>,
    /// Its version.
    pub os_version: Option<String>,
    /// Network links.
    pub links: Vec<Link>,
    /// Drives.
    pub drives: Vec<Drive>,
    /// Kernel settings that bear on storage, with their values.
    pub sysctl: Vec<(String, String)>,
    /// Variables of the environment that bear on storage.
    pub environment: Vec<(String, String)>,
}

/// Links of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `ethernet`, `infiniband` or `other`.
    pub kind: &'static str,
    /// Whether it is up.
    pub is_up: bool,
    /// Its speed in Gbit/s, where the kernel tells.
    pub gbit_per_second: Option<u32>,
    /// How many there are.
    pub count: u32,
}

/// Drives of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// The maker.
    pub vendor: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// `nvme`, `sas`, `sata` or `other`.
    pub interface: &'static str,
    /// Whether it turns.
    pub rotational: bool,
    /// Its size in GB, as makers count.
    pub capacity_gb: u64,
    /// How many there are.
    pub count: u32,
}
