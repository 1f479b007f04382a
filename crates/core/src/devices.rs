//! The accelerators that transfers end in: of a request, and the share of each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::facts::{HiddenGpus, HostFacts};
use crate::failure::Problems;
use crate::path::{DeviceId, PathKind};
use crate::placement::Placement;
use crate::units::counted;

/// The accelerators of a request, over which a workload's accelerators, or ranks, are dealt in
/// turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub enum Devices {
    /// All GPUs of the host.
    All,
    /// These; never none.
    Named(Vec<DeviceId>),
}

impl Devices {
    /// The devices on `host`; those that are named may not exist there.
    pub fn on(&self, host: &HostFacts) -> Vec<DeviceId> {
        match self {
            Self::All => host.accelerators.iter().map(|gpu| DeviceId::nvidia(gpu.index)).collect(),
            Self::Named(devices) => devices.clone(),
        }
    }

    /// Whether a GPU is among them.
    pub fn any_gpu(&self) -> bool {
        match self {
            Self::All => true,
            Self::Named(devices) => devices.iter().any(|device| *device != DeviceId::Host),
        }
    }
}

impl From<DeviceId> for Devices {
    fn from(device: DeviceId) -> Self {
        Self::Named(vec![device])
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Named(devices) => {
                let names: Vec<String> = devices.iter().map(DeviceId::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl From<Devices> for String {
    fn from(devices: Devices) -> Self {
        devices.to_string()
    }
}

impl TryFrom<String> for Devices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let devices = text.split(',').map(str::parse).collect::<Result<Vec<DeviceId>, _>>();
        let devices = devices.map_err(|why| format!("{why}, cuda:0,cuda:1 or all"))?;
        if devices.len() > 1 && devices.contains(&DeviceId::Host) {
            return Err(format!("`{text}`: host memory emulates accelerators; name it alone"));
        }
        Ok(Self::Named(devices))
    }
}

/// One of several accelerators of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceOfRun {
    /// The device.
    pub device: DeviceId,
    /// Its product name; `None` if it is not known.
    pub name: Option<String>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// Its PCIe link, as trained when it was looked at.
    pub pcie_link: Option<String>,
    /// Placement of the threads that serve it, and of their buffers.
    pub placement: Placement,
}

impl DeviceOfRun {
    /// The device of `host`, with threads placed like this.
    pub(crate) fn on(host: &HostFacts, device: DeviceId, placement: Placement) -> Self {
        let mut gpus = host.accelerators.iter();
        let facts = gpus.find(|gpu| device == DeviceId::nvidia(gpu.index));
        Self {
            device,
            name: facts.map(|facts| facts.name.clone()),
            numa_node: facts.and_then(|facts| facts.numa_node),
            pcie_link: facts.and_then(|facts| facts.pcie_link.clone()),
            placement,
        }
    }

    /// The device with its product name, NUMA node and PCIe link, as far as they are known.
    pub(crate) fn to_text(&self) -> String {
        let name = self.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
        let node = self.numa_node.map_or("unknown".to_string(), |node| node.to_string());
        let link = self.pcie_link.as_deref().unwrap_or("unknown");
        format!("{}{name} (NUMA node {node}, link {link})", self.device)
    }
}

/// The devices of `--device` on `host`, none if it was not given. Reports those that are named
/// twice or do not exist.
pub fn requested(
    asked: Option<&Devices>,
    host: &HostFacts,
    problems: &mut Problems,
) -> Vec<DeviceId> {
    let named: Vec<DeviceId> = match asked {
        None => Vec::new(),
        Some(devices) => devices.on(host),
    };
    if named.is_empty() && asked.is_some() {
        // CUDA's answer for the first is true of all.
        check_device(DeviceId::nvidia(0), host, problems);
    }
    check_doubles(&named, problems);
    for device in &named {
        check_device(*device, host, problems);
    }
    named
}

/// The accelerators at the end of transfers on `path`, none if it ends in none: the requested ones,
/// otherwise the host's first, otherwise emulation in host memory. Reports requested ones that do
/// not exist, whatever the path.
pub(crate) fn chosen(
    asked: Option<&Devices>,
    path: PathKind,
    host: &HostFacts,
    problems: &mut Problems,
) -> Vec<DeviceId> {
    let named = requested(asked, host, problems);
    match (path.ends_in_accelerator(), named.is_empty()) {
        (false, _) => Vec::new(),
        (true, false) => named,
        (true, true) if asked.is_some() => Vec::new(),
        (true, true) => vec![first_device(host, problems)],
    }
}

/// The default device. Reports a problem if host memory would have to emulate a GPU that is
/// present: emulation has to be requested explicitly then.
pub fn first_device(host: &HostFacts, problems: &mut Problems) -> DeviceId {
    if let Some(hidden) = &host.hidden_gpus {
        problems.machine(
            hidden.words(),
            "`stormlp doctor` shows the driver; --device host measures with emulated memory on \
             purpose",
        );
    }
    (host.accelerators.first()).map_or(DeviceId::Host, |gpu| DeviceId::nvidia(gpu.index))
}

/// Reports a problem if `device` does not exist on `host`.
pub fn check_device(device: DeviceId, host: &HostFacts, problems: &mut Problems) {
    if let Some(index) = device.gpu_index()
        && host.accelerators.iter().all(|gpu| gpu.index != index)
    {
        let there = counted(host.accelerators.len() as u64, "device");
        // CUDA's answer, if the bus shows a GPU.
        let why = host.hidden_gpus.as_ref().map_or_else(
            || {
                let shows = format!("CUDA shows {there} on this machine");
                match (&host.cuda_problem, &host.cuda_visible_devices) {
                    (Some(problem), _) => format!("{shows}: {problem}"),
                    (None, Some(visible)) => {
                        format!(
                            "{shows}, and CUDA_VISIBLE_DEVICES={visible} hides all other devices"
                        )
                    }
                    (None, None) => shows,
                }
            },
            HiddenGpus::words,
        );
        problems.machine(
            format!("there is no {device}: {why}"),
            "`stormlp doctor` lists them; --device host measures with emulated memory",
        );
    }
}

/// Reports devices that are named more than once.
fn check_doubles(devices: &[DeviceId], problems: &mut Problems) {
    let mut doubles: Vec<DeviceId> = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        if devices[..at].contains(device) && !doubles.contains(device) {
            doubles.push(*device);
            problems.plan(
                format!("--device names {device} more than once"),
                "name each device once: --threads are dealt over them in turn",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Cause;

    #[test]
    fn devices_are_text_in_reports() {
        for (text, device) in [("host", DeviceId::Host), ("cuda:1", DeviceId::nvidia(1))] {
            assert_eq!(text.parse::<DeviceId>().unwrap(), device);
            assert_eq!(serde_json::to_string(&device).unwrap(), format!("{text:?}"));
        }
        assert!("gpu".parse::<DeviceId>().is_err());
    }

    #[test]
    fn a_device_that_is_named_twice_is_refused_once_by_name() {
        let [first, second] = [0, 1].map(DeviceId::nvidia);
        let mut problems = Problems::default();
        check_doubles(&[first, second], &mut problems);
        assert!(problems.is_empty(), "{problems}");
        check_doubles(&[first, second, second, second], &mut problems);
        assert_eq!((problems.len(), problems.cause()), (1, Cause::Plan));
        assert!(problems.to_string().contains("cuda:1 more than once"), "{problems}");
    }

    #[test]
    fn host_memory_replaces_an_available_gpu_only_on_request() {
        let mut host = crate::fixtures::host();
        host.hidden_gpus = Some(HiddenGpus {
            pci_addresses: vec!["0000:3b:00.0".to_string()],
            reason: "listing CUDA's devices did not return within 60 s".to_string(),
        });
        let named = |device| Some(Devices::Named(vec![device]));
        let decided = |asked: Option<Devices>, path| {
            let mut problems = Problems::default();
            chosen(asked.as_ref(), path, &host, &mut problems);
            problems
        };
        let problems = decided(None, PathKind::CpuGpu);
        assert_eq!(problems.cause(), Cause::Machine);
        let told = problems.to_string();
        assert!(told.contains("0000:3b:00.0") && told.contains("within 60 s"), "{told}");
        assert!(problems.remedy().contains("--device host"));
        let said = decided(named(DeviceId::nvidia(0)), PathKind::CpuGpu).to_string();
        assert!(said.contains("no cuda:0") && said.contains("within 60 s"), "{said}");
        assert!(decided(named(DeviceId::Host), PathKind::CpuGpu).is_empty());
        assert!(decided(None, PathKind::Buffered).is_empty());
        host.hidden_gpus = None;
        host.cuda_problem = Some("802 SYSTEM_NOT_READY".to_string());
        let missing = |host: &HostFacts| {
            let mut problems = Problems::default();
            check_device(DeviceId::nvidia(1), host, &mut problems);
            problems.to_string()
        };
        let told = missing(&host);
        assert!(
            told.contains("CUDA shows 0 devices") && told.contains("802 SYSTEM_NOT_READY"),
            "{told}"
        );
        host.cuda_problem = None;
        host.cuda_visible_devices = Some("3".to_string());
        let told = missing(&host);
        assert!(told.contains("no cuda:1") && told.contains("CUDA_VISIBLE_DEVICES=3"), "{told}");
    }

    #[test]
    fn a_list_of_devices_is_one_word_of_the_request() {
        for text in ["all", "host", "cuda:0", "cuda:0,cuda:3"] {
            let devices: Devices = text.parse().unwrap();
            assert_eq!(devices.to_string(), text);
            assert_eq!(serde_json::to_string(&devices).unwrap(), format!("{text:?}"));
        }
        assert_eq!("cuda:0,1".parse::<Devices>(), "cuda:0,cuda:1".parse());
        let refused = |text: &str| text.parse::<Devices>().unwrap_err();
        assert!(refused("host,cuda:0").contains("name it alone"));
        assert!(refused("all,cuda:0").contains("or all"));
    }

    #[test]
    fn all_are_the_devices_of_the_host_and_none_is_a_problem() {
        let mut host = crate::fixtures::host();
        let decided = |host: &HostFacts| {
            let mut problems = Problems::default();
            let devices = chosen(Some(&Devices::All), PathKind::CpuGpu, host, &mut problems);
            (devices, problems)
        };
        let (none, problems) = decided(&host);
        assert!(none.is_empty() && problems.to_string().contains("no cuda:0"), "{problems}");
        host.accelerators = [0, 1].map(crate::fixtures::accelerator).to_vec();
        let (all, problems) = decided(&host);
        assert_eq!(all, [0, 1].map(DeviceId::nvidia));
        assert!(problems.is_empty());
    }
}
