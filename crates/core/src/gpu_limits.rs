//! Limits of libcufile and of GPU memory: transfers beyond them would fail, or hang inside the
//! library, so they are not begun.

use crate::facts::{AcceleratorFacts, Availability, CuFileLimits, HostFacts};
use crate::failure::Problems;
use crate::path::{DeviceId, MemoryKind, PathKind, buffers_needed};
use crate::transport::Transport;
use crate::units::ByteSize;

/// The options of a command that decide how much is in flight.
#[derive(Debug, Clone, Copy)]
pub struct FlightOptions {
    /// Remedy for too many transfers: `use fewer --threads`.
    pub fewer: &'static str,
    /// Remedy for too many in flight per thread: `use a lower --queue-depth`.
    pub shallower: &'static str,
    /// Remedy for buffers that are too large or too many.
    pub smaller: &'static str,
}

/// Reports that `transport` of a lane exceeds the limits of `host`.
pub fn check(
    transport: &Transport,
    options: FlightOptions,
    host: &HostFacts,
    problems: &mut Problems,
) {
    let devices: Vec<DeviceId> = transport.accelerators().collect();
    let of_threads: Vec<DeviceId> =
        devices.iter().copied().cycle().take(transport.threads).collect();
    if let Availability::Unavailable { fact, remedy } = kept(transport, &of_threads, options, host)
    {
        problems.capacity(fact, remedy);
    }
}

/// Whether `transport`, with threads that end in `devices`, keeps the limits of `facts`.
pub fn kept(
    transport: &Transport,
    devices: &[DeviceId],
    options: FlightOptions,
    facts: &HostFacts,
) -> Availability {
    let limits = facts.cufile_limits.as_ref().filter(|_| transport.path.needs_cufile());
    let by_library = limits.and_then(|limits| {
        let too_many = streams(transport, devices, options, limits);
        too_many.or_else(|| batch(transport, devices, options, limits))
    });
    let by_memory = || {
        let gpus = facts.accelerators.iter();
        gpus.filter_map(|gpu| memory(transport, devices, gpu, limits, options)).next()
    };
    by_library.or_else(by_memory).unwrap_or(Availability::Available)
}

/// More stream transfers than cuFile's queue holds: it fails the rest with EIO.
fn streams(
    transport: &Transport,
    devices: &[DeviceId],
    options: FlightOptions,
    limits: &CuFileLimits,
) -> Option<Availability> {
    let in_flight = devices.len() as u64 * transport.queue_depth as u64;
    let beyond = transport.path == PathKind::GdsAsync && in_flight > limits.stream_transfers;
    beyond.then(|| {
        Availability::unavailable(
            format!(
                "{in_flight} stream transfers in flight exceed cuFile's queue of {} \
                 ({})",
                limits.stream_transfers,
                limits.named(CuFileLimits::QUEUE_DEPTH)
            ),
            format!("{}, or raise max_io_queue_depth in cufile.json", options.fewer),
        )
    })
}

/// A batch of more entries than cuFile accepts, or batches of memory that is not registered which
/// need more of the process's buffers at once than there are, should cuFile fall back:
/// `cuFileBatchIOSubmit` then waits for one that only its own completion would free. Whether a
/// folder has a direct route is not known before its first transfer.
fn batch(
    transport: &Transport,
    devices: &[DeviceId],
    options: FlightOptions,
    limits: &CuFileLimits,
) -> Option<Availability> {
    let batches = matches!(transport.path, PathKind::GdsBatch | PathKind::GdsBatchStream);
    let on_gpu = devices.iter().any(|device| *device != DeviceId::Host);
    if batches && transport.queue_depth as u64 > limits.batch_entries {
        let fact = format!(
            "a batch of {} entries exceeds cuFile's maximum of {} ({})",
            transport.queue_depth,
            limits.batch_entries,
            limits.named(CuFileLimits::BATCH_SIZE)
        );
        let remedy = format!("{}, or raise io_batchsize in cufile.json", options.shallower);
        return Some(Availability::unavailable(fact, remedy));
    }
    if !batches || !on_gpu || transport.register_buffers {
        return None;
    }
    let entry = transport.chunk_bytes;
    let in_flight = devices.len() as u64 * transport.queue_depth as u64;
    // An entry uses a buffer of the smallest size that holds it; larger ones use several in turn.
    let fitting = limits.posix_pool.iter().find(|(bytes, _)| *bytes >= entry);
    let (bytes, count) = fitting.or(limits.posix_pool.last())?;
    (in_flight > *count).then(|| {
        Availability::unavailable(
            format!(
                "batches of {in_flight} entries of memory that is not registered can hang where cuFile \
                 falls back: it has {count} buffers of {} for them \
                 ({})",
                ByteSize(*bytes),
                limits.named(CuFileLimits::POOL_COUNT)
            ),
            format!(
                "register the memory (leave --tune register=no out), {}, or raise the count in cufile.json",
                options.shallower
            ),
        )
    })
}

/// Buffers on `gpu` that exceed its free memory or, registered with cuFile, the memory that can be
/// mapped.
fn memory(
    transport: &Transport,
    devices: &[DeviceId],
    gpu: &AcceleratorFacts,
    cufile: Option<&CuFileLimits>,
    options: FlightOptions,
) -> Option<Availability> {
    let on_it = devices.iter().filter(|device| **device == DeviceId::nvidia(gpu.index)).count();
    if on_it == 0 || !matches!(transport.memory, MemoryKind::Device | MemoryKind::Vmm) {
        return None;
    }
    let (_, buffers) = buffers_needed(transport.path, transport.queue_depth);
    let needed = (on_it as u64 * buffers as u64).saturating_mul(transport.chunk_bytes);
    let registered = cufile.filter(|_| transport.register_buffers);
    // Only a direct route maps the memory.
    let mapped = registered.filter(|limits| limits.has_direct_route);
    let pinned = registered.map(|limits| limits.named(CuFileLimits::PINNED_MEMORY));
    let of_cufile = format!("that cuFile registers ({})", pinned.unwrap_or_default());
    let limits = [
        (gpu.free_memory_bytes, "of free memory"),
        // Free memory is unknown for a slice, and without NVML.
        (gpu.memory_bytes, "of memory"),
        (mapped.and(gpu.bar1_bytes), "of BAR1, through which registered memory is mapped"),
        (registered.map(|limits| limits.registered_bytes), &*of_cufile),
    ];
    let beyond = limits.into_iter().find(|(most, _)| most.is_some_and(|most| needed > most));
    beyond.map(|(most, what)| {
        let fact = format!(
            "{on_it} threads × {buffers} buffers × {} need {} of cuda:{}, which has {} {what}",
            ByteSize(transport.chunk_bytes),
            ByteSize(needed),
            gpu.index,
            ByteSize(most.unwrap_or_default())
        );
        Availability::unavailable(fact, options.smaller)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::DeviceOfRun;
    use crate::path::EngineKind;
    use crate::placement::Placement;

    const GPU: DeviceId = DeviceId::nvidia(0);
    const OPTIONS: FlightOptions = FlightOptions {
        fewer: "use fewer threads",
        shallower: "use a lower depth",
        smaller: "use smaller buffers",
    };

    fn transport(path: PathKind, queue_depth: usize, chunk_bytes: u64) -> Transport {
        Transport {
            queue_depth,
            chunk_bytes,
            device: Some(GPU),
            memory: MemoryKind::Device,
            ..crate::fixtures::transport(path, EngineKind::Psync)
        }
    }

    fn facts(has_direct_route: bool) -> HostFacts {
        HostFacts {
            cufile_limits: Some(CuFileLimits::defaults(has_direct_route)),
            accelerators: vec![AcceleratorFacts {
                memory_bytes: Some(16 << 30),
                bar1_bytes: Some(256 << 20),
                free_memory_bytes: Some(8 << 30),
                ..crate::fixtures::accelerator(0)
            }],
            ..crate::fixtures::host()
        }
    }

    fn reason(transport: &Transport, threads: usize, facts: &HostFacts) -> String {
        let verdict = kept(transport, &vec![GPU; threads], OPTIONS, facts);
        verdict.reason().unwrap_or("runs").to_string()
    }

    #[test]
    fn stream_transfers_beyond_the_queue_are_refused() {
        let streams = transport(PathKind::GdsAsync, 32, 4096);
        assert_eq!(reason(&streams, 4, &facts(true)), "runs");
        let why = reason(&streams, 5, &facts(true));
        assert!(why.starts_with("160 stream transfers"), "{why}");
        let assumed = "(execution.max_io_queue_depth: assumed, not read from cufile.json)";
        assert!(why.ends_with(assumed), "{why}");
        let mut reported = facts(true);
        reported.cufile_limits.as_mut().unwrap().assumed.clear();
        let why = reason(&streams, 5, &reported);
        assert!(why.ends_with("(execution.max_io_queue_depth)"), "{why}");
        assert_eq!(reason(&transport(PathKind::Gds, 32, 4096), 5, &facts(true)), "runs");
    }

    #[test]
    fn batches_that_may_hang_are_refused_by_the_pool_of_the_process() {
        let batch = |depth, bytes| Transport {
            register_buffers: false,
            ..transport(PathKind::GdsBatch, depth, bytes)
        };
        assert_eq!(reason(&batch(32, 64 << 10), 2, &facts(true)), "runs");
        let why = reason(&batch(32, 64 << 10), 3, &facts(true));
        assert!(why.contains("96 entries") && why.contains("64 buffers of 1 MiB"), "{why}");
        // A buffer of another size.
        assert_eq!(reason(&batch(65, 4096), 1, &facts(false)), "runs");
        // Registered memory takes none.
        let registered = transport(PathKind::GdsBatch, 65, 64 << 10);
        assert_eq!(reason(&registered, 4, &facts(false)), "runs");
    }

    #[test]
    fn a_batch_larger_than_cufile_takes_is_refused_on_any_route() {
        let batch = transport(PathKind::GdsBatch, 129, 4096);
        let reason = reason(&batch, 1, &facts(true));
        assert!(reason.contains("129 entries exceeds cuFile's maximum of 128"), "{reason}");
        let verdict = kept(&batch, &[GPU], OPTIONS, &facts(true));
        let remedy = format!("{verdict:?}");
        assert!(remedy.contains("use a lower depth, or raise io_batchsize"), "{remedy}");
    }

    #[test]
    fn all_memory_of_a_gpu_is_a_limit_where_what_is_free_is_unknown() {
        let mut slice = facts(false);
        slice.accelerators[0].free_memory_bytes = None;
        let large = transport(PathKind::CpuGpu, 1, 1 << 30);
        assert_eq!(reason(&large, 16, &slice), "runs");
        assert!(reason(&large, 17, &slice).contains("which has 16 GiB of memory"));
    }

    #[test]
    fn buffers_have_to_fit_the_gpu_and_what_can_be_mapped() {
        let large = transport(PathKind::Gds, 1, 128 << 20);
        assert_eq!(reason(&large, 2, &facts(true)), "runs");
        assert!(reason(&large, 3, &facts(true)).contains("256 MiB of BAR1"));
        // Without a direct route no memory is mapped.
        assert_eq!(reason(&large, 3, &facts(false)), "runs");
        assert!(reason(&large, 65, &facts(false)).contains("8 GiB of free memory"));
        let copies = transport(PathKind::CpuGpu, 1, 128 << 20);
        assert_eq!(reason(&copies, 3, &facts(true)), "runs");
        assert!(reason(&copies, 65, &facts(true)).contains("free memory"));
    }

    #[test]
    fn buffers_of_a_lane_are_summed_on_each_of_its_devices() {
        let mut host = facts(true);
        host.accelerators.push(AcceleratorFacts { index: 1, ..host.accelerators[0].clone() });
        let of = |devices: usize, memory| {
            let on = |index| DeviceOfRun::on(&host, DeviceId::nvidia(index), Placement::default());
            let transport = Transport {
                threads: 4,
                devices: (0..devices as u32).filter(|_| devices > 1).map(on).collect(),
                memory,
                ..transport(PathKind::Gds, 1, 128 << 20)
            };
            let mut problems = Problems::default();
            check(&transport, OPTIONS, &host, &mut problems);
            problems.or(()).map_or_else(|problems| problems.to_string(), |()| String::new())
        };
        for memory in [MemoryKind::Device, MemoryKind::Vmm] {
            assert!(
                of(1, memory).contains("4 threads × 1 buffers × 128 MiB need 512 MiB of cuda:0")
            );
            assert_eq!(of(2, memory), "", "256 MiB on each");
        }
        assert_eq!(of(1, MemoryKind::Host), "", "none of it is the GPU's");
    }
}
