//! CPUs: model, number available to this process, NUMA nodes.

use rustix::thread::CpuSet;
use stormlp_core::machine::{Fact, NumaNode, ProcessorFacts};
use stormlp_core::placement::{CpuList, HostNode};

use super::root::Root;

/// The CPU's name from `/proc/cpuinfo`; ARM kernels do not provide it.
pub(crate) fn model(root: &Root) -> Fact<String> {
    root.text("/proc/cpuinfo").and_then(|text| {
        let name = text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            matches!(key.trim(), "model name" | "Model" | "cpu model").then(|| value.trim())
        });
        match name {
            Some(name) => Fact::Known(name.to_string()),
            None => Fact::unknown("/proc/cpuinfo: no `model name`"),
        }
    })
}

/// The number of CPUs in this process's affinity mask.
pub(crate) fn allowed() -> u32 {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => set.count(),
        // More CPUs than the fixed mask holds: the standard library's mask grows.
        Err(_) => std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
    }
}

/// The CPUs in this process's affinity mask; `None` if there are more than the fixed mask holds.
fn allowed_cpus() -> Option<CpuList> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let numbers = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    Some(CpuList::new(numbers.map(|cpu| cpu as u32)))
}

/// The NUMA nodes, each with the CPUs available to this process.
pub(crate) fn host_nodes(root: &Root) -> Vec<HostNode> {
    nodes_within(root, allowed_cpus().as_ref())
}

fn nodes_within(root: &Root, allowed: Option<&CpuList>) -> Vec<HostNode> {
    let nodes = numa_nodes(root).unwrap_or(Vec::new());
    let usable = |node: NumaNode| {
        let cpus = CpuList::try_from(node.cpus).ok()?;
        let cpus = allowed.map_or(cpus.clone(), |allowed| cpus.within(allowed));
        Some(HostNode { node: node.node, cpus })
    };
    nodes.into_iter().filter_map(usable).collect()
}

/// CPUs and NUMA nodes in detail.
pub(crate) fn facts(root: &Root) -> ProcessorFacts {
    ProcessorFacts {
        online: root.text("/sys/devices/system/cpu/online"),
        numa_nodes: numa_nodes(root),
    }
}

fn numa_nodes(root: &Root) -> Fact<Vec<NumaNode>> {
    let folder = "/sys/devices/system/node";
    root.names(folder).map(|names| {
        let mut nodes: Vec<NumaNode> = names
            .iter()
            .filter_map(|name| name.strip_prefix("node")?.parse().ok())
            .map(|node| numa_node(root, &format!("{folder}/node{node}"), node))
            .collect();
        nodes.sort_by_key(|node| node.node);
        nodes
    })
}

fn numa_node(root: &Root, folder: &str, node: u32) -> NumaNode {
    let meminfo = root.text(format!("{folder}/meminfo"));
    // A line reads `Node 0 MemTotal:  65536 kB`, in KiB as usual in the kernel.
    let total = meminfo.and_then(|text| {
        let kib: Option<u64> = text.lines().find_map(|line| {
            let value = line.split_once("MemTotal:")?.1;
            value.split_whitespace().next()?.parse().ok()
        });
        match kib {
            Some(kib) => Fact::Known(kib * 1024),
            None => Fact::unknown(format!("{folder}/meminfo: no `MemTotal:`")),
        }
    });
    NumaNode {
        node,
        cpus: root.text(format!("{folder}/cpulist")).unwrap_or(String::new()),
        memory_bytes: total,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn nodes_come_in_the_order_of_their_numbers() {
        let mut tree = Tree::new().file("sys/devices/system/node/online", "0-10");
        for node in [10, 2, 0] {
            tree = tree
                .file(
                    &format!("sys/devices/system/node/node{node}/meminfo"),
                    format!("Node {node} MemTotal:       1024 kB\nNode {node} MemFree: 1 kB"),
                )
                .file(&format!("sys/devices/system/node/node{node}/cpulist"), "0-3\n");
        }
        let nodes = numa_nodes(&tree.root()).unwrap_or(Vec::new());
        let seen: Vec<_> = nodes.iter().map(|n| (n.node, n.cpus.as_str())).collect();
        assert_eq!(seen, [(0, "0-3"), (2, "0-3"), (10, "0-3")]);
        assert_eq!(nodes[1].memory_bytes, Fact::Known(1 << 20));
    }

    #[test]
    fn the_usable_cpus_of_each_node_are_reported() {
        let list = |node| format!("sys/devices/system/node/node{node}/cpulist");
        let tree = Tree::new().file(&list(0), "0-3\n").file(&list(1), "4-7\n");
        let allowed = CpuList::new([1, 2]);
        let nodes = nodes_within(&tree.root(), Some(&allowed));
        let seen: Vec<_> = nodes.iter().map(|n| (n.node, n.cpus.to_string())).collect();
        assert_eq!(seen, [(0, "1-2".to_string()), (1, String::new())]);
    }

    #[test]
    fn the_model_is_named_on_x86_and_unknown_on_arm() {
        let x86 = Tree::new().file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Big CPU\n");
        assert_eq!(model(&x86.root()), Fact::Known("Big CPU".to_string()));
        let arm = Tree::new().file("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2000\n");
        assert!(model(&arm.root()).known().is_none());
    }
}
