//! Memory, huge pages and the limits of this process.

use rustix::process::{Resource, getrlimit};
use stormlp_core::machine::{Fact, MemoryFacts};

use super::cgroup;
use super::root::Root;

/// Physical memory in bytes.
pub(crate) fn total_bytes(root: &Root) -> u64 {
    // The kernel always reports a total; only a test's tree has no /proc/meminfo.
    meminfo(root, "MemTotal").map(|kib| kib * 1024).unwrap_or_else(|| {
        let info = rustix::system::sysinfo();
        info.totalram * u64::from(info.mem_unit)
    })
}

/// The raw number in a line of `/proc/meminfo`; the kernel's `kB` are KiB.
fn meminfo(root: &Root, key: &str) -> Option<u64> {
    let text = root.text("/proc/meminfo");
    text.known()?.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == key).then(|| value.split_whitespace().next()?.parse().ok()).flatten()
    })
}

/// Huge pages and free memory.
pub(crate) fn facts(root: &Root) -> MemoryFacts {
    let line = |key: &str| {
        meminfo(root, key)
            .map_or_else(|| Fact::unknown(format!("/proc/meminfo has no `{key}`")), Fact::Known)
    };
    MemoryFacts {
        available_bytes: line("MemAvailable").map(|kib| kib * 1024),
        transparent_huge_pages: root
            .text("/sys/kernel/mm/transparent_hugepage/enabled")
            .map(|text| chosen(&text).unwrap_or(&text).to_string()),
        huge_page_bytes: line("Hugepagesize").map(|kib| kib * 1024),
        huge_pages_total: line("HugePages_Total"),
        huge_pages_free: line("HugePages_Free"),
    }
}

/// Address space kept for memory outside plans: stacks and heaps of threads, and libraries.
const UNPLANNED_BYTES: u64 = 128 << 20;

/// The memory that this process may still use: the limit of its control group, or of its address
/// space (`ulimit -v`) less its mappings and its needs outside the plan. `None` means unlimited.
pub(crate) fn limit_bytes(root: &Root) -> Option<u64> {
    let of_group = cgroup::memory_limit_bytes(root);
    of_group.into_iter().chain(address_space_bytes(root)).min()
}

/// The rest of a limit on the address space.
fn address_space_bytes(root: &Root) -> Option<u64> {
    let text = root.text("/proc/self/limits").unwrap_or(String::new());
    let limit = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    let pages = root.text("/proc/self/statm").unwrap_or(String::new());
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    let mapped = pages.saturating_mul(rustix::param::page_size() as u64);
    Some(limit.saturating_sub(mapped).saturating_sub(UNPLANNED_BYTES))
}

/// Limit on locked memory in bytes; `None` means unlimited.
pub(crate) fn locked_limit_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Limit on open files; `u64::MAX` means unlimited.
pub(crate) fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The bracketed word in `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tree;
    use super::*;

    #[test]
    fn kernel_kilobytes_are_kibibytes() {
        let tree = Tree::new().file("proc/meminfo", "MemTotal:       2048 kB\nHugePages_Total:  3");
        assert_eq!(total_bytes(&tree.root()), 2 << 20);
        assert_eq!(meminfo(&tree.root(), "HugePages_Total"), Some(3));
        assert_eq!(meminfo(&tree.root(), "MemTot"), None);
    }

    #[test]
    fn the_lower_limit_of_group_and_address_space_counts() {
        let limit = |bytes: &str| format!("Max cpu time  unlimited\nMax address space  {bytes}  9");
        let free = Tree::new().file("proc/self/limits", limit("unlimited"));
        assert_eq!(limit_bytes(&free.root()), None);
        let tree = Tree::new()
            .file("proc/self/limits", limit("1073741824"))
            .file("proc/self/statm", "16 9 8 7 0 6 0");
        let mapped = 16 * rustix::param::page_size() as u64;
        assert_eq!(limit_bytes(&tree.root()), Some((1 << 30) - mapped - UNPLANNED_BYTES));
        let tree = tree
            .file("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
            .file("proc/self/cgroup", "0::/")
            .file("sys/fs/cgroup/memory.max", "4096");
        assert_eq!(limit_bytes(&tree.root()), Some(4096));
    }

    #[test]
    fn the_choice_of_huge_pages_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("none"), None);
    }
}
