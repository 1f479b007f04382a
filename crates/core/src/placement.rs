//! CPU and NUMA placement of a run's threads, and with them of their buffers in host memory.
//!
//! On a machine with several NUMA nodes, a buffer far from the GPU or the drive is reached over the
//! link between the sockets. Threads are bound before they touch their buffers, so that the kernel
//! allocates the memory on their node.

use serde::{Deserialize, Serialize};

use crate::facts::HostFacts;
use crate::failure::Problems;
use crate::path::DeviceId;
use crate::threads::Threading;
pub use crate::threads::{CpuList, HostNode, NumaChoice};
use crate::warning::{Warning, WarningKind};

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

impl From<NumaChoice> for String {
    fn from(choice: NumaChoice) -> Self {
        choice.to_string()
    }
}

/// The resolved placement of threads and buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placement {
    /// The requested node.
    pub numa: NumaChoice,
    /// Whether threads are bound to anything.
    pub bound: bool,
    /// The node that threads are bound to and that their buffers come from while it has memory;
    /// `None` if threads are unbound, or bound to different nodes.
    pub node: Option<u32>,
    /// The CPUs that threads are bound to; `None` leaves the choice to the kernel.
    pub cpus: Option<CpuList>,
    /// A summary in words.
    pub summary: String,
}

impl Placement {
    /// The remark for a header; `None` if the kernel decides.
    pub fn remark(&self) -> Option<&str> {
        self.bound.then_some(&*self.summary)
    }

    /// The number of CPUs available to its threads on `host`.
    pub fn cpu_count(&self, host: &HostFacts) -> usize {
        let bound = self.cpus.as_ref().map(|cpus| cpus.numbers().len());
        bound.unwrap_or(host.cpus as usize).max(1)
    }
}

/// The device a run should be near, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Near {
    node: u32,
    what: String,
}

/// The GPU, if its node is known.
fn gpu(device: Option<DeviceId>, host: &HostFacts) -> Option<Near> {
    let index = device?.gpu_index()?;
    let facts = host.accelerators.iter().find(|gpu| gpu.index == index)?;
    let what = format!("cuda:{index}");
    facts.numa_node.map(|node| Near { node, what })
}

/// The drives below the data, if all with a known node share one.
fn drives(host: &HostFacts) -> Option<Near> {
    let devices = host.storage.iter().flat_map(|storage| &storage.devices);
    let known: Vec<(u32, &str)> =
        devices.filter_map(|device| Some((device.numa_node?, device.name.as_str()))).collect();
    let (node, _) = *known.first()?;
    let mut names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
    names.dedup();
    known.iter().all(|(other, _)| *other == node).then(|| Near { node, what: names.join(", ") })
}

/// Decides the placement on `host` of threads with transfers that end in `device`; reports
/// requested CPUs and nodes that do not exist.
pub fn decide(
    asked: &Threading,
    device: Option<DeviceId>,
    host: &HostFacts,
    problems: &mut Problems,
) -> Placement {
    check(asked, host, problems);
    let near = gpu(device, host).or_else(|| drives(host));
    let of_node = |node: u32| host.numa_nodes.iter().find(|other| other.node == node);
    let several = host.numa_nodes.len() > 1;
    let wanted = match (asked.numa, &asked.cpus) {
        (NumaChoice::Node(node), _) if several => of_node(node),
        // Explicit CPUs determine the node if they share one.
        (NumaChoice::Auto, Some(cpus)) if several => {
            let holds = |node: &&HostNode| cpus.within(&node.cpus) == *cpus;
            host.numa_nodes.iter().find(holds)
        }
        (NumaChoice::Auto, None) if several => near.as_ref().and_then(|near| of_node(near.node)),
        _ => None,
    };
    let bound = wanted.filter(|node| !node.cpus.numbers().is_empty());
    let cpus = asked.cpus.clone().or(bound.map(|node| node.cpus.clone()));
    let node = bound.map(|node| node.node);
    Placement {
        numa: asked.numa,
        bound: cpus.is_some(),
        node,
        summary: words(node, cpus.as_ref(), near.as_ref(), host),
        cpus,
    }
}

/// Decides the placement of threads that are dealt over `devices`, and of the threads of each; of
/// threads without a device if there is none.
pub fn decide_each(
    asked: &Threading,
    devices: &[DeviceId],
    host: &HostFacts,
    problems: &mut Problems,
) -> (Placement, Vec<Placement>) {
    let mut decided = |device| decide(asked, device, host, problems);
    let each: Vec<Placement> = match devices {
        [] => vec![decided(None)],
        devices => devices.iter().map(|device| decided(Some(*device))).collect(),
    };
    let together = each.iter().all(|one| one.node == each[0].node);
    let all = if together { each[0].clone() } else { each_near_its_own(asked) };
    (all, each)
}

/// The placement of threads that each run near their device.
fn each_near_its_own(asked: &Threading) -> Placement {
    Placement {
        numa: asked.numa,
        node: None,
        cpus: asked.cpus.clone(),
        bound: true,
        summary: "each thread on the NUMA node of its device".to_string(),
    }
}

fn words(
    node: Option<u32>,
    cpus: Option<&CpuList>,
    near: Option<&Near>,
    host: &HostFacts,
) -> String {
    let bound = cpus.map(|cpus| format!("CPUs {cpus}"));
    let place = match (host.numa_nodes.len(), node) {
        (0, _) => "NUMA nodes unknown".to_string(),
        (1, _) => "one NUMA node".to_string(),
        (_, None) => "no NUMA node chosen".to_string(),
        (_, Some(node)) => match near.filter(|near| near.node == node) {
            Some(near) => format!("NUMA node {node}, local to {}", near.what),
            None => format!("NUMA node {node}"),
        },
    };
    [Some(place), bound].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Reports a node that does not exist, and CPUs that this process may not use.
fn check(asked: &Threading, host: &HostFacts, problems: &mut Problems) {
    if let NumaChoice::Node(node) = asked.numa {
        check_node(node, host, problems);
        let cpus_of = |host: &HostFacts| {
            let found = host.numa_nodes.iter().find(|other| other.node == node);
            found.map(|node| node.cpus.clone())
        };
        if let (Some(cpus), Some(of_node)) = (&asked.cpus, cpus_of(host))
            && cpus.within(&of_node) != *cpus
        {
            problems.plan(
                format!("--tune cpus={cpus} are not all on numa={node}, which has {of_node}"),
                "leave out one of them",
            );
        }
    }
    if let Some(cpus) = &asked.cpus {
        let all = host.numa_nodes.iter().flat_map(|node| node.cpus.numbers());
        let allowed = CpuList::new(all.copied());
        let known = !allowed.numbers().is_empty();
        if known && cpus.within(&allowed) != *cpus {
            problems.machine(
                format!("--tune cpus={cpus}: this process may run on {allowed}"),
                "name other CPUs, or widen its CPU set",
            );
        }
    }
}

/// Reports a NUMA node that does not exist or that this process may not use.
pub fn check_node(node: u32, host: &HostFacts, problems: &mut Problems) {
    let found = host.numa_nodes.iter().find(|other| other.node == node);
    let there: Vec<String> = (host.numa_nodes.iter()).map(|node| node.node.to_string()).collect();
    match found {
        None if there.is_empty() => problems.machine(
            format!("NUMA node {node}: the kernel shows no nodes here"),
            "leave it out; --tune cpus=LIST binds to CPUs",
        ),
        None if there.len() == 1 => problems.machine(
            format!("there is no NUMA node {node}: this machine has node {} only", there[0]),
            "leave the node out: all CPUs and all memory are on it",
        ),
        None => problems.machine(
            format!(
                "there is no NUMA node {node}: this machine has the nodes {}",
                there.join(", ")
            ),
            "name one of them",
        ),
        Some(found) if found.cpus.numbers().is_empty() => problems.machine(
            format!("this process may not use any CPU of NUMA node {node}"),
            "widen its CPU set, or name another node",
        ),
        Some(_) => {}
    }
}

/// Warnings about distant NUMA nodes: between `threads`, which may be bound, `device` and the
/// drives.
pub fn warnings(placement: &Placement, device: Option<DeviceId>, host: &HostFacts) -> Vec<Warning> {
    if host.numa_nodes.len() < 2 {
        return Vec::new();
    }
    let far = |fact: String, advice: &str| Warning::new(WarningKind::FarPlacement, fact, advice);
    let (gpu, drives) = (gpu(device, host), drives(host));
    let mut warnings = Vec::new();
    if let (Some(gpu), Some(drives)) = (&gpu, &drives)
        && gpu.node != drives.node
    {
        warnings.push(far(
            format!(
                "{} is on NUMA node {} and {} on {}: transfers between them cross the link between \
                 the nodes",
                gpu.what, gpu.node, drives.what, drives.node
            ),
            "use a GPU and drives on the same node where possible",
        ));
    }
    let Some(near) = gpu.or(drives) else {
        return warnings;
    };
    let (what, node) = (&near.what, near.node);
    let is_out_of_reach =
        (host.numa_nodes.iter()).any(|other| other.node == node && other.cpus.numbers().is_empty());
    let elsewhere = match (placement.node, &placement.cpus) {
        (Some(bound), _) if bound != node => Some(format!("NUMA node {bound}")),
        (None, Some(cpus)) => Some(format!("CPUs {cpus}")),
        _ => None,
    };
    if is_out_of_reach {
        warnings.push(far(
            format!("{what} is on NUMA node {node}, and this process may use none of its CPUs"),
            "widen its CPU set (cpuset, taskset), or use a device near its CPUs",
        ));
    } else if let Some(elsewhere) = elsewhere {
        warnings.push(far(
            format!("threads and their buffers are on {elsewhere}, and {what} on node {node}"),
            "leave out --tune numa and cpus to run near it",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{AcceleratorFacts, DeviceOfStorage, StorageOfRun};

    fn cpus(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn node(node: u32, cpus: &str) -> HostNode {
        let cpus = CpuList::try_from(cpus.to_string()).unwrap();
        HostNode { node, cpus }
    }

    /// A GPU on node 0, a drive on node 1.
    fn host(first: &str, second: &str) -> HostFacts {
        let drive = DeviceOfStorage {
            name: "nvme1n1".to_string(),
            numa_node: Some(1),
            ..DeviceOfStorage::default()
        };
        let gpu = AcceleratorFacts { numa_node: Some(0), ..crate::fixtures::accelerator(0) };
        HostFacts {
            accelerators: vec![gpu],
            storage: vec![StorageOfRun { devices: vec![drive], ..StorageOfRun::default() }],
            numa_nodes: vec![node(0, first), node(1, second)],
            ..crate::fixtures::host()
        }
    }

    fn decided(
        asked: &Threading,
        device: Option<DeviceId>,
        host: &HostFacts,
    ) -> (Placement, Vec<Warning>, Problems) {
        let mut problems = Problems::default();
        let placement = decide(asked, device, host, &mut problems);
        let warnings = warnings(&placement, device, host);
        (placement, warnings, problems)
    }

    const CUDA: Option<DeviceId> = Some(DeviceId::nvidia(0));

    #[test]
    fn cpu_lists_have_the_kernels_format() {
        assert_eq!(cpus("10-11,0-2,8,1").to_string(), "0-2,8,10-11");
        for bad in ["", "x", "3-1", "1,", "0-99999999"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn threads_are_near_the_gpu_and_without_one_near_the_drive() {
        let host = host("0-7", "8-15");
        let asked = Threading::default();
        let (placement, warnings, problems) = decided(&asked, CUDA, &host);
        assert!(problems.is_empty(), "{problems}");
        assert_eq!((placement.node, placement.cpus), (Some(0), Some(cpus("0-7"))));
        assert_eq!(placement.summary, "NUMA node 0, local to cuda:0, CPUs 0-7");
        // The drive is on the other node.
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].kind, WarningKind::FarPlacement);
        let (placement, warnings, _) = decided(&asked, None, &host);
        assert_eq!(placement.node, Some(1));
        assert_eq!(placement.cpu_count(&host), 8);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn on_one_node_nothing_is_bound_or_reported() {
        let mut host = host("0-7", "");
        host.numa_nodes.pop();
        let (placement, warnings, problems) = decided(&Threading::default(), CUDA, &host);
        assert_eq!((placement.node, placement.cpus), (None, None));
        assert_eq!(placement.summary, "one NUMA node");
        assert!(warnings.is_empty() && problems.is_empty());
        let named = |node| Threading { numa: NumaChoice::Node(node), ..Threading::default() };
        let (_, warnings, problems) = decided(&named(0), CUDA, &host);
        assert!(warnings.is_empty() && problems.is_empty(), "{problems}");
        let (.., problems) = decided(&named(3), CUDA, &host);
        let told = problems.to_string();
        assert!(told.contains("this machine has node 0 only"), "{told}");
    }

    #[test]
    fn an_unreachable_near_node_is_reported_and_a_named_one_refused() {
        let host = host("", "8-15");
        let (placement, warnings, problems) = decided(&Threading::default(), CUDA, &host);
        assert!(problems.is_empty() && placement.node.is_none());
        assert!(warnings[1].fact.contains("may use none of its CPUs"), "{warnings:?}");
        for (numa, told) in [(0, "may not use any CPU of NUMA node 0"), (7, "no NUMA node 7")] {
            let asked = Threading { numa: NumaChoice::Node(numa), ..Threading::default() };
            let (_, _, problems) = decided(&asked, CUDA, &host);
            assert!(problems.to_string().contains(told), "{problems}");
        }
    }

    #[test]
    fn a_requested_binding_is_honoured_and_reported_if_remote() {
        let host = host("0-7", "8-15");
        let asked = |numa, list: Option<&str>| Threading { numa, cpus: list.map(cpus) };
        let (placement, warnings, _) = decided(&asked(NumaChoice::Node(1), None), CUDA, &host);
        assert_eq!(placement.node, Some(1));
        assert!(warnings[1].fact.contains("on NUMA node 1, and cuda:0 on node 0"));
        let (placement, ..) = decided(&asked(NumaChoice::Auto, Some("9,10")), CUDA, &host);
        assert_eq!((placement.node, placement.cpus), (Some(1), Some(cpus("9-10"))));
        let (placement, ..) = decided(&asked(NumaChoice::Off, None), CUDA, &host);
        assert_eq!((placement.node, placement.cpus), (None, None));
        let (.., problems) = decided(&asked(NumaChoice::Node(1), Some("0")), CUDA, &host);
        assert!(problems.to_string().contains("are not all on numa=1"), "{problems}");
        let (.., problems) = decided(&asked(NumaChoice::Auto, Some("16")), CUDA, &host);
        assert!(problems.to_string().contains("may run on 0-15"), "{problems}");
    }
}
