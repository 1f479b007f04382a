//! CPUs: model, how many this process may use.

use stormlp_model::machine::Fact;

use super::root::Root;

/// The CPU's name from `/proc/cpuinfo`; ARM kernels give none.
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

/// CPUs in this process's affinity mask.
pub(crate) fn allowed() -> u32 {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => set.count(),
        // More CPUs than the fixed mask holds: the standard library grows its own.
        Err(_) => std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
    }
}
