//! CPU time and memory of the whole host.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::probe::root::Root;

/// `/proc/stat` and `/proc/meminfo`, held open for cheap reading.
#[derive(Debug)]
pub(super) struct Host {
    stat: File,
    memory: File,
    ticks_per_second: f64,
    /// The number of CPUs.
    pub(super) cpus: usize,
}

/// The host's CPU time and memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostNow {
    pub(super) cpu_seconds: f64,
    pub(super) available_bytes: f64,
    pub(super) page_cache_bytes: f64,
}

impl Host {
    pub(super) fn open(root: &Root) -> Option<Self> {
        let stat = root.path("/proc/stat");
        Some(Self {
            cpus: cpus(&std::fs::read_to_string(&stat).ok()?),
            stat: File::open(stat).ok()?,
            memory: File::open(root.path("/proc/meminfo")).ok()?,
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
        })
    }

    pub(super) fn now(&self) -> Option<HostNow> {
        let mut text = [0u8; 2048];
        let len = self.stat.read_at(&mut text[..256], 0).ok()?;
        let ticks = busy_ticks(std::str::from_utf8(&text[..len]).ok()?)?;
        let len = self.memory.read_at(&mut text, 0).ok()?;
        let memory = std::str::from_utf8(&text[..len]).ok()?;
        Some(HostNow {
            cpu_seconds: ticks as f64 / self.ticks_per_second,
            available_bytes: bytes_of(memory, "MemAvailable:")?,
            page_cache_bytes: bytes_of(memory, "Cached:")? + bytes_of(memory, "Buffers:")?,
        })
    }
}

/// Ticks in which any CPU was busy: user, nice, system, irq, softirq and steal of the line for all
/// CPUs (`proc_stat(5)`); guest time is already included in user.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, irq, softirq, steal, ..] = fields.as_slice() else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

/// The number of CPUs with a separate line.
fn cpus(stat: &str) -> usize {
    let own = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
    stat.lines().filter(own).count()
}

/// A value from `/proc/meminfo` in bytes; the file uses KiB.
fn bytes_of(memory: &str, name: &str) -> Option<f64> {
    let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some((kib << 10) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_counts_as_no_work() {
        let line = "cpu  10 20 30 1000 2000 1 2 3 4 5\ncpu0 9 9 9 9\n";
        assert_eq!(busy_ticks(line), Some(66));
        assert_eq!(cpus(line), 1);
        assert_eq!(busy_ticks("cpu  1 2 3\n"), None);
        assert_eq!(busy_ticks("intr 5"), None);
    }

    #[test]
    fn memory_is_read_by_its_names() {
        let text = "MemTotal: 9 kB\nMemAvailable:    4 kB\nBuffers: 1 kB\nCached: 2 kB\n";
        assert_eq!(bytes_of(text, "MemAvailable:"), Some(4096.0));
        assert_eq!(bytes_of(text, "Cached:"), Some(2048.0));
        assert_eq!(bytes_of(text, "Dirty:"), None);
    }

    #[test]
    fn this_host_answers() {
        let now = Host::open(&Root::system()).unwrap().now().unwrap();
        assert!(now.cpu_seconds > 0.0 && now.available_bytes > 0.0);
    }
}
