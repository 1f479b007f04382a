//! Placement and wait mode of threads, and how they open files.

use super::*;
use stormlp_core::placement::{CpuList, HostNode, NumaChoice};
use stormlp_core::transport::{Devices, Requirement, WaitMode};

/// A server with a GPU on each of two nodes.
fn two_nodes() -> HostFacts {
    let mut facts = gpu_server();
    let other = AcceleratorFacts { index: 1, numa_node: Some(1), ..facts.accelerators[0].clone() };
    facts.accelerators.push(other);
    facts.numa_nodes = [(0, 0..4), (1, 4..8)]
        .map(|(node, cpus)| HostNode { node, cpus: CpuList::new(cpus) })
        .to_vec();
    facts
}

/// Copies into the memory of `devices` by two threads.
fn copies(devices: &[u32]) -> MatrixRequest {
    let mut request = MatrixRequest::plain(PathBuf::from("data"));
    request.paths = PathChoice::each(&[PathKind::CpuGpu, PathKind::Cpu]);
    request.threads = vec![2];
    request.file_size_bytes = Some(64 * MIB);
    let devices = devices.iter().copied().map(DeviceId::nvidia).collect();
    request.devices = Some(Devices::Named(devices));
    request
}

fn nodes(plan: &MatrixPlan) -> Vec<Option<u32>> {
    let workers = plan.thread_groups[0].workers.iter();
    workers.map(|worker| worker.numa_node).collect()
}

#[test]
fn threads_are_on_the_node_of_the_gpu_whatever_the_path() {
    let plan = resolve(&copies(&[1]), &two_nodes(), &folder(GIB)).unwrap();
    assert_eq!(nodes(&plan), [Some(1), Some(1)]);
    let cpus = plan.thread_groups[0].workers[0].cpus.as_ref().unwrap();
    assert_eq!(cpus.to_string(), "4-7");
    assert_eq!(plan.placement.node, Some(1));
    assert!(plan.cells.iter().all(|cell| cell.transport.placement == plan.placement));
    assert_eq!(plan.regions(), [(Some(1), plan.region_bytes)]);
}

#[test]
fn each_thread_is_near_its_own_gpu_with_buffers_of_that_node() {
    let plan = resolve(&copies(&[0, 1]), &two_nodes(), &folder(GIB)).unwrap();
    assert_eq!(nodes(&plan), [Some(0), Some(1)]);
    assert_eq!(plan.placement.node, None);
    assert!(plan.placement.summary.starts_with("each thread"), "{:?}", plan.placement);
    let half = plan.region_bytes / 2;
    assert_eq!(plan.regions(), [(Some(0), half), (Some(1), half)]);
}

#[test]
fn a_node_that_is_not_there_is_refused_and_none_is_bound_when_that_was_typed() {
    let mut request = copies(&[0]);
    request.tune.machine.threading.numa = NumaChoice::Off;
    let plan = resolve(&request, &two_nodes(), &folder(GIB)).unwrap();
    assert_eq!(nodes(&plan), [None, None]);
    request.jobs[0].numa_node = Some(3);
    let found = resolve(&request, &two_nodes(), &folder(GIB)).unwrap_err();
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found.to_string().contains("no NUMA node 3"), "{found}");
}

#[test]
fn how_to_wait_is_in_every_transport_and_has_no_effect_without_a_gpu() {
    let mut request = copies(&[0]);
    request.tune.machine.wait = Some(WaitMode::Spin);
    let plan = resolve(&request, &gpu_server(), &folder(GIB)).unwrap();
    assert!(plan.cells.iter().all(|cell| cell.transport.wait == WaitMode::Spin));
    request.devices = Some(DeviceId::Host.into());
    let plan = resolve(&request, &laptop(), &folder(GIB)).unwrap();
    let message = plan.warnings.iter().find(|w| w.kind == WarningKind::NoEffect).unwrap();
    assert!(message.fact.contains("--tune wait=spin has no effect"), "{message}");
}

#[test]
fn files_opened_without_o_direct_on_purpose_are_not_a_refusal() {
    let mut request = copies(&[0]);
    request.paths = PathChoice::each(&[PathKind::Gds]);
    request.open_direct = false;
    let plan = resolve(&request, &gpu_server(), &folder(GIB)).unwrap();
    assert!(plan.cells.iter().all(|cell| !cell.direct));
    let kinds: Vec<_> = plan.warnings.iter().map(|warning| warning.kind).collect();
    assert!(!kinds.contains(&WarningKind::NotDirect), "{kinds:?}");
}

#[test]
fn a_refused_o_direct_is_a_warning_and_with_require_direct_an_error() {
    let mut inventory = folder(100 * GIB);
    inventory.folders[0].place.direct = Availability::unavailable("EINVAL", "use xfs");
    let plan = solve(&plain(), &inventory);
    assert!(plan.warnings.iter().any(|w| w.kind == WarningKind::NotDirect));
    assert!(!plan.cells[1].direct);
    let mut request = plain();
    request.require = vec![Requirement::Direct];
    let found = problems(&request, &inventory);
    assert_eq!(found.cause(), Cause::Machine);
    assert!(found.to_string().contains("EINVAL"), "{found}");
}

#[test]
fn host_memory_that_cufile_is_given_is_counted_where_a_gpu_is_there_too() {
    let mut request = copies(&[0]);
    request.paths = PathChoice::each(&[PathKind::Gds]);
    for (memory, bytes) in
        [(MemoryKind::Host, 2 * MIB), (MemoryKind::Mmap, 2 * MIB), (MemoryKind::Device, 0)]
    {
        request.buffer_memory = memory;
        let plan = resolve(&request, &gpu_server(), &folder(GIB)).unwrap();
        assert_eq!(plan.region_bytes, bytes, "{memory:?}");
    }
}
